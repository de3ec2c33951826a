package offline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

var cfg = config.Default()

// gpuNode makes a node of n cards, the first cut of them in MIG mode.
func gpuNode(t testing.TB, name string, n, cut int) *v1.Node {
	t.Helper()
	inv := &device.Inventory{Unit: config.GiB, Cards: []device.Card{}}
	for i := range n {
		inv.Cards = append(inv.Cards, device.Card{UUID: fmt.Sprintf("GPU-%s-%d", name, i), Index: i, Model: "NVIDIA A100-SXM4-80GB",
			Vendor: device.NVIDIA, MemMiB: 81920, MIG: &device.MIGMode{Cur: i < cut, Pend: i < cut}})
	}
	text, err := device.EncodeInventory(inv)
	if err != nil {
		t.Fatal(err)
	}
	amounts := v1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	for res, v := range inv.Capacity(cfg) {
		amounts[v1.ResourceName(res)] = *resource.NewQuantity(v, resource.DecimalSI)
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kube.EnableLabel: "true", "kubernetes.io/hostname": name},
		Annotations: map[string]string{kube.InventoryAnnotation: text}}, Status: v1.NodeStatus{Allocatable: amounts, Capacity: amounts.DeepCopy()}}
}

// ask makes a pod; amounts are resource names and numbers in turn.
func ask(name, cpu string, limits map[string]int64) *v1.Pod {
	class := kube.RuntimeClass
	list := v1.ResourceList{}
	for res, v := range limits {
		list[v1.ResourceName(res)] = *resource.NewQuantity(v, resource.DecimalSI)
	}
	requests := list.DeepCopy()
	requests["cpu"] = resource.MustParse(cpu)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec: v1.PodSpec{SchedulerName: kube.SchedulerName, RuntimeClassName: &class,
			Containers: []v1.Container{{Name: "app", Resources: v1.ResourceRequirements{Limits: list, Requests: requests}}}}}
}

// bind puts a pod on a node with an allocation, as the API server would show
// it afterwards.
func bind(t testing.TB, pod *v1.Pod, node string, a *device.Allocation) *v1.Pod {
	t.Helper()
	p := pod.DeepCopy()
	p.Spec.NodeName, p.Status.Phase = node, v1.PodRunning
	if a != nil {
		text, err := device.EncodeAllocation(a)
		if err != nil {
			t.Fatal(err)
		}
		p.Annotations = map[string]string{kube.AllocationAnnotation: text}
	}
	return p
}

func engine(t testing.TB, s *kube.Snapshot) *Engine {
	t.Helper()
	e, err := New(context.Background(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func TestEveryFilterIsAskedOnEveryNode(t *testing.T) {
	n := gpuNode(t, "n1", 1, 0)
	n.Spec.Unschedulable = true
	n.Spec.Taints = []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
	e := engine(t, &kube.Snapshot{Nodes: []*v1.Node{n, gpuNode(t, "n0", 4, 0)}})
	res, err := e.Check(context.Background(), ask("p", "100", map[string]int64{cfg.GPU(): 2}))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, nr := range res.PerNode {
		row := []string{nr.Name}
		for _, c := range nr.Failed {
			row = append(row, c.Name)
		}
		got = append(got, row)
	}
	want := [][]string{{"n0", sched.FitName}, {"n1", "NodeUnschedulable", "TaintToleration", sched.Name, sched.FitName}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	short := []Shortage{{Resource: "cpu", Want: 100_000, Free: 64_000, Total: 64_000}}
	if diff := cmp.Diff(short, res.PerNode[0].Failed[0].Short); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIfOnOneNode(t *testing.T) {
	holder := ask("holder", "1", map[string]int64{cfg.GPU(): 1})
	bound := bind(t, holder, "n1", &device.Allocation{UID: string(holder.UID), Node: "n1", Containers: map[string][]device.Grant{"app": {{Card: "GPU-n1-0", Whole: true}}}})
	e := engine(t, &kube.Snapshot{Nodes: []*v1.Node{gpuNode(t, "n1", 1, 0)}, Pods: []*v1.Pod{bound}})
	p := ask("p", "1", map[string]int64{cfg.GPU(): 1})
	for _, c := range []struct {
		about string
		gone  map[types.UID]bool
		fits  bool
	}{{"as it is", nil, false}, {"without the holder", map[types.UID]bool{holder.UID: true}, true}, {"as it is, afterwards", nil, false}} {
		res, err := e.CheckNode(context.Background(), p, "n1", Change{Gone: c.gone})
		if err != nil {
			t.Fatal(err)
		}
		if res.Fits() != c.fits {
			t.Errorf("%s: fits %v, want %v: %+v", c.about, res.Fits(), c.fits, res.Failed)
		}
	}
	if _, err := e.CheckNode(context.Background(), p, "nowhere", Change{}); !errors.Is(err, errNoNode) {
		t.Errorf("a node that is not there: %v", err)
	}
}

func TestAssumedPodsCountUntilForgotten(t *testing.T) {
	ctx := context.Background()
	e := engine(t, &kube.Snapshot{Nodes: []*v1.Node{gpuNode(t, "n1", 2, 0), gpuNode(t, "n2", 2, 0)}})
	pods := []*v1.Pod{ask("a", "1", map[string]int64{cfg.GPU(): 2}), ask("b", "1", map[string]int64{cfg.GPU(): 2})}
	seen := map[string]bool{}
	for _, p := range pods {
		node, alloc, err := e.Assume(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if seen[node] || len(alloc.Containers["app"]) != 2 {
			t.Errorf("%s got %s %+v", p.Name, node, alloc)
		}
		seen[node] = true
	}
	var full *framework.FitError
	third := ask("c", "1", map[string]int64{cfg.GPU(): 1})
	if _, _, err := e.Schedule(ctx, third); !errors.As(err, &full) {
		t.Fatalf("a third pod: %v", err)
	}
	for range pods {
		if err := e.Forget(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := e.Schedule(ctx, third); err != nil {
		t.Fatal(err)
	}
	if err := e.Forget(ctx); !errors.Is(err, errNothingAssumed) {
		t.Errorf("forget without assume: %v", err)
	}
}

// drawn is a random cluster, filled through the engine itself.
func drawn(t *rapid.T, tb testing.TB) *kube.Snapshot {
	s := &kube.Snapshot{}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := gpuNode(tb, fmt.Sprintf("n%d", i), rapid.IntRange(1, 4).Draw(t, "cards"), rapid.IntRange(0, 2).Draw(t, "cut"))
		switch rapid.IntRange(0, 9).Draw(t, "quirk") {
		case 0:
			n.Spec.Unschedulable = true
		case 1:
			n.Spec.Taints = []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
		case 2:
			n.Labels[kube.EnableLabel] = "yes"
		case 3:
			delete(n.Annotations, kube.InventoryAnnotation)
		case 4:
			n.Status.Allocatable[v1.ResourceName(cfg.GPU())] = resource.MustParse("0")
		}
		s.Nodes = append(s.Nodes, n)
	}
	e, err := New(context.Background(), s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
		pod := drawnPod(t, fmt.Sprintf("p%d", i))
		node, alloc, err := e.Assume(context.Background(), pod)
		if err != nil {
			continue
		}
		s.Pods = append(s.Pods, bind(tb, pod, node, alloc))
	}
	return s
}

func drawnPod(t *rapid.T, name string) *v1.Pod {
	limits := map[string]int64{}
	switch rapid.IntRange(0, 3).Draw(t, "mode") {
	case 0:
		limits[cfg.GPU()] = rapid.Int64Range(1, 4).Draw(t, "whole")
	case 1:
		limits[config.NvidiaGPU] = rapid.Int64Range(1, 2).Draw(t, "nvidia")
	case 2:
		limits[cfg.GPUCore()] = rapid.Int64Range(1, 100).Draw(t, "core")
		limits[cfg.GPUMemory()] = rapid.Int64Range(1, 90).Draw(t, "mem")
	case 3:
		limits[cfg.GPUSlice()] = rapid.SampledFrom([]int64{1, 2, 3, 4, 7}).Draw(t, "slice")
		limits[cfg.GPUMemory()] = rapid.Int64Range(1, 40).Draw(t, "mem")
	}
	pod := ask(name, rapid.SampledFrom([]string{"1", "16", "70"}).Draw(t, "cpu"), limits)
	if rapid.IntRange(0, 3).Draw(t, "replica") == 0 {
		pod.Labels[kube.ReplicaLabel] = "2"
	}
	return pod
}

// The engine, the placement core and the causes that people are told agree on
// every node, and the engine schedules exactly onto a node that fits.
func TestEngineCoreAndCausesAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawn(rt, t)
		pod := drawnPod(rt, "asked")
		e, err := New(context.Background(), s, cfg)
		if err != nil {
			rt.Fatal(err)
		}
		defer e.Close()
		res, err := e.Check(context.Background(), pod)
		if err != nil {
			rt.Fatal(err)
		}
		req, bad := kube.RequestOf(pod, cfg)
		if len(bad) > 0 {
			rt.Fatal(bad)
		}
		cards := map[string]*cluster.Node{}
		for _, n := range s.Cluster(cfg) {
			cards[n.Name] = n
		}
		fits := map[string]bool{}
		for _, nr := range res.PerNode {
			refused := false
			for _, c := range nr.Failed {
				refused = refused || c.Name == sched.Name
			}
			core := place.NewView(cards[nr.Name], cfg).Check(req)
			causes := explain.CardCauses(cards[nr.Name], req, cfg)
			if refused != (len(core) > 0) || refused != (len(causes) > 0) {
				rt.Fatalf("node %s: filter refuses %v, core %v, causes %v", nr.Name, refused, core, causes)
			}
			if nr.Fits() {
				fits[nr.Name] = true
			}
		}
		schedules(rt, e, pod, fits)
		shuffled(rt, s, pod)
	})
}

func schedules(t *rapid.T, e *Engine, pod *v1.Pod, fits map[string]bool) {
	node, alloc, err := e.Schedule(context.Background(), pod)
	var no *framework.FitError
	switch {
	case err != nil && !errors.As(err, &no):
		t.Fatal(err)
	case (err == nil) != (len(fits) > 0):
		t.Fatalf("schedule: %v, nodes that fit: %v", err, fits)
	case err == nil && (!fits[node] || alloc == nil || alloc.Node != node || alloc.UID != string(pod.UID)):
		t.Fatalf("scheduled to %s with %+v, nodes that fit: %v", node, alloc, fits)
	}
}

// shuffled: the order of the lists changes nothing.
func shuffled(t *rapid.T, s *kube.Snapshot, pod *v1.Pod) {
	other := *s
	other.Nodes, other.Pods = append([]*v1.Node(nil), s.Nodes...), append([]*v1.Pod(nil), s.Pods...)
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	r.Shuffle(len(other.Nodes), func(i, j int) { other.Nodes[i], other.Nodes[j] = other.Nodes[j], other.Nodes[i] })
	r.Shuffle(len(other.Pods), func(i, j int) { other.Pods[i], other.Pods[j] = other.Pods[j], other.Pods[i] })
	var answers [2]string
	for i, x := range []*kube.Snapshot{s, &other} {
		e, err := New(context.Background(), x, cfg)
		if err != nil {
			t.Fatal(err)
		}
		node, alloc, err := e.Schedule(context.Background(), pod)
		answers[i] = fmt.Sprintf("%s %+v %v", node, alloc, err)
		if alloc != nil {
			answers[i] = fmt.Sprint(node, cardsOf(alloc))
		}
		e.Close()
	}
	if answers[0] != answers[1] {
		t.Fatalf("shuffled: %s, before: %s", answers[1], answers[0])
	}
}

func cardsOf(a *device.Allocation) []string {
	var out []string
	for _, name := range a.Names() {
		for _, g := range a.Containers[name] {
			text := name + "=" + g.Card + g.MIG
			if g.Start != nil {
				text += fmt.Sprint("@", *g.Start)
			}
			out = append(out, text)
		}
	}
	return out
}
