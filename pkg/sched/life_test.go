package sched

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/kube"
)

func oneNode(t testing.TB, cards int) []runtime.Object {
	return []runtime.Object{nodeObj(t, coretest.Node("n", cfg).Cards(cards, coretest.A100x80).Obj())}
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Pods("default").Delete(r.ctx, name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func TestRestartKeepsAllocations(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 2)...)
	r.add(podObj("a", limits{"nvidia": 1}))
	first := r.bound("a").Containers["c0"][0].Card
	r.restart(NewState(cfg))
	r.add(podObj("b", limits{"nvidia": 1}), podObj("c", limits{"nvidia": 1}))
	var second string
	r.until("one more bound", func() bool {
		for _, n := range []string{"b", "c"} {
			if r.pod(n).Spec.NodeName != "" {
				second = r.bound(n).Containers["c0"][0].Card
				return true
			}
		}
		return false
	})
	if second == first {
		t.Errorf("card %s was given twice over a restart", first)
	}
	r.settle(time.Second)
	n := 0
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d pods are bound to 2 cards", n)
	}
}

func TestARefusedBindingGivesTheCardsBack(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 1)...)
	var tries atomic.Int32
	r.onBind(func(b *v1.Binding) error {
		if b.Name == "bad" {
			tries.Add(1)
			return apierrors.NewForbidden(podsGVR.GroupResource(), b.Name, nil)
		}
		return nil
	})
	r.add(podObj("bad", limits{"nvidia": 1}))
	r.until("tried", func() bool { return tries.Load() > 0 })
	r.remove("bad")
	r.add(podObj("good", limits{"nvidia": 1}))
	r.bound("good")
	if n := tries.Load(); n > 3 {
		t.Errorf("a definite refusal was tried %d times at once", n)
	}
}

func TestABindingWithoutAnAnswerIsHeldAndFoundWritten(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 1)...)
	var tries atomic.Int32
	r.onBind(func(b *v1.Binding) error {
		if tries.Add(1) == 1 {
			if err := commit(r.client, b); err != nil {
				return err
			}
			return errReset // written, but nobody hears of it
		}
		return nil
	})
	r.add(podObj("a", limits{"nvidia": 1}))
	r.bound("a")
	r.until("asked again", func() bool { return tries.Load() >= 2 })
	r.add(podObj("b", limits{"nvidia": 1}))
	r.refused("b", nil)
	for _, n := range r.allEvents()["default/a"] {
		if strings.HasPrefix(n, "FailedScheduling") {
			t.Errorf("the pod was bound and yet: %s", n)
		}
	}
}

func TestAPodThatEndsMakesRoomAtOnce(t *testing.T) {
	r := newRig(t, NewState(cfg), oneNode(t, 1)...)
	r.add(podObj("a", limits{"gpu-core": 60, "gpu-memory": 30}))
	r.bound("a")
	r.add(podObj("b", limits{"gpu-core": 60}))
	note := r.refused("b", nil)
	if !strings.Contains(note, "gpus-busy") && !strings.Contains(note, "fragmented-core") {
		t.Errorf("refusal without its code: %s", note)
	}
	start := time.Now()
	r.remove("a")
	r.bound("b")
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("woken after %v: the queueing hint missed the end of a pod", d)
	}
}

func TestANodeThatBecomesFitWakesThePod(t *testing.T) {
	n := nodeObj(t, coretest.Node("n", cfg).Cards(2, coretest.A100x80).Obj())
	good := n.Annotations[kube.InventoryAnnotation]
	n.Annotations[kube.InventoryAnnotation] = "not JSON"
	r := newRig(t, NewState(cfg), n)
	r.add(podObj("p", limits{"nvidia": 2}))
	r.refused("p", func(s string) bool { return strings.Contains(s, "inventory-unreadable") })
	n = n.DeepCopy()
	n.Annotations[kube.InventoryAnnotation] = good
	if _, err := r.client.CoreV1().Nodes().Update(r.ctx, n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.bound("p")
}

func TestPreemptionEvictsTheHolderThatHelps(t *testing.T) {
	r := newRig(t, NewState(cfg),
		nodeObj(t, coretest.Node("small", cfg).Cards(1, coretest.T4).Obj()),
		nodeObj(t, coretest.Node("big", cfg).Cards(2, coretest.A100x80).Obj()))
	// On the big node one card has a large share, the other a small one of
	// higher priority; the small node's share cannot make 40 GiB.
	r.add(priority(podObj("small", limits{"gpu-memory": 14}), 1))
	r.bound("small")
	r.add(priority(podObj("victim", limits{"gpu-memory": 60, "gpu-core": 10}), 1))
	r.bound("victim")
	r.add(priority(podObj("kept", limits{"gpu-memory": 50}), 5000))
	r.bound("kept")
	r.add(priority(podObj("high", limits{"gpu-memory": 40}), 1000))
	a := r.bound("high")
	if a.Node != "big" {
		t.Errorf("bound to %s", a.Node)
	}
	for _, name := range []string{"small", "kept"} {
		if p, err := r.client.CoreV1().Pods("default").Get(r.ctx, name, metav1.GetOptions{}); err != nil || p.DeletionTimestamp != nil {
			t.Errorf("%s was evicted: %v", name, err)
		}
	}
	if p, err := r.client.CoreV1().Pods("default").Get(r.ctx, "victim", metav1.GetOptions{}); err == nil && p.DeletionTimestamp == nil {
		t.Error("the holder of the share is still there")
	}
}

func TestPreemptionEvictsNobodyWhereNoEvictionHelps(t *testing.T) {
	r := newRig(t, NewState(cfg), nodeObj(t, coretest.Node("n", cfg).Cards(1, coretest.T4).Obj()))
	r.add(priority(podObj("low", limits{"gpu-memory": 10}), 1))
	r.bound("low")
	r.add(priority(podObj("high", limits{"gpu-memory": 60}), 1000))
	r.refused("high", func(s string) bool { return strings.Contains(s, "memory-above-largest-gpu") })
	if p := r.pod("low"); p.DeletionTimestamp != nil {
		t.Error("a pod was evicted in vain")
	}
}

func TestForeignPodsHoldCardsThatNobodyElseGets(t *testing.T) {
	foreign := podObj("foreign", limits{"nvidia": 1})
	foreign.Spec.SchedulerName, foreign.Spec.NodeName = "default-scheduler", "n"
	forged := podObj("forged", limits{"nvidia": 1})
	forged.Spec.NodeName = "n"
	forged.Annotations = map[string]string{kube.AllocationAnnotation: `{"v":1,"uid":"other","node":"n","containers":{}}`}
	r := newRig(t, NewState(cfg), append(oneNode(t, 3), foreign, forged)...)
	r.add(podObj("a", limits{"nvidia": 1}))
	r.bound("a")
	r.add(podObj("b", limits{"nvidia": 1}))
	r.refused("b", nil)
}

func TestANominatedPodKeepsItsPlace(t *testing.T) {
	high := priority(podObj("high", limits{"nvidia": 1}), 1000)
	high.Status.NominatedNodeName = "n"
	high.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/later"}} // nominated, and not in the active queue
	r := newRig(t, NewState(cfg), append(oneNode(t, 1), high)...)
	r.add(priority(podObj("low", limits{"nvidia": 1}), 1))
	r.refused("low", nil)
}

func TestNewSettingsTryWaitingPodsAgain(t *testing.T) {
	mib := cfg
	mib.Unit, mib.UnitKnown = config.MiB, true
	state := NewState(cfg)
	r := newRig(t, state, nodeObj(t, coretest.Node("n", mib).Cards(1, coretest.A100x80).Obj()))
	r.add(podObj("p", limits{"gpu-memory": 1024}))
	r.refused("p", nil)
	if !state.SetConfig(mib) || state.SetConfig(mib) {
		t.Fatal("SetConfig does not tell a change")
	}
	state.Retry(klog.Background())
	if g := r.bound("p").Containers["c0"][0]; *g.MemMiB != 1024 {
		t.Errorf("1024 MiB became %d", *g.MemMiB)
	}
}

func TestSpreadAndBinpack(t *testing.T) {
	for policy, want := range map[config.Policy]int{config.Binpack: 1, config.Spread: 4} {
		c := cfg
		c.NodePolicy, c.CardPolicy = policy, policy
		var nodes []runtime.Object
		for _, n := range []string{"n1", "n2", "n3", "n4"} {
			nodes = append(nodes, nodeObj(t, coretest.Node(n, c).Cards(4, coretest.A100x80).Obj()))
		}
		r := newRig(t, NewState(c), nodes...)
		used := map[string]bool{}
		for _, n := range []string{"a", "b", "c", "d"} {
			r.add(podObj(n, limits{"nvidia": 1}))
			used[r.bound(n).Node] = true
		}
		if len(used) != want {
			t.Errorf("%s: four one-card pods on %d nodes, want %d", policy, len(used), want)
		}
	}
}

func TestNarrowedPodsFindNodesThatTheBestOnesHide(t *testing.T) {
	var nodes []runtime.Object
	for i := range 9 {
		n := nodeObj(t, coretest.Node("n"+string(rune('0'+i)), cfg).Cards(8-i/2, coretest.A100x80).Obj())
		if i != 8 {
			// Only the in-tree port check can tell: the plugin's own guess
			// cannot, so the best nodes are wrong ones.
			p := podObj("port"+string(rune('0'+i)), limits{"cpu": 1})
			p.Spec.NodeName = n.Name
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			nodes = append(nodes, p)
		}
		nodes = append(nodes, n)
	}
	state := NewState(cfg)
	state.NarrowTo(2)
	r := newRig(t, state, nodes...)
	p := podObj("p", limits{"nvidia": 1})
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	r.add(p)
	if a := r.bound("p"); a.Node != "n8" {
		t.Errorf("bound to %s", a.Node)
	}
}
