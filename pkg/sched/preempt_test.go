package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/coretest"
)

// started sets for how many hours a pod runs.
func started(hours int, pods ...*v1.Pod) []*v1.Pod {
	for _, p := range pods {
		at := metav1.NewTime(time.Now().Add(-time.Duration(hours) * time.Hour))
		p.Status.StartTime = &at
	}
	return pods
}

// ranked gives pods a priority.
func ranked(value int32, pods ...*v1.Pod) []*v1.Pod {
	for _, p := range pods {
		priority(p, value)
	}
	return pods
}

// several are pods that ask the same.
func several(prefix string, n int, l limits) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		out = append(out, podObj(fmt.Sprintf("%s-%d", prefix, i), l))
	}
	return out
}

// put adds pods one after another, so that where they lie is known.
func (r *rig) put(pods ...*v1.Pod) {
	r.t.Helper()
	for _, p := range pods {
		r.add(p)
		r.until(p.Name+" bound", func() bool { return r.pod(p.Name).Spec.NodeName != "" })
	}
}

// gone lists those of the pods that are not there any more, or are leaving.
func (r *rig) gone(pods []*v1.Pod) []string {
	left := map[string]bool{}
	for _, p := range r.pods() {
		left[p.Name] = p.DeletionTimestamp == nil
	}
	var out []string
	for _, p := range pods {
		if !left[p.Name] {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}

func TestPreemptionEvictsTheFewestOnTheRightCards(t *testing.T) {
	quarters := several("quarter", 4, limits{"gpu-core": 25, "gpu-memory": 10})
	a100 := func(n int) *v1.Node { return nodeObj(t, coretest.Node("n", cfg).Cards(n, coretest.A100x80).Obj()) }
	guarded := podObj("guarded", limits{"nvidia": 1})
	guarded.Labels["app"] = "guarded"
	one := intstr.FromInt32(1)
	for name, c := range map[string]struct {
		nodes []runtime.Object
		low   []*v1.Pod
		high  *v1.Pod
		want  []string
	}{
		"a whole card: the one old pod, not the four young ones": {
			nodes: []runtime.Object{a100(2)}, low: append(started(1, quarters...), started(9, podObj("whole", limits{"nvidia": 1}))...),
			high: podObj("high", limits{"nvidia": 1}), want: []string{"whole"}},
		"half a card: the one old half, not two young quarters": {
			nodes: []runtime.Object{a100(2)},
			low: append(started(1, quarters...), append(started(9, podObj("half", limits{"gpu-core": 50, "gpu-memory": 10})),
				started(10, podObj("other", limits{"gpu-core": 50, "gpu-memory": 10}))...)...),
			high: podObj("high", limits{"gpu-core": 50, "gpu-memory": 10}), want: []string{"half"}},
		"two cards: the old pod that has two": {
			nodes: []runtime.Object{a100(4)}, low: append(started(1, several("one", 2, limits{"nvidia": 1})...), started(9, podObj("two", limits{"nvidia": 2}))...),
			high: podObj("high", limits{"nvidia": 2}), want: []string{"two"}},
		"an instance: where the profile can lie": {
			nodes: []runtime.Object{nodeObj(t, coretest.Node("n", cfg).MIG(1, coretest.A100x80).Obj())},
			low:   append(started(1, several("small", 3, limits{"gpu-slice": 1})...), started(9, podObj("large", limits{"gpu-slice": 4}))...),
			high:  podObj("high", limits{"gpu-slice": 4}), want: []string{"large"}},
		"with RDMA as without": {
			nodes: []runtime.Object{nodeObj(t, coretest.Node("n", cfg).Cards(2, coretest.A100x80).NIC("mlx5_0").Obj())},
			low:   append(started(1, quarters...), started(9, podObj("whole", limits{"nvidia": 1}))...),
			high:  podObj("high", limits{"nvidia": 1, "rdma": 1}), want: []string{"whole"}},
		"a disruption budget weighs more than four pods": {
			nodes: []runtime.Object{a100(2), &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
				Spec: policy.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}}}},
			low: append(started(1, quarters...), guarded), high: podObj("high", limits{"nvidia": 1}), want: []string{"quarter-0", "quarter-1", "quarter-2", "quarter-3"}},
		"of two nodes the one with fewer": {
			nodes: []runtime.Object{nodeObj(t, coretest.Node("m", cfg).Cards(1, coretest.A100x80).Obj()), nodeObj(t, coretest.Node("n", cfg).Cards(1, coretest.A100x80).Obj())},
			low:   append(started(1, quarters...), started(9, podObj("whole", limits{"nvidia": 1}))...),
			high:  podObj("high", limits{"nvidia": 1}), want: []string{"whole"}},
		"CPU decides where cards do not": {
			nodes: []runtime.Object{a100(2)}, low: append(started(9, several("cpu", 2, limits{"cpu": 60})...), started(1, podObj("whole", limits{"nvidia": 1}))...),
			high: podObj("high", limits{"nvidia": 1, "cpu": 40}), want: []string{"cpu-1"}},
		"a pod without cards evicts as ever": {
			nodes: []runtime.Object{a100(1)}, low: append(started(9, podObj("old", limits{"cpu": 60})), started(1, podObj("young", limits{"cpu": 60}))...),
			high: podObj("high", limits{"cpu": 40}), want: []string{"young"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, NewState(cfg), c.nodes...)
			r.put(ranked(1, c.low...)...)
			r.put(priority(c.high.DeepCopy(), 1000))
			if diff := cmp.Diff(c.want, r.gone(c.low)); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPreemptionSparesAGroupWhereAsManySinglesDo(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 2)...)
	gang := ranked(1, started(1, members("a", 0, 2, 2, limits{"nvidia": 4})...)...)
	r.add(gang...)
	r.allBound("a", 2)
	singles := ranked(1, started(9, several("s", 2, limits{"nvidia": 4})...)...)
	r.put(singles...)
	r.put(priority(podObj("high", limits{"nvidia": 8}), 1000))
	if got := r.gone(gang); got != nil || len(r.gone(singles)) != 2 {
		t.Errorf("evicted %v of the group and %v of the singles", got, r.gone(singles))
	}
}

func TestPreemptionEvictsAGroupWhole(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 3)...)
	gang := ranked(1, members("a", 0, 3, 3, limits{"nvidia": 8})...)
	r.add(gang...)
	r.allBound("a", 3)
	r.put(priority(podObj("high", limits{"nvidia": 1}), 1000))
	if got := r.gone(gang); len(got) != 3 {
		t.Errorf("evicted %v, its group is of no use without them", got)
	}
}

func TestPreemptionCountsTheWholeGroup(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 1, 3)...)
	// One member on the first node, for which 16 would go; three singles on
	// the other.
	gang := ranked(1, started(1, members("a", 0, 4, 4, limits{"nvidia": 4})...)...)
	r.add(gang...)
	r.allBound("a", 4)
	singles := ranked(1, started(9, append(several("s", 2, limits{"nvidia": 2}), podObj("t", limits{"nvidia": 4}))...)...)
	r.put(singles...)
	r.put(priority(podObj("high", limits{"nvidia": 8}), 1000))
	if got := r.gone(gang); got != nil || len(r.gone(singles)) != 3 {
		t.Errorf("evicted %v of a group of four, and %v of three singles", got, r.gone(singles))
	}
}

// wake has the waiting pods tried again.
func (r *rig) wake(t *testing.T) {
	t.Helper()
	r.state.Retry(klog.Background())
}

func TestAPreemptorWaitsForItsVictimsAndTakesNoOthers(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 4)...)
	r.graceful = true
	low := ranked(1, several("low", 4, limits{"nvidia": 1})...)
	r.put(low...)
	r.add(priority(podObj("high", limits{"nvidia": 2}), 1000))
	r.until("victims are on their way out", func() bool { return len(r.gone(low)) > 0 })
	for range 3 {
		r.wake(t)
		r.settle(300 * time.Millisecond)
	}
	if got := r.gone(low); len(got) != 2 {
		t.Errorf("evicted %v, two were enough", got)
	}
	r.add(ranked(1, several("sneak", 2, limits{"nvidia": 1})...)...)
	r.settle(500 * time.Millisecond)
	r.die()
	r.bound("high")
	if got := r.pod("sneak-0").Spec.NodeName + r.pod("sneak-1").Spec.NodeName; got != "" {
		t.Errorf("a pod of lower priority took a card of the node %s", got)
	}
}

func TestPodsOnTheirWayOutAreNotCountedAsVictims(t *testing.T) {
	r := newRig(t, NewState(cfg), nodeObj(t, coretest.Node("n", cfg).Cards(2, coretest.A100x80).Obj()))
	low := ranked(1, append(several("low", 4, limits{"gpu-core": 25, "gpu-memory": 10}), podObj("whole", limits{"nvidia": 1}))...)
	r.put(low...)
	r.graceful = true
	for _, p := range low[:4] {
		r.deleteBound(p.Name)
	}
	r.add(priority(podObj("high", limits{"nvidia": 1}), 1000))
	r.refused("high", nil)
	r.die()
	r.bound("high")
	if got := r.gone(low[4:]); got != nil {
		t.Errorf("evicted %v although a card was about to be free", got)
	}
}
