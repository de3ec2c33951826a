package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/kube"
)

// Reserve chooses the cards and remembers them, so that the pods of the next
// cycles see them taken before the API server does. Filter has said yes on the
// same node, so a refusal here means that the node changed in between; it is
// an error, which the engine tries again after a back-off, and not a verdict,
// which would wait for an event that may have passed.
func (p *Plugin) Reserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c := cycleOf(cs)
	if c == nil {
		if _, forged := pod.Annotations[kube.AllocationAnnotation]; forged {
			p.state.store(pod.UID, &record{node: node, assumed: true})
		}
		return nil
	}
	ni, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("cards on node %s: %w", node, err))
	}
	offer, why := p.state.fit(c, ni, pod.UID, !cs.IsPodGroupSchedulingCycle())
	if why != nil {
		return fwk.AsStatus(fmt.Errorf("the cards on node %s are gone: %s", node, refusal(why)))
	}
	alloc := &device.Allocation{V: device.AllocationVersion, UID: string(pod.UID), Node: node, Containers: offer.Containers, NICs: offer.NICs}
	text, err := device.EncodeAllocation(alloc)
	if err != nil {
		return fwk.AsStatus(err)
	}
	p.state.store(pod.UID, &record{
		node: node, text: text, alloc: alloc, assumed: true,
		hold: &cluster.Hold{UID: string(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Cards: offer.Uses},
	})
	return nil
}

// Unreserve gives the cards back. It comes from binding goroutines, more than
// once, and without Reserve before it.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.state.release(pod.UID, node)
}
