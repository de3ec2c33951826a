package sched

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/place"
)

// In-tree, a group that does not fit is placed on the cluster as if all pods of
// lower priority were gone; those that are not in its way are then put back one
// by one, with all members tried anew for each. It goes to the part of the
// network that is best when empty, whatever that costs, and the time grows with
// the pods of the cluster times the members of the group.
//
// Here the core says what room costs on each node and where it costs the least,
// and the in-tree way is shown those victims only.

// PodGroupPostFilter looks for victims for a group that was not placed.
func (p *Preemption) PodGroupPostFilter(ctx context.Context, cs fwk.PodGroupCycleState, pg fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if g := pg.GetPodGroup(); g != nil && g.Spec.Priority != nil && !anyBelow(nodes, *g.Spec.Priority) {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "pod group preemption: nobody has a lower priority")
	}
	if slices.ContainsFunc(pg.GetUnscheduledPods(), func(pod *v1.Pod) bool { return preemptionPolicy(pod) == v1.PreemptNever }) {
		return nil, fwk.NewStatus(fwk.Unschedulable, "pod group preemption: not eligible due to preemptionPolicy=Never.")
	}
	if slices.ContainsFunc(pg.GetUnscheduledPods(), func(pod *v1.Pod) bool { return pod.Status.NominatedNodeName != "" }) {
		// It has victims, who may be on their way out.
		if r, s := p.preemptThese(ctx, pg, schedule, nil); s.IsSuccess() {
			return r, s
		}
	}
	if victims := p.raid(ctx, pg, nodes); len(victims) > 0 {
		if r, s := p.preemptThese(ctx, pg, schedule, victims); s.IsSuccess() {
			return r, s
		}
	}
	return p.DefaultPreemption.PodGroupPostFilter(ctx, cs, pg, schedule)
}

func anyBelow(nodes []fwk.NodeInfo, priority int32) bool {
	for _, ni := range nodes {
		for _, pi := range ni.GetPods() {
			if v1helper.PodPriority(pi.GetPod()) < priority {
				return true
			}
		}
	}
	return false
}

// raid is the choice of victims for a group.
type raid struct {
	p       *Preemption
	t       *team
	kind    *kind
	need    int // how many members with cards must find room
	nodes   []fwk.NodeInfo
	rooms   []gang.Room
	lines   []*line
	budgets []budget
	// freed are groups that go in any case, by name: more of their nodes cost
	// nothing.
	freed map[string]bool
	// whole has a group cost all its pods on each of its nodes, else those on
	// the node: the one is right where one node is needed, the other where all
	// are.
	whole  bool
	prices [][]place.Price
	chosen [][][]int // by room, by members: positions in its line
}

// raid chooses the pods to evict for a group, nil if it cannot tell. A group of
// different members is taken for one of as many of the largest; who is evicted
// too much is then put back.
func (p *Preemption) raid(ctx context.Context, pg fwk.PodGroupInfo, nodes []fwk.NodeInfo) map[types.UID]bool {
	t, bad := p.devices().newTeam(pg)
	if t == nil || len(bad) > 0 || t.kinds[0].req.Empty() {
		return nil
	}
	pdbs, err := p.Evaluator.PdbLister.List(labels.Everything())
	if err != nil {
		return nil
	}
	need := t.need
	for _, k := range t.kinds {
		if k.req.Empty() {
			need = max(1, need-len(k.pods))
		}
	}
	r := &raid{p: p, t: t, kind: t.kinds[0], need: need, nodes: nodes, rooms: t.survey(nodes).rooms, lines: make([]*line, len(nodes)), budgets: budgetsOf(pdbs)}
	priority := v1helper.PodPriority(t.pods[0])
	p.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		if units, err := p.Evaluator.GetVictimsOnNode(ctx, nodes[i]); err == nil {
			r.lines[i] = p.lineUp(units, nodes[i].Node().Name, priority, r.budgets)
		}
	}, PreemptionName)
	var best []*preemption.DomainVictim
	var cost place.Price
	for _, r.whole = range []bool{false, true} {
		units := r.choose(ctx)
		if c := r.cost(units, pdbs); len(units) > 0 && (best == nil || c.Compare(cost) < 0) {
			best, cost = units, c
		}
		if !slices.ContainsFunc(best, (*preemption.DomainVictim).IsGroup) {
			break // both ways are the same
		}
	}
	out := map[types.UID]bool{}
	for _, u := range best {
		for _, pi := range u.Pods() {
			out[pi.GetPod().UID] = true
		}
	}
	return out
}

// choose finds the cheapest victims. A group among them that is on several
// nodes makes its other nodes free, so they are then priced again.
func (r *raid) choose(ctx context.Context) []*preemption.DomainVictim {
	r.freed = map[string]bool{}
	r.prices, r.chosen = make([][]place.Price, len(r.nodes)), make([][][]int, len(r.nodes))
	stale := make([]int, len(r.nodes))
	for i := range stale {
		stale[i] = i
	}
	for {
		r.p.handle.Parallelizer().Until(ctx, len(stale), func(k int) { r.price(stale[k]) }, PreemptionName)
		members, ok := gang.Cheapest(r.rooms, r.prices, r.need)
		if !ok {
			return nil
		}
		units, next := r.victims(members)
		if next == "" {
			return units
		}
		r.freed[next] = true
		stale = stale[:0]
		for i, l := range r.lines {
			if l != nil && slices.ContainsFunc(l.units, func(u *preemption.DomainVictim) bool { return nameOf(u) == next }) {
				stale = append(stale, i)
			}
		}
	}
}

// victims lists who goes where the rooms take so many members, and of the
// groups on several nodes among them that is not freed yet the one that makes
// room for most.
func (r *raid) victims(members []int) (units []*preemption.DomainVictim, next string) {
	known := map[string]bool{}
	gain := map[string]int{}
	for i, n := range members {
		if n == 0 {
			continue
		}
		for _, k := range r.chosen[i][n] {
			u := r.lines[i].units[k]
			name := nameOf(u)
			if !known[name] {
				known[name] = true
				units = append(units, u)
			}
			if len(u.AffectedNodes()) < 2 || r.freed[name] {
				continue
			}
			if gain[name] += n; next == "" || gain[name] > gain[next] || gain[name] == gain[next] && name < next {
				next = name
			}
		}
	}
	return units, next
}

// nameOf tells units apart, and is the same for a group on all of its nodes.
func nameOf(u *preemption.DomainVictim) string {
	pod := u.Pods()[0].GetPod()
	if u.IsGroup() && pod.Spec.SchedulingGroup != nil {
		return pod.Namespace + "/group/" + *pod.Spec.SchedulingGroup.PodGroupName
	}
	return pod.Namespace + "/pod/" + pod.Name
}

// price works out what room costs on one node.
func (r *raid) price(i int) {
	r.prices[i] = slices.Repeat([]place.Price{{}}, min(r.rooms[i].Cap, r.need)+1)
	r.chosen[i] = make([][]int, len(r.prices[i]))
	at := r.lines[i]
	ni := r.nodes[i]
	if at == nil || len(at.units) == 0 || r.kind.screen.shuts(ni.Node()) != "" ||
		r.p.state.kept.Load().barred(r.kind.pods[0], ni.Node().Name, r.p.devices().clock.Now()) {
		return
	}
	l := &line{units: at.units, victims: slices.Clone(at.victims), allowed: at.allowed}
	for k, u := range l.units {
		x := &l.victims[k]
		x.Leaving = x.Leaving || r.freed[nameOf(u)]
		if !r.whole {
			x.Size = len(x.Pods)
		}
	}
	for n := len(r.prices[i]); n <= r.need; n++ {
		chosen, ok := r.p.evict(r.kind.cycle, ni, n, l, r.t.pods[0], r.t.key)
		if !ok || r.roomWithout(ni, l, chosen) < n {
			return
		}
		var gone []place.Victim
		for _, k := range chosen {
			gone = append(gone, l.victims[k])
		}
		r.prices[i] = append(r.prices[i], place.PriceOf(gone, l.allowed))
		r.chosen[i] = append(r.chosen[i], chosen)
	}
}

// roomWithout is how many members the node takes after an eviction, cards
// apart.
func (r *raid) roomWithout(ni fwk.NodeInfo, l *line, chosen []int) int {
	after := ni.Snapshot()
	for _, k := range chosen {
		for _, pi := range l.units[k].Pods() {
			if pi.GetPod().Spec.NodeName == ni.Node().Name {
				if err := after.RemovePod(klog.Background(), pi.GetPod()); err != nil {
					return 0
				}
			}
		}
	}
	return r.kind.screen.capacity(after)
}

// cost is the price of all the units together.
func (r *raid) cost(units []*preemption.DomainVictim, pdbs []*policy.PodDisruptionBudget) place.Price {
	now := r.p.devices().clock.Now()
	var gone []place.Victim
	for _, u := range units {
		x := place.Victim{Size: len(u.Pods()), Priority: u.Priority(), Leaving: true}
		for _, pi := range u.Pods() {
			x.Leaving = x.Leaving && leaving(pi.GetPod(), now)
		}
		gone = append(gone, x)
	}
	sum := place.PriceOf(gone, nil)
	violating, _ := preemption.FilterVictimsWithPDBViolation(units, pdbs)
	for _, v := range violating {
		sum.Violations += int64(v.ViolateCount)
	}
	return sum
}

// preemptThese lets the engine evict of these pods as many as it takes.
func (p *Preemption) preemptThese(ctx context.Context, pg fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc, victims map[types.UID]bool) (_ *fwk.PodGroupPostFilterResult, status *fwk.Status) {
	lister := p.handle.MutableSnapshotSharedLister()
	if err := lister.StartMutations(); err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("pod group preemption: %w", err))
	}
	defer func() {
		if err := lister.EndMutations(); err != nil {
			status = fwk.AsStatus(fmt.Errorf("pod group preemption: %w", err))
		}
	}()
	view := newBlinkers(p.handle, pg, victims)
	features := plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	in := preemption.NewPodGroupEvaluator(view, p.Executor, features)
	r, s := in.Preempt(ctx, pg, func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		view.open()
		return schedule(ctx)
	})
	if msg := s.Message(); msg != "" {
		s = fwk.NewStatus(s.Code(), "pod group preemption: "+msg)
	}
	return r, s
}
