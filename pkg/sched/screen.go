package sched

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/config"
)

// screen foresees what the common in-tree filters say about nodes, so that the
// best nodes for cards are nodes that can be had, and a group's plan holds. It
// may err on either side: the filters decide, and a pod that all of its best
// nodes refuse is tried on every node at once.
type screen struct {
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	asks     v1.ResourceList // without the suite's own
}

func newScreen(pod *v1.Pod, c config.Config) *screen {
	s := &screen{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), asks: resource.PodRequests(pod, resource.PodResourcesOptions{})}
	for name, q := range s.asks {
		if q.IsZero() || c.IsResource(string(name)) {
			delete(s.asks, name)
		}
	}
	return s
}

// key is the same for pods to which the screen is the same.
func (s *screen) key() string {
	var node *v1.NodeAffinity
	if s.pod.Spec.Affinity != nil {
		node = s.pod.Spec.Affinity.NodeAffinity
	}
	b, err := json.Marshal([]any{s.asks, s.pod.Spec.NodeSelector, node, s.pod.Spec.Tolerations})
	if err != nil {
		return string(s.pod.UID)
	}
	return string(b)
}

// passes tells whether the node takes the pod.
func (s *screen) passes(ni fwk.NodeInfo) bool { return s.refuses(ni) == "" }

// refuses is why the node does not take the pod, "" if it does.
func (s *screen) refuses(ni fwk.NodeInfo) string {
	if why := s.shuts(ni.Node()); why != "" {
		return why
	}
	if n, short := s.room(ni); n < 1 {
		return short
	}
	return ""
}

// shuts is why the node takes none of the kind however empty it is.
func (s *screen) shuts(n *v1.Node) string {
	if n.Spec.Unschedulable {
		return "node(s) were unschedulable"
	}
	if len(n.Spec.Taints) > 0 {
		if t, bad := v1helper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, s.pod.Spec.Tolerations, func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, false); bad {
			return "node(s) had untolerated taint {" + t.Key + ": " + t.Value + "}"
		}
	}
	if ok, err := s.affinity.Match(n); err != nil || !ok {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	return ""
}

// capacity is how many pods of the kind the node takes, cards apart.
func (s *screen) capacity(ni fwk.NodeInfo) int {
	if s.shuts(ni.Node()) != "" {
		return 0
	}
	n, _ := s.room(ni)
	return n
}

// idle is how many pods of the kind the node takes when nobody else is there.
func (s *screen) idle(ni fwk.NodeInfo) int {
	if s.shuts(ni.Node()) != "" {
		return 0
	}
	n, _ := s.within(ni.GetAllocatable(), nobody, ni.GetAllocatable().GetAllowedPodNumber())
	return n
}

var nobody fwk.Resource = &framework.Resource{}

// room is how many pods of the kind the node's amounts are enough for, and the
// name of what is short first.
func (s *screen) room(ni fwk.NodeInfo) (n int, short string) {
	can := ni.GetAllocatable()
	return s.within(can, ni.GetRequested(), can.GetAllowedPodNumber()-len(ni.GetPods()))
}

// within is room where so much is used and so many pods may still come.
func (s *screen) within(can, used fwk.Resource, pods int) (n int, short string) {
	n, short = pods, "Too many pods"
	for name, q := range s.asks {
		var free, ask int64
		switch name {
		case v1.ResourceCPU:
			free, ask = can.GetMilliCPU()-used.GetMilliCPU(), q.MilliValue()
		case v1.ResourceMemory:
			free, ask = can.GetMemory()-used.GetMemory(), q.Value()
		case v1.ResourceEphemeralStorage:
			free, ask = can.GetEphemeralStorage()-used.GetEphemeralStorage(), q.Value()
		default:
			free, ask = can.GetScalarResources()[name]-used.GetScalarResources()[name], q.Value()
		}
		if k := int(max(free, 0) / ask); k < n {
			n, short = k, "Insufficient "+string(name)
		}
	}
	return n, short
}
