package sched

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// A job that needs much at once would wait for ever where small ones take each
// card that comes free. So the first of those that have waited too long has
// nodes kept for it: its best domain takes no other pods but those that go
// before it, and those that have ended before it could start. Run times are
// known only from deadlines; where a pod on the kept nodes has none, nobody
// knows when the job could start, and nothing else goes there.

// kept is a reservation. It is immutable.
type kept struct {
	holder   holder
	nodes    map[string]bool
	priority int32
	born     time.Time
	// start is when the holder could begin at the latest; zero: unknown.
	start time.Time
}

// holder is a group, or a pod alone.
type holder struct {
	group types.NamespacedName
	pod   types.UID
	name  string // for people
}

func holderOf(pod *v1.Pod) holder {
	if key, ok := keyOf(pod); ok {
		return holder{group: key}
	}
	return holder{pod: pod.UID}
}

func (h holder) same(o holder) bool { return h.group == o.group && h.pod == o.pod }

// reservation is the one reservation of the cluster.
type reservation struct{ atomic.Pointer[kept] }

// barred tells whether a node is kept from the pod.
func (k *kept) barred(pod *v1.Pod, node string, now time.Time) bool {
	if k == nil || !k.nodes[node] || k.holder.same(holderOf(pod)) || v1helper.PodPriority(pod) > k.priority {
		return false
	}
	d := pod.Spec.ActiveDeadlineSeconds
	return k.start.IsZero() || d == nil || now.Add(time.Duration(*d)*time.Second).After(k.start)
}

// status is a kept node's refusal. It passes, but evicting somebody would not
// help.
func (k *kept) status() *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, full(reason.Reason{Code: "kept-for-older", Device: k.holder.name}))
}

// outranks tells whether a waiting entity goes before the reservation's holder.
func (k *kept) outranks(priority int32, born time.Time) bool {
	return k == nil || priority > k.priority || priority == k.priority && born.Before(k.born)
}

// keepFor makes the reservation for a team that was refused, if it is the first
// of those that have waited too long.
func (p *Plugin) keepFor(t *team, s *site, h holder, born time.Time) {
	now, old := p.clock.Now(), p.state.kept.Load()
	priority := v1helper.PodPriority(t.pods[0])
	mine := old != nil && old.holder.same(h)
	if len(t.kinds) == 0 || !p.mayKeep(h, priority, born, t.set) {
		return
	}
	var before []int
	idle := make([]int, len(s.nodes))
	for i, ni := range s.nodes {
		for _, k := range t.kinds {
			idle[i] += p.state.idle(k, ni, len(k.pods))
		}
		if mine && old.nodes[s.rooms[i].Node] {
			before = append(before, i)
		}
	}
	if mine && len(before) < len(old.nodes) {
		before = nil
	}
	rooms := gang.Keep(s.rooms, idle, t.need, before)
	if len(rooms) == 0 {
		p.state.releaseKept(h)
		return
	}
	k := &kept{holder: h, nodes: map[string]bool{}, priority: priority, born: born, start: now}
	for _, i := range rooms {
		k.nodes[s.rooms[i].Node] = true
		k.start = later(k.start, ends(s.nodes[i]))
	}
	p.state.kept.Store(k)
	p.state.unlessOver(h)
	if !mine {
		klog.InfoS("Nodes are kept free for the job that has waited longest", "job", h.name, "nodes", len(k.nodes), "waits", now.Sub(born).Round(time.Second))
	}
}

// mayKeep tells whether a reservation is due to a holder: it has waited too
// long, and is the one that has it or goes before that.
func (p *Plugin) mayKeep(h holder, priority int32, born time.Time, set *settings) bool {
	old := p.state.kept.Load()
	return aged(born, p.clock.Now(), time.Duration(set.BackfillAgeSeconds)*time.Second) &&
		(old != nil && old.holder.same(h) || old.outranks(priority, born))
}

// aged tells whether who was created then has waited too long. What has no
// time of creation is in no API yet.
func aged(born, now time.Time, age time.Duration) bool {
	return age > 0 && !born.IsZero() && now.Sub(born) >= age
}

// ends is when the last pod with cards on the node ends; zero if that is not
// known.
func ends(ni fwk.NodeInfo) time.Time {
	last := time.Unix(1, 0)
	for _, pi := range ni.GetPods() {
		pod := pi.GetPod()
		if len(pod.Spec.Containers) == 0 || !holdsCards(pod) {
			continue
		}
		d := pod.Spec.ActiveDeadlineSeconds
		if d == nil || pod.Status.StartTime == nil {
			return time.Time{}
		}
		last = later(last, pod.Status.StartTime.Add(time.Duration(*d)*time.Second))
	}
	return last
}

func holdsCards(pod *v1.Pod) bool {
	_, ok := pod.Annotations[kube.AllocationAnnotation]
	return ok
}

// later is the later of two times, and unknown if one of them is.
func later(a, b time.Time) time.Time {
	switch {
	case a.IsZero() || b.IsZero():
		return time.Time{}
	case b.After(a):
		return b
	}
	return a
}

// releaseKept ends the reservation of a holder that waits no more, and tries the
// pods again that it kept out.
func (s *State) releaseKept(h holder) {
	if k := s.kept.Load(); k != nil && k.holder.same(h) && s.kept.CompareAndSwap(k, nil) {
		klog.InfoS("Nodes are free again for other jobs", "job", k.holder.name)
		go s.Retry(klog.Background())
	}
}

// groupChanged ends the reservation of a group that is placed or gone, forgets
// one that is gone, and has members that wait in Permit counted anew.
// It is called under the lock of groups.
func (s *State) groupChanged(key types.NamespacedName, g gang.Group, known bool) {
	for _, p := range s.users() {
		if known {
			go p.recount(key, g)
		} else {
			p.forgetGroup(key)
		}
	}
	if k := s.kept.Load(); k != nil && k.holder.group == key && (!known || g.Satisfied() || g.Wrong != nil) {
		s.releaseKept(k.holder)
	}
}

// unlessOver ends a reservation that was just made, if its holder was placed or
// has gone meanwhile: that was told before it was made.
func (s *State) unlessOver(h holder) {
	if h.pod != "" {
		s.unlessGone(h.pod)
		return
	}
	if g, _, known := s.groups.of(h.group); kube.SyntheticName(h.group.Name) {
		s.groupChanged(h.group, g, known)
	}
}

// idle is how many pods of a kind a node takes when it is empty.
func (s *State) idle(k *kind, ni fwk.NodeInfo, limit int) int {
	if limit = min(limit, k.screen.idle(ni)); limit <= 0 || k.req.Empty() {
		return max(limit, 0)
	}
	v := s.viewOf(ni.Node().Name)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refresh(s, k.set, ni)
	n := *v.base
	n.Holds = nil
	return place.NewView(&n, k.set.Config).Capacity(k.req, limit)
}

// keepForPod makes the reservation for a pod alone.
func (p *Plugin) keepForPod(pod *v1.Pod, c *cycle, nodes []fwk.NodeInfo) {
	h, born := holder{pod: pod.UID, name: "pod " + pod.Namespace + "/" + pod.Name}, pod.CreationTimestamp.Time
	if !p.mayKeep(h, v1helper.PodPriority(pod), born, c.set) {
		return // before every node is asked
	}
	t := &team{p: p, pods: []*v1.Pod{pod}, set: c.set, need: 1, want: 1, held: map[string]int{},
		kinds: []*kind{{cycle: c, pods: []*v1.Pod{pod}, screen: newScreen(pod, c.set.Config)}}}
	p.keepFor(t, t.survey(nodes), h, born)
}

// keptNote says on the holder's own refusal which nodes are kept for it.
func (p *Plugin) keptNote(h holder) string {
	k := p.state.kept.Load()
	if k == nil || !k.holder.same(h) {
		return ""
	}
	var names []string
	for n := range k.nodes {
		names = append(names, n)
	}
	slices.Sort(names)
	const few = 3
	text := strings.Join(names[:min(few, len(names))], ", ")
	if len(names) > few {
		text += fmt.Sprintf(" and %d more", len(names)-few)
	}
	return "nodes kept free for it: " + text
}
