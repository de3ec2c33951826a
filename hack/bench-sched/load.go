package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

const namespace = metav1.NamespaceDefault

// podSpec asks for whole cards in the one way that every scheduler knows.
func podSpec(cards int64) v1.PodSpec {
	class, grace := kube.RuntimeClass, int64(0)
	limits := v1.ResourceList{
		"nvidia.com/gpu":  *resource.NewQuantity(cards, resource.DecimalSI),
		v1.ResourceCPU:    *resource.NewQuantity(cards, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(cards<<30, resource.BinarySI),
	}
	return v1.PodSpec{
		SchedulerName: kube.SchedulerName, RuntimeClassName: &class, RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
		Containers: []v1.Container{{Name: "app", Image: "none", Resources: v1.ResourceRequirements{Limits: limits}}},
	}
}

func (c *cluster) createPods(ctx context.Context, prefix string, n int, cards int64) error {
	err := inParallel(ctx, n, func(i int) error {
		_, err := c.client.CoreV1().Pods(namespace).Create(ctx, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)}, Spec: podSpec(cards)}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	return nil
}

// job is a Job whose pods ask for whole cards; min is how many of them are a
// group, 0 for none.
func job(name string, pods int32, cards int64, min int) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: batchv1.JobSpec{
		Parallelism: &pods, Completions: &pods, Template: v1.PodTemplateSpec{Spec: podSpec(cards)}}}
	if min > 0 {
		j.Spec.Template.Labels = map[string]string{config.Default().MinMemberLabel(): strconv.Itoa(min)}
	}
	return j
}

func (c *cluster) createJob(ctx context.Context, j *batchv1.Job) error {
	if _, err := c.client.BatchV1().Jobs(namespace).Create(ctx, j, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create job %s: %w", j.Name, err)
	}
	return nil
}

// clearPods deletes all pods at once and returns when they are gone.
func (c *cluster) clearPods(ctx context.Context, w *watcher) error {
	now := int64(0)
	if err := c.client.CoreV1().Pods(namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete pods: %w", err)
	}
	return poll(ctx, "all pods gone", func() (bool, error) {
		s := w.sum()
		return s.pods == 0, nil
	})
}

// watcher is a user who watches the pods: what happens is dated when the watch
// says so.
type watcher struct {
	mu   sync.Mutex
	seen map[types.UID]*sighting
	stop context.CancelFunc
	done sync.WaitGroup
}

// sighting is when something of a pod was first seen.
type sighting struct {
	created, bound time.Time
	refused        time.Time // with these words
	why            string
}

// summary is about the pods that are there.
type summary struct {
	pods, bound, refused    int
	firstCreate, lastCreate time.Time
	firstBound, lastBound   time.Time
	lastRefused             time.Time
	why                     string // of the last refusal
}

// watch follows the pods until stop.
func (c *cluster) watch(ctx context.Context) (*watcher, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{seen: map[types.UID]*sighting{}, stop: stop}
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace(namespace))
	inf := factory.Core().V1().Pods().Informer()
	reg, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.note, UpdateFunc: func(_, o any) { w.note(o) },
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if p, ok := o.(*v1.Pod); ok {
				w.mu.Lock()
				delete(w.seen, p.UID)
				w.mu.Unlock()
			}
		},
	})
	if err != nil {
		stop()
		return nil, err
	}
	w.done.Go(func() { inf.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		w.end()
		return nil, ctx.Err()
	}
	return w, nil
}

func (w *watcher) end() {
	w.stop()
	w.done.Wait()
}

func (w *watcher) note(o any) {
	p, ok := o.(*v1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.seen[p.UID]
	if s == nil {
		s = &sighting{created: now}
		w.seen[p.UID] = s
	}
	if p.Spec.NodeName != "" && s.bound.IsZero() {
		s.bound = now
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable && s.why != c.Message {
			s.refused, s.why = now, c.Message
		}
	}
}

func (w *watcher) sum() summary {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out summary
	earlier := func(a *time.Time, b time.Time) {
		if a.IsZero() || b.Before(*a) {
			*a = b
		}
	}
	later := func(a *time.Time, b time.Time) {
		if b.After(*a) {
			*a = b
		}
	}
	for _, s := range w.seen {
		out.pods++
		earlier(&out.firstCreate, s.created)
		later(&out.lastCreate, s.created)
		if !s.bound.IsZero() {
			out.bound++
			earlier(&out.firstBound, s.bound)
			later(&out.lastBound, s.bound)
		}
		if !s.refused.IsZero() {
			out.refused++
			if s.refused.After(out.lastRefused) {
				out.lastRefused, out.why = s.refused, s.why
			}
		}
	}
	return out
}

// await returns the sum once it satisfies ok.
func (w *watcher) await(ctx context.Context, what string, ok func(summary) bool) (summary, error) {
	var s summary
	err := poll(ctx, what, func() (bool, error) {
		s = w.sum()
		return ok(s), nil
	})
	if err != nil {
		err = fmt.Errorf("%w (%d pods, %d bound, %d refused)", err, s.pods, s.bound, s.refused)
	}
	return s, err
}
