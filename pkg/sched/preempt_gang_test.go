package sched

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// on binds a pod to a node, as if it had run there before.
func on(node string, p *v1.Pod) *v1.Pod {
	p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	return p
}

func TestAGroupGoesWhereTheFewestAreEvicted(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	var many, few []*v1.Pod
	for _, node := range []string{"n-0-0-0", "n-0-0-1"} {
		for _, p := range several("many-"+node, 8, limits{"nvidia": 1}) {
			many = append(many, on(node, p))
		}
	}
	for _, node := range []string{"n-1-0-0", "n-1-0-1"} {
		for _, p := range several("few-"+node, 2, limits{"nvidia": 4}) {
			few = append(few, on(node, p))
		}
	}
	r.put(ranked(1, started(1, many...)...)...)
	r.put(ranked(1, started(9, few...)...)...)
	r.add(ranked(1000, members("a", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.allBound("a", 2)
	if a, b := r.gone(many), r.gone(few); a != nil || len(b) != 4 {
		t.Errorf("evicted %v and %v, four were enough", a, b)
	}
}

func TestAGroupEvictsNoMoreThanItsCards(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 2, 2)...)
	low := ranked(1, several("low", 64, limits{"nvidia": 1})...)
	r.put(low...)
	r.add(ranked(1000, members("a", 0, 16, 16, limits{"nvidia": 1})...)...)
	if pods := podsOf(r.allBound("a", 16)); len(pods) != 1 {
		t.Errorf("spread over %v", pods)
	}
	if got := r.gone(low); len(got) != 16 {
		t.Errorf("evicted %d: %v", len(got), got)
	}
}

func TestAGroupEvictsOneGroupOfTwo(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 1, 2, 4)...)
	for _, set := range []string{"x", "y"} {
		r.add(ranked(1, members(set, 0, 4, 4, limits{"nvidia": 8})...)...)
		r.allBound(set, 4)
	}
	r.add(ranked(1000, members("a", 0, 4, 4, limits{"nvidia": 8})...)...)
	r.allBound("a", 4)
	if x, y := len(r.where("x")), len(r.where("y")); x+y != 4 || x != 0 && y != 0 {
		t.Errorf("%d of x and %d of y are left, one of them should be whole", x, y)
	}
}

func TestAGroupSparesALargerGroup(t *testing.T) {
	// A group of eight is on two nodes of four, three singles on each other.
	r := newRig(t, NewState(cfg), network(t, 1, 1, 4)...)
	r.add(ranked(1, members("x", 0, 8, 8, limits{"nvidia": 2})...)...)
	where := r.allBound("x", 8)
	var singles []*v1.Pod
	for _, o := range network(t, 1, 1, 4) {
		if n := o.(*v1.Node).Name; !slices.Contains(where, n) {
			for _, p := range append(several("s-"+n, 2, limits{"nvidia": 2}), several("t-"+n, 1, limits{"nvidia": 4})...) {
				singles = append(singles, on(n, p))
			}
		}
	}
	r.put(ranked(1, singles...)...)
	r.add(ranked(1000, members("a", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.allBound("a", 2)
	if len(r.where("x")) != 8 || len(r.gone(singles)) != 6 {
		t.Errorf("%d of the group are left, evicted singles %v", len(r.where("x")), r.gone(singles))
	}
}

func TestAGroupOfDifferentMembersEvicts(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	low := ranked(1, several("low", 8, limits{"nvidia": 4})...)
	r.put(low...)
	r.add(ranked(1000, append(members("a", 0, 1, 3, limits{"nvidia": 8}), member("a", 1, 3, limits{"gpu-core": 50, "gpu-memory": 10}), member("a", 2, 3, limits{"cpu": 1}))...)...)
	r.allBound("a", 3)
	if got := r.gone(low); len(got) != 3 {
		t.Errorf("evicted %v, three hold what the group needs", got)
	}
}

func TestAGroupUsesFreeCardsFirst(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	var low []*v1.Pod
	for _, n := range []string{"n-0-0-0", "n-0-0-1", "n-1-0-0"} {
		low = append(low, on(n, podObj("low-"+n, limits{"nvidia": 8})))
	}
	r.put(ranked(1, low...)...)
	r.add(ranked(1000, members("a", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.allBound("a", 2)
	if got := r.gone(low); len(got) != 1 || got[0] != "low-n-1-0-0" {
		t.Errorf("evicted %v, a node of the other network-pod is free", got)
	}
}

// Affinity between pods is what the prices do not see: the engine's own way
// comes after them.
func TestAGroupThatNeedsMoreThanCardsIsStillPlaced(t *testing.T) {
	var objs []runtime.Object
	objs = append(objs, network(t, 1, 1, 2)...)
	r := newRig(t, NewState(cfg), objs...)
	guard := on("n-0-0-0", podObj("guard", limits{"cpu": 1}))
	guard.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 8080, ContainerPort: 8080}}
	low := []*v1.Pod{guard, on("n-0-0-0", podObj("low-0", limits{"nvidia": 4})), on("n-0-0-1", podObj("low-1", limits{"nvidia": 8}))}
	r.put(ranked(1, low...)...)
	pods := members("a", 0, 2, 2, limits{"nvidia": 8})
	for _, p := range pods {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 8080, ContainerPort: 8080}}
	}
	r.add(ranked(1000, pods...)...)
	r.allBound("a", 2)
	if got := r.gone(low); len(got) != 3 {
		t.Errorf("evicted %v", got)
	}
}

func TestAGroupWaitsForItsVictimsAndTakesNoOthers(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	r.graceful = true
	low := ranked(1, several("low", 4, limits{"nvidia": 8})...)
	r.put(low...)
	r.add(ranked(1000, members("a", 0, 2, 2, limits{"nvidia": 8})...)...)
	r.until("victims are on their way out", func() bool { return len(r.gone(low)) > 0 })
	r.wake(t)
	r.settle(time.Second)
	if got := r.gone(low); len(got) != 2 {
		t.Errorf("evicted %v, two were enough", got)
	}
	r.add(ranked(1, several("sneak", 2, limits{"nvidia": 8})...)...)
	r.settle(time.Second)
	r.die()
	r.allBound("a", 2)
	if got := r.pod("sneak-0").Spec.NodeName + r.pod("sneak-1").Spec.NodeName; got != "" {
		t.Errorf("a pod of lower priority took %s", got)
	}
}

func TestAReplacementEvictsBesideItsGroup(t *testing.T) {
	r := newRig(t, NewState(cfg), network(t, 2, 1, 2)...)
	r.add(ranked(1000, members("a", 0, 2, 2, limits{"nvidia": 8})...)...)
	where := r.allBound("a", 2)
	low := ranked(1, several("low", 2, limits{"nvidia": 8})...)
	r.put(low...) // in the other network-pod
	r.deleteBound("a-1")
	beside := ranked(1, several("beside", 1, limits{"nvidia": 8})...)
	r.put(beside...) // in the place of the lost member
	r.add(ranked(1000, member("a", 7, 2, limits{"nvidia": 8}))...)
	now := r.allBound("a", 2)
	if len(podsOf(append(now, where...))) != 1 || r.gone(low) != nil || len(r.gone(beside)) != 1 {
		t.Errorf("was on %v, is on %v; evicted %v and %v", where, now, r.gone(low), r.gone(beside))
	}
}
