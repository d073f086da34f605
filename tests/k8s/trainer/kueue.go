package main

import (
	"context"
	"errors"
	"time"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	kubeflow "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	queues "sigs.k8s.io/kueue/pkg/cache/queue"
	scheduler "sigs.k8s.io/kueue/pkg/cache/scheduler"
	coreindexer "sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	"sigs.k8s.io/kueue/pkg/controller/jobs/kubeflow/jobs/tfjob"
	"sigs.k8s.io/kueue/pkg/controller/jobs/trainjob"
	"sigs.k8s.io/kueue/pkg/workload"
)

// The queue that has room, and the flavor of its resources.
const clusterQueue, flavor = "training", "default"

func kueueIndexes(ctx context.Context, in client.FieldIndexer) error {
	return errors.Join(tfjob.SetupIndexes(ctx, in), trainjob.SetupIndexes(ctx, in),
		in.IndexField(ctx, &kueue.Workload{}, coreindexer.OwnerReferenceUID, coreindexer.IndexOwnerUID))
}

// As the manager of Kueue does, with two of its integrations.
func (c *cluster) startKueue(ctx context.Context) error {
	f, none, events := newFront(c.WithWatch), indexed{}, &record.FakeRecorder{}
	cache := scheduler.New(c.WithWatch)
	options := []jobframework.Option{jobframework.WithManagedJobsNamespaceSelector(labels.Everything()),
		jobframework.WithCache(cache), jobframework.WithQueues(queues.NewManager(c.WithWatch, cache))}
	c.fronts = append(c.fronts, f)
	tf, err := tfjob.NewReconciler(ctx, c.WithWatch, none, events, options...)
	if err != nil {
		return err
	}
	train, err := trainjob.NewReconciler(ctx, c.WithWatch, none, events, options...)
	if err != nil {
		return err
	}
	c.controllers = append(c.controllers, controllerOf{&kubeflow.TFJob{}, tf}, controllerOf{&trainer.TrainJob{}, train})
	return errors.Join(tfjob.SetupTFJobWebhook(f, options...), trainjob.SetupTrainJobWebhook(f, options...))
}

// Kueue's scheduler: the queue has room for every workload, or gives the room to another one.
func (c *cluster) queue(ctx context.Context, admitted bool) error {
	all := &kueue.WorkloadList{}
	err := c.List(ctx, all)
	for i := range all.Items {
		w := &all.Items[i]
		if admitted {
			workload.SetQuotaReservation(w, granted(w), clock.RealClock{})
			workload.SyncAdmittedCondition(w, time.Now())
		} else {
			workload.SetEvictedCondition(w, time.Now(), kueue.WorkloadEvictedByPreemption, "another workload needs the room")
		}
		err = errors.Join(err, c.Status().Update(ctx, w))
	}
	return err
}

func granted(w *kueue.Workload) *kueue.Admission {
	a := &kueue.Admission{ClusterQueue: clusterQueue}
	for _, set := range w.Spec.PodSets {
		a.PodSetAssignments = append(a.PodSetAssignments, kueue.PodSetAssignment{Name: set.Name, Count: &set.Count,
			Flavors: map[corev1.ResourceName]kueue.ResourceFlavorReference{corev1.ResourceCPU: flavor, corev1.ResourceMemory: flavor}})
	}
	return a
}
