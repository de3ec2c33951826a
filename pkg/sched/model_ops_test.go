package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// enough bounds the pods that are alive, so that judging stays quick.
const enough = 30

func (m *model) crowded() bool { return len(m.api.pods()) >= enough }

func (m *model) addSingle() bool {
	if m.crowded() {
		return false
	}
	m.next++
	p := randomPod(fmt.Sprintf("p%d", m.next), m.rnd.IntN)
	if m.rnd.IntN(8) == 0 { // somebody hopes to get a card so
		p.Annotations = map[string]string{kube.AllocationAnnotation: `{"v":1,"uid":"uid-` + p.Name + `","node":"n0","containers":{}}`}
	}
	if m.rnd.IntN(6) == 0 {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, config.CardPolicyKey, []string{"spread", "binpack", "topology", "nonsense"}[m.rnd.IntN(4)])
	}
	m.log("add %s %v", p.Name, p.Spec.Containers[0].Resources.Limits)
	m.api.put(p)
	return true
}

func (m *model) addSet() bool {
	if m.crowded() {
		return false
	}
	m.next++
	s := &jobSet{name: fmt.Sprintf("set%d", m.next), size: 2 + m.rnd.IntN(5), priority: int32(m.rnd.IntN(3) * 50)}
	s.ask = []limits{{"nvidia": 1}, {"nvidia": 2}, {"gpu": 1}, {"gpu-core": 60}, {"gpu-core": 30, "gpu-memory": 10}, {"gpu-slice": 2}, {"cpu": 1}}[m.rnd.IntN(7)]
	s.key = types.NamespacedName{Namespace: "default", Name: kube.GroupOf(m.memberOf(s, 0), cfg).Name}
	m.log("set %s: %d of %v, priority %d", s.name, s.size, s.ask, s.priority)
	m.sets = append(m.sets, s)
	m.api.put(setJob(s.name, s.size, 0))
	return true
}

func (m *model) memberOf(s *jobSet, i int) *v1.Pod {
	return priority(member(s.name, i, s.size, s.ask), s.priority)
}

// alive lists the members of a set.
func (m *model) alive(s *jobSet) []*v1.Pod {
	return slices.DeleteFunc(m.api.pods(), func(p *v1.Pod) bool { return p.Labels[kube.JobSetNameLabel] != s.name })
}

// addMember lets a Job make a pod that it lacks; a set that is done goes.
func (m *model) addMember() bool {
	var open []*jobSet
	for i := 0; i < len(m.sets); i++ {
		s := m.sets[i]
		n := len(m.alive(s))
		switch {
		case n == 0 && (s.done >= s.size || s.made > 4*s.size):
			m.log("end of %s", s.name)
			m.late = slices.DeleteFunc(m.late, func(name string) bool { return name == s.name })
			m.api.erase(jobsGVR, s.name+"-workers-0")
			m.sets = slices.Delete(m.sets, i, i+1)
			return true
		case n+s.done < s.size && s.made <= 4*s.size:
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return false
	}
	s := open[m.rnd.IntN(len(open))]
	m.log("member %s-%d", s.name, s.made)
	m.api.put(m.memberOf(s, s.made))
	s.made++
	return true
}

func (m *model) remove() bool {
	p := m.any(func(p *v1.Pod) bool { return p.DeletionTimestamp == nil })
	if p == nil {
		return false
	}
	m.log("delete %s", p.Name)
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	m.disturb(p)
	return m.api.evict(p.Name) == nil
}

// reap is a kubelet that has ended a pod.
func (m *model) reap() bool {
	p := m.any(func(p *v1.Pod) bool { return p.DeletionTimestamp != nil })
	if p == nil {
		return false
	}
	m.log("gone %s", p.Name)
	m.api.erase(podsGVR, p.Name)
	return true
}

// end takes a running pod away, as its end does for the engine.
func (m *model) end() *v1.Pod {
	p := m.any(runs)
	if p == nil {
		return nil
	}
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	if now := m.api.get(p.Name); now == nil || now.UID != p.UID {
		return nil
	}
	m.disturb(p)
	m.api.drop(podsGVR, p.Name)
	return p
}

func (m *model) finish() bool {
	p := m.end()
	if p == nil {
		return false
	}
	m.log("finished %s", p.Name)
	for _, s := range m.sets {
		if s.name == p.Labels[kube.JobSetNameLabel] {
			s.done++
			m.late = append(m.late, s.name)
		}
	}
	return true
}

// countFinished is the Job controller that writes down a finished pod.
func (m *model) countFinished() bool {
	if len(m.late) == 0 {
		return false
	}
	name := m.late[0]
	m.late = m.late[1:]
	o, err := m.api.tracker.Get(jobsGVR, "default", name+"-workers-0")
	if err != nil {
		m.t.Fatal(err)
	}
	j := o.(*batchv1.Job)
	j.Status.Succeeded++
	m.log("%s has %d finished", name, j.Status.Succeeded)
	m.api.put(j)
	return true
}

func (m *model) fail() bool {
	p := m.end()
	if p != nil {
		m.log("failed %s", p.Name)
	}
	return p != nil
}

// anyNode chooses a node that is there.
func (m *model) anyNode() *v1.Node {
	list := m.api.nodes()
	if len(list) == 0 {
		return nil
	}
	return list[m.rnd.IntN(len(list))]
}

func (m *model) loseNode() bool {
	n := m.anyNode()
	if n == nil || len(m.lost) >= 2 {
		return false
	}
	m.log("lose %s", n.Name)
	m.lost = append(m.lost, n.Name)
	m.api.erase(nodesGVR, n.Name)
	return true
}

// returnNode brings a node of the name back, with other cards; pods of the old
// one may still be there.
func (m *model) returnNode() bool {
	if len(m.lost) == 0 {
		return false
	}
	m.log("return %s", m.lost[0])
	m.api.put(m.node(m.lost[0]))
	m.lost = m.lost[1:]
	return true
}

// changeCard makes a card sick or well, or takes it out.
func (m *model) changeCard() bool {
	n := m.anyNode()
	if n == nil {
		return false
	}
	inv, err := device.DecodeInventory(n.Annotations[kube.InventoryAnnotation])
	if err != nil || len(inv.Cards) == 0 {
		return false
	}
	i := m.rnd.IntN(len(inv.Cards))
	c := &inv.Cards[i]
	switch {
	case len(c.Health) > 0:
		c.Health = nil
	case m.rnd.IntN(3) == 0 && len(inv.Cards) > 1:
		inv.Cards = slices.Delete(inv.Cards, i, i+1)
	default:
		c.Health = []device.HealthEvent{{Code: "xid-79"}}
	}
	text, err := device.EncodeInventory(inv)
	if err != nil {
		m.t.Fatal(err)
	}
	m.log("card %d of %s", i, n.Name)
	n.Annotations[kube.InventoryAnnotation] = text
	m.api.put(n)
	return true
}

// change edits a pod that satisfies ok.
func (m *model) change(ok func(*v1.Pod) bool, edit func(*v1.Pod)) bool {
	p := m.any(ok)
	if p == nil {
		return false
	}
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	if p = m.api.get(p.Name); p == nil || !ok(p) {
		return false
	}
	edit(p)
	m.api.store(p)
	return true
}

func (m *model) relabel() bool {
	return m.change(func(*v1.Pod) bool { return true }, func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[kube.ReplicaLabel] = []string{"1", "2", "3", "x"}[m.rnd.IntN(4)]
		m.log("%s: replica %s", p.Name, p.Labels[kube.ReplicaLabel])
		m.disturb(p)
	})
}

// editSize changes or takes away the size that a member names, or puts it back.
func (m *model) editSize() bool {
	if len(m.stray) > 0 && m.rnd.IntN(3) > 0 {
		for name, was := range m.stray {
			delete(m.stray, name)
			if p := m.api.get(name); p != nil {
				return m.change(func(q *v1.Pod) bool { return q.UID == p.UID }, func(p *v1.Pod) {
					m.log("%s: min-member %s again", name, was)
					p.Labels[cfg.MinMemberLabel()] = was
					m.disturb(p) // a new process may have taken it for a pod alone
				})
			}
			return true
		}
	}
	return m.change(func(p *v1.Pod) bool { return p.Labels[cfg.MinMemberLabel()] != "" && m.stray[p.Name] == "" }, func(p *v1.Pod) {
		m.stray[p.Name] = p.Labels[cfg.MinMemberLabel()]
		switch m.rnd.IntN(3) {
		case 0:
			delete(p.Labels, cfg.MinMemberLabel())
		case 1:
			p.Labels[cfg.MinMemberLabel()] = "some"
		default:
			p.Labels[cfg.MinMemberLabel()] += "0"
		}
		m.log("%s: min-member %q", p.Name, p.Labels[cfg.MinMemberLabel()])
		m.disturb(p)
	})
}

// editRecord changes what a running pod is said to hold.
func (m *model) editRecord() bool {
	return m.change(func(p *v1.Pod) bool {
		return runs(p) && p.Annotations[kube.AllocationAnnotation] != "" && m.edits[p.Name] == ""
	}, func(p *v1.Pod) {
		m.log("edit the record of %s", p.Name)
		m.edits[p.Name] = p.Annotations[kube.AllocationAnnotation]
		p.Annotations[kube.AllocationAnnotation] = []string{"", "{}", `{"v":1,"uid":"` + string(p.UID) + `","node":"` + p.Spec.NodeName + `","containers":{}}`}[m.rnd.IntN(3)]
	})
}

// mend takes edits of records back: a new process knows nothing but the
// pods' annotations, which is why admission keeps them from being edited.
func (m *model) mend() {
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	for name, was := range m.edits {
		if p := m.api.get(name); p != nil {
			p.Annotations[kube.AllocationAnnotation] = was
			m.api.store(p)
		}
	}
	clear(m.edits)
}

func (m *model) relabelNode() bool {
	n := m.anyNode()
	if n == nil {
		return false
	}
	switch m.rnd.IntN(3) {
	case 0:
		n.Labels[kube.EnableLabel] = map[string]string{"true": "false", "false": "true"}[n.Labels[kube.EnableLabel]]
	case 1:
		delete(n.Labels, cfg.Topology.NetworkPod)
	default:
		in(n, fmt.Sprintf("np%d/leaf%d", m.rnd.IntN(2), m.rnd.IntN(3)))
	}
	m.log("%s: labels %v", n.Name, n.Labels)
	m.api.put(n)
	return true
}

// faults lets some requests fail for a while.
func (m *model) faults() bool {
	// A binding that is refused after its dry run leaves half a group.
	m.api.mu.Lock()
	for _, x := range m.sets {
		if !m.api.placed[x.key] {
			m.disturbed[x.key] = true
		}
	}
	m.api.mu.Unlock()
	rnd := rand.New(rand.NewPCG(m.rnd.Uint64(), 0))
	often := 2 + rnd.IntN(6)
	m.log("faults, one in %d", often)
	m.api.mu.Lock()
	defer m.api.mu.Unlock()
	m.api.fault = func(what call, pod string) (before, after error) {
		if what == callGet || rnd.IntN(often) > 0 {
			return nil, nil
		}
		switch rnd.IntN(4) {
		case 0:
			return nil, errReset // done, and nobody hears of it
		case 1:
			return errReset, nil
		case 2:
			return apierrors.NewTooManyRequests("slow down", 1), nil
		}
		if what == callBind { // what a dry run has not foreseen
			if p := m.api.get(pod); p != nil {
				m.disturb(p)
			}
		}
		return apierrors.NewForbidden(podsGVR.GroupResource(), pod, fmt.Errorf("denied request")), nil
	}
	return true
}

// crash kills the scheduler and starts another.
func (m *model) crash() bool {
	m.log("kill")
	m.kill()
	m.mend()
	m.api.mu.Lock()
	for _, s := range m.sets {
		if !m.api.placed[s.key] {
			m.disturbed[s.key] = true
		}
		// A pod without its label is a pod alone to a new process, and stays it.
		for name := range m.stray {
			if p := m.api.get(name); p != nil && p.Labels[kube.JobSetNameLabel] == s.name && p.Labels[cfg.MinMemberLabel()] == "" {
				m.torn[s.key] = true
			}
		}
	}
	m.api.mu.Unlock()
	m.run()
	return true
}
