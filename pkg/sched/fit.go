package sched

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"

	"lj.aliyun.com/kit/pkg/core/config"
)

// FitName is the name of the plugin Fit.
const FitName = "LJNodeResourcesFit"

// Fit is the in-tree NodeResourcesFit with other eyes: it is shown each pod
// without the resources that the suite decides on. The stock filter sums
// amounts per node, which knows neither single cards nor the label replica,
// and runs a regular expression per extended resource and node even for
// resources that it is told to ignore (fitsRequest: 31 % of a cycle).
//
// For pods with cards it has no say in the order of nodes: evening CPU out
// would spread pods over cards that LJDevices packs.
type Fit struct {
	*noderesources.Fit
	state *State
}

var (
	_ fwk.PreFilterPlugin   = &Fit{}
	_ fwk.FilterPlugin      = &Fit{}
	_ fwk.PreScorePlugin    = &Fit{}
	_ fwk.ScorePlugin       = &Fit{}
	_ fwk.EnqueueExtensions = &Fit{}
	_ fwk.SignPlugin        = &Fit{}
)

func newFit(ctx context.Context, state *State, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	p, err := noderesources.NewFit(ctx, args, h, plfeature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	in, ok := p.(*noderesources.Fit)
	if !ok {
		return nil, fmt.Errorf("NodeResourcesFit of this engine is a %T", p)
	}
	return &Fit{Fit: in, state: state}, nil
}

// Name implements fwk.Plugin.
func (f *Fit) Name() string { return FitName }

// PreFilter computes what the pod takes besides cards.
func (f *Fit) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return f.Fit.PreFilter(ctx, cs, f.withoutCards(pod), nodes)
}

// PreScore leaves the order of nodes to LJDevices where cards are asked.
func (f *Fit) PreScore(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	if cycleOf(cs) != nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return f.Fit.PreScore(ctx, cs, pod, nodes)
}

// EventsToRegister is the in-tree list; its hints, too, see the pod without
// cards, so that a change of CPU wakes a pod that waits for CPU.
func (f *Fit) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	events, err := f.Fit.EventsToRegister(ctx)
	for i := range events {
		hint := events[i].QueueingHintFn
		if hint == nil {
			continue
		}
		events[i].QueueingHintFn = func(l klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
			return hint(l, f.withoutCards(pod), oldObj, newObj)
		}
	}
	return events, err
}

// withoutCards copies as much of the pod as it takes to drop the suite's
// resources. A pod that asks no card but switches RDMA on keeps its request:
// the core has nothing to place there, and a node without the resource must
// still refuse it.
func (f *Fit) withoutCards(pod *v1.Pod) *v1.Pod {
	cfg := f.state.Config()
	if !asksCards(pod, cfg) {
		return pod
	}
	c := *pod
	c.Spec.Containers = stripAll(pod.Spec.Containers, cfg)
	c.Spec.InitContainers = stripAll(pod.Spec.InitContainers, cfg)
	return &c
}

func stripAll(in []v1.Container, cfg config.Config) []v1.Container {
	out := make([]v1.Container, len(in))
	for i := range in {
		out[i] = in[i]
		out[i].Resources.Requests = strip(in[i].Resources.Requests, cfg)
		out[i].Resources.Limits = strip(in[i].Resources.Limits, cfg)
	}
	return out
}

func strip(in v1.ResourceList, cfg config.Config) v1.ResourceList {
	out := make(v1.ResourceList, len(in))
	for name, q := range in {
		if !cfg.IsResource(string(name)) {
			out[name] = q
		}
	}
	return out
}

// asksCards tells whether a container names one of the suite's resources
// other than the RDMA switch.
func asksCards(pod *v1.Pod, cfg config.Config) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name, q := range list[i].Resources.Limits {
				if cfg.IsResource(string(name)) && string(name) != cfg.RDMA() && !q.IsZero() {
					return true
				}
			}
		}
	}
	return false
}
