package sched

import (
	"cmp"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/place"
)

// The engine looks at a sample of the nodes in large clusters (10 % of 5,000)
// and scores only those. For cards that packs badly: a half-used node outside
// the sample stays half used. The plugin knows what every node answers to a
// class of requests, so it picks the best of all nodes itself; only they pass
// through the other filters and scores.

// indexes are the answers of all nodes by class.
type indexes struct {
	mu      sync.Mutex
	byClass map[*class]*index
}

// maxIndexes bounds the memory: 36 bytes for each node and class.
const maxIndexes = 64

// index is what each node answered to a class when it was last different.
//
// It goes by NodeInfo's generation, which is right outside pod-group cycles
// only (see view), so it is not used in those. It may be out of date for a
// moment; Filter asks each node again.
type index struct {
	set   *settings
	nodes []fwk.NodeInfo
	gens  []int64
	ranks []int64 // -1: does not fit
	order []int32 // positions in nodes, by name
}

// narrow returns the best nodes for the pod's cards, nil for all nodes: if
// narrowing is off, if the pod was refused by its best nodes before, or if
// there are few.
func (p *Plugin) narrow(ctx context.Context, c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	limit := int(p.state.candidates.Load())
	if limit == 0 || len(nodes) <= 2*limit || pod.Status.NominatedNodeName != "" || p.state.isWide(pod.UID) {
		return nil
	}
	p.indexes.mu.Lock()
	defer p.indexes.mu.Unlock()
	x := p.indexes.byClass[c.class]
	if x == nil {
		if len(p.indexes.byClass) >= maxIndexes || p.indexes.byClass == nil {
			p.indexes.byClass = map[*class]*index{}
		}
		x = &index{}
		p.indexes.byClass[c.class] = x
	}
	p.update(ctx, x, c, nodes)
	names := x.best(limit, p.opens(pod, newScreen(pod, c.set.Config)))
	if names == nil {
		// Nowhere, or on few nodes: the filters then say for every node why
		// not, and preemption needs to see all of them.
		return nil
	}
	c.narrowed = true
	return &fwk.PreFilterResult{NodeNames: names}
}

// opens tells of a node whether it is open to the pod, cards apart.
func (p *Plugin) opens(pod *v1.Pod, s *screen) func(fwk.NodeInfo) bool {
	k, now := p.state.kept.Load(), p.clock.Now()
	return func(ni fwk.NodeInfo) bool { return !k.barred(pod, ni.Node().Name, now) && s.passes(ni) }
}

// update asks the nodes that have changed.
func (p *Plugin) update(ctx context.Context, x *index, c *cycle, nodes []fwk.NodeInfo) {
	if x.set != c.set || !slices.Equal(x.nodes, nodes) {
		x.reset(c.set, nodes)
	}
	var stale []int
	for i, ni := range nodes {
		if x.gens[i] != ni.GetGeneration() {
			stale = append(stale, i)
		}
	}
	ask := func(k int) {
		i := stale[k]
		x.gens[i], x.ranks[i] = nodes[i].GetGeneration(), -1
		if p.state.check(c, nodes[i]) == nil {
			x.ranks[i] = p.state.rank(c, nodes[i])
		}
	}
	if len(stale) < 32 {
		for k := range stale {
			ask(k)
		}
		return
	}
	p.handle.Parallelizer().Until(ctx, len(stale), ask, Name)
}

func (x *index) reset(set *settings, nodes []fwk.NodeInfo) {
	n := len(nodes)
	x.set, x.nodes = set, slices.Clone(nodes)
	x.gens, x.ranks, x.order = make([]int64, n), make([]int64, n), make([]int32, n)
	for i := range n {
		x.gens[i], x.order[i] = -1, int32(i)
	}
	slices.SortFunc(x.order, func(a, b int32) int { return cmp.Compare(nodes[a].Node().Name, nodes[b].Node().Name) })
}

// best names the limit best nodes that are open to it, of equal ones the
// first by name; nil if there are not more than that.
func (x *index) best(limit int, opens func(fwk.NodeInfo) bool) sets.Set[string] {
	var count [101]int
	fits := 0
	for _, r := range x.ranks {
		if r >= 0 {
			count[place.ScoreOf(r)]++
			fits++
		}
	}
	if fits <= limit {
		return nil
	}
	names := make(sets.Set[string], limit)
	var grade []int32 // the nodes of one score, by name
	for score := int64(len(count) - 1); score >= 0; score-- {
		if count[score] == 0 {
			continue
		}
		grade = grade[:0]
		alike := true
		for _, i := range x.order {
			if r := x.ranks[i]; r >= 0 && place.ScoreOf(r) == score {
				grade = append(grade, i)
				alike = alike && r == x.ranks[grade[0]]
			}
		}
		if !alike {
			slices.SortStableFunc(grade, func(a, b int32) int { return cmp.Compare(x.ranks[b], x.ranks[a]) })
		}
		for _, i := range grade {
			if !opens(x.nodes[i]) {
				continue
			}
			names.Insert(x.nodes[i].Node().Name)
			if len(names) == limit {
				return names
			}
		}
	}
	return nil
}
