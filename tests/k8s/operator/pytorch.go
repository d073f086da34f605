package main

import (
	"fmt"
	"strconv"
	"strings"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// The pods of a PyTorchJob, with the variables that the operator sets in them.
func takePyTorch(scheme *runtime.Scheme, text string) (*answer, error) {
	job := &kubeflow.PyTorchJob{}
	if err := yaml.UnmarshalStrict([]byte(text), job); err != nil {
		return nil, err
	}
	scheme.Default(job)
	a := &answer{Pods: map[string]corev1.Pod{}, Services: map[string]corev1.Service{}}
	for kind, spec := range job.Spec.PyTorchReplicaSpecs {
		for i := 0; i < int(*spec.Replicas); i++ {
			template, rtype := spec.Template.DeepCopy(), strings.ToLower(string(kind))
			// The reconciler's own fields are for the init container of workers alone.
			if err := (&pytorch.PyTorchJobReconciler{}).SetClusterSpec(job, template, rtype, strconv.Itoa(i)); err != nil {
				return nil, err
			}
			a.Pods[fmt.Sprintf("%s-%s-%d", job.Name, rtype, i)] = corev1.Pod{Spec: template.Spec}
		}
	}
	return a, nil
}
