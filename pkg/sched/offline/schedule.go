package offline

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/device"
)

// assumption is a pod that Assume has placed.
type assumption struct {
	pod   *v1.Pod
	state fwk.CycleState
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

// Assume places the pod and keeps it there: later answers count it in.
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
	if err := e.snap.AssumePod(info); err != nil {
		return "", nil, err
	}
	if st := e.fw.RunReservePluginsReserve(ctx, cs, pod, node); !st.IsSuccess() {
		e.fw.RunReservePluginsUnreserve(ctx, cs, pod, node)
		return "", nil, errors.Join(st.AsError(), e.snap.ForgetPod(klog.FromContext(ctx), pod))
	}
	e.assumed = append(e.assumed, assumption{pod, cs})
	alloc, _ := e.state.AllocationOf(pod.UID)
	return node, alloc, nil
}

// errNothingAssumed is a mistake of the caller.
var errNothingAssumed = errors.New("no pod is assumed")

// Forget takes the pod that was assumed last away again.
func (e *Engine) Forget(ctx context.Context) error {
	if len(e.assumed) == 0 {
		return errNothingAssumed
	}
	a := e.assumed[len(e.assumed)-1]
	e.assumed = e.assumed[:len(e.assumed)-1]
	e.fw.RunReservePluginsUnreserve(ctx, a.state, a.pod, a.pod.Spec.NodeName)
	if err := e.snap.ForgetPod(klog.FromContext(ctx), a.pod); err != nil {
		return fmt.Errorf("forget pod %s: %w", klog.KObj(a.pod), err)
	}
	return nil
}

// choose is the engine's SchedulePod without sampling and dice.
func (e *Engine) choose(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) (string, error) {
	if len(e.nodes) == 0 {
		return "", errors.New("no nodes")
	}
	fit, diagnosis, err := e.feasible(ctx, cs, pod)
	if err != nil {
		return "", err
	}
	if len(fit) == 0 {
		return "", &framework.FitError{Pod: pod, NumAllNodes: len(e.nodes), Diagnosis: diagnosis}
	}
	if len(fit) == 1 {
		return fit[0].Node().Name, nil
	}
	if st := e.fw.RunPreScorePlugins(ctx, cs, pod, fit); !st.IsSuccess() {
		return "", st.AsError()
	}
	scores, st := e.fw.RunScorePlugins(ctx, cs, pod, fit)
	if !st.IsSuccess() {
		return "", st.AsError()
	}
	best := scores[0]
	for _, s := range scores[1:] {
		if s.TotalScore > best.TotalScore || s.TotalScore == best.TotalScore && s.Name < best.Name {
			best = s
		}
	}
	return best.Name, nil
}

// feasible runs the filters as the engine does, up to the first that fails.
func (e *Engine) feasible(ctx context.Context, cs fwk.CycleState, pod *v1.Pod) ([]fwk.NodeInfo, framework.Diagnosis, error) {
	d := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	res, st, _ := e.fw.RunPreFilterPlugins(ctx, cs, pod)
	if !st.IsSuccess() {
		if !st.IsRejected() {
			return nil, d, st.AsError()
		}
		d.NodeToStatus.SetAbsentNodesStatus(st)
		d.PreFilterMsg = st.Message()
		d.AddPluginStatus(st)
		return nil, d, nil
	}
	statuses := make([]*fwk.Status, len(e.nodes))
	e.fw.Parallelizer().Until(ctx, len(e.nodes), func(i int) {
		if !res.AllNodes() && !res.NodeNames.Has(e.nodes[i].Node().Name) {
			statuses[i] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node is filtered out by the prefilter result")
			return
		}
		statuses[i] = e.fw.RunFilterPluginsWithNominatedPods(ctx, cs, pod, e.nodes[i])
	}, "offline-filter")
	if err := ctx.Err(); err != nil {
		return nil, d, err
	}
	var fit []fwk.NodeInfo
	for i, st := range statuses {
		switch {
		case st.IsSuccess():
			fit = append(fit, e.nodes[i])
		case st.Code() == fwk.Error:
			return nil, d, fmt.Errorf("node %s: %w", e.nodes[i].Node().Name, st.AsError())
		default:
			d.NodeToStatus.Set(e.nodes[i].Node().Name, st)
			d.AddPluginStatus(st)
		}
	}
	return fit, d, nil
}
