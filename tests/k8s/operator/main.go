// What the training-operator makes of TFJobs: its own defaulting, validation and TF_CONFIG, for operator_test.py.
//
// Standard input: a JSON array of texts, one TFJob (YAML) each. Standard output: a JSON array with an answer for each:
// {"error": why it was refused} or {"job": with defaults, "pods": {name: template}}. What the API server would prune
// silently, a field that this version does not know, is an error here.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/tensorflow"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

type answer struct {
	Error string                            `json:"error,omitempty"`
	Job   *kubeflow.TFJob                   `json:"job,omitempty"`
	Pods  map[string]corev1.PodTemplateSpec `json:"pods,omitempty"`
}

// A replica's pods, as createNewPod of the operator's tfjob_controller.go makes them.
func podsOf(r *tensorflow.TFJobReconciler, job *kubeflow.TFJob, kind kubeflow.ReplicaType, pods map[string]corev1.PodTemplateSpec) error {
	lower := strings.ToLower(string(kind))
	for i := 0; i < int(*job.Spec.TFReplicaSpecs[kind].Replicas); i++ {
		template := job.Spec.TFReplicaSpecs[kind].Template.DeepCopy()
		index := strconv.Itoa(i)
		if err := r.SetClusterSpec(job, template, lower, index); err != nil {
			return err
		}
		pods[common.GenGeneralName(job.Name, lower, index)] = *template
	}
	return nil
}

func take(scheme *runtime.Scheme, text string) answer {
	job := &kubeflow.TFJob{}
	if err := yaml.UnmarshalStrict([]byte(text), job); err != nil {
		return answer{Error: err.Error()}
	}
	scheme.Default(job)
	if err := validate(job); err != nil {
		return answer{Error: err.Error()}
	}
	reconciler, pods := &tensorflow.TFJobReconciler{}, map[string]corev1.PodTemplateSpec{}
	for kind := range job.Spec.TFReplicaSpecs {
		if err := podsOf(reconciler, job, kind, pods); err != nil {
			return answer{Error: err.Error()}
		}
	}
	return answer{Job: job, Pods: pods}
}

func main() {
	var texts []string
	scheme := runtime.NewScheme()
	err := kubeflow.AddToScheme(scheme)
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&texts)
	}
	answers := make([]answer, 0, len(texts))
	for _, text := range texts {
		answers = append(answers, take(scheme, text))
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
