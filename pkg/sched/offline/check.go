package offline

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"lj.aliyun.com/kit/pkg/sched"
)

// Result is what every filter says about every node.
type Result struct {
	Filters []string // in the profile's order
	PerNode []NodeResult
}

// NodeResult is one node. A filter of Result.Filters that is not in Failed
// passed; only refusals are kept, since large clusters have 5,000 of these.
type NodeResult struct {
	Name   string
	Failed []Check // in the profile's order
}

// Fits tells whether every filter passed.
func (n NodeResult) Fits() bool { return len(n.Failed) == 0 }

// Check is one filter's refusal of one node.
type Check struct {
	Name    string   // of the filter
	Reasons []string // in the filter's own words
	// Resolvable: the end of pods on the node could change the answer.
	Resolvable bool
	// Err: the filter could not answer; Reasons say why. The node is unknown.
	Err bool
	// Short has the amounts behind a refusal of the resource filter.
	Short []Shortage
}

// Shortage is a resource of which a node has too little, in the resource's
// own units (CPU: thousandths of a core; bytes).
type Shortage struct {
	Resource          string
	Want, Free, Total int64
}

// Check runs each filter of the profile on each node, all of them, with the
// nominated pods of the snapshot left out.
func (e *Engine) Check(ctx context.Context, pod *v1.Pod) (Result, error) {
	pod = fresh(pod)
	out := Result{Filters: e.Filters(), PerNode: make([]NodeResult, len(e.nodes))}
	for i, n := range e.nodes {
		out.PerNode[i].Name = n.Node().Name
	}
	cs := framework.NewCycleState()
	for _, f := range e.filters {
		before := e.prepare(ctx, cs, f, pod)
		if before.skip {
			continue
		}
		checks := make([]*Check, len(e.nodes))
		e.fw.Parallelizer().Until(ctx, len(e.nodes), func(i int) {
			checks[i] = e.ask(ctx, cs, f, before, pod, e.nodes[i])
		}, "offline-"+f.name)
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		for i, c := range checks {
			if c != nil {
				out.PerNode[i].Failed = append(out.PerNode[i].Failed, *c)
			}
		}
	}
	return out, nil
}

// prepared is what a filter said about all nodes at once.
type prepared struct {
	skip  bool
	whole *Check           // refuses every node
	names sets.Set[string] // nil: all
}

func (e *Engine) prepare(ctx context.Context, cs fwk.CycleState, f filter, pod *v1.Pod) prepared {
	if f.pre == nil {
		return prepared{}
	}
	res, st := f.pre.PreFilter(ctx, cs, pod, e.nodes)
	switch {
	case st.IsSkip():
		return prepared{skip: true}
	case !st.IsSuccess():
		return prepared{whole: refusal(f.name, st)}
	case res.AllNodes():
		return prepared{}
	}
	return prepared{names: res.NodeNames}
}

// ask runs one filter on one node, nil if it passes.
func (e *Engine) ask(ctx context.Context, cs fwk.CycleState, f filter, before prepared, pod *v1.Pod, n fwk.NodeInfo) *Check {
	if before.whole != nil {
		return before.whole
	}
	if before.names != nil {
		if !before.names.Has(n.Node().Name) {
			return &Check{Name: f.name, Reasons: []string{"node(s) not among those that the pod can use"}}
		}
	}
	st := f.run.Filter(ctx, cs, pod, n)
	if st.IsSuccess() {
		return nil
	}
	c := refusal(f.name, st)
	if f.name == sched.FitName {
		c.Short = e.shortages(pod, n)
	}
	return c
}

func refusal(name string, st *fwk.Status) *Check {
	return &Check{Name: name, Reasons: slices.Clone(st.Reasons()), Resolvable: st.Code() == fwk.Unschedulable, Err: st.Code() == fwk.Error}
}

// shortages puts numbers to a refusal by the resource filter, without the
// suite's own resources, which that filter does not see.
func (e *Engine) shortages(pod *v1.Pod, n fwk.NodeInfo) []Shortage {
	var out []Shortage
	for _, s := range noderesources.Fits(pod, n, nil, noderesources.ResourceRequestsOptions{EnablePodLevelResources: true}) {
		if e.cfg.IsResource(string(s.ResourceName)) {
			continue
		}
		out = append(out, Shortage{Resource: string(s.ResourceName), Want: s.Requested, Free: s.Capacity - s.Used, Total: s.Capacity})
	}
	return out
}

// Change is a thought about one node: pods that are gone from it, and the
// node object as it would then be (nil: as it is).
type Change struct {
	Node *v1.Node
	Gone map[types.UID]bool
}

// CheckNode runs each filter on one node under a change, as preemption tries
// victims: on a copy of the node, while the rest of the cluster stays.
func (e *Engine) CheckNode(ctx context.Context, pod *v1.Pod, name string, ch Change) (NodeResult, error) {
	pod = fresh(pod)
	was, err := e.node(name)
	if err != nil {
		return NodeResult{}, err
	}
	n := was.Snapshot()
	var gone []fwk.PodInfo
	for _, pi := range was.GetPods() {
		if ch.Gone[pi.GetPod().UID] {
			gone = append(gone, pi)
			if err := n.RemovePod(klog.FromContext(ctx), pi.GetPod()); err != nil {
				return NodeResult{}, fmt.Errorf("node %s: without pod %s: %w", name, klog.KObj(pi.GetPod()), err)
			}
		}
	}
	if ch.Node != nil {
		n.SetNode(ch.Node)
	}
	out := NodeResult{Name: name}
	cs := framework.NewCycleState()
	for _, f := range e.filters {
		before := e.prepare(ctx, cs, f, pod)
		if before.skip {
			continue
		}
		if f.pre != nil && before.whole == nil && f.pre.PreFilterExtensions() != nil {
			for _, pi := range gone {
				if st := f.pre.PreFilterExtensions().RemovePod(ctx, cs, pod, pi, n); !st.IsSuccess() {
					return NodeResult{}, fmt.Errorf("filter %s: %w", f.name, st.AsError())
				}
			}
		}
		if c := e.ask(ctx, cs, f, before, pod, n); c != nil {
			out.Failed = append(out.Failed, *c)
		}
	}
	return out, nil
}
