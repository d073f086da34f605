package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// The API server's defaults and checks of a custom resource, by its own code.
type kind struct {
	fields    *structural.Structural
	validator validation.SchemaValidator
	rules     *cel.Validator
}

// Reads a CustomResourceDefinition that has one version.
func readKind(path string) (schema.GroupVersionKind, *kind, error) {
	v1, crd := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, v1)
	}
	if err == nil {
		err = apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(v1, crd, nil)
	}
	if err != nil {
		return schema.GroupVersionKind{}, nil, err
	}
	gvk := schema.GroupVersionKind{Group: v1.Spec.Group, Version: v1.Spec.Versions[0].Name, Kind: v1.Spec.Names.Kind}
	given, err := apiextensions.GetSchemaForVersion(crd, gvk.Version)
	if err != nil {
		return gvk, nil, err
	}
	k, err := newKind(given.OpenAPIV3Schema)
	return gvk, k, err
}

func newKind(given *apiextensions.JSONSchemaProps) (*kind, error) {
	fields, err := structural.NewStructural(given)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(given)
	return &kind{fields, validator, cel.NewValidator(fields, true, celconfig.PerCallLimit)}, err
}

// Sets the defaults, and checks the object. `old` is nil for a new one. A field that is not in the schema, which the API
// server prunes, is an error here.
func (k *kind) check(ctx context.Context, object, old map[string]any) error {
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	if unknown := pruning.PruneWithOptions(object, k.fields, true, options); len(unknown) > 0 {
		return fmt.Errorf("unknown fields: %s", strings.Join(unknown, ", "))
	}
	defaulting.Default(object, k.fields)
	errs := validation.ValidateCustomResource(nil, object, k.validator)
	var before any
	if old != nil {
		before = old
	}
	more, _ := k.rules.Validate(ctx, nil, k.fields, object, before, celconfig.RuntimeCELCostBudget)
	return append(errs, more...).ToAggregate()
}
