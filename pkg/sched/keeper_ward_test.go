package sched

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/kube"
)

// ward is a keeper on a fake API, with no engine beside it: what it is told
// and what the clock says are the test's.
type ward struct {
	t      rapid.TB
	client *fake.Clientset
	state  *State
	keeper *Keeper
	clock  *testclock.FakeClock

	events  []string // name of the pod: note
	evicted []string
	budget  int // evictions that the API server still allows
	writes  int
}

var wardStart = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

func newWard(t rapid.TB) *ward {
	w := &ward{t: t, client: fake.NewClientset(), clock: testclock.NewFakeClock(wardStart), budget: 1 << 20}
	w.client.PrependReactor("create", "pods", w.evict)
	w.client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { w.writes++; return false, nil, nil })
	w.restart()
	return w
}

// restart makes another process lead.
func (w *ward) restart() {
	w.state = NewState(cfg)
	w.keeper = NewKeeper(w.state, w.client, (*wardEvents)(w), w.clock)
	w.see()
}

type wardEvents ward

func (w *wardEvents) Eventf(regarding, _ runtime.Object, _, why, _, note string, args ...any) {
	w.events = append(w.events, regarding.(*v1.Pod).Name+": "+why+": "+fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = (*wardEvents)(nil)

func (w *ward) evict(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	e := a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
	if w.budget--; w.budget < 0 {
		return true, nil, apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	}
	if p := w.pod(e.Name); p.UID != *e.DeleteOptions.Preconditions.UID {
		return true, nil, apierrors.NewConflict(podsGVR.GroupResource(), e.Name, fmt.Errorf("uid differs"))
	}
	w.evicted = append(w.evicted, e.Name)
	w.change(e.Name, func(p *v1.Pod) { now := metav1.NewTime(w.clock.Now()); p.DeletionTimestamp = &now })
	return true, nil, nil
}

func (w *ward) pods() []v1.Pod {
	o, err := w.client.Tracker().List(podsGVR, v1.SchemeGroupVersion.WithKind("Pod"), "default")
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*v1.PodList).Items
}

func (w *ward) pod(name string) *v1.Pod {
	o, err := w.client.Tracker().Get(podsGVR, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return o.(*v1.Pod)
}

// see shows the registry the pods as the API has them.
func (w *ward) see() {
	for _, p := range w.pods() {
		w.state.groups.adopt(p.DeepCopy())
	}
}

func (w *ward) add(pods ...*v1.Pod) {
	for _, p := range pods {
		p.CreationTimestamp = metav1.NewTime(w.clock.Now())
		if err := w.client.Tracker().Add(p); err != nil {
			w.t.Fatal(err)
		}
	}
	w.see()
}

func (w *ward) change(name string, f func(*v1.Pod)) {
	p := w.pod(name).DeepCopy()
	f(p)
	if err := w.client.Tracker().Update(podsGVR, p, "default"); err != nil {
		w.t.Fatal(err)
	}
	w.see()
}

func (w *ward) bind(names ...string) {
	for _, n := range names {
		w.change(n, func(p *v1.Pod) {
			p.Spec.NodeName = "n"
			p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
			p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
		})
	}
}

func (w *ward) remove(names ...string) {
	for _, n := range names {
		p, name := w.pod(n).DeepCopy(), w.key(n).Name
		if err := w.client.Tracker().Delete(podsGVR, "default", n); err != nil {
			w.t.Fatal(err)
		}
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
		w.state.groups.gone(p)
	}
}

// key is the group of a pod.
func (w *ward) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: kube.GroupOf(w.pod(name), cfg).Name}
}

func (w *ward) job(set string, size int, f func(*batchv1.Job)) {
	j := setJob(set, size, 0)
	f(j)
	w.state.groups.job(j)
}

// pass lets time go by, second by second, with the keeper looking at each.
func (w *ward) pass(d time.Duration) {
	for range int(d/time.Second) + 1 {
		w.state.groups.mu.Lock()
		var keys []types.NamespacedName
		for key := range w.state.groups.byKey {
			keys = append(keys, key)
		}
		w.state.groups.mu.Unlock()
		for _, key := range keys {
			w.keeper.keep(context.Background(), key)
			w.see()
		}
		w.clock.Step(time.Second)
	}
	w.clock.Step(-time.Second)
}

func (w *ward) message(name string, kind v1.PodConditionType) string {
	if c := conditionOf(w.pod(name), kind); c != nil {
		return string(c.Status) + " " + c.Reason + " " + c.Message
	}
	return ""
}

func (w *ward) expect(name string, kind v1.PodConditionType, want string) {
	w.t.Helper()
	got := w.message(name, kind)
	if want == "" && got != "" || !strings.HasPrefix(got, want) {
		w.t.Errorf("condition %s of %s is %q, want %q", kind, name, got, want)
	}
}

func (w *ward) told(words string) int {
	n := 0
	for _, e := range w.events {
		if strings.Contains(e, words) {
			n++
		}
	}
	return n
}

func ignoring(j *batchv1.Job) {
	j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}},
	}}}
}
