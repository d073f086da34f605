module gradwire/tests/k8s/operator

go 1.22

require (
	github.com/kubeflow/training-operator v1.8.1
	k8s.io/api v0.29.3
	k8s.io/apimachinery v0.29.3
	sigs.k8s.io/yaml v1.4.0
)
