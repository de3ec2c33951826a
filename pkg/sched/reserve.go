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

// pickKey is where the cards that were chosen in the simulation of a group wait
// for its commit.
const pickKey = Name + "/pick"

// pick is what a member was given in the simulation.
type pick struct{ *record }

// Clone implements fwk.StateData.
func (p pick) Clone() fwk.StateData { return p }

// Reserve chooses the cards and remembers them, so that the pods of the next
// cycles see them taken before the API server does. Filter has said yes on the
// same node, so a refusal here means that the node changed in between; it is
// an error, which the engine tries again after a back-off, and not a verdict,
// which would wait for an event that may have passed.
//
// A member of a group comes twice: in the simulation, and in the commit right
// after it, where it takes what the simulation gave it.
func (p *Plugin) Reserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	c := cycleOf(cs)
	if c == nil {
		if _, forged := pod.Annotations[kube.AllocationAnnotation]; forged {
			p.state.store(pod.UID, &record{node: node, assumed: true})
		}
		return nil
	}
	simulated := cs.IsPodGroupSchedulingCycle()
	if d, err := cs.Read(pickKey); err == nil && !simulated {
		if was, ok := d.(pick); ok && was.node == node {
			p.state.store(pod.UID, was.record)
			return nil
		}
	}
	r, err := p.choose(c, cs, pod, node, !simulated)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if simulated {
		cs.Write(pickKey, pick{r})
	}
	p.state.store(pod.UID, r)
	return nil
}

// choose makes the record of a pod on a node. more tells that the node may
// hold pods that the snapshot does not show yet.
func (p *Plugin) choose(c *cycle, cs fwk.CycleState, pod *v1.Pod, node string, more bool) (*record, error) {
	ni, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return nil, fmt.Errorf("cards on node %s: %w", node, err)
	}
	offer, why := p.state.fit(c, ni, pod.UID, more)
	if why != nil {
		return nil, fmt.Errorf("the cards on node %s are gone: %s", node, refusal(why))
	}
	alloc := &device.Allocation{V: device.AllocationVersion, UID: string(pod.UID), Node: node,
		Containers: offer.Containers, NICs: offer.NICs, Gang: p.gangMark(cs, pod)}
	text, err := device.EncodeAllocation(alloc)
	if err != nil {
		return nil, err
	}
	return &record{
		node: node, text: text, alloc: alloc, assumed: true, summary: p.state.summary(offer, node),
		hold: &cluster.Hold{UID: string(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Cards: offer.Uses},
	}, nil
}

// Unreserve gives the cards back. It comes from binding goroutines, more than
// once, and without Reserve before it.
func (p *Plugin) Unreserve(_ context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	p.state.release(pod.UID, node)
	if key, ok := keyOf(pod); ok && !cs.IsPodGroupSchedulingCycle() {
		p.leaveTrial(key, pod)
		p.rollBack(key, pod)
	}
}
