package sched

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/kube"
)

// EventsToRegister names what can make a refused pod fit. The engine looks at
// refused pods again only on these (and after five minutes).
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	node := &nodeHint{state: p.state}
	return []fwk.ClusterEventWithHint{
		{
			// What PreEnqueue holds back for its members.
			Event:          fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: afterGroup,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: p.afterPodGone,
		},
		{
			// Annotation: the inventory. Label: the enabling label.
			Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable |
				fwk.UpdateNodeLabel | fwk.UpdateNodeAnnotation},
			QueueingHintFn: node.after,
		},
		{
			// The label replica is part of the request.
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: p.afterOwnLabel,
		},
	}, nil
}

// afterPodGone: only a pod that held cards, or was promised some, makes room.
func (p *Plugin) afterPodGone(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	cfg := p.state.Config()
	if gone.Spec.NodeName == "" && gone.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	if _, known := p.state.AllocationOf(gone.UID); known == "" && !asksCards(gone, cfg) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterGroup: a change of the pod's own group counts.
func afterGroup(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, now, err := schedutil.As[*schedulingapi.PodGroup](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if key, ok := keyOf(pod); ok && key.Namespace == now.Namespace && key.Name == now.Name {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterOwnLabel: a change of labels counts if it changes the request.
func (p *Plugin) afterOwnLabel(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	cfg := p.state.Config()
	req, bad := kube.RequestOf(now, cfg)
	if len(bad) > 0 {
		return fwk.QueueSkip, nil
	}
	if was, bad := kube.RequestOf(before, cfg); len(bad) == 0 && classKey(was) == classKey(req) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// nodeHint judges changes of nodes. The engine asks it about each waiting pod
// in turn for one event, so the node is read once and each class judged once.
type nodeHint struct {
	state *State

	mu      sync.Mutex
	old, at *v1.Node
	set     *settings
	empty   *place.View
	same    bool
	answers map[*class]fwk.QueueingHint
}

// after: the node must be able to take the pod if nobody else were there, and
// something about its cards, label or amounts must have changed.
func (h *nodeHint) after(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, now, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	set := h.state.settings.Load()
	req, bad := kube.RequestOf(pod, set.Config)
	if len(bad) > 0 || req.Empty() {
		return fwk.QueueSkip, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at != now || h.old != before || h.set != set {
		h.old, h.at, h.set, h.answers = before, now, set, map[*class]fwk.QueueingHint{}
		h.empty = place.NewView(kube.NodeIn(now, set.Config, set.network), set.Config)
		h.same = sameCards(before, now, set.Config)
	}
	c := h.state.classOf(req)
	hint, ok := h.answers[c]
	if !ok {
		hint = fwk.QueueSkip
		if !h.same && h.empty.Check(req) == nil {
			hint = fwk.Queue
		}
		h.answers[c] = hint
	}
	return hint, nil
}
