package sched

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1helper "k8s.io/component-helpers/scheduling/corev1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// groups knows the groups of pods from their labels, and shows each to the
// engine as a PodGroup that exists in this process only: the engine's own
// group scheduling, which simulates a group in memory and commits it whole,
// then works on API servers that know no PodGroups.
//
// The engine's informer hides pods that have ended, so finished members are
// counted by their Jobs.
type groups struct {
	conf func() config.Config
	feed *feed

	mu    sync.Mutex
	byKey map[types.NamespacedName]*group
	// names has the group of each pod as it was when the pod was first seen:
	// the engine takes a pod's group for immutable, and labels are not.
	names map[types.UID]string
	// jobs has the group of each Job that was seen.
	jobs map[types.UID]types.NamespacedName
	// changed is told each group that differs from before.
	changed func(types.NamespacedName)
	// counted is told the same with what the group is now; known is false for
	// one that is gone. Both are called under mu and must not call back.
	counted func(key types.NamespacedName, g gang.Group, known bool)
}

// group is one group. Its pods and jobs are the informers' and not changed.
type group struct {
	key   types.NamespacedName
	owner string
	pods  map[types.UID]*v1.Pod
	jobs  map[types.UID]*batchv1.Job
	core  gang.Group
	// marked: the group has been seen placed whole, and something of it is
	// left since.
	marked bool
	shown  *schedulingapi.PodGroup // as the engine knows it
}

// Annotations on PodGroups of ours: members have nodes, and members disagree.
const (
	boundAnnotation = "lj.aliyun.com/bound"
	wrongAnnotation = "lj.aliyun.com/wrong"
)

func newGroups(conf func() config.Config) *groups {
	return &groups{conf: conf, feed: newFeed(), byKey: map[types.NamespacedName]*group{}, names: map[types.UID]string{},
		jobs: map[types.UID]types.NamespacedName{}, changed: func(types.NamespacedName) {}, counted: func(types.NamespacedName, gang.Group, bool) {}}
}

// adopt takes a pod of ours before the engine sees it, and puts it into its
// group. The pod is not shared yet: the informer has just decoded it.
func (g *groups) adopt(p *v1.Pod) {
	if !eligible(p) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if x := g.join(p); x != nil {
		g.update(x)
	}
}

// eligible tells whether the pod can be in a group of ours.
func eligible(p *v1.Pod) bool {
	return p.Spec.SchedulerName == kube.SchedulerName && (p.Spec.SchedulingGroup == nil || kube.Synthetic(p.Spec.SchedulingGroup))
}

// join writes the pod's group into it and puts it there; nil if it is in none
// or has ended. The caller holds mu and updates the group.
func (g *groups) join(p *v1.Pod) *group {
	name, known := g.names[p.UID]
	if !known {
		if ref := kube.GroupOf(p, g.conf()); ref != nil {
			name = ref.Name
		}
		g.names[p.UID] = name
	}
	if name == "" {
		return nil
	}
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
	if kube.Finished(p) {
		return nil // its deletion from the informer is on the way
	}
	x := g.group(types.NamespacedName{Namespace: p.Namespace, Name: name})
	x.pods[p.UID] = p
	return x
}

// keyOf is the group of ours to which a pod belongs; ok is false for pods
// alone and those of real PodGroups.
func keyOf(p *v1.Pod) (key types.NamespacedName, ok bool) {
	if !kube.Synthetic(p.Spec.SchedulingGroup) {
		return key, false
	}
	return types.NamespacedName{Namespace: p.Namespace, Name: *p.Spec.SchedulingGroup.PodGroupName}, true
}

// gone drops a pod that has ended or was deleted.
func (g *groups) gone(p *v1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.names, p.UID)
	key, ok := keyOf(p)
	if x := g.byKey[key]; ok && x != nil {
		delete(x.pods, p.UID)
		g.update(x)
	}
}

// job takes a Job as the API server shows it.
func (g *groups) job(j *batchv1.Job) {
	ref := kube.GroupOfJob(j, j.Spec.Template.Labels, g.conf())
	if ref == nil {
		return
	}
	key := types.NamespacedName{Namespace: j.Namespace, Name: ref.Name}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.group(key)
	x.jobs[j.UID] = j
	g.jobs[j.UID] = key
	g.update(x)
}

// jobGone drops a Job that was deleted.
func (g *groups) jobGone(j *batchv1.Job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key, ok := g.jobs[j.UID]
	delete(g.jobs, j.UID)
	if x := g.byKey[key]; ok && x != nil {
		delete(x.jobs, j.UID)
		g.update(x)
	}
}

func (g *groups) group(key types.NamespacedName) *group {
	x := g.byKey[key]
	if x == nil {
		x = &group{key: key, pods: map[types.UID]*v1.Pod{}, jobs: map[types.UID]*batchv1.Job{}}
		g.byKey[key] = x
	}
	return x
}

// update works out anew what the group is, and tells the engine where it
// differs. The caller holds mu.
func (g *groups) update(x *group) {
	defer func() {
		g.changed(x.key)
		g.counted(x.key, x.core, len(x.pods) > 0)
	}()
	if len(x.pods) == 0 {
		if x.shown != nil {
			g.feed.drop(x.key)
			x.shown = nil
		}
		x.marked = false
		if len(x.jobs) == 0 {
			delete(g.byKey, x.key)
		}
		return
	}
	first := x.count(g.conf())
	if now := x.podGroup(first); x.shown == nil || !sameGroup(x.shown, now) {
		if x.shown != nil {
			now.Generation = x.shown.Generation + 1
		}
		x.shown = now
		g.feed.put(now.DeepCopy())
	}
}

// count fills core from the pods and jobs, and returns the first member.
func (x *group) count(c config.Config) *v1.Pod {
	x.core = gang.Group{}
	members := slices.SortedFunc(maps.Values(x.pods), older)
	first := members[0]
	x.core.Created = first.CreationTimestamp.Unix()
	for _, p := range members {
		if p.DeletionTimestamp != nil {
			x.core.Leaving++
			continue
		}
		x.core.Members++
		if p.Spec.NodeName != "" {
			x.core.Bound++
		}
		x.marked = x.marked || placedMark(p)
		if ref := kube.GroupOf(p, c); ref != nil {
			// The largest that any names: one that was edited must not let the
			// others go with fewer.
			x.core.Size, x.owner = max(x.core.Size, ref.Size), ref.Owner
		}
	}
	for _, p := range members {
		if p.DeletionTimestamp == nil {
			x.agree(p, first, c)
		}
	}
	for _, j := range x.jobs {
		x.core.Finished += int(j.Status.Succeeded)
	}
	x.core.Size = max(x.core.Size, 1)
	x.marked = x.core.Bound+x.core.Finished > 0 && (x.marked || x.core.Wrong == nil && x.core.Satisfied())
	x.core.Marked = x.marked
	return first
}

// agree sees whether a member differs from the others in what must be the same
// for all.
func (x *group) agree(p, first *v1.Pod, c config.Config) {
	ref := kube.GroupOf(p, c)
	switch {
	case x.core.Wrong != nil:
	case ref == nil:
		// The label was taken away since.
		x.core.Wrong = &reason.Reason{Code: "min-member-missing", Device: c.MinMemberLabel(), Want: int64(x.core.Size)}
	case ref.Bad != "":
		x.core.Wrong = &reason.Reason{Code: ref.Bad, Device: c.MinMemberLabel(), Detail: []string{p.Labels[c.MinMemberLabel()]}}
	case x.core.Size != ref.Size:
		x.core.Wrong = &reason.Reason{Code: "min-member-differs", Want: int64(ref.Size), Free: int64(x.core.Size)}
	case v1helper.PodPriority(p) != v1helper.PodPriority(first):
		x.core.Wrong = &reason.Reason{Code: "gang-members-differ", Detail: []string{"priority"}}
	case preemptionPolicy(p) != preemptionPolicy(first):
		x.core.Wrong = &reason.Reason{Code: "gang-members-differ", Detail: []string{"preemptionPolicy"}}
	}
}

func preemptionPolicy(p *v1.Pod) v1.PreemptionPolicy {
	if p.Spec.PreemptionPolicy == nil {
		return v1.PreemptLowerPriority
	}
	return *p.Spec.PreemptionPolicy
}

// older orders pods by creation, then by name.
func older(a, b *v1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

// placedMark tells whether the pod carries the mark of a group that has been
// placed whole.
func placedMark(p *v1.Pod) bool {
	c := conditionOf(p, kube.GangCondition)
	return c != nil && c.Status == v1.ConditionTrue
}

// conditionOf is the pod's condition of a type, nil if it has none.
func conditionOf(p *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == t {
			return c
		}
	}
	return nil
}

// podGroup is the group as the engine should see it. Its uid must be unique
// and not empty, or a second group that preempts is taken for the first; a
// group is evicted whole, since its members are worth nothing alone.
func (x *group) podGroup(first *v1.Pod) *schedulingapi.PodGroup {
	priority := v1helper.PodPriority(first)
	pg := &schedulingapi.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.key.Namespace, Name: x.key.Name, UID: types.UID(x.key.String()), Generation: 1,
			CreationTimestamp: first.CreationTimestamp},
		Spec: schedulingapi.PodGroupSpec{
			Priority:         &priority,
			SchedulingPolicy: schedulingapi.PodGroupSchedulingPolicy{Gang: &schedulingapi.GangSchedulingPolicy{MinCount: int32(x.core.Threshold())}},
			DisruptionMode:   &schedulingapi.DisruptionMode{All: &schedulingapi.AllDisruptionMode{}},
		},
	}
	pg.Annotations = map[string]string{}
	if x.core.Bound > 0 {
		pg.Annotations[boundAnnotation] = "true"
	}
	if x.core.Wrong != nil {
		pg.Annotations[wrongAnnotation] = string(x.core.Wrong.Code)
	}
	return pg
}

func sameGroup(a, b *schedulingapi.PodGroup) bool {
	return *a.Spec.Priority == *b.Spec.Priority && a.CreationTimestamp.Equal(&b.CreationTimestamp) &&
		a.Spec.SchedulingPolicy.Gang.MinCount == b.Spec.SchedulingPolicy.Gang.MinCount &&
		maps.Equal(a.Annotations, b.Annotations)
}

// of returns what is known about a group now; ok is false if nothing is.
func (g *groups) of(key types.NamespacedName) (core gang.Group, owner string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.byKey[key]
	if x == nil || len(x.pods) == 0 {
		return core, "", false
	}
	return x.core, x.owner, true
}

// standing is one group as it stands. Its pods and Jobs are the informers' and
// not changed.
type standing struct {
	key     types.NamespacedName
	core    gang.Group
	members []*v1.Pod // those that are not being deleted, oldest first
	jobs    map[types.UID]*batchv1.Job
}

// look copies what is known about a group; ok is false if it has no pods.
func (g *groups) look(key types.NamespacedName) (st *standing, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.byKey[key]
	if x == nil || len(x.pods) == 0 {
		return nil, false
	}
	st = &standing{key: key, core: x.core, jobs: maps.Clone(x.jobs)}
	for _, p := range x.pods {
		if p.DeletionTimestamp == nil {
			st.members = append(st.members, p)
		}
	}
	slices.SortFunc(st.members, older)
	return st, true
}

// watch tells f each group that there is, and from then on each that changes.
// f is called under a lock and must not call back.
func (g *groups) watch(f func(types.NamespacedName)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed = f
	for key := range g.byKey {
		f(key)
	}
}

// touch reports a change of a group that its pods and Jobs do not show.
func (g *groups) touch(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed(key)
}

// phases counts the groups by how far they have come.
func (g *groups) phases(now, timeout int64) map[gang.Phase]int {
	out := map[gang.Phase]int{}
	for _, p := range gang.Phases() {
		out[p] = 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, x := range g.byKey {
		if len(x.pods) > 0 {
			out[x.core.Phase(now, timeout)]++
		}
	}
	return out
}
