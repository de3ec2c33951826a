package sched

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// The engine simulates a group in memory and commits it whole (see
// schedule_one_podgroup.go there). What it lacks is care for what can go wrong
// behind a commit: it tries the rest of the group again at once and without
// end, lets members that come later wait with their cards, and does not roll
// back those that wait already. That is here.

// cooling is the pause of a group whose members failed after a commit.
type cooling struct {
	steps int // pauses so far, each twice as long as the one before
	until time.Time
	why   string
	// rejected are members that were rolled back for the sake of another.
	rejected map[types.UID]bool
}

// The pauses of a group that fails behind a commit.
const (
	coolMin   = time.Second
	coolSteps = 6 // 64 s
)

// PreEnqueue keeps members out of the queue while their group cannot be placed
// for reasons of its own: its members disagree, or it pauses.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	key, ok := keyOf(pod)
	if !ok {
		return nil
	}
	if why := p.pause(key); why != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why)
	}
	if g, _, known := p.state.groups.of(key); known && g.Wrong != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal([]reason.Reason{*g.Wrong}))
	}
	return nil
}

// pause is why the group pauses now, "" if it does not.
func (p *Plugin) pause(key types.NamespacedName) string {
	p.gangs.Lock()
	defer p.gangs.Unlock()
	if c := p.cooling[key]; c != nil && p.clock.Now().Before(c.until) {
		return c.why
	}
	return ""
}

// pause is why a group pauses now, "" if it does not.
func (s *State) pause(key types.NamespacedName) string {
	for _, p := range s.users() {
		if why := p.pause(key); why != "" {
			return why
		}
	}
	return ""
}

// round counts the commits of a group in this process, from 1.
func (s *State) round(key types.NamespacedName) int {
	n := 1
	for _, p := range s.users() {
		n = max(n, p.round(key))
	}
	return n
}

// Permit lets the members of a group go to their nodes together. All of a
// commit are here within one loop of the engine; the timer is a last guard.
// Nobody waits for a member that has gone since the simulation.
func (p *Plugin) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	key, ok := keyOf(pod)
	if !ok {
		return nil, 0
	}
	p.gangs.Lock()
	if c := p.cooling[key]; c != nil && p.clock.Now().Before(c.until) {
		// Another member of this very commit has failed already.
		c.rejected[pod.UID] = true
		p.gangs.Unlock()
		return fwk.NewStatus(fwk.Unschedulable, c.why), 0
	}
	trailing := p.trailing(key)
	p.gangs.Unlock()
	if trailing {
		return fwk.NewStatus(fwk.Unschedulable, "waits for the members of the attempt before"), 0
	}
	if p.state.exists != nil && !p.state.exists(pod.UID) {
		return fwk.NewStatus(fwk.Unschedulable, "the pod was deleted"), 0
	}
	g, _, known := p.state.groups.of(key)
	if why := broken(&g); known && why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why), 0
	}
	manager := p.handle.PodGroupManager()
	pg, err := manager.PodGroups().Get(key.Namespace, key.Name)
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	st, err := manager.PodGroupStates().Get(key.Namespace, key.Name)
	if err != nil {
		return fwk.AsStatus(err), 0
	}
	need := int(pg.Spec.SchedulingPolicy.Gang.MinCount)
	if known {
		need = g.Threshold() // the PodGroup follows a moment later
	}
	if st.ScheduledPodsCount() < need {
		p.watchWaiting(key)
		return fwk.NewStatus(fwk.Wait, "waits for the other members of its group"), time.Duration(p.state.Config().GangTimeoutSeconds) * time.Second
	}
	p.release(key, st.AssumedPods(), pod.UID)
	return nil, 0
}

// release lets the members that wait go to their nodes together with the last.
func (p *Plugin) release(key types.NamespacedName, assumed sets.Set[types.UID], last types.UID) {
	p.startTrial(key, assumed, last)
	for uid := range assumed {
		if w := p.handle.GetWaitingPod(uid); w != nil {
			w.Allow(Name)
		}
	}
}

// rollBack comes when a member gives its cards back after a commit: the group
// pauses, and the members that wait for it give theirs back as well.
func (p *Plugin) rollBack(key types.NamespacedName, pod *v1.Pod) {
	p.gangs.Lock()
	c := p.cooling[key]
	if c != nil && c.rejected[pod.UID] {
		delete(c.rejected, pod.UID)
		p.gangs.Unlock()
		return
	}
	if c == nil {
		c = &cooling{rejected: map[types.UID]bool{}}
		p.cooling[key] = c
	}
	now := p.clock.Now()
	if !now.Before(c.until) { // one step for a commit, however many members fail
		d := coolMin << min(c.steps, coolSteps)
		c.steps++
		c.until = now.Add(d)
		why := full(reason.Reason{Code: "gang-rolled-back", Device: pod.Name, Detail: []string{d.String()}})
		c.why = why
		// One that had come through Permit and did not wait yet was not seen.
		p.clock.AfterFunc(d/2, func() { p.rejectWaiting(key, why) })
		p.clock.AfterFunc(d+10*time.Millisecond, func() { p.wake(key) })
	}
	why := c.why
	waiting := slices.DeleteFunc(p.waiting(key), func(w fwk.WaitingPod) bool { return w.GetPod().UID == pod.UID })
	for _, w := range waiting {
		c.rejected[w.GetPod().UID] = true
	}
	p.gangs.Unlock()
	p.state.groups.touch(key)
	p.unlessGroupGone(key)
	for _, w := range waiting {
		w.Reject(Name, why)
	}
	klog.InfoS("A member of a group could not be bound, the group pauses", "group", key, "pod", klog.KObj(pod), "rolledBack", len(waiting))
}

// waiting lists the members of a group that wait in Permit.
func (p *Plugin) waiting(key types.NamespacedName) []fwk.WaitingPod {
	var out []fwk.WaitingPod
	p.handle.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		if k, ok := keyOf(w.GetPod()); ok && k == key {
			out = append(out, w)
		}
	})
	return out
}

// recount comes when a group has changed. Members that wait for the others of
// their commit would hold their cards in vain when one of those is gone: one of
// them gives them back, and all follow. When fewer are needed than before,
// because a member has finished meanwhile, they go.
func (p *Plugin) recount(key types.NamespacedName, g gang.Group) {
	list := p.waiting(key)
	if len(list) == 0 {
		return
	}
	if why := broken(&g); why != "" {
		list[0].Reject(Name, why)
		return
	}
	if g.Bound+len(list) >= g.Threshold() {
		uids := sets.New[types.UID]()
		for _, w := range list {
			uids.Insert(w.GetPod().UID)
		}
		p.release(key, uids, list[0].GetPod().UID)
	}
}

// How members that wait in Permit are looked after. All of a commit come within
// one loop of the engine, so that one which nobody has followed for a while
// waits in vain: what it waits for has changed in the moment in which it began
// to wait, or is tried in another cycle.
const (
	permitLook = 500 * time.Millisecond
	permitIdle = 5 * time.Second
)

// watchWaiting looks after the members of a group that wait, for as long as
// any does. It comes with each that begins to wait.
func (p *Plugin) watchWaiting(key types.NamespacedName) {
	p.gangs.Lock()
	_, watched := p.lastWait[key]
	p.lastWait[key] = p.clock.Now()
	p.gangs.Unlock()
	if !watched {
		p.clock.AfterFunc(permitLook, func() { p.lookAfter(key) })
	}
}

func (p *Plugin) lookAfter(key types.NamespacedName) {
	if g, _, known := p.state.groups.of(key); known {
		p.recount(key, g)
	}
	list := p.waiting(key)
	p.gangs.Lock()
	idle := p.clock.Since(p.lastWait[key])
	if len(list) == 0 && idle >= permitLook {
		delete(p.lastWait, key)
		p.gangs.Unlock()
		return
	}
	p.gangs.Unlock()
	if len(list) > 0 && idle >= permitIdle {
		list[0].Reject(Name, "the other members of its group have not come")
	}
	p.clock.AfterFunc(permitLook, func() { p.lookAfter(key) })
}

// broken is why a commit of the group cannot be ended, "" if it can: members
// are missing or disagree.
func broken(g *gang.Group) string {
	switch {
	case g.Wrong != nil:
		return refusal([]reason.Reason{*g.Wrong})
	case g.Short():
		return refusal([]reason.Reason{{Code: "gang-forming", Want: int64(g.Size), Free: int64(g.Members + g.Finished)}})
	}
	return ""
}

// rejectWaiting has the members of a group that wait give their cards back.
func (p *Plugin) rejectWaiting(key types.NamespacedName, why string) {
	for _, w := range p.waiting(key) {
		w.Reject(Name, why)
	}
}

// wake tries a group's waiting members again.
func (p *Plugin) wake(key types.NamespacedName) {
	if st, err := p.handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name); err == nil {
		p.handle.Activate(klog.Background(), st.UnscheduledPods())
	}
}

// forgetGroup drops what was noted for a group that is gone, or placed.
func (p *Plugin) forgetGroup(key types.NamespacedName) {
	p.gangs.Lock()
	delete(p.cooling, key)
	delete(p.wideGangs, key)
	p.gangs.Unlock()
}

// unlessGroupGone forgets a group about which something was just noted, if its
// last pod has gone meanwhile: that was told before the note.
func (p *Plugin) unlessGroupGone(key types.NamespacedName) {
	if _, _, ok := p.state.groups.of(key); !ok && kube.SyntheticName(key.Name) {
		p.forgetGroup(key)
	}
}

// PostBind ends the pauses of a group that is placed.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	key, ok := keyOf(pod)
	if !ok {
		return
	}
	st, err := p.handle.PodGroupManager().PodGroupStates().Get(key.Namespace, key.Name)
	if err == nil && st.AllPodsCount() == st.ScheduledPodsCount() {
		p.forgetGroup(key)
	}
}

// SortName is the name of the plugin Sort.
const SortName = "LJQueueSort"

// Sort is the order in which entities are tried: by priority; then groups of
// which members run already, since their cards are idle until the others come;
// then by age on the API. The in-tree order takes the time at which this
// process has seen an entity, so that after a restart pods that are younger
// can take the cards of half a group.
type Sort struct{}

var _ fwk.QueueSortPlugin = Sort{}

// Name implements fwk.Plugin.
func (Sort) Name() string { return SortName }

// Less implements fwk.QueueSortPlugin.
func (Sort) Less(a, b fwk.QueuedEntityInfo) bool {
	if p, q := a.GetPriority(), b.GetPriority(); p != q {
		return p > q
	}
	startedA, bornA := rank(a)
	startedB, bornB := rank(b)
	if startedA != startedB {
		return startedA
	}
	if !bornA.Equal(bornB) {
		return bornA.Before(bornB)
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

func rank(e fwk.QueuedEntityInfo) (started bool, born time.Time) {
	switch x := e.(type) {
	case *framework.QueuedPodInfo:
		return false, x.Pod.CreationTimestamp.Time
	case *framework.QueuedPodGroupInfo:
		if x.PodGroup != nil {
			return x.PodGroup.Annotations[boundAnnotation] != "", x.PodGroup.CreationTimestamp.Time
		}
	}
	return false, e.GetTimestamp()
}
