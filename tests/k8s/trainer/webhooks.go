package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A project's webhooks, by their paths: the server of its manager, without a network.
type hooks struct {
	webhook.Server
	at map[string]http.Handler
}

func (h *hooks) Register(path string, hook http.Handler) { h.at[path] = hook }
func (h *hooks) WebhookMux() *http.ServeMux              { return nil }

// The part of a manager that is asked for when webhooks are set up.
type front struct {
	manager.Manager
	client client.Client
	server *hooks
}

func newFront(api client.Client) *front {
	return &front{client: api, server: &hooks{at: map[string]http.Handler{}}}
}

func (f *front) GetClient() client.Client         { return f.client }
func (f *front) GetScheme() *runtime.Scheme       { return f.client.Scheme() }
func (f *front) GetConfig() *rest.Config          { return &rest.Config{} }
func (f *front) GetLogger() logr.Logger           { return logr.Discard() }
func (f *front) GetWebhookServer() webhook.Server { return f.server }

func pathOf(verb string, gvk schema.GroupVersionKind) string {
	return fmt.Sprintf("/%s-%s-%s-%s", verb, strings.ReplaceAll(gvk.Group, ".", "-"), gvk.Version, strings.ToLower(gvk.Kind))
}

// Asks one webhook. Returns the object as it is afterwards.
func (h *hooks) ask(ctx context.Context, verb string, gvk schema.GroupVersionKind, object, old []byte) ([]byte, error) {
	hook, there := h.at[pathOf(verb, gvk)].(*admission.Webhook)
	if !there {
		return object, nil
	}
	asked := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: object}}}
	if old != nil {
		asked.Operation, asked.OldObject.Raw = admissionv1.Update, old
	}
	said := hook.Handle(ctx, asked)
	if !said.Allowed {
		return nil, fmt.Errorf("%s", said.Result.Message)
	}
	if len(said.Patch) == 0 {
		return object, nil
	}
	patch, err := jsonpatch.DecodePatch(said.Patch)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

func (c *cluster) askAll(ctx context.Context, verb string, gvk schema.GroupVersionKind, object, old []byte) ([]byte, error) {
	var err error
	for _, front := range c.fronts {
		if object, err = front.server.ask(ctx, verb, gvk, object, old); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func (c *cluster) checkFields(ctx context.Context, gvk schema.GroupVersionKind, object, old []byte) ([]byte, error) {
	k, now, before := c.kinds[gvk], map[string]any{}, map[string]any(nil)
	if k == nil {
		return object, nil
	}
	err := json.Unmarshal(object, &now)
	if err == nil && old != nil {
		err = json.Unmarshal(old, &before)
	}
	if err == nil {
		err = k.check(ctx, now, before)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(now)
}

// The API server's work before it stores an object. Webhooks that set defaults are asked for new ones alone, as all of these
// are registered. Returns the object with its defaults.
func (c *cluster) admit(ctx context.Context, gvk schema.GroupVersionKind, object, old []byte) ([]byte, error) {
	object, err := c.checkFields(ctx, gvk, object, old)
	if err == nil && old == nil {
		object, err = c.askAll(ctx, "mutate", gvk, object, nil)
	}
	if err == nil {
		object, err = c.checkFields(ctx, gvk, object, old)
	}
	if err == nil {
		object, err = c.askAll(ctx, "validate", gvk, object, old)
	}
	return object, err
}
