module gradwire/tests/k8s/operator

go 1.23

require (
	github.com/kubeflow/training-operator v1.9.3
	k8s.io/api v0.31.3
	k8s.io/apimachinery v0.31.3
	sigs.k8s.io/yaml v1.4.0
)
