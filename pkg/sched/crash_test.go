package sched

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lj.aliyun.com/kit/pkg/core/coretest"
)

// crowd is a gang of six and pods alone, on two network-pods of which either
// takes the gang.
func crowd(w *world) {
	for _, p := range members("a", 0, 6, 6, limits{"nvidia": 8}) {
		w.api.put(p)
	}
	for i := range 4 {
		w.api.put(podObj(fmt.Sprintf("s%d", i), limits{"nvidia": 2}))
	}
}

// whole waits until everybody is bound and checks that the gang is together.
func (w *world) whole(t *testing.T, n int) {
	t.Helper()
	within(t, 60*time.Second, w.explain, func() string {
		if got := w.bindings(""); len(got) != n {
			return fmt.Sprintf("%d of %d bound: %v", len(got), n, got)
		}
		return ""
	})
	w.settled(nil)
	var nodes []string
	for _, node := range w.bindings("a-") {
		nodes = append(nodes, node)
	}
	if got := podsOf(nodes); len(got) != 1 {
		t.Errorf("the gang is in %v", got)
	}
}

// The scheduler dies right after each of its writes in turn; its successor
// completes what it has begun.
func TestCrashAfterEachWrite(t *testing.T) {
	w := newWorld(t, network(t, 2, 2, 4)...)
	crowd(w)
	w.run()
	w.whole(t, 10)
	all := w.api.writes
	if all < 10 {
		t.Fatalf("%d writes", all)
	}
	for k := 1; k <= all; k++ {
		t.Run(fmt.Sprintf("write %d", k), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, network(t, 2, 2, 4)...)
			crowd(w)
			w.api.dieAt = k
			w.run()
			within(t, 30*time.Second, w.explain, func() string {
				w.api.mu.Lock()
				defer w.api.mu.Unlock()
				if w.proc.dead || len(w.bindings("")) == 10 { // there may be fewer writes this time
					return ""
				}
				return "the scheduler lives"
			})
			w.kill()
			for i := range 8 { // would take the gang's nodes, and are younger
				w.api.put(podObj(fmt.Sprintf("late%d", i), limits{"nvidia": 1}))
			}
			w.run()
			w.whole(t, 18)
		})
	}
}

// An answer that is lost, with and without the write, for each binding.
func TestLostAnswerOfEachBinding(t *testing.T) {
	for k := range 10 {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprintf("binding %d, written %v", k, written), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, network(t, 2, 2, 4)...)
				crowd(w)
				n := 0
				w.api.fault = func(what call, _ string) (before, after error) {
					if what != callBind {
						return nil, nil
					}
					if n++; n != k+1 {
						return nil, nil
					}
					if written {
						return nil, errReset
					}
					return errReset, nil
				}
				w.run()
				w.whole(t, 10)
			})
		}
	}
}

// A member whose binding is refused although its dry run was not: the others
// are bound by then, and it follows as soon as it can.
func TestRefusedBindingOfOneMember(t *testing.T) {
	w := newWorld(t, network(t, 2, 2, 4)...)
	crowd(w)
	refuse := true
	w.api.fault = func(what call, pod string) (before, after error) {
		if what == callBind && pod == "a-3" && refuse {
			refuse = false
			return apierrors.NewForbidden(podsGVR.GroupResource(), pod, fmt.Errorf("denied request")), nil
		}
		return nil, nil
	}
	w.run()
	w.whole(t, 10)
}

// A dry run that takes longer than the others wait for it ends the attempt for
// all: the member that comes late is not bound by it, and nobody counts on it.
func TestALateDryRunBindsNobody(t *testing.T) {
	w := newWorld(t, network(t, 2, 2, 4)...)
	crowd(w)
	var tries atomic.Int32
	w.api.hold = func(what call, pod string) {
		if what == callDry && pod == "a-0" && tries.Add(1) == 1 {
			time.Sleep(trialWait/w.by + 500*time.Millisecond)
		}
	}
	w.api.fault = func(what call, pod string) (before, after error) {
		if what == callBind && pod[0] == 'a' && tries.Load() < 2 {
			t.Errorf("%s is bound by the attempt whose dry run came late", pod)
		}
		return nil, nil
	}
	w.run()
	w.whole(t, 10)
}

// The API server goes in the middle of the binding of a gang, pods are deleted
// meanwhile, and it comes back: their cards are used, and nothing that was
// held for the outage stays held.
func TestOutageWhileAGangIsBound(t *testing.T) {
	w := newWorld(t, network(t, 2, 2, 4)...)
	full := func(name string) {
		for i := range 16 {
			w.api.put(podObj(fmt.Sprintf("%s%d", name, i), limits{"nvidia": 8}))
		}
	}
	w.api.atOnce = true
	full("first")
	w.run()
	within(t, 30*time.Second, w.explain, func() string { return left(16 - len(w.bindings("first"))) })
	for _, p := range members("a", 0, 6, 6, limits{"nvidia": 8}) {
		w.api.put(p)
	}
	full("second") // in the way of the gang, for the other half
	for i := range 6 {
		w.api.erase(podsGVR, fmt.Sprintf("first%d", i)) // six nodes, in one network-pod or two
	}
	w.api.stop()
	for i := 6; i < 16; i++ { // while nobody sees it
		w.api.erase(podsGVR, fmt.Sprintf("first%d", i))
	}
	time.Sleep(3 * time.Second) // as long as bindings are tried again, by this clock
	w.api.resume()
	within(t, 60*time.Second, w.explain, func() string { return left(16 - len(w.bindings(""))) })
	w.settled(nil)
	if got := len(w.bindings("a-")); got != 6 && got != 0 {
		t.Errorf("%d members of the gang are bound", got)
	}
}

func left(n int) string {
	if n > 0 {
		return fmt.Sprintf("%d are missing", n)
	}
	return ""
}

// The members of a gang whose bindings were on the way when the API server
// went are bound when it is back, in the same network-pod.
func TestOutageBetweenTheBindingsOfAGang(t *testing.T) {
	for after := range 6 {
		t.Run(fmt.Sprintf("after %d", after), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, network(t, 2, 2, 4)...)
			n := 0
			w.api.fault = func(what call, _ string) (before, _ error) {
				if what == callBind {
					if n++; n == after+1 {
						go w.api.stop()
					}
					if n > after {
						return errRefused, nil
					}
				}
				return nil, nil
			}
			crowd(w)
			w.run()
			within(t, 30*time.Second, w.explain, func() string {
				w.api.mu.Lock()
				defer w.api.mu.Unlock()
				if !w.api.down {
					return "no outage yet"
				}
				return ""
			})
			time.Sleep(200 * time.Millisecond)
			w.api.mu.Lock()
			w.api.fault = nil
			w.api.mu.Unlock()
			w.api.resume()
			w.whole(t, 10)
		})
	}
}

// preempted says what became of a world after a pod of high priority came:
// who is gone, and that nobody of its priority or above is.
func (w *world) preempted(t *testing.T, before []*v1.Pod, want int, above int32) []string {
	t.Helper()
	within(t, 60*time.Second, w.explain, func() string {
		w.api.reap()
		return left(want - len(w.bindings("high")))
	})
	w.settled(nil)
	var gone []string
	for _, p := range before {
		if w.api.get(p.Name) != nil {
			continue
		}
		gone = append(gone, p.Name)
		if p.Spec.Priority != nil && *p.Spec.Priority >= above {
			t.Errorf("%s was evicted and has priority %d", p.Name, *p.Spec.Priority)
		}
	}
	return gone
}

func TestPreemption(t *testing.T) {
	a100 := func(name string) *v1.Node {
		return nodeObj(t, coretest.Node(name, cfg).Cards(2, coretest.A100x80).Obj())
	}
	cut := nodeObj(t, coretest.Node("cut", cfg).MIG(1, coretest.A100x80).Obj())
	for name, c := range map[string]struct {
		low, high limits
		fill      int // low pods that fill the nodes
		max       int // victims at most
	}{
		"a whole card over shares":  {low: limits{"gpu-core": 50, "gpu-memory": 20}, fill: 8, high: limits{"nvidia": 1}, max: 2},
		"a share over whole cards":  {low: limits{"nvidia": 1}, fill: 4, high: limits{"gpu-core": 30}, max: 1},
		"a slice over slices":       {low: limits{"gpu-slice": 1}, fill: 7, high: limits{"gpu-slice": 3}, max: 7},
		"two whole cards over ones": {low: limits{"nvidia": 1}, fill: 4, high: limits{"nvidia": 2}, max: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, a100("n0"), a100("n1"), cut)
			for i := range c.fill {
				w.api.put(priority(podObj(fmt.Sprintf("low%d", i), c.low), 10))
			}
			w.run()
			within(t, 30*time.Second, w.explain, func() string { return left(c.fill - len(w.bindings("low"))) })
			before := w.api.pods()
			w.api.put(priority(podObj("high", c.high), 1000))
			if gone := w.preempted(t, before, 1, 1000); len(gone) == 0 || len(gone) > c.max {
				t.Errorf("evicted: %v", gone)
			}
		})
	}
}

func TestPreemptionByAGang(t *testing.T) {
	high := func(w *world, n int) {
		for _, p := range members("high", 0, n, n, limits{"nvidia": 8}) {
			w.api.put(priority(p, 1000))
		}
	}
	t.Run("over pods alone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, network(t, 2, 1, 4)...)
		for i := range 16 {
			w.api.put(priority(podObj(fmt.Sprintf("low%d", i), limits{"nvidia": 4}), 10))
		}
		w.run()
		within(t, 30*time.Second, w.explain, func() string { return left(16 - len(w.bindings("low"))) })
		before := w.api.pods()
		high(w, 3)
		if gone := w.preempted(t, before, 3, 1000); len(gone) < 6 {
			t.Errorf("evicted: %v", gone)
		}
		var nodes []string
		for _, n := range w.bindings("high") {
			nodes = append(nodes, n)
		}
		if got := podsOf(nodes); len(got) != 1 {
			t.Errorf("the gang is in %v", got)
		}
	})
	t.Run("over a gang, which goes whole", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, network(t, 2, 1, 4)...)
		for _, set := range []string{"low", "kept"} {
			level := map[string]int32{"low": 10, "kept": 2000}[set]
			for _, p := range members(set, 0, 4, 4, limits{"nvidia": 8}) {
				w.api.put(priority(p, level))
			}
		}
		w.run()
		within(t, 30*time.Second, w.explain, func() string { return left(8 - len(w.bindings(""))) })
		before := w.api.pods()
		high(w, 2)
		gone := w.preempted(t, before, 2, 1000)
		for _, name := range gone {
			if name[:3] != "low" {
				t.Errorf("%s was evicted", name)
			}
		}
		if len(gone) != 4 {
			t.Errorf("evicted: %v, want the whole gang low", gone)
		}
	})
}
