module gradwire/tests/k8s/operator

go 1.20

require (
	github.com/kubeflow/training-operator v1.7.0
	k8s.io/api v0.27.3
	k8s.io/apimachinery v0.27.3
	sigs.k8s.io/yaml v1.3.0
)
