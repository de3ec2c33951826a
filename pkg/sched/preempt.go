package sched

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// PreemptionName is the name of the plugin Preemption.
const PreemptionName = "LJPreemption"

// Preemption is the in-tree DefaultPreemption that knows cards. In-tree, all
// pods of lower priority are taken off a node and put back one by one as long
// as the preemptor still fits, the most important first: of one old pod with a
// card and four young ones that share another, the four would go. Here the
// core chooses whom to evict for the cards (place.View.Evict), and the in-tree
// way, with every filter, puts those back last. What cards do not decide goes
// as it does in-tree.
type Preemption struct {
	*defaultpreemption.DefaultPreemption
	state  *State
	handle fwk.Handle
}

var (
	_ fwk.PostFilterPlugin         = &Preemption{}
	_ fwk.PreEnqueuePlugin         = &Preemption{}
	_ fwk.EnqueueExtensions        = &Preemption{}
	_ fwk.PodGroupPostFilterPlugin = &Preemption{}
	_ preemption.Interface         = &Preemption{}
)

func newPreemption(ctx context.Context, state *State, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	in, err := defaultpreemption.New(ctx, args, h, features)
	if err != nil {
		return nil, err
	}
	p := &Preemption{DefaultPreemption: in, state: state, handle: h}
	in.Evaluator = preemption.NewEvaluator(PreemptionName, h, p, in.Executor)
	in.Executor.PreemptPod = p.wakeAfter(in.Executor.PreemptPod)
	return p, nil
}

// evicts is how the engine evicts one pod. It returns true where no event of a
// deletion will follow, upon which the engine wakes the preemptor itself.
type evicts = func(context.Context, preemption.Candidate, preemption.ExecutorPreemptor, *v1.Pod, string) (bool, error)

// wakeAfter says so, too, of a victim that is gone already. The engine does
// not: a preemptor that was refused because of a pod whose deletion came in
// just then waited for minutes.
func (p *Preemption) wakeAfter(evict evicts) evicts {
	pods := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	return func(ctx context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *v1.Pod, plugin string) (bool, error) {
		silent, err := evict(ctx, c, by, victim, plugin)
		if _, missing := pods.Pods(victim.Namespace).Get(victim.Name); err == nil && missing != nil {
			silent = true
		}
		return silent, err
	}
}

// Name implements fwk.Plugin.
func (p *Preemption) Name() string { return PreemptionName }

// devices is the plugin of the same framework that gives cards.
func (p *Preemption) devices() *Plugin {
	for _, d := range p.state.users() {
		if d.handle == p.handle {
			return d
		}
	}
	return nil
}

// maxCandidates is on how many nodes an eviction is tried out with all filters.
// The engine tries a tenth of the nodes, from one at random on; the core tells
// for all nodes what they cost, and only the cheapest are tried.
const maxCandidates = 32

// PostFilter looks for a node on which the pod fits once others are evicted.
func (p *Preemption) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if ok, _ := p.PodEligibleToPreemptOthers(ctx, pod, m.Get(pod.Status.NominatedNodeName)); !ok {
		return p.DefaultPreemption.PostFilter(ctx, cs, pod, m) // which says why
	}
	best, all, ok := p.survey(ctx, cs, pod, m)
	if !ok {
		return p.DefaultPreemption.PostFilter(ctx, cs, pod, m)
	}
	if len(best) > 0 {
		if r, s := p.DefaultPreemption.PostFilter(ctx, cs, pod, &shortlist{m, best}); s.IsSuccess() {
			return r, s
		}
	}
	return p.DefaultPreemption.PostFilter(ctx, cs, pod, &shortlist{m, all})
}

// shortlist shows some of the nodes to preemption.
type shortlist struct {
	fwk.NodeToStatusReader
	nodes []fwk.NodeInfo
}

// NodesForStatusCode implements fwk.NodeToStatusReader.
func (s *shortlist) NodesForStatusCode(fwk.NodeInfoLister, fwk.Code) ([]fwk.NodeInfo, error) {
	return s.nodes, nil
}

// survey prices the nodes by their cards. best are the cheapest of those on
// which somebody must go, all are those where evictions can give the cards. ok
// is false if there are so few that all may be tried, or if cards do not decide.
func (p *Preemption) survey(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (best, all []fwk.NodeInfo, ok bool) {
	c := cycleOf(cs)
	nodes, err := m.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if c == nil || err != nil || len(nodes) <= maxCandidates {
		return nil, nil, false
	}
	pdbs, err := p.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil, nil, false
	}
	budgets, group := budgetsOf(pdbs), groupOf(pod)
	costs, able := make([]*cost, len(nodes)), make([]bool, len(nodes))
	p.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		if !p.state.frees(nodes[i], v1helper.PodPriority(pod)) && p.state.check(c, nodes[i]) != nil {
			return
		}
		units, err := p.Evaluator.GetVictimsOnNode(ctx, nodes[i])
		if err != nil {
			return
		}
		node := nodes[i].Node().Name
		l := p.lineUp(units, node, v1helper.PodPriority(pod), budgets)
		var chosen []int
		if chosen, able[i] = p.evict(c, nodes[i], 1, l, pod, group); able[i] && len(chosen) > 0 {
			costs[i] = l.cost(chosen, node)
		}
	}, PreemptionName)
	at := map[string]fwk.NodeInfo{}
	for i, ni := range nodes {
		at[ni.Node().Name] = ni
		if able[i] {
			all = append(all, ni)
		}
	}
	costs = slices.DeleteFunc(costs, func(k *cost) bool { return k == nil })
	slices.SortFunc(costs, (*cost).compare)
	for _, k := range costs[:min(len(costs), maxCandidates)] {
		best = append(best, at[k.node])
	}
	return best, all, true
}

// evict chooses whom of the line to evict so that n pods like this one have
// cards on the node, beside those to whom the node was promised and who are
// not of the group.
func (p *Preemption) evict(c *cycle, ni fwk.NodeInfo, n int, l *line, pod *v1.Pod, group types.NamespacedName) ([]int, bool) {
	promised := slices.DeleteFunc(p.devices().promised(pod, ni.Node().Name, group), func(o *v1.Pod) bool { return o.UID == pod.UID })
	return p.state.evict(c, ni, n, l, promised)
}

// groupOf is the group of ours to which the pod belongs, empty for others.
func groupOf(pod *v1.Pod) types.NamespacedName {
	key, _ := keyOf(pod)
	return key
}

// SelectVictimsOnNode implements preemption.Interface: whom to evict on one
// node.
func (p *Preemption) SelectVictimsOnNode(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, ni fwk.NodeInfo, units []*preemption.DomainVictim,
	pdbs []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	c := cycleOf(cs)
	if c == nil {
		return p.DefaultPreemption.SelectVictimsOnNode(ctx, cs, pod, ni, units, pdbs)
	}
	l := p.lineUp(units, ni.Node().Name, v1helper.PodPriority(pod), budgetsOf(pdbs))
	chosen, ok := p.evict(c, ni, 1, l, pod, groupOf(pod))
	if !ok {
		return p.DefaultPreemption.SelectVictimsOnNode(ctx, cs, pod, ni, units, pdbs)
	}
	rank := l.ranks(chosen, pdbs)
	in := *p.DefaultPreemption
	in.MoreImportantVictim = func(a, b preemption.Victim) bool { return rank[a] < rank[b] }
	// The budgets are in the ranks: in-tree, they would put back some of the
	// chosen first.
	pods, _, status := in.SelectVictimsOnNode(ctx, cs, pod, ni, units, nil)
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return -cmp.Compare(v1helper.PodPriority(a), v1helper.PodPriority(b)) })
	return pods, l.violations(pods), status
}

// OrderedScoreFuncs implements preemption.Interface. The order is the in-tree
// one, with groups spared where all else is equal, and no dice at its end.
func (p *Preemption) OrderedScoreFuncs(_ context.Context, victims map[string]*extenderv1.Victims) []func(string) int64 {
	now := p.devices().clock.Now()
	var costs []*cost
	for node, v := range victims {
		costs = append(costs, costOf(node, v, now))
	}
	slices.SortFunc(costs, (*cost).compare)
	rank := map[string]int64{}
	for i, k := range costs {
		rank[k.node] = int64(i)
	}
	return []func(string) int64{func(node string) int64 { return -rank[node] }}
}
