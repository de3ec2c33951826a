package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

var cfg = config.Default()

// rig is the caches of the informers, without informers.
type rig struct {
	nodes, pods cache.Indexer
	set         config.Config
	clock       *testclock.FakeClock
}

func newRig() *rig {
	ns := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &rig{nodes: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), pods: cache.NewIndexer(cache.MetaNamespaceKeyFunc, ns),
		set: cfg, clock: testclock.NewFakeClock(time.Unix(0, 0))}
}

func (r *rig) fleet() *Fleet {
	return NewFleet(corelisters.NewNodeLister(r.nodes), corelisters.NewPodLister(r.pods), func() config.Config { return r.set }, r.clock)
}

type fataler interface{ Fatal(...any) }

func (r *rig) addNode(t fataler, n *cluster.Node) *v1.Node {
	text, err := device.EncodeInventory(n.Inventory)
	if err != nil {
		t.Fatal(err)
	}
	obj := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{kube.EnableLabel: "true"},
			Annotations: map[string]string{kube.InventoryAnnotation: text}},
		Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	_ = r.nodes.Add(obj)
	return obj
}

// addPod puts a pod that asks an amount of one resource on a node; a grant is
// its allocation, none makes it foreign.
func (r *rig) addPod(t fataler, node, name, res string, n int64, grants ...device.Grant) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceName(res): *resource.NewQuantity(n, resource.DecimalSI)}}}}}}
	if len(grants) > 0 {
		text, err := device.EncodeAllocation(&device.Allocation{UID: string(p.UID), Node: node, Containers: map[string][]device.Grant{"c": grants}})
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations = map[string]string{kube.AllocationAnnotation: text}
	}
	_ = r.pods.Add(p)
	return p
}

func share(node string, card int, core int64) device.Grant {
	return device.Grant{Card: coretest.UUID(node, card), Share: true, Core: &core}
}

func whole(node string, card int) device.Grant {
	return device.Grant{Card: coretest.UUID(node, card), Whole: true}
}

func TestMetricsOfAFleet(t *testing.T) {
	r := newRig()
	r.addNode(t, coretest.Node("a", cfg).Cards(4, coretest.H800).Sick(3, "xid-79").Obj())
	r.addNode(t, coretest.Node("b", cfg).MIG(1, coretest.A100x40).Cards(1, coretest.H800).Obj())
	down := r.addNode(t, coretest.Node("c", cfg).Cards(2, coretest.H800).Obj())
	down.Spec.Unschedulable = true
	blind := r.addNode(t, coretest.Node("d", cfg).Cards(1, coretest.H800).Obj())
	blind.Annotations[kube.InventoryAnnotation] = "?"
	off := r.addNode(t, coretest.Node("e", cfg).Cards(1, coretest.H800).Obj())
	delete(off.Labels, kube.EnableLabel)
	_ = r.nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu"}})
	r.addPod(t, "a", "w", config.NvidiaGPU, 1, whole("a", 0))
	r.addPod(t, "a", "s", cfg.GPUCore(), 30, share("a", 1, 30))
	r.addPod(t, "b", "alien", config.NvidiaGPU, 1)
	r.addPod(t, "e", "elsewhere", config.NvidiaGPU, 1) // not our node: no business of ours

	leads := true
	reg := NewRegistry(Sources{Version: "v1", Fleet: r.fleet(), Leading: func() bool { return leads },
		Gangs: func() map[string]int { return map[string]int{"waiting": 2, "bound": 0} }})
	want := `
# HELP lj_cards GPUs by model and what is done with them: free (can be taken whole), held (taken whole), shared (divided in time), cut (divided by MIG), unhealthy, closed (on nodes that take no pods). Each card is in one state.
# TYPE lj_cards gauge
lj_cards{model="NVIDIA A100-SXM4-40GB",state="closed"} 0
lj_cards{model="NVIDIA A100-SXM4-40GB",state="cut"} 1
lj_cards{model="NVIDIA A100-SXM4-40GB",state="free"} 0
lj_cards{model="NVIDIA A100-SXM4-40GB",state="held"} 0
lj_cards{model="NVIDIA A100-SXM4-40GB",state="shared"} 0
lj_cards{model="NVIDIA A100-SXM4-40GB",state="unhealthy"} 0
lj_cards{model="NVIDIA H800",state="closed"} 3
lj_cards{model="NVIDIA H800",state="cut"} 0
lj_cards{model="NVIDIA H800",state="free"} 1
lj_cards{model="NVIDIA H800",state="held"} 2
lj_cards{model="NVIDIA H800",state="shared"} 1
lj_cards{model="NVIDIA H800",state="unhealthy"} 1
# HELP lj_foreign_pods Pods that hold GPUs of enabled nodes without a readable allocation, because another scheduler placed them.
# TYPE lj_foreign_pods gauge
lj_foreign_pods 1
# HELP lj_gangs Groups of pods that start together, by state.
# TYPE lj_gangs gauge
lj_gangs{state="bound"} 0
lj_gangs{state="waiting"} 2
# HELP lj_nodes Nodes with GPUs: open (take pods), down (cordoned or not ready), unreadable (no readable inventory), disabled (not labelled).
# TYPE lj_nodes gauge
lj_nodes{state="disabled"} 1
lj_nodes{state="down"} 1
lj_nodes{state="open"} 2
lj_nodes{state="unreadable"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "lj_cards", "lj_foreign_pods", "lj_gangs", "lj_nodes"); err != nil {
		t.Error(err)
	}
	// 70 % of the shared card out of 170 % in all: what is free beside others.
	want = `
# HELP lj_fragmentation_ratio Share of the free compute, memory or MIG slices that is left over beside other holders (compute, memory) or that no instance can cover (mig); 0 where nothing is free.
# TYPE lj_fragmentation_ratio gauge
lj_fragmentation_ratio{model="NVIDIA A100-SXM4-40GB",of="compute"} 0
lj_fragmentation_ratio{model="NVIDIA A100-SXM4-40GB",of="memory"} 0
lj_fragmentation_ratio{model="NVIDIA A100-SXM4-40GB",of="mig"} 0
lj_fragmentation_ratio{model="NVIDIA H800",of="compute"} 0.4117647058823529
lj_fragmentation_ratio{model="NVIDIA H800",of="memory"} 0.5
lj_fragmentation_ratio{model="NVIDIA H800",of="mig"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "lj_fragmentation_ratio"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	leads = false
	if n, err := testutil.GatherAndCount(reg, "lj_cards", "lj_gangs"); n != 0 || err != nil {
		t.Errorf("a copy that waits for its turn shows %d series, %v: sums over the copies would be wrong", n, err)
	}
}

// What is counted by changes alone must be what a count from nothing finds.
func TestCountAfterChangesIsACountFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig()
		names := []string{"a", "b", "c"}
		for _, n := range names {
			r.addNode(t, coretest.Node(n, cfg).Cards(2, coretest.H800).MIG(1, coretest.A100x80).Obj())
		}
		f := r.fleet()
		for i := range rapid.IntRange(1, 12).Draw(t, "changes") {
			node := rapid.SampledFrom(names).Draw(t, "node")
			name := fmt.Sprint("p", rapid.IntRange(0, 4).Draw(t, "pod"))
			switch rapid.IntRange(0, 6).Draw(t, fmt.Sprint("change", i)) {
			case 0:
				r.addPod(t, node, name, config.NvidiaGPU, 1, whole(node, 0))
			case 1:
				r.addPod(t, node, name, cfg.GPUCore(), 40, share(node, 1, 40))
			case 2:
				r.addPod(t, node, name, config.NvidiaGPU, 1)
			case 3:
				_ = r.pods.Delete(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}})
			case 4:
				_ = r.nodes.Delete(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			case 5:
				obj := r.addNode(t, coretest.Node(node, cfg).Cards(3, coretest.H20).Obj())
				obj.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
			case 6:
				r.set.Unit = rapid.SampledFrom(config.Units()).Draw(t, "unit")
			}
			r.clock.Step(fresh)
			got, err := f.Count()
			if err != nil {
				t.Fatal(err)
			}
			want, err := r.fleet().Count()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-from nothing +by changes):\n%s", diff)
			}
		}
	})
}

func TestReadersAtOnceShareACount(t *testing.T) {
	r := newRig()
	f := r.fleet()
	first, _ := f.Count()
	r.addNode(t, coretest.Node("a", cfg).Cards(1, coretest.H800).Obj())
	if second, _ := f.Count(); second != first {
		t.Error("counted twice within a second")
	}
	r.clock.Step(fresh)
	if third, _ := f.Count(); third == first {
		t.Error("never counts again")
	}
}
