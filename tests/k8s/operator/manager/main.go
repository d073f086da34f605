// The training-operator's controller and webhook of TFJobs, as a process that talks to an API server. The operator's own
// program starts them too, with the other kinds of job and a rotation of certificates that needs a pod and a Service.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr/funcr"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/tensorflow"
	webhooks "github.com/kubeflow/training-operator/pkg/webhooks/tensorflow"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func start(host string, port int, certificates string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, kubeflow.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:        scheme,
		Metrics:       metrics.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: certificates}),
	})
	if err == nil {
		err = tensorflow.NewReconciler(manager, common.GenNonGangSchedulerSetupFunc()).SetupWithManager(manager, 1)
	}
	if err == nil {
		err = webhooks.SetupWebhook(manager)
	}
	if err == nil {
		err = manager.Start(ctrl.SetupSignalHandler())
	}
	return err
}

func main() {
	host := flag.String("host", "127.0.0.1", "where the webhook listens")
	port := flag.Int("port", 0, "where the webhook listens")
	certificates := flag.String("certificates", "", "the folder with tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(funcr.New(func(prefix, text string) { fmt.Fprintln(os.Stderr, prefix, text) }, funcr.Options{}))
	if err := start(*host, *port, *certificates); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
