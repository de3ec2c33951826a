package sched

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

var cfg = config.Default()

// mixed is one node of each kind.
func mixed(t testing.TB) []runtime.Object {
	return []runtime.Object{
		nodeObj(t, coretest.Node("a100", cfg).Cards(4, coretest.A100x80).Obj()),
		nodeObj(t, coretest.Node("cut", cfg).MIG(2, coretest.A100x80).Obj()),
		nodeObj(t, coretest.Node("ppu", cfg).Cards(2, coretest.PPU810E).Obj()),
	}
}

func TestEachModeGetsItsCards(t *testing.T) {
	init := podObj("x", limits{"nvidia": 1})
	init.Name, init.UID = "init", "uid-init"
	init.Spec.InitContainers = []v1.Container{container(cfg, "prepare", limits{"nvidia": 2})}
	always := v1.ContainerRestartPolicyAlways
	sidecar := podObj("sidecar", limits{"gpu-core": 30, "gpu-memory": 8})
	sidecar.Spec.InitContainers = []v1.Container{container(cfg, "exporter", limits{"gpu-core": 10, "gpu-memory": 2})}
	sidecar.Spec.InitContainers[0].RestartPolicy = &always

	for name, c := range map[string]struct {
		pod   *v1.Pod
		nodes []string
		cards map[string]int // by container
		check func(device.Grant) bool
	}{
		"whole NVIDIA cards go to an NVIDIA node, whole": {
			podObj("p", limits{"nvidia": 2}), []string{"a100"}, map[string]int{"c0": 2}, func(g device.Grant) bool { return g.Whole }},
		"whole cards of any vendor": {
			podObj("p", limits{"gpu": 2}), []string{"a100", "ppu"}, map[string]int{"c0": 2}, func(g device.Grant) bool { return g.Whole }},
		"a share has its numbers in MiB": {
			podObj("p", limits{"gpu-core": 50, "gpu-memory": 16}), []string{"a100", "ppu"}, map[string]int{"c0": 1},
			func(g device.Grant) bool { return g.Share && *g.Core == 50 && *g.MemMiB == 16384 }},
		"a slice is an instance with a place": {
			podObj("p", limits{"gpu-slice": 3}), []string{"cut"}, map[string]int{"c0": 1},
			func(g device.Grant) bool { return g.MIG == "3g.40gb" && g.Start != nil && g.Size == 4 }},
		"replica asks for different cards": {
			replica(podObj("p", limits{"gpu-core": 50, "gpu-memory": 16}), "3"), []string{"a100"}, map[string]int{"c0": 3},
			func(g device.Grant) bool { return g.Share }},
		"two containers": {
			podObj("p", limits{"nvidia": 1}, limits{"gpu-core": 20}), []string{"a100"}, map[string]int{"c0": 1, "c1": 1}, nil},
		"an init container has cards of its own time": {init, []string{"a100"}, map[string]int{"c0": 1, "prepare": 2}, nil},
		"a sidecar": {sidecar, []string{"a100", "ppu"}, map[string]int{"c0": 1, "exporter": 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, NewState(cfg), mixed(t)...)
			r.add(c.pod)
			a := r.bound(c.pod.Name)
			if !strings.Contains(" "+strings.Join(c.nodes, " ")+" ", " "+a.Node+" ") {
				t.Errorf("bound to %s, want one of %v", a.Node, c.nodes)
			}
			if len(a.Containers) != len(c.cards) {
				t.Errorf("cards for containers %v, want %v", a.Names(), c.cards)
			}
			for ct, n := range c.cards {
				if len(a.Containers[ct]) != n {
					t.Errorf("container %s has %d cards, want %d", ct, len(a.Containers[ct]), n)
				}
				for _, g := range a.Containers[ct] {
					if c.check != nil && !c.check(g) {
						t.Errorf("container %s: wrong grant %+v", ct, g)
					}
				}
			}
			if a.UID != string(c.pod.UID) || a.Node != r.pod(c.pod.Name).Spec.NodeName {
				t.Errorf("allocation for uid %q on node %q", a.UID, a.Node)
			}
		})
	}
}

func TestRefusalsReachTheEventWithCodesAndNumbers(t *testing.T) {
	bare := podObj("p", limits{"nvidia": 1})
	bare.Spec.RuntimeClassName = nil
	unlabelled := nodeObj(t, coretest.Node("off", cfg).Cards(8, coretest.H800).Obj())
	delete(unlabelled.Labels, kube.EnableLabel)
	garbage := nodeObj(t, coretest.Node("dark", cfg).Cards(8, coretest.H800).Obj())
	garbage.Annotations[kube.InventoryAnnotation] = `{"v":99}`
	for name, c := range map[string]struct {
		nodes []runtime.Object
		pod   *v1.Pod
		want  []string
	}{
		"more cards than any node has": {mixed(t), podObj("p", limits{"nvidia": 9}),
			[]string{"0/3 nodes are available", "gpus-above-node: 9 cards asked", "closest is node", "the node has 4"}},
		"the same cause on several nodes is counted": {
			[]runtime.Object{nodeObj(t, coretest.Node("n1", cfg).Cards(1, coretest.H20).Obj()), nodeObj(t, coretest.Node("n2", cfg).Cards(2, coretest.H20).Obj())},
			podObj("p", limits{"gpu-core": 10, "gpu-memory": 200}),
			[]string{"2 memory-above-largest-gpu: 200 GiB asked", "the largest card offers 95 GiB"}},
		"no runtime class":                                  {mixed(t), bare, []string{"runtime-class-missing"}},
		"a request against the rules":                       {mixed(t), podObj("p", limits{"gpu-core": 150}), []string{"core-out-of-range: gpu-core is 150"}},
		"unlabelled node":                                   {[]runtime.Object{unlabelled}, podObj("p", limits{"nvidia": 1}), []string{"1 enable-label-missing: not labelled lj_runtimekit_enable=true"}},
		"inventory of a newer version is unknown, not free": {[]runtime.Object{garbage}, podObj("p", limits{"nvidia": 1}), []string{"1 inventory-unreadable"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, NewState(cfg), c.nodes...)
			r.add(c.pod)
			note := r.refused("p", nil)
			for _, w := range c.want {
				if !strings.Contains(note, w) {
					t.Errorf("the event lacks %q:\n%s", w, note)
				}
			}
		})
	}
}

func TestPodsWithoutCardsAreLeftToTheEngine(t *testing.T) {
	r := newRig(t, NewState(cfg), mixed(t)...)
	p := podObj("cpu", limits{"cpu": 2})
	p.Spec.RuntimeClassName = nil
	r.add(p)
	r.until("bound", func() bool { return r.pod("cpu").Spec.NodeName != "" })
	if _, ok := r.pod("cpu").Annotations[kube.AllocationAnnotation]; ok {
		t.Error("a pod without cards got an allocation")
	}
	r.add(podObj("greedy", limits{"cpu": 500}))
	if note := r.refused("greedy", nil); !strings.Contains(note, "3 Insufficient cpu") {
		t.Errorf("stock words are missing: %s", note)
	}
}

func TestMiBMode(t *testing.T) {
	mib := cfg
	mib.Unit, mib.UnitKnown = config.MiB, true
	r := newRig(t, NewState(mib),
		nodeObj(t, coretest.Node("right", mib).Cards(1, coretest.A100x80).Obj()),
		nodeObj(t, coretest.Node("wrong", cfg).Cards(8, coretest.A100x80).Obj()))
	r.add(podFor(mib, "p", limits{"gpu-memory": 80000}), podFor(mib, "q", limits{"gpu-memory": 80000}))
	a, note := device.Allocation{}, ""
	r.until("one bound", func() bool {
		for _, n := range []string{"p", "q"} {
			if r.pod(n).Spec.NodeName != "" {
				a = *r.bound(n)
				return true
			}
		}
		return false
	})
	if g := a.Containers["c0"][0]; a.Node != "right" || *g.MemMiB != 80000 {
		t.Errorf("got %+v on %s", g, a.Node)
	}
	other := map[bool]string{true: "q", false: "p"}[a.UID == "uid-p"]
	note = r.refused(other, nil)
	if !strings.Contains(note, "memory-unit-mismatch") {
		t.Errorf("the refusal does not tell the unit: %s", note)
	}
}
