package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/controller"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	trainerwebhooks "github.com/kubeflow/trainer/v2/pkg/webhooks"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetcontrollers "sigs.k8s.io/jobset/pkg/controllers"
	jobsetwebhooks "sigs.k8s.io/jobset/pkg/webhooks"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	scheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

const looksMax = 50

// An API server (controller-runtime's fake client, and what crd.go and webhooks.go check) and the controllers that use it.
type cluster struct {
	client.WithWatch
	kinds       map[schema.GroupVersionKind]*kind
	fronts      []*front
	controllers []controllerOf
}

type controllerOf struct {
	kind client.Object
	reconcile.Reconciler
}

type indexer struct{ *fake.ClientBuilder }

func (b indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	b.WithIndex(object, field, values)
	return nil
}

// The indexes are there already.
type indexed struct{}

func (indexed) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, trainer.AddToScheme, jobset.AddToScheme,
		kubeflow.AddToScheme, kueue.AddToScheme, scheduling.AddToScheme, volcano.AddToScheme} {
		errs = append(errs, add(scheme))
	}
	return scheme, errors.Join(errs...)
}

func newCluster(ctx context.Context, crds []string) (*cluster, error) {
	c := &cluster{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, path := range crds {
		gvk, k, err := readKind(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		c.kinds[gvk] = k
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&trainer.TrainJob{}, &jobset.JobSet{}, &batchv1.Job{}, &kubeflow.TFJob{}, &kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{Apply: c.applied, Delete: c.deleted})
	bare := fake.NewClientBuilder().WithScheme(scheme).Build()
	_, err = core.New(ctx, bare, indexer{builder}) // for its indexes, which come before the client that has them
	if err == nil {
		err = jobsetcontrollers.SetupJobSetIndexes(ctx, indexer{builder})
	}
	if err == nil {
		err = kueueIndexes(ctx, indexer{builder})
	}
	c.WithWatch = builder.Build()
	return c, errors.Join(err, c.startTrainer(ctx), c.startJobSet(), c.startKueue(ctx))
}

// As the manager of Trainer does.
func (c *cluster) startTrainer(ctx context.Context) error {
	runtimes, err := core.New(ctx, c.WithWatch, indexed{})
	if err != nil {
		return err
	}
	f := newFront(c.WithWatch)
	c.fronts = append(c.fronts, f)
	c.controllers = append(c.controllers, controllerOf{&trainer.TrainJob{},
		controller.NewTrainJobReconciler(c.WithWatch, &record.FakeRecorder{}, runtimes)})
	_, err = trainerwebhooks.Setup(f, runtimes)
	return err
}

// As the manager of JobSet does.
func (c *cluster) startJobSet() error {
	f := newFront(c.WithWatch)
	c.fronts = append(c.fronts, f)
	c.controllers = append(c.controllers, controllerOf{&jobset.JobSet{},
		jobsetcontrollers.NewJobSetReconciler(c.WithWatch, c.Scheme(), &record.FakeRecorder{})})
	hook, err := jobsetwebhooks.NewJobSetWebhook(c.WithWatch)
	if err == nil {
		err = hook.SetupWebhookWithManager(f)
	}
	return err
}

// ---- what comes in ----

func textOf(object client.Object) ([]byte, error) {
	if object == nil {
		return nil, nil
	}
	return json.Marshal(object)
}

// Returns the object that is there, with its kind, or nil.
func (c *cluster) there(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	made, err := c.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	object := made.(client.Object)
	if err := c.Get(ctx, key, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	return object, nil
}

type head struct {
	APIVersion string                           `json:"apiVersion"`
	Kind       string                           `json:"kind"`
	Metadata   struct{ Name, Namespace string } `json:"metadata"`
}

func headOf(text []byte) (schema.GroupVersionKind, client.ObjectKey, error) {
	h := head{}
	err := json.Unmarshal(text, &h)
	return schema.FromAPIVersionAndKind(h.APIVersion, h.Kind), client.ObjectKey{Namespace: h.Metadata.Namespace, Name: h.Metadata.Name}, err
}

// kubectl apply.
func (c *cluster) apply(ctx context.Context, text []byte) error {
	gvk, key, err := headOf(text)
	if err != nil {
		return err
	}
	old, err := c.there(ctx, gvk, key)
	if err != nil {
		return err
	}
	before, err := textOf(old)
	if err == nil {
		text, err = c.admit(ctx, gvk, text, before)
	}
	if err != nil {
		return err
	}
	made, err := c.Scheme().New(gvk)
	if err == nil {
		err = json.Unmarshal(text, made)
	}
	if err != nil {
		return err
	}
	object := made.(client.Object)
	object.SetUID(types.UID(key.Name))
	object.SetResourceVersion("")
	if old == nil {
		return c.Create(ctx, object)
	}
	object.SetResourceVersion(old.GetResourceVersion())
	return c.Update(ctx, object)
}

// A JobSet that Trainer applies server-side is checked, too, and taken back if it is refused.
func (c *cluster) applied(ctx context.Context, api client.WithWatch, given runtime.ApplyConfiguration,
	options ...client.ApplyOption) error {
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	gvk, key, err := headOf(text)
	if err != nil || gvk.Kind != "JobSet" {
		return errors.Join(err, api.Apply(ctx, given, options...))
	}
	old, err := c.there(ctx, gvk, key)
	if err == nil {
		err = api.Apply(ctx, given, options...)
	}
	if err != nil {
		return err
	}
	now, err := c.there(ctx, gvk, key)
	if err != nil {
		return err
	}
	return c.keep(ctx, gvk, now, old)
}

func (c *cluster) keep(ctx context.Context, gvk schema.GroupVersionKind, now, old client.Object) error {
	before, err := textOf(old)
	if err != nil {
		return err
	}
	text, err := textOf(now)
	if err == nil {
		text, err = c.admit(ctx, gvk, text, before)
	}
	switch {
	case err == nil:
		object := &jobset.JobSet{}
		if err := json.Unmarshal(text, object); err != nil || equality.Semantic.DeepEqual(object, now) {
			return err
		}
		object.SetUID(types.UID(object.Name))
		return c.Update(ctx, object)
	case old == nil:
		return errors.Join(err, c.Delete(ctx, now))
	}
	old.SetResourceVersion(now.GetResourceVersion())
	return errors.Join(err, c.Update(ctx, old))
}

// The garbage collector takes the Jobs of a JobSet that is deleted.
func (c *cluster) deleted(ctx context.Context, api client.WithWatch, object client.Object, options ...client.DeleteOption) error {
	err := api.Delete(ctx, object, options...)
	if _, owner := object.(*jobset.JobSet); !owner || err != nil {
		return err
	}
	return api.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(object.GetNamespace()),
		client.MatchingLabels{jobset.JobSetNameKey: object.GetName()})
}

// The work of the Jobs' controller, which is not here.
func (c *cluster) setJobs(ctx context.Context, states map[string]batchv1.JobStatus) error {
	jobs := &batchv1.JobList{}
	err := c.List(ctx, jobs)
	for i := range jobs.Items {
		job := &jobs.Items[i]
		state, given := states[job.Name]
		if given && err == nil && !equality.Semantic.DeepEqual(job.Status, state) {
			job.Status = state
			err = c.Status().Update(ctx, job)
		}
	}
	return err
}

// ---- the controllers ----

func (c *cluster) objects(ctx context.Context) ([]client.Object, error) {
	all := []client.Object{}
	for _, list := range []client.ObjectList{&kubeflow.TFJobList{}, &trainer.TrainJobList{}, &jobset.JobSetList{}, &batchv1.JobList{},
		&corev1.ServiceList{}, &kueue.WorkloadList{}, &scheduling.PodGroupList{}, &volcano.PodGroupList{}} {
		if err := c.List(ctx, list); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			gvk, err := c.GroupVersionKindFor(object)
			object.GetObjectKind().SetGroupVersionKind(gvk)
			object.SetManagedFields(nil)
			object.SetResourceVersion("")
			all = append(all, object)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Every controller looks at each of its objects once.
func (c *cluster) look(ctx context.Context, all []client.Object) error {
	var errs []error
	for _, controller := range c.controllers {
		wanted, err := c.GroupVersionKindFor(controller.kind)
		errs = append(errs, err)
		for _, object := range all {
			if object.GetObjectKind().GroupVersionKind() == wanted {
				_, err := controller.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// Lets the controllers work until nothing changes.
func (c *cluster) settle(ctx context.Context) (*answer, error) {
	before, a := []byte(nil), &answer{}
	for range looksMax {
		all, err := c.objects(ctx)
		if err != nil {
			return nil, err
		}
		now, err := json.Marshal(all)
		if err != nil {
			return nil, err
		}
		a.Objects = all
		if bytes.Equal(now, before) {
			return a, nil
		}
		before, a.Error = now, ""
		if err := c.look(ctx, all); err != nil {
			a.Error = err.Error()
		}
	}
	return nil, fmt.Errorf("the controllers do not come to rest:\n%s", before)
}
