//go:build operator_1_7

package main

import kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"

// Operator 1.7 validates in its controller.
func validate(job *kubeflow.TFJob) error {
	return kubeflow.ValidateV1TFJob(job)
}
