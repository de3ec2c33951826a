package sched

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// PostFilter comes when no node took the pod. It never finds a place itself:
// it adds the numbers of the node that comes closest to the event, and gives
// way to the in-tree preemption.
func (p *Plugin) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, m fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := cs.Read(refusedKey); err == nil {
		// No eviction helps this pod, and the plugins behind this one have no
		// state to work on: their PreFilter was never reached.
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	}
	c := cycleOf(cs)
	if c == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if c.narrowed {
		// Preemption must not evict anybody for a pod that other nodes may
		// take as it is; this status ends the round.
		p.state.setWide(pod.UID)
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the best nodes for its cards refuse the pod, trying the others")
	}
	if nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List(); err == nil && !cs.IsPodGroupSchedulingCycle() {
		p.keepForPod(pod, c, nodes)
	}
	code := fwk.Unschedulable
	if len(pod.Spec.ResourceClaims) == 0 && !p.victims(pod, m) {
		// Ends the round: the dry run of preemption over 5,000 full nodes is
		// most of the time of a refusal, and can evict nobody.
		code = fwk.UnschedulableAndUnresolvable
	}
	node, why := p.closest(c, m)
	if node == "" {
		return nil, fwk.NewStatus(code)
	}
	p.refused(ctx, pod, node, []reason.Reason{why})
	return nil, fwk.NewStatus(code, fmt.Sprintf("closest is node %s, %s", node, full(why)))
}

// victims tells whether a pod of lower priority is on any node that preemption
// would look at.
func (p *Plugin) victims(pod *v1.Pod, m fwk.NodeToStatusReader) bool {
	list, err := m.NodesForStatusCode(p.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return true
	}
	mine := v1helper.PodPriority(pod)
	for _, ni := range list {
		for _, pi := range ni.GetPods() {
			if v1helper.PodPriority(pi.GetPod()) < mine {
				return true
			}
		}
	}
	return false
}

// closest finds the node that lacks least among those that the plugin has
// refused: first those that wait for somebody to end, else those that would
// need an act. Amounts of different causes do not compare, so it is the most
// common cause that counts, and of its nodes the nearest, then the first by
// name.
func (p *Plugin) closest(c *cycle, m fwk.NodeToStatusReader) (string, reason.Reason) {
	nodes := p.handle.SnapshotSharedLister().NodeInfos()
	for _, code := range []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		list, err := m.NodesForStatusCode(nodes, code)
		if err != nil {
			break
		}
		causes := map[reason.Code]*cause{}
		for _, ni := range list {
			node := ni.Node().Name
			if m.Get(node).Plugin() != Name {
				continue
			}
			// No reason now: refused for pods nominated there.
			if why := p.state.check(c, ni); len(why) > 0 {
				k := causes[why[0].Code]
				if k == nil {
					k = &cause{}
					causes[why[0].Code] = k
				}
				k.add(node, why[0])
			}
		}
		var most *cause
		for _, slug := range slices.Sorted(maps.Keys(causes)) {
			if k := causes[slug]; most == nil || k.count > most.count {
				most = k
			}
		}
		if most != nil {
			return most.node, most.why
		}
	}
	return "", reason.Reason{}
}

// cause is one code with the node that is nearest to fitting.
type cause struct {
	count int
	node  string
	why   reason.Reason
}

func (k *cause) add(node string, why reason.Reason) {
	k.count++
	gap, best := why.Want-why.Free, k.why.Want-k.why.Free
	if k.count == 1 || gap < best || gap == best && node < k.node {
		k.node, k.why = node, why
	}
}
