// The training-operator on one TFJob: its own defaulting, validation and Reconcile, over a cluster that is a request's words.
//
// Each line of standard input is a request: {"job": a TFJob, as a text (YAML), "status", "pods", "services": what the API
// shows of it}. Each line of standard output answers one: {"error": why it was refused}, or {"job": with defaults, "status",
// and what Reconcile did: "pods" and "services" that it created, by name, the names of pods "deleted" and of services
// ("services_deleted"), "removed": the job}.
// A request {"pytorch": a PyTorchJob, as a text} is answered by {"pods": its replicas' pods, by name}: pytorch.go.
// A field that this version does not know, which the API server would prune silently, is an error here.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/control"
	"github.com/kubeflow/training-operator/pkg/controller.v1/tensorflow"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"
)

type request struct {
	Job      string             `json:"job"`
	PyTorch  string             `json:"pytorch"`
	Status   kubeflow.JobStatus `json:"status"`
	Pods     []corev1.Pod       `json:"pods"`
	Services []corev1.Service   `json:"services"`
}

type answer struct {
	Refused  string                    `json:"refused,omitempty"`
	Error    string                    `json:"error,omitempty"`
	Job      *kubeflow.TFJob           `json:"job,omitempty"`
	Status   kubeflow.JobStatus        `json:"status"`
	Pods     map[string]corev1.Pod     `json:"pods"`
	Services map[string]corev1.Service `json:"services"`
	Deleted  []string                  `json:"deleted"`
	Stopped  []string                  `json:"services_deleted"`
	Removed  bool                      `json:"removed"`
}

// ---- the API server, as far as a TFJob's operator asks it ----

type server struct {
	client.Client
	job     *kubeflow.TFJob
	seen    request
	removed bool
}

func (s *server) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.job.DeepCopyInto(into.(*kubeflow.TFJob))
	return nil
}

func (s *server) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch list := into.(type) {
	case *corev1.PodList:
		list.Items = s.seen.Pods
	case *corev1.ServiceList:
		list.Items = s.seen.Services
	default:
		return fmt.Errorf("%T is not here", into)
	}
	return nil
}

func (s *server) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	s.removed = true
	return nil
}

func (s *server) Status() client.SubResourceWriter { return status{server: s} }

type status struct {
	client.SubResourceWriter
	server *server
}

func (s status) Update(_ context.Context, given client.Object, _ ...client.SubResourceUpdateOption) error {
	given.(*kubeflow.TFJob).Status.DeepCopyInto(&s.server.job.Status)
	return nil
}

type cluster struct {
	manager.Manager
	server *server
	scheme *runtime.Scheme
}

func (c cluster) GetClient() client.Client                             { return c.server }
func (c cluster) GetAPIReader() client.Reader                          { return c.server }
func (c cluster) GetScheme() *runtime.Scheme                           { return c.scheme }
func (c cluster) GetConfig() *rest.Config                              { return &rest.Config{} }
func (c cluster) GetEventRecorderFor(name string) record.EventRecorder { return &record.FakeRecorder{} }

// ---- one request ----

func created(a *answer, job *kubeflow.TFJob, pods *control.FakePodControl, services *control.FakeServiceControl) error {
	for i := range pods.Templates {
		pod, err := control.GetPodFromTemplate(&pods.Templates[i], job, &pods.ControllerRefs[i])
		if err != nil {
			return err
		}
		pod.Namespace = job.Namespace
		a.Pods[pod.Name] = *pod
	}
	for i, service := range services.Templates {
		service.OwnerReferences = append(service.OwnerReferences, services.ControllerRefs[i])
		a.Services[service.Name] = service
	}
	return nil
}

// RealPodControl.DeletePod leaves alone what is being deleted already.
func deleted(seen []corev1.Pod, asked []string) []string {
	left, going := []string{}, map[string]bool{}
	for _, pod := range seen {
		going[pod.Name] = pod.DeletionTimestamp != nil
	}
	for _, name := range asked {
		if !going[name] {
			left = append(left, name)
		}
	}
	return left
}

// A panic is an error here: most versions end the whole operator with it.
func reconciled(r *tensorflow.TFJobReconciler, job *kubeflow.TFJob) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	_, err = r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)})
	return err
}

func take(scheme *runtime.Scheme, line []byte) (*answer, error) {
	s := &server{job: &kubeflow.TFJob{}}
	if err := json.Unmarshal(line, &s.seen); err != nil {
		return nil, err
	}
	if s.seen.PyTorch != "" {
		return takePyTorch(scheme, s.seen.PyTorch)
	}
	if err := yaml.UnmarshalStrict([]byte(s.seen.Job), s.job); err != nil {
		return nil, err
	}
	scheme.Default(s.job)
	if err := validate(s.job); err != nil {
		return nil, err
	}
	s.job.Status = s.seen.Status
	pods, services := &control.FakePodControl{}, &control.FakeServiceControl{}
	r := tensorflow.NewReconciler(cluster{server: s, scheme: scheme}, common.GenNonGangSchedulerSetupFunc())
	r.PodControl, r.ServiceControl = pods, services
	err := reconciled(r, s.job)
	a := &answer{Job: s.job, Status: s.job.Status, Pods: map[string]corev1.Pod{}, Services: map[string]corev1.Service{},
		Deleted: deleted(s.seen.Pods, pods.DeletePodName), Stopped: append([]string{}, services.DeleteServiceName...),
		Removed: s.removed}
	if err != nil {
		a.Error = err.Error()
	}
	return a, created(a, s.job, pods, services)
}

func serve(in *bufio.Reader, out *json.Encoder) error {
	scheme := runtime.NewScheme()
	if err := kubeflow.AddToScheme(scheme); err != nil {
		return err
	}
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		a, err := take(scheme, line)
		if err != nil {
			a = &answer{Refused: err.Error()}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func main() {
	logrus.SetLevel(logrus.PanicLevel)
	ctrl.SetLogger(logr.New(log.NullLogSink{}))
	if err := serve(bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
