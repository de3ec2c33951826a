package sched

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"lj.aliyun.com/kit/pkg/core/gang"
)

// Attach lets the engine see the groups of pods: those that the suite's labels
// make, and the PodGroups of the API where it has them. It must come before
// scheduler.New, which takes the factory's informers as they are by then, and
// the factory must not have been started. What it starts ends with ctx.
func (s *State) Attach(ctx context.Context, client kubernetes.Interface, factory informers.SharedInformerFactory) error {
	pods := factory.Core().V1().Pods().Informer()
	if err := pods.SetTransform(s.adopt); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	s.exists = inIndex(pods.GetIndexer())
	nodes := factory.Core().V1().Nodes().Informer().GetIndexer()
	s.nodeExists = func(name string) bool {
		_, ok, err := nodes.GetByKey(name)
		return ok || err != nil
	}
	if err := pods.AddIndexers(cache.Indexers{uidIndex: byUID}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(o any) {
			if p, ok := last(o).(*v1.Pod); ok {
				s.groups.gone(p)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if err := s.watchJobs(factory); err != nil {
		return fmt.Errorf("watch jobs: %w", err)
	}
	factory.InformerFor(&schedulingapi.PodGroup{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(s.groups.feed, &schedulingapi.PodGroup{}, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	})
	return s.forwardPodGroups(ctx, client)
}

// uidIndex finds pods by uid.
const uidIndex = "uid"

func byUID(o any) ([]string, error) {
	if p, ok := o.(*v1.Pod); ok {
		return []string{string(p.UID)}, nil
	}
	return nil, nil
}

func inIndex(pods cache.Indexer) func(types.UID) bool {
	return func(uid types.UID) bool {
		keys, err := pods.IndexKeys(uidIndex, string(uid))
		return err != nil || len(keys) > 0
	}
}

// adopt is the transform of the engine's pods. Groups are counted here and not
// in a handler: what the engine knows of a pod, groups then know as well.
func (s *State) adopt(o any) (any, error) {
	if p, ok := o.(*v1.Pod); ok {
		p.ManagedFields = nil
		s.groups.adopt(p)
	}
	return o, nil
}

// watchJobs counts the finished members of groups.
func (s *State) watchJobs(factory informers.SharedInformerFactory) error {
	jobs := factory.Batch().V1().Jobs().Informer()
	if err := jobs.SetTransform(trimJob); err != nil {
		return err
	}
	see := func(o any) {
		if j, ok := o.(*batchv1.Job); ok {
			s.groups.job(j)
		}
	}
	_, err := jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if j, ok := last(o).(*batchv1.Job); ok {
				s.groups.jobGone(j)
			}
		},
	})
	return err
}

// trimJob keeps of a Job what groups need: a cluster has many, and most of a
// Job is its pod's spec.
func trimJob(o any) (any, error) {
	j, ok := o.(*batchv1.Job)
	if !ok {
		return o, nil
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
			Labels: j.Labels, OwnerReferences: j.OwnerReferences, CreationTimestamp: j.CreationTimestamp},
		Spec: batchv1.JobSpec{
			Template:         v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: j.Spec.Template.Labels}},
			PodFailurePolicy: j.Spec.PodFailurePolicy,
		},
		Status: batchv1.JobStatus{Succeeded: j.Status.Succeeded, Failed: j.Status.Failed, Active: j.Status.Active},
	}, nil
}

// forwardPodGroups joins the API's own PodGroups to ours. Where the API has
// none, the list stays empty.
func (s *State) forwardPodGroups(ctx context.Context, client kubernetes.Interface) error {
	informer := schedulinginformers.NewPodGroupInformer(client, metav1.NamespaceAll, 0, cache.Indexers{})
	put := func(o any) {
		if pg, ok := o.(*schedulingapi.PodGroup); ok {
			s.groups.feed.put(pg.DeepCopy())
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, o any) { put(o) },
		DeleteFunc: func(o any) {
			if pg, ok := last(o).(*schedulingapi.PodGroup); ok {
				key := cache.MetaObjectToName(pg).AsNamespacedName()
				s.groups.feed.drop(key)
				s.groupChanged(key, gang.Group{}, false)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch pod groups: %w", err)
	}
	go informer.RunWithContext(ctx)
	return nil
}
