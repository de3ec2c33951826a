package sched

import (
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// What the engine on a snapshot needs in place of informers and a queue: see
// pkg/sched/offline.

// ShowJobs counts the finished members of groups, as the informer of Jobs does
// in a live scheduler.
func (s *State) ShowJobs(jobs []*batchv1.Job) {
	for _, j := range jobs {
		s.groups.job(j)
	}
}

// Show puts pods into their groups, as the informer of pods does in a live
// scheduler, and returns them as the engine is to have them: a pod that is in
// a group is a copy that names it. Pods that have ended are left out. undo
// makes the groups what they were before the call; calls are undone in
// reverse order.
func (s *State) Show(pods []*v1.Pod) (shown []*v1.Pod, undo func()) {
	g := s.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	before := map[types.NamespacedName]*group{}
	touched := map[types.NamespacedName]*group{}
	var named []types.UID
	for _, p := range pods {
		if kube.Finished(p) {
			continue
		}
		if ref := kube.GroupOf(p, g.conf()); ref != nil && eligible(p) {
			member := *p
			p = &member
			if _, known := g.names[p.UID]; !known {
				named = append(named, p.UID)
				g.names[p.UID] = ref.Name
			}
			key := types.NamespacedName{Namespace: p.Namespace, Name: g.names[p.UID]}
			if _, saved := before[key]; !saved {
				before[key] = g.byKey[key].clone()
			}
			touched[key] = g.join(p)
		}
		shown = append(shown, p)
	}
	for _, x := range touched {
		g.update(x)
	}
	return shown, func() { g.restore(before, named) }
}

// restore puts groups back, and forgets pods that were new.
func (g *groups) restore(before map[types.NamespacedName]*group, named []types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range named {
		delete(g.names, uid)
	}
	for key, x := range before {
		delete(g.byKey, key)
		if x != nil {
			g.byKey[key] = x
		}
		if x == nil || x.shown == nil {
			g.feed.drop(key)
		} else {
			g.feed.put(x.shown.DeepCopy())
		}
	}
}

func (x *group) clone() *group {
	if x == nil {
		return nil
	}
	c := *x
	c.pods, c.jobs = maps.Clone(x.pods), maps.Clone(x.jobs)
	return &c
}

// PodGroups are the groups as the engine is to have them.
func (s *State) PodGroups() []*schedulingapi.PodGroup {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	var out []*schedulingapi.PodGroup
	for _, x := range s.groups.byKey {
		if x.shown != nil {
			out = append(out, x.shown)
		}
	}
	return out
}

// PodGroup is one of PodGroups, nil if there is none of that name.
func (s *State) PodGroup(key types.NamespacedName) *schedulingapi.PodGroup {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	if x := s.groups.byKey[key]; x != nil {
		return x.shown
	}
	return nil
}

// Group is what is known about the group of a pod that was shown, and its pods
// as they were shown, oldest first; ok is false for a pod alone.
func (s *State) Group(p *v1.Pod) (g gang.Group, pods []*v1.Pod, ok bool) {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	x := s.groups.byKey[types.NamespacedName{Namespace: p.Namespace, Name: s.groups.names[p.UID]}]
	if x == nil {
		return g, nil, false
	}
	return x.core, slices.SortedFunc(maps.Values(x.pods), older), true
}

// PlaceOf is where a node stands in the network: by the network that was set,
// and by its labels.
func (s *State) PlaceOf(ni fwk.NodeInfo) gang.Place { return s.placeOf(s.settings.Load(), ni) }

// LeaveToEngine has the cycle of a group make no plan: the engine chooses the
// nodes of members, as it does in a live scheduler after a plan has failed.
func LeaveToEngine(cs fwk.PodGroupCycleState) { cs.Write(freeKey, free{}) }

func leftToEngine(cs fwk.PodGroupCycleState) bool {
	_, err := cs.Read(freeKey)
	return err == nil
}

// Planned tells whether each member's node was decided before the simulation.
func Planned(cs fwk.PodGroupCycleState) bool {
	made := planIn(cs)
	return made != nil && made.nodes != nil
}

// Short is what there was too little of for the group, nil if a place to try
// was found.
func Short(cs fwk.PodGroupCycleState) *reason.Reason {
	d, err := cs.Read(shortKey)
	if err != nil {
		return nil
	}
	if s, ok := d.(shortage); ok {
		return &s.Reason
	}
	return nil
}

const (
	freeKey  = Name + "/free"
	shortKey = Name + "/short"
)

type free struct{}

// Clone implements fwk.StateData.
func (f free) Clone() fwk.StateData { return f }

type shortage struct{ reason.Reason }

// Clone implements fwk.StateData.
func (s shortage) Clone() fwk.StateData { return s }
