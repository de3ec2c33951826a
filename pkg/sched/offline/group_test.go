package offline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/kube"
)

// at puts a node into the network.
func at(n *v1.Node, p gang.Place) *v1.Node {
	for key, name := range map[string]string{cfg.Topology.NetworkPod: p.NetworkPod, cfg.Topology.Leaf: p.Leaf, cfg.Topology.HyperNode: p.HyperNode} {
		if name != "" {
			n.Labels[key] = name
		}
	}
	return n
}

// network is nodes of cards cards in pods network-pods of leaves leaves.
func network(t testing.TB, pods, leaves, perLeaf, cards int) []*v1.Node {
	var out []*v1.Node
	for p := range pods {
		for l := range leaves {
			for n := range perLeaf {
				name := fmt.Sprintf("n-%d-%d-%d", p, l, n)
				out = append(out, at(gpuNode(t, name, cards, 0), gang.Place{NetworkPod: fmt.Sprintf("np-%d", p), Leaf: fmt.Sprintf("leaf-%d-%d", p, l)}))
			}
		}
	}
	return out
}

// member makes a pod one of a JobSet's group.
func member(p *v1.Pod, set string, size int) *v1.Pod {
	p.Labels[cfg.MinMemberLabel()] = fmt.Sprint(size)
	p.Labels[kube.JobSetNameLabel], p.Labels[kube.JobSetUIDLabel] = set, "uid-of-"+set
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: set + "-w-0", UID: types.UID("job-" + set)}}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	return p
}

func group(set string, n, size int, limits map[string]int64) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		out = append(out, member(ask(fmt.Sprintf("%s-%03d", set, i), "1", limits), set, size))
	}
	return out
}

func gpus(n int64) map[string]int64 { return map[string]int64{cfg.GPU(): n} }

// answer is a result in short.
func answer(t testing.TB, e *Engine, pods []*v1.Pod) string {
	t.Helper()
	r, err := e.ScheduleGroup(context.Background(), pods)
	if err != nil {
		t.Fatal(err)
	}
	if r.Placed == 0 {
		if r.Short != nil {
			return fmt.Sprintf("%s %d/%d %s", r.Short.Code, r.Short.Free, r.Short.Want, r.Short.Device)
		}
		return r.Why
	}
	return fmt.Sprintf("%d on %s", r.Placed, r.Spot)
}

func TestGroupGoesToTheNearestPartThatHoldsIt(t *testing.T) {
	e := engine(t, &kube.Snapshot{Nodes: network(t, 2, 2, 2, 8)})
	for _, c := range []struct {
		pods []*v1.Pod
		want string
	}{
		{group("a", 8, 8, gpus(1)), "8 on node n-0-0-0 of leaf leaf-0-0 of network-pod np-0"},
		{group("b", 4, 4, gpus(4)), "4 on leaf leaf-0-0 of network-pod np-0"},
		{group("c", 3, 3, gpus(8)), "3 on network-pod np-0"},
		{group("d", 5, 5, gpus(8)), "gang-above-network-pod 4/5 np-0"},
		{group("e", 9, 9, gpus(8)), "gang-short 4/9 "},
		{group("f", 2, 3, gpus(1)), "waiting for minCount pods from a gang to appear in scheduling queue"},
	} {
		if got := answer(t, e, c.pods); got != c.want {
			t.Errorf("%s: %s, want %s", c.pods[0].Name, got, c.want)
		}
	}
}

func TestAssumedGroupIsCountedInUntilForgotten(t *testing.T) {
	ctx := context.Background()
	e := engine(t, &kube.Snapshot{Nodes: network(t, 1, 2, 2, 8)})
	before := answer(t, e, group("b", 2, 2, gpus(8)))
	r, err := e.AssumeGroup(ctx, group("a", 3, 3, gpus(8)))
	if err != nil || r.Placed != 3 {
		t.Fatal(r, err)
	}
	if got, want := answer(t, e, group("b", 2, 2, gpus(8))), "gang-short 1/2 "; got != want {
		t.Errorf("beside the first: %s, want %s", got, want)
	}
	if got, want := answer(t, e, group("a", 1, 3, gpus(8))), "1 on network-pod np-0"; got != want {
		// All three have nodes, so one more needs no others.
		t.Errorf("one more of the first: %s, want %s", got, want)
	}
	if err := e.Forget(ctx); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, e, group("b", 2, 2, gpus(8))); got != before {
		t.Errorf("afterwards: %s, before: %s", got, before)
	}
	if got, want := answer(t, e, group("a", 1, 3, gpus(8))), "waiting for minCount pods from a gang to appear in scheduling queue"; got != want {
		t.Errorf("one of the forgotten: %s, want %s", got, want)
	}
}

func TestGroupsOfTheSnapshot(t *testing.T) {
	nodes := network(t, 2, 1, 4, 8)
	set := group("a", 4, 4, gpus(8))
	alloc := func(p *v1.Pod, node string) *v1.Pod {
		a := &device.Allocation{UID: string(p.UID), Node: node, Containers: map[string][]device.Grant{"app": {}}}
		for i := range 8 {
			a.Containers["app"] = append(a.Containers["app"], device.Grant{Card: fmt.Sprintf("GPU-%s-%d", node, i), Whole: true})
		}
		return bind(t, p, node, a)
	}
	half := &kube.Snapshot{Nodes: nodes, Pods: []*v1.Pod{alloc(set[0], "n-1-0-0"), alloc(set[1], "n-1-0-1"), set[2], set[3]}}
	e := engine(t, half)
	if got, want := answer(t, e, set[2:]), "2 on leaf leaf-1-0 of network-pod np-1"; got != want {
		t.Errorf("the other half: %s, want %s", got, want)
	}
	if g, pods, ok := e.Group(set[2]); !ok || g.Bound != 2 || g.Members != 4 || len(pods) != 4 {
		t.Errorf("group %+v of %d pods", g, len(pods))
	}
	if set[2].Spec.SchedulingGroup != nil {
		t.Error("a pod of the snapshot was changed")
	}
	if _, err := e.ScheduleGroup(context.Background(), half.Pods); err == nil {
		t.Error("bound pods were taken for waiting ones")
	}

	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-w-0", UID: "job-a", Labels: map[string]string{kube.JobSetNameLabel: "a", kube.JobSetUIDLabel: "uid-of-a"}}}
	job.Spec.Template.Labels = map[string]string{cfg.MinMemberLabel(): "4"}
	job.Status.Succeeded = 3
	ended := engine(t, &kube.Snapshot{Nodes: nodes, Pods: set[:1], Jobs: []*batchv1.Job{job}})
	if got, want := answer(t, ended, set[:1]), "1 on node n-0-0-0 of leaf leaf-0-0 of network-pod np-0"; got != want {
		t.Errorf("the last of four of which three have ended: %s, want %s", got, want)
	}
}

func TestPodsWithTheSameUIDBothHold(t *testing.T) {
	one, two := ask("one", "1", gpus(1)), ask("two", "1", gpus(1))
	one.UID, two.UID = "same", "same"
	none := ask("none", "1", gpus(1))
	none.UID = ""
	n := gpuNode(t, "n1", 3, 0)
	e := engine(t, &kube.Snapshot{Nodes: []*v1.Node{n}, Pods: []*v1.Pod{bind(t, one, "n1", nil), bind(t, two, "n1", nil), bind(t, none, "n1", nil)}})
	if _, _, err := e.Schedule(context.Background(), ask("p", "1", gpus(1))); err == nil {
		t.Error("a card that is held was given away")
	}
}

// drawNetwork is a random cluster in a random network.
func drawNetwork(t testing.TB, r *rand.Rand) []*v1.Node {
	var out []*v1.Node
	labelled := r.IntN(8) > 0
	for p := range 1 + r.IntN(3) {
		for l := range 1 + r.IntN(3) {
			for i := range 1 + r.IntN(3) {
				name := fmt.Sprintf("n-%d-%d-%d", p, l, i)
				n := gpuNode(t, name, 2+r.IntN(7), r.IntN(3)*r.IntN(2))
				where := gang.Place{NetworkPod: fmt.Sprintf("np-%d", p)}
				if r.IntN(6) > 0 {
					where.Leaf = fmt.Sprintf("leaf-%d", l)
				}
				if r.IntN(3) == 0 {
					where.HyperNode = fmt.Sprintf("h-%d", i/2)
				}
				if labelled && r.IntN(12) > 0 {
					at(n, where)
				}
				switch r.IntN(14) {
				case 0:
					n.Spec.Unschedulable = true
				case 1:
					n.Spec.Taints = []v1.Taint{{Key: "a", Effect: v1.TaintEffectNoSchedule}}
				case 2:
					n.Labels["zone"] = "b"
				}
				out = append(out, n)
			}
		}
	}
	return out
}

// drawEntity is a single pod or a group.
func drawEntity(r *rand.Rand, name string) []*v1.Pod {
	limits := []map[string]int64{gpus(1), gpus(2), gpus(4), gpus(8), {cfg.GPUCore(): 40, cfg.GPUMemory(): 20}, {cfg.GPUSlice(): 2, cfg.GPUMemory(): 10}, {config.NvidiaGPU: 3}}
	draw := func() map[string]int64 { return limits[r.IntN(len(limits))] }
	n := 1
	if r.IntN(3) > 0 {
		n = 2 + r.IntN(7)
	}
	amounts, mixed, affinity := draw(), r.IntN(4) == 0, r.IntN(6)
	var out []*v1.Pod
	for i := range n {
		if mixed {
			amounts = draw()
		}
		p := ask(fmt.Sprintf("%s-%03d", name, i), []string{"1", "16", "40"}[r.IntN(3)*r.IntN(2)], amounts)
		if n > 1 {
			member(p, name, n)
		}
		switch affinity {
		case 0:
			p.Spec.Tolerations = []v1.Toleration{{Key: "a", Operator: v1.TolerationOpExists}}
		case 1: // not two of it on a node: no plan sees that
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: "kubernetes.io/hostname"}}}}
			p.Labels["of"] = name
		}
		if n == 1 && affinity > 3 { // keeps others off its node, which no plan of theirs sees
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"unloved": "yes"}}, TopologyKey: "kubernetes.io/hostname"}}}}
		}
		if affinity == 2 || affinity == 3 {
			p.Labels["unloved"] = "yes"
		}
		out = append(out, p)
	}
	return out
}

func isGroup(pods []*v1.Pod) bool { return pods[0].Labels[cfg.MinMemberLabel()] != "" }

// drawPast is a random cluster with pods on it, and groups of which some
// members run or have ended already and these wait.
func drawPast(t testing.TB, r *rand.Rand) (s *kube.Snapshot, open [][]*v1.Pod) {
	s = &kube.Snapshot{Nodes: drawNetwork(t, r)}
	if r.IntN(4) == 0 {
		s.HyperNodes = drawHyperNodes(r, s.Nodes)
	}
	e := engine(t, s)
	for i := range 4 {
		pods := drawEntity(r, fmt.Sprintf("old%d", i))
		run := len(pods)
		if len(pods) > 2 && r.IntN(2) == 0 {
			run = r.IntN(len(pods) - 1)
		}
		kept := 0
		for _, p := range pods[:run] {
			node, alloc, err := e.Assume(context.Background(), p)
			if err != nil {
				break
			}
			s.Pods = append(s.Pods, bind(t, p, node, alloc))
			kept++
		}
		if !isGroup(pods) || kept == len(pods) {
			continue
		}
		rest := pods[kept:]
		if n := r.IntN(len(rest)); n > 0 && r.IntN(2) == 0 {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("old%d-w-0", i), UID: pods[0].OwnerReferences[0].UID, Labels: pods[0].Labels}}
			job.Spec.Template.Labels, job.Status.Succeeded = pods[0].Labels, int32(n)
			s.Jobs, rest = append(s.Jobs, job), rest[n:]
		}
		open = append(open, rest)
	}
	return s, open
}

// drawHyperNodes puts the nodes into two tiers of HyperNodes.
func drawHyperNodes(r *rand.Rand, nodes []*v1.Node) []*unstructured.Unstructured {
	below, tops := map[string][]any{}, map[string][]any{}
	member := func(kind, name string) any {
		return map[string]any{"type": kind, "selector": map[string]any{"exactMatch": map[string]any{"name": name}}}
	}
	for _, n := range nodes {
		h := fmt.Sprintf("hyper-%d", r.IntN(4))
		below[h] = append(below[h], member("Node", n.Name))
	}
	for h := range below {
		top := "top-" + h[len(h)-1:]
		if top > "top-1" {
			top = "top-2"
		}
		tops[top] = append(tops[top], member("HyperNode", h))
	}
	var out []*unstructured.Unstructured
	for tier, list := range []map[string][]any{below, tops} {
		for name, members := range list {
			out = append(out, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
				"metadata": map[string]any{"name": name}, "spec": map[string]any{"tier": int64(tier + 1), "members": members}}})
		}
	}
	return out
}

// dealt is what pods got, by name.
func dealt(t testing.TB, pods []*v1.Pod) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range pods {
		a, why := kube.AllocationOf(p)
		if a == nil {
			t.Fatalf("pod %s: %s", p.Name, why)
		}
		out[p.Name] = dealtOne(p.Spec.NodeName, a)
	}
	return out
}

func dealtOne(node string, a *device.Allocation) string {
	mark := ""
	if a.Gang != nil {
		mark = fmt.Sprint(*a.Gang)
	}
	return fmt.Sprint(node, cardsOf(a), mark)
}

// The engine on a snapshot does what the scheduler in a cluster does, one
// entity after the other; and a sequence of assumptions is the same as
// snapshots in between.
func TestOfflineIsLive(t *testing.T) {
	seeds := 25
	if n, err := strconv.Atoi(os.Getenv("LJ_SEEDS")); err == nil {
		seeds = n
	}
	placed, refused := 0, 0
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s, open := drawPast(t, r)
			l := newLive(t, s)
			chain, err := New(context.Background(), s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer chain.Close()
			inStep := true
			for i := range 8 {
				pods := drawEntity(r, fmt.Sprintf("e%d", i))
				if i < len(open) {
					pods = open[i]
				}
				got := compare(t, l, s, pods)
				if got == nil {
					refused++
				} else {
					placed++
				}
				if inStep {
					inStep = follow(t, chain, pods, got)
				}
				next := *s
				next.Pods = append(slices.Clone(s.Pods), got...)
				s = &next
			}
		})
	}
	t.Logf("%d entities placed, %d refused", placed, refused)
}

// compare asks both about one entity and returns the pods that the live
// scheduler has bound.
func compare(t *testing.T, l *live, s *kube.Snapshot, pods []*v1.Pod) []*v1.Pod {
	t.Helper()
	e := engine(t, s)
	ctx := context.Background()
	if !isGroup(pods) {
		node, alloc, err := e.Schedule(ctx, pods[0])
		ties := e.ties(t, pods[0])
		got := l.ask(pods)
		switch {
		case (err == nil) != (got != nil):
			t.Fatalf("%s: live %v, offline %s %v", pods[0].Name, got, node, err)
		case got == nil:
		case !slices.Contains(ties, got[0].Spec.NodeName):
			t.Fatalf("%s: live on %s, offline best are %v", pods[0].Name, got[0].Spec.NodeName, ties)
		case got[0].Spec.NodeName == node:
			if diff := cmp.Diff(dealt(t, got)[pods[0].Name], dealtOne(node, alloc)); diff != "" {
				t.Fatalf("%s: live -, offline +\n%s", pods[0].Name, diff)
			}
		}
		return got
	}
	res, err := e.ScheduleGroup(ctx, pods)
	if err != nil {
		t.Fatal(err)
	}
	got := l.ask(pods)
	if notes := l.notes(pods[0]); res.Short != nil && !slices.Contains(notes, res.Why) {
		t.Fatalf("group %s: offline says %q, live %q", pods[0].Name, res.Why, notes)
	}
	if (res.Placed > 0) != (got != nil) {
		t.Fatalf("group %s of %d: live %d bound, offline %d placed: %s\nlive: %q", pods[0].Name, len(pods), len(got), res.Placed, res.Why, l.notes(pods[0]))
	}
	if got == nil || dice(pods) {
		return got
	}
	offline := map[string]string{}
	for _, m := range res.Members {
		offline[m.Pod.Name] = dealtOne(m.Node, m.Allocation)
	}
	if diff := cmp.Diff(dealt(t, got), offline); diff != "" {
		t.Fatalf("group %s: live -, offline +\n%s", pods[0].Name, diff)
	}
	return got
}

// follow has one engine assume what the live scheduler has done, twice with a
// change of mind in between, and tells whether it did the same. It may differ
// only by the dice of the live one.
func follow(t *testing.T, e *Engine, pods, got []*v1.Pod) bool {
	t.Helper()
	first := assume(t, e, pods)
	if len(first) > 0 {
		if err := e.Forget(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	second := assume(t, e, pods)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("%s: first -, after a change of mind +\n%s", pods[0].Name, diff)
	}
	want := dealt(t, got)
	if (len(got) == 0) != (len(second) == 0) {
		t.Fatalf("%s: live %v, in sequence %v", pods[0].Name, want, second)
	}
	same := cmp.Equal(want, second)
	if !same && !dice(pods) {
		t.Fatalf("%s: live -, in sequence +\n%s", pods[0].Name, cmp.Diff(want, second))
	}
	return same
}

// dice tells whether the live scheduler may choose among equal nodes: for pods
// alone, and for groups whose plan may fail or that have none.
func dice(pods []*v1.Pod) bool {
	return !isGroup(pods) || pods[0].Spec.Affinity != nil || pods[0].Labels["unloved"] != ""
}

func assume(t *testing.T, e *Engine, pods []*v1.Pod) map[string]string {
	t.Helper()
	ctx, out := context.Background(), map[string]string{}
	if !isGroup(pods) {
		if node, alloc, err := e.Assume(ctx, pods[0]); err == nil {
			out[pods[0].Name] = dealtOne(node, alloc)
		}
		return out
	}
	res, err := e.AssumeGroup(ctx, pods)
	if err != nil {
		t.Fatal(err)
	}
	if res.Placed > 0 {
		for _, m := range res.Members {
			out[m.Pod.Name] = dealtOne(m.Node, m.Allocation)
		}
	}
	return out
}

// ties are the nodes that are best for the pod.
func (e *Engine) ties(t *testing.T, pod *v1.Pod) []string {
	t.Helper()
	ctx, cs := context.Background(), framework.NewCycleState()
	fit, _, err := e.feasible(ctx, cs, fresh(pod), e.nodes)
	if err != nil || len(fit) == 0 {
		return nil
	}
	scores, err := e.scores(ctx, cs, fresh(pod), fit)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var best int64
	for _, s := range scores {
		if s.TotalScore > best {
			out, best = nil, s.TotalScore
		}
		if s.TotalScore == best {
			out = append(out, s.Name)
		}
	}
	return out
}
