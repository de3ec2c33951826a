package sched

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
)

// Name is the name of the plugin in profiles, events and metrics.
const Name = "LJDevices"

// Plugin gives pods their cards.
type Plugin struct {
	state  *State
	handle fwk.Handle
	clock  clock.WithDelayedExecution

	indexes indexes
	waking  waking
	slots   chan struct{} // of bindings at one time

	gangs   sync.Mutex // guards what follows
	cooling map[types.NamespacedName]*cooling
	trials  map[types.NamespacedName][]*trial
	// lastWait is when a member of a group last began to wait in Permit.
	lastWait map[types.NamespacedName]time.Time
	// wideGangs are groups whose plan has failed: the engine chooses nodes.
	wideGangs map[types.NamespacedName]bool
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}

	_ fwk.PreEnqueuePlugin         = &Plugin{}
	_ fwk.PermitPlugin             = &Plugin{}
	_ fwk.PostBindPlugin           = &Plugin{}
	_ fwk.PlacementGeneratePlugin  = &Plugin{}
	_ fwk.PlacementScorePlugin     = &Plugin{}
	_ fwk.PodGroupPostFilterPlugin = &Plugin{}
)

// newPlugin wires State to the informers of the engine. Correctness does not
// wait for them: what a pod holds is read from the pod itself when the engine
// shows it on a node, so a handler that is still draining its first list costs
// time and never gives a card twice. The handlers confirm what Reserve gave
// and drop what is gone.
func newPlugin(state *State, h fwk.Handle) (*Plugin, error) {
	p := &Plugin{state: state, handle: h, clock: clock.RealClock{}, cooling: map[types.NamespacedName]*cooling{},
		slots: make(chan struct{}, bindings), trials: map[types.NamespacedName][]*trial{}, wideGangs: map[types.NamespacedName]bool{}, lastWait: map[types.NamespacedName]time.Time{}}
	core := h.SharedInformerFactory().Core().V1()
	if _, err := core.Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.seen(o) },
		UpdateFunc: func(before, o any) { p.seen(o); p.reportEdit(before, o) },
		DeleteFunc: func(o any) {
			if pod, ok := last(o).(*v1.Pod); ok {
				held, _ := state.AllocationOf(pod.UID)
				state.forget(pod.UID)
				if held != nil {
					p.freed()
				}
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	if _, err := core.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(o any) {
			if n, ok := last(o).(*v1.Node); ok {
				state.dropNode(n.Name)
			}
		},
	}); err != nil {
		return nil, fmt.Errorf("watch nodes: %w", err)
	}
	state.attach(p)
	return p, nil
}

func (p *Plugin) seen(o any) {
	if pod, ok := o.(*v1.Pod); ok {
		p.state.observe(pod)
	}
}

// reportEdit says that somebody has changed the record of a pod: the pod and
// this process differ about its cards from then on, and after a restart only
// the pod's version is left.
func (p *Plugin) reportEdit(before, now any) {
	old, ok1 := before.(*v1.Pod)
	pod, ok2 := now.(*v1.Pod)
	if !ok1 || !ok2 || old.Annotations[kube.AllocationAnnotation] == pod.Annotations[kube.AllocationAnnotation] || !p.state.edited(pod) {
		return
	}
	klog.InfoS("The allocation of a bound pod was changed, the cards that it was given stay held", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
}

// last unwraps an object whose deletion was noticed late.
func last(o any) any {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		return d.Obj
	}
	return o
}

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// retry puts all waiting pods of the profile into the queue.
func (p *Plugin) retry(logger klog.Logger) {
	pods, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().List(labels.Everything())
	if err != nil {
		logger.Error(err, "List waiting pods")
		return
	}
	waiting := map[string]*v1.Pod{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && pod.Spec.SchedulerName == kube.SchedulerName {
			waiting[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	p.handle.Activate(logger, waiting)
}

// cycle is what one scheduling cycle of one pod knows from PreFilter on. It is
// not changed afterwards: what pods are on a node is asked of the NodeInfo.
type cycle struct {
	req   *request.Request
	class *class
	set   *settings
	// narrowed: PreFilter left out nodes that fit too.
	narrowed bool
}

// Clone implements fwk.StateData.
func (c *cycle) Clone() fwk.StateData { return c }

// refusedKey marks the cycle of a pod that was refused for good.
const refusedKey = Name + "/refused"

type refused struct{}

func (r refused) Clone() fwk.StateData { return r }

// cycleOf finds what PreFilter left, nil for a pod without cards.
func cycleOf(cs fwk.CycleState) *cycle {
	d, err := cs.Read(Name)
	if err != nil {
		return nil
	}
	c, _ := d.(*cycle)
	return c
}

// PreFilter reads the request. A pod that asks for no card is left to the
// in-tree plugins; one that breaks the rules is refused for good.
func (p *Plugin) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c, bad := p.read(pod, p.state.settings.Load())
	if len(bad) > 0 {
		cs.Write(refusedKey, refused{})
		p.refused(ctx, pod, "", bad)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, refusal(bad))
	}
	var only *fwk.PreFilterResult
	if made := planOf(cs); made != nil && made.nodes != nil {
		node, ok := made.nodes[pod.UID]
		if !ok { // the group needs fewer than it has
			return nil, fwk.NewStatus(fwk.Unschedulable, "no room beside the other members of the group")
		}
		only = &fwk.PreFilterResult{NodeNames: sets.New(node)}
	}
	if c.req.Empty() {
		if only != nil {
			return only, nil
		}
		return nil, fwk.NewStatus(fwk.Skip)
	}
	p.state.setAsked(pod.UID, c.req)
	cs.Write(Name, c)
	if cs.IsPodGroupSchedulingCycle() {
		return only, nil
	}
	return p.narrow(ctx, c, pod, nodes), nil
}

// refused writes a refusal to the log of decisions.
func (p *Plugin) refused(ctx context.Context, pod *v1.Pod, node string, why []reason.Reason) {
	group := ""
	if key, ok := keyOf(pod); ok {
		group = key.Name
	}
	p.state.decisions.Load().Refused(klog.FromContext(ctx), pod, group, node, why)
}

// read makes out what a pod asks, or why it is refused for good.
func (p *Plugin) read(pod *v1.Pod, set *settings) (*cycle, []reason.Reason) {
	req, bad := kube.RequestOf(pod, set.Config)
	if len(bad) == 0 && len(req.Resources) > 0 {
		bad = wrongRuntime(pod)
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return &cycle{req: req, class: p.state.classOf(req), set: set}, nil
}

// wrongRuntime refuses pods that a node would start without the suite's
// runtime: they would see no card, or all of them.
func wrongRuntime(pod *v1.Pod) []reason.Reason {
	switch class := pod.Spec.RuntimeClassName; {
	case class == nil || *class == "":
		return []reason.Reason{{Code: "runtime-class-missing", Device: kube.RuntimeClass}}
	case *class != kube.RuntimeClass:
		return []reason.Reason{{Code: "runtime-class-wrong", Device: kube.RuntimeClass, Detail: []string{*class}}}
	}
	return nil
}

// PreFilterExtensions must not be nil, or preemption would not try victims;
// there is nothing to keep up to date, since Filter asks the NodeInfo.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod implements fwk.PreFilterExtensions.
func (p *Plugin) AddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// RemovePod implements fwk.PreFilterExtensions.
func (p *Plugin) RemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// Filter tells whether the node has the cards.
func (p *Plugin) Filter(_ context.Context, cs fwk.CycleState, pod *v1.Pod, ni fwk.NodeInfo) *fwk.Status {
	c := cycleOf(cs)
	if c == nil {
		return nil
	}
	if k := p.state.kept.Load(); k.barred(pod, ni.Node().Name, p.clock.Now()) {
		return k.status()
	}
	if why := p.state.check(c, ni); why != nil {
		return statusOf(why)
	}
	return nil
}

// PreScore leaves pods without cards to the in-tree scores.
func (p *Plugin) PreScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if cycleOf(cs) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is the rank of the node among those that fit, far above the engine's
// largest score; NormalizeScore makes scores of it.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, ni fwk.NodeInfo) (int64, *fwk.Status) {
	c := cycleOf(cs)
	if c == nil {
		return 0, nil
	}
	return p.state.rank(c, ni), nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore grades the nodes by their ranks. Of equal ones the first by
// name is the best: the engine would throw dice, and a what-if question could
// not foretell it.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, nodes fwk.NodeScoreList) *fwk.Status {
	if len(nodes) == 0 {
		return nil
	}
	best := 0
	ranks := make([]int64, len(nodes))
	for i, n := range nodes {
		ranks[i] = n.Score
		if n.Score > nodes[best].Score || n.Score == nodes[best].Score && n.Name < nodes[best].Name {
			best = i
		}
	}
	ranks[best]++
	for i, g := range place.Grades(ranks) {
		nodes[i].Score = g
	}
	return nil
}

// SignPod lets the engine treat equal pods as one batch. What decides about
// cards is the class of the request; pods that are refused are not signed.
func (p *Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	req, bad := kube.RequestOf(pod, p.state.Config())
	if len(bad) > 0 || len(req.Resources) > 0 && wrongRuntime(pod) != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "refused by "+Name)
	}
	return []fwk.SignFragment{{Key: "lj.aliyun.com/request", Value: classKey(req)}}, nil
}
