package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
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
	node, why := p.closest(c, m)
	if node == "" {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("closest is node %s, %s", node, full(why)))
}

// closest finds the node that lacks least, among those that the plugin has
// refused: first those that wait for somebody to end, else those that would
// need an act. Of equal ones the first by name.
func (p *Plugin) closest(c *cycle, m fwk.NodeToStatusReader) (string, reason.Reason) {
	nodes := p.handle.SnapshotSharedLister().NodeInfos()
	var best reason.Reason
	name := ""
	for _, code := range []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable} {
		list, err := m.NodesForStatusCode(nodes, code)
		if err != nil || name != "" {
			break
		}
		for _, ni := range list {
			node := ni.Node().Name
			if m.Get(node).Plugin() != Name {
				continue
			}
			why := p.state.check(c, ni)
			if len(why) == 0 {
				continue // refused for pods nominated there
			}
			if name == "" || nearer(why[0], node, best, name) {
				name, best = node, why[0]
			}
		}
	}
	return name, best
}

// nearer orders refusals by what is short; one without numbers comes last.
func nearer(a reason.Reason, nodeA string, b reason.Reason, nodeB string) bool {
	if x, y := a.Want > 0, b.Want > 0; x != y {
		return x
	}
	if a.Code == b.Code || a.Unit == b.Unit {
		if x, y := a.Want-a.Free, b.Want-b.Free; x != y {
			return x < y
		}
	}
	if a.Code != b.Code {
		return a.Code < b.Code
	}
	return nodeA < nodeB
}
