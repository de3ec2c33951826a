package sched

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// The engine looks at a sample of the nodes in large clusters (10 % of 5,000)
// and scores only those. For cards that packs badly: a half-used node outside
// the sample stays half used. Since a node's answer about cards is remembered,
// asking all nodes is cheap, and the plugin itself picks the best; only they
// pass through the other filters and scores.

// candidate is a node that has the cards.
type candidate struct {
	name  string
	score int64
}

// narrow returns the best nodes for the pod's cards, nil for all nodes: if
// narrowing is off, if the pod was refused by its best nodes before, or if
// there are few.
func (p *Plugin) narrow(ctx context.Context, c *cycle, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.PreFilterResult {
	limit := int(p.state.candidates.Load())
	if limit == 0 || len(nodes) <= 2*limit || pod.Status.NominatedNodeName != "" || p.state.isWide(pod.UID) {
		return nil
	}
	likely := newScreen(pod)
	scores := make([]int64, len(nodes))
	p.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		scores[i] = -1
		if likely.passes(nodes[i]) && p.state.check(c, nodes[i]) == nil {
			scores[i] = p.state.score(c, nodes[i])
		}
	}, Name)
	var fits []candidate
	for i, score := range scores {
		if score >= 0 {
			fits = append(fits, candidate{nodes[i].Node().Name, score})
		}
	}
	if len(fits) <= limit {
		// Nowhere, or on few nodes: the filters then say for every node why
		// not, and preemption needs to see all of them.
		return nil
	}
	slices.SortFunc(fits, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.name, b.name))
	})
	names := sets.New[string]()
	for _, f := range fits[:limit] {
		names.Insert(f.name)
	}
	c.narrowed = true
	return &fwk.PreFilterResult{NodeNames: names}
}

// screen passes over nodes that the common in-tree filters would refuse, so
// that the best nodes for cards are nodes that can be had. It may err on
// either side: the filters decide, and a pod that all of its best nodes refuse
// is tried on every node at once.
type screen struct {
	pod      *v1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	cpu, mem int64
}

func newScreen(pod *v1.Pod) *screen {
	s := &screen{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		s.cpu += r.Cpu().MilliValue()
		s.mem += r.Memory().Value()
	}
	return s
}

func (s *screen) passes(ni fwk.NodeInfo) bool {
	n := ni.Node()
	if n.Spec.Unschedulable {
		return false
	}
	can, used := ni.GetAllocatable(), ni.GetRequested()
	if s.cpu > can.GetMilliCPU()-used.GetMilliCPU() || s.mem > can.GetMemory()-used.GetMemory() ||
		len(ni.GetPods()) >= can.GetAllowedPodNumber() {
		return false
	}
	if len(n.Spec.Taints) > 0 {
		if _, bad := v1helper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, s.pod.Spec.Tolerations, func(t *v1.Taint) bool {
			return t.Effect == v1.TaintEffectNoSchedule || t.Effect == v1.TaintEffectNoExecute
		}, false); bad {
			return false
		}
	}
	ok, err := s.affinity.Match(n)
	return err == nil && ok
}
