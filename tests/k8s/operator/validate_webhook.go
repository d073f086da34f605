//go:build !operator_1_7

package main

import (
	"context"

	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/webhooks/tensorflow"
)

// Operator 1.8 and later validate in a webhook.
func validate(job *kubeflow.TFJob) error {
	_, err := (&tensorflow.Webhook{}).ValidateCreate(context.Background(), job)
	return err
}
