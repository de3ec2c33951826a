package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/device"
)

// kept is what one Assume or AssumeGroup has placed.
type kept struct {
	seats []*seat
	undo  func() // what else is to be taken back
}

// Schedule says where the scheduler would put the pod now, and which cards it
// would get (nil for a pod without cards). A pod that fits nowhere is a
// *framework.FitError with the same text as the live scheduler's event.
func (e *Engine) Schedule(ctx context.Context, pod *v1.Pod) (string, *device.Allocation, error) {
	node, alloc, err := e.Assume(ctx, pod)
	if err != nil {
		return "", nil, err
	}
	return node, alloc, e.Forget(ctx)
}

// Assume places the pod and keeps it there: later answers count it in. A
// member of a group is placed as if it were alone.
func (e *Engine) Assume(ctx context.Context, pod *v1.Pod) (string, *device.Allocation, error) {
	pod = fresh(pod)
	cs := framework.NewCycleState()
	node, err := e.choose(ctx, cs, pod)
	if err != nil {
		return "", nil, err
	}
	pod.Spec.NodeName = node
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", nil, err
	}
	if err := e.sitDown(ctx, cs, pod); err != nil {
		return "", nil, err
	}
	alloc, _ := e.state.AllocationOf(pod.UID)
	e.kept = append(e.kept, kept{seats: []*seat{{info, cs, alloc}}, undo: func() {}})
	return node, alloc, e.refresh(ctx)
}

// sitDown takes the pod's place on its node for good.
func (e *Engine) sitDown(ctx context.Context, cs *framework.CycleState, pod *v1.Pod) error {
	logger := klog.FromContext(ctx)
	if err := e.cache.AssumePod(logger, pod); err != nil {
		return err
	}
	if st := e.fw.RunReservePluginsReserve(ctx, cs, pod, pod.Spec.NodeName); !st.IsSuccess() {
		e.fw.RunReservePluginsUnreserve(ctx, cs, pod, pod.Spec.NodeName)
		return errors.Join(st.AsError(), e.cache.ForgetPod(logger, pod))
	}
	return nil
}

// errNothingAssumed is a mistake of the caller.
var errNothingAssumed = errors.New("no pod is assumed")

// Forget takes the pod or the group that was assumed last away again.
func (e *Engine) Forget(ctx context.Context) error {
	if len(e.kept) == 0 {
		return errNothingAssumed
	}
	k := e.kept[len(e.kept)-1]
	e.kept = e.kept[:len(e.kept)-1]
	for _, s := range slices.Backward(k.seats) {
		e.fw.RunReservePluginsUnreserve(ctx, s.cs, s.GetPod(), s.GetNodeName())
		if err := e.cache.ForgetPod(klog.FromContext(ctx), s.GetPod()); err != nil {
			return fmt.Errorf("forget pod %s: %w", klog.KObj(s.GetPod()), err)
		}
	}
	k.undo()
	return e.refresh(ctx)
}

// choose is the engine's SchedulePod without sampling and dice.
func (e *Engine) choose(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (string, error) {
	nodes, err := e.snap.ListNodesInPlacement()
	if err != nil {
		return "", err
	}
	if len(nodes) == 0 {
		return "", errors.New("no nodes")
	}
	fit, diagnosis, err := e.feasible(ctx, cs, pod, nodes)
	if err != nil {
		return "", err
	}
	if len(fit) == 0 {
		return "", &framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: diagnosis}
	}
	if len(fit) == 1 {
		return fit[0].Node().Name, nil
	}
	scores, err := e.scores(ctx, cs, pod, fit)
	if err != nil {
		return "", err
	}
	best := scores[0]
	for _, s := range scores[1:] {
		if s.TotalScore > best.TotalScore || s.TotalScore == best.TotalScore && s.Name < best.Name {
			best = s
		}
	}
	return best.Name, nil
}

func (e *Engine) scores(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, fit []fwk.NodeInfo) ([]fwk.NodePluginScores, error) {
	if st := e.fw.RunPreScorePlugins(ctx, cs, pod, fit); !st.IsSuccess() {
		return nil, st.AsError()
	}
	scores, st := e.fw.RunScorePlugins(ctx, cs, pod, fit)
	if !st.IsSuccess() {
		return nil, st.AsError()
	}
	return scores, nil
}

// feasible runs the filters as the engine does, up to the first that fails.
func (e *Engine) feasible(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	d := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	res, st, by := e.fw.RunPreFilterPlugins(ctx, cs, pod)
	if !st.IsSuccess() {
		if !st.IsRejected() {
			return nil, d, st.AsError()
		}
		d.NodeToStatus.SetAbsentNodesStatus(st)
		d.PreFilterMsg = st.Message()
		d.AddPluginStatus(st)
		return nil, d, nil
	}
	d.UnschedulablePlugins = by
	if !res.AllNodes() {
		nodes = nil
		for name := range res.NodeNames {
			if n, err := e.snap.GetNodeInPlacement(name); err == nil {
				nodes = append(nodes, n)
			}
		}
		d.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by))))
	}
	statuses := make([]*fwk.Status, len(nodes))
	e.fw.Parallelizer().Until(ctx, len(nodes), func(i int) {
		statuses[i] = e.fw.RunFilterPluginsWithNominatedPods(ctx, cs, pod, nodes[i])
	}, "offline-filter")
	if err := ctx.Err(); err != nil {
		return nil, d, err
	}
	var fit []fwk.NodeInfo
	for i, st := range statuses {
		switch {
		case st.IsSuccess():
			fit = append(fit, nodes[i])
		case st.Code() == fwk.Error:
			return nil, d, fmt.Errorf("node %s: %w", nodes[i].Node().Name, st.AsError())
		default:
			d.NodeToStatus.Set(nodes[i].Node().Name, st)
			d.AddPluginStatus(st)
		}
	}
	return fit, d, nil
}
