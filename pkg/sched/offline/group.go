package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched"
)

// GroupResult is what the scheduler would do with a group of pods now.
type GroupResult struct {
	// Members has each of the pods, in the order of the question.
	Members []Member
	// Placed of them got nodes: none, or as many as the group needs or more.
	Placed int
	// Spot is the nearest part of the network that holds the group, members
	// that had nodes before included. It means nothing where Placed is 0.
	Spot gang.Spot
	// Why is the scheduler's text if nothing is placed.
	Why string
	// Short is the amount behind Why, nil if Why is of another kind.
	Short *reason.Reason
}

// Member is what one pod of a group would get.
type Member struct {
	Pod        *v1.Pod // the caller's
	Node       string  // "" if none
	Allocation *device.Allocation
	// Why is the scheduler's text about this pod where it got no node and has
	// one of its own.
	Why string
}

// errNotOneGroup is for questions about pods that the scheduler does not place
// together.
var errNotOneGroup = errors.New("the pods are not the waiting members of one group")

// Group is what is known about the group of a pod of the snapshot, and the
// group's pods, oldest first; ok is false for a pod that is in none.
func (e *Engine) Group(pod *v1.Pod) (g gang.Group, pods []*v1.Pod, ok bool) {
	return e.state.Group(pod)
}

// ScheduleGroup says where the scheduler would put these waiting pods of one
// group now; they need not be in the snapshot. A group that does not fit is a
// result and no error.
func (e *Engine) ScheduleGroup(ctx context.Context, pods []*v1.Pod) (GroupResult, error) {
	t, err := e.enter(ctx, pods)
	if err != nil {
		return GroupResult{}, err
	}
	defer t.leave()
	if err := t.decide(ctx); err != nil {
		return GroupResult{}, err
	}
	return t.result(), nil
}

// AssumeGroup is ScheduleGroup and keeps the group there, if it is placed:
// later answers count it in, until Forget.
func (e *Engine) AssumeGroup(ctx context.Context, pods []*v1.Pod) (GroupResult, error) {
	t, err := e.enter(ctx, pods)
	if err != nil {
		return GroupResult{}, err
	}
	if err := t.decide(ctx); err != nil || t.won == nil {
		t.leave()
		return t.result(), err
	}
	r := t.result()
	return r, t.commit(ctx)
}

// team is a group in the course of one question.
type team struct {
	e     *Engine
	key   types.NamespacedName
	asked []*v1.Pod // as the caller has them
	pods  []*v1.Pod // as the engine has them, in the same order
	group *schedulingapi.PodGroup
	undo  func() // of the groups' registry

	out map[types.UID]string // pods that may not enter the queue, and why
	won *attempt             // nil: not placed
	// why and short are about the last attempt that failed.
	why    string
	short  *reason.Reason
	failed map[types.UID]string
}

// enter shows the pods to the engine, as their creation does in a live one.
func (e *Engine) enter(ctx context.Context, pods []*v1.Pod) (*team, error) {
	t := &team{e: e, asked: pods, out: map[types.UID]string{}}
	var copies []*v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName != "" || kube.Finished(p) {
			return nil, fmt.Errorf("pod %s: %w: it has a node or has ended", klog.KObj(p), errNotOneGroup)
		}
		copies = append(copies, fresh(p))
	}
	t.pods, t.undo = e.state.Show(copies)
	for _, p := range t.pods {
		key, ok := groupKey(p)
		if !ok || t.key.Name != "" && t.key != key {
			t.undo()
			return nil, fmt.Errorf("pod %s: %w", klog.KObj(p), errNotOneGroup)
		}
		t.key = key
	}
	if t.group = e.state.PodGroup(t.key); t.group == nil {
		t.undo()
		return nil, errNotOneGroup
	}
	for _, p := range t.pods {
		e.cache.AddPodGroupMember(p)
	}
	e.cache.AddPodGroup(t.group)
	return t, e.refresh(ctx)
}

// groupKey is the group of a pod that was shown.
func groupKey(p *v1.Pod) (types.NamespacedName, bool) {
	if !kube.Synthetic(p.Spec.SchedulingGroup) {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: p.Namespace, Name: *p.Spec.SchedulingGroup.PodGroupName}, true
}

// leave takes the pods away again but for those of the snapshot.
func (t *team) leave() {
	t.undo()
	for _, p := range t.pods {
		if was := t.e.waiting[p.UID]; was != nil {
			t.e.cache.AddPodGroupMember(was)
		} else {
			t.e.cache.RemovePodGroupMember(p)
		}
	}
	if was := t.e.state.PodGroup(t.key); was != nil {
		t.e.cache.AddPodGroup(was)
	} else {
		t.e.cache.RemovePodGroup(klog.Background(), t.group)
	}
}

// decide is the engine's cycle of a pod group (scheduleOnePodGroup there), up
// to the commit. The engine itself cannot be asked: its cycle ends in binding
// goroutines and in writes, and it breaks ties by dice.
//
// As in a live scheduler, a group whose plan fails is tried once more with the
// nodes left to the engine.
func (t *team) decide(ctx context.Context) error {
	info := &framework.PodGroupInfo{Namespace: t.key.Namespace, Name: t.key.Name, Type: fwk.PodGroupKeyType, PodGroup: t.group}
	for _, p := range t.pods {
		if why := t.e.gated(ctx, p); why != "" {
			t.out[p.UID], t.why = why, why
			continue
		}
		info.UnscheduledPods = append(info.UnscheduledPods, p)
	}
	if len(info.UnscheduledPods) == 0 {
		return nil
	}
	slices.SortStableFunc(info.UnscheduledPods, queued)
	for _, freely := range []bool{false, true} {
		gs := framework.NewCycleState()
		if freely {
			sched.LeaveToEngine(gs)
		}
		if err := t.cycle(ctx, gs, info); err != nil || t.won != nil || !sched.Planned(gs) {
			return err
		}
	}
	return nil
}

// queued is the order of members in the engine's queue: they are of one
// priority.
func queued(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// gated is why the pod may not enter the queue, "" if it may.
func (e *Engine) gated(ctx context.Context, p *v1.Pod) string {
	for _, pl := range e.fw.PreEnqueuePlugins() {
		if st := pl.PreEnqueue(ctx, p); !st.IsSuccess() {
			return st.Message()
		}
	}
	return ""
}

// cycle tries each placement that the plugins propose and takes the best.
func (t *team) cycle(ctx context.Context, gs *framework.CycleState, info *framework.PodGroupInfo) error {
	nodes, err := t.e.snap.List()
	if err != nil {
		return err
	}
	placements, st := t.e.fw.RunPlacementGeneratePlugins(ctx, gs, info, nodes)
	if !st.IsSuccess() {
		if !st.IsRejected() {
			return st.AsError()
		}
		t.why, t.short = st.AsError().Error(), sched.Short(gs)
		return nil
	}
	var wins []*attempt
	for i, pl := range placements {
		a, err := t.e.try(ctx, gs, info, pl)
		switch {
		case err != nil:
			return err
		case a.placed:
			wins = append(wins, a)
		case i == 0:
			t.why, t.failed = a.why, a.failed
		}
	}
	if len(wins) == 0 {
		return nil
	}
	t.won, err = t.e.best(ctx, gs, info, wins)
	return err
}

// best is the attempt with the highest score, of equals the first.
func (e *Engine) best(ctx context.Context, gs *framework.CycleState, info *framework.PodGroupInfo, wins []*attempt) (*attempt, error) {
	if len(wins) == 1 {
		return wins[0], nil
	}
	var as []*fwk.PodGroupAssignments
	var states []fwk.PlacementCycleState
	for _, a := range wins {
		x := &fwk.PodGroupAssignments{Placement: a.placement}
		for _, s := range a.seats {
			x.ProposedAssignments = append(x.ProposedAssignments, s)
		}
		as, states = append(as, x), append(states, a.state)
	}
	scores, st := e.fw.RunPlacementScorePlugins(ctx, gs, info, as, states)
	if !st.IsSuccess() {
		return nil, st.AsError()
	}
	k := 0
	for i := range scores {
		if scores[i].TotalScore > scores[k].TotalScore {
			k = i
		}
	}
	return wins[k], nil
}

// attempt is the simulation of a group on one placement.
type attempt struct {
	placement *fwk.Placement
	state     *framework.CycleState
	seats     []*seat
	placed    bool
	why       string
	failed    map[types.UID]string
}

// seat is a member on a node.
type seat struct {
	info  *framework.PodInfo
	cs    *framework.CycleState
	alloc *device.Allocation
}

// GetPod implements fwk.ProposedAssignment, as the others do.
func (s *seat) GetPod() *v1.Pod               { return s.info.Pod }
func (s *seat) GetPodInfo() fwk.PodInfo       { return s.info }
func (s *seat) GetNodeName() string           { return s.info.Pod.Spec.NodeName }
func (s *seat) GetCycleState() fwk.CycleState { return s.cs }

// try puts the members onto the placement's nodes one after the other, and
// takes them away again.
func (e *Engine) try(ctx context.Context, gs *framework.CycleState, info *framework.PodGroupInfo, pl *fwk.Placement) (a *attempt, err error) {
	if err := e.snap.AssumePlacement(pl); err != nil {
		return nil, err
	}
	defer e.snap.ForgetPlacement()
	a = &attempt{placement: pl, state: framework.NewCycleState(), failed: map[types.UID]string{}}
	a.state.SetPodGroupSchedulingCycle(gs)
	defer func() { err = errors.Join(err, e.empty(ctx, a)) }()
	members, err := e.snap.PodGroupStates().Get(info.Namespace, info.Name)
	if err != nil {
		return nil, err
	}
	progress := framework.PlacementProgress{Remaining: len(info.UnscheduledPods), Scheduled: members.ScheduledPodsCount()}
	st := e.fw.RunPlacementFeasiblePlugins(ctx, a.state, info, progress)
	for _, p := range info.UnscheduledPods {
		if st.Code() == fwk.Unschedulable || st.IsError() {
			break
		}
		switch why, err := e.sit(ctx, gs, a, p); {
		case err != nil:
			return nil, err
		case why != "":
			a.failed[p.UID] = why
			a.why = cmp.Or(a.why, why)
		default:
			progress.Scheduled++
		}
		progress.Remaining--
		st = e.fw.RunPlacementFeasiblePlugins(ctx, a.state, info, progress)
	}
	if st.IsError() {
		return nil, st.AsError()
	}
	a.placed = st.IsSuccess() && len(a.seats) > 0
	a.why = cmp.Or(a.why, st.Message())
	return a, nil
}

// sit finds a node for one member and puts it there. why is what keeps it from
// every node.
func (e *Engine) sit(ctx context.Context, gs *framework.CycleState, a *attempt, p *v1.Pod) (why string, err error) {
	cs := framework.NewCycleState()
	cs.SetPodGroupSchedulingCycle(gs)
	cs.SetPlacementCycleState(a.state)
	node, err := e.choose(ctx, cs, p)
	if unfit := (*framework.FitError)(nil); errors.As(err, &unfit) {
		return unfit.Error(), nil
	} else if err != nil {
		return "", err
	}
	there := *p
	there.Spec.NodeName = node
	info, err := framework.NewPodInfo(&there)
	if err != nil {
		return "", err
	}
	if err := e.snap.AssumePod(info); err != nil {
		return "", err
	}
	s := &seat{info: info, cs: cs}
	a.seats = append(a.seats, s)
	if st := e.fw.RunReservePluginsReserve(ctx, cs, &there, node); !st.IsSuccess() {
		return "", fmt.Errorf("pod %s on node %s: %w", klog.KObj(p), node, st.AsError())
	}
	s.alloc, _ = e.state.AllocationOf(p.UID)
	return "", nil
}

// empty takes the members off their nodes; where they sat stays noted.
func (e *Engine) empty(ctx context.Context, a *attempt) error {
	var errs []error
	for _, s := range slices.Backward(a.seats) {
		e.fw.RunReservePluginsUnreserve(ctx, s.cs, s.info.Pod, s.GetNodeName())
		errs = append(errs, e.snap.ForgetPod(klog.FromContext(ctx), s.info.Pod))
	}
	return errors.Join(errs...)
}

// commit places the members for good, which by now cannot fail, and tells the
// groups' registry that they have nodes.
func (t *team) commit(ctx context.Context) error {
	k := kept{undo: t.leave}
	var bound []*v1.Pod
	for _, s := range t.won.seats {
		group := s.cs.GetPodGroupSchedulingCycle()
		s.cs.SetPodGroupSchedulingCycle(nil)
		err := t.e.sitDown(ctx, s.cs, s.info.Pod)
		s.cs.SetPodGroupSchedulingCycle(group) // so that its end is no failure of the group's
		if err != nil {
			t.e.kept = append(t.e.kept, k)
			return errors.Join(err, t.e.Forget(ctx))
		}
		k.seats = append(k.seats, s)
		bound = append(bound, s.info.Pod)
	}
	_, unbind := t.e.state.Show(bound)
	k.undo = func() { unbind(); t.leave() }
	t.e.kept = append(t.e.kept, k)
	t.e.cache.AddPodGroup(t.e.state.PodGroup(t.key))
	return t.e.refresh(ctx)
}

// result is the answer in the caller's terms.
func (t *team) result() GroupResult {
	r := GroupResult{Why: t.why, Short: t.short}
	seats := map[types.UID]*seat{}
	if t.won != nil {
		r.Why, r.Short, r.Placed, t.failed = "", nil, len(t.won.seats), t.won.failed
		for _, s := range t.won.seats {
			seats[s.info.Pod.UID] = s
		}
	}
	for i, p := range t.pods {
		m := Member{Pod: t.asked[i], Why: cmp.Or(t.out[p.UID], t.failed[p.UID])}
		if s := seats[p.UID]; s != nil {
			m.Node, m.Allocation = s.GetNodeName(), s.alloc
		}
		r.Members = append(r.Members, m)
	}
	if t.won != nil {
		r.Spot = t.spot(r.Members)
	}
	return r
}

// spot is where all of the group's members with nodes are.
func (t *team) spot(members []Member) gang.Spot {
	var nodes []string
	for _, m := range members {
		if m.Node != "" {
			nodes = append(nodes, m.Node)
		}
	}
	if st, err := t.e.snap.PodGroupStates().Get(t.key.Namespace, t.key.Name); err == nil {
		for _, p := range st.ScheduledPods() {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	var known []string
	var at []gang.Place
	for _, name := range nodes {
		if n, err := t.e.node(name); err == nil {
			known, at = append(known, name), append(at, t.e.state.PlaceOf(n))
		}
	}
	s, _ := gang.SpotOf(known, at)
	return s
}
