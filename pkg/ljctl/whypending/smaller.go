package whypending

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
)

// smaller tries less of what is asked, one thing at a time, the least loss
// first, for pods with one container that asks: with several, which one can
// do with less is not for a tool to say.
func (q *inquiry) smaller(ctx context.Context, r *explain.Report, near []explain.Node) error {
	if len(q.req.Asks) != 1 || !worthShrinking(near) {
		return nil
	}
	a := q.req.Asks[0]
	for _, s := range q.shrinks(a, near) {
		pod := q.pod.DeepCopy()
		s.apply(pod)
		before := len(r.Suggestions)
		if err := q.tryPod(ctx, r, pod, s.text); err != nil {
			return err
		}
		if len(r.Suggestions) > before && s.last {
			return nil
		}
	}
	return nil
}

// shrink is one smaller request.
type shrink struct {
	text  string
	apply func(*v1.Pod)
	last  bool // stop at the first of these that fits
}

// shrinks lists smaller requests worth a try. Cards of the nearest nodes say
// how much of a share would fit; the try decides.
func (q *inquiry) shrinks(a request.Ask, near []explain.Node) []shrink {
	var out []shrink
	limit := func(res string, v int64) shrink {
		return shrink{fmt.Sprintf("%s: \"%d\"", res, v), func(pod *v1.Pod) { setLimit(pod, a.Container, res, v) }, true}
	}
	switch a.Mode {
	case request.Whole:
		res := q.cfg.GPU()
		if a.NVIDIAOnly {
			res = config.NvidiaGPU
		}
		if n := mostFree(near); n > 0 && n < a.Count {
			out = append(out, limit(res, int64(n)))
		}
	case request.MIG:
		for _, s := range slices.Backward(mig.AllowedSlices()) {
			if s < a.Slices {
				out = append(out, limit(q.cfg.GPUSlice(), int64(s)))
			}
		}
	case request.TDM:
		mem, core := roomFor(a, near)
		unit := q.req.Unit.MiB()
		if mem = mem / unit; q.req.Unit == config.MiB {
			mem -= mem % config.MiBStep
		}
		if a.MemMiB > 0 && mem > 0 && mem*unit < a.MemMiB {
			out = append(out, limit(q.cfg.GPUMemory(), mem))
		}
		if a.Core > 0 && core > 0 && core < a.Core {
			out = append(out, limit(q.cfg.GPUCore(), core))
		}
	}
	if n := mostFree(near); a.Mode != request.Whole && a.Count > 1 && n > 0 && n < a.Count {
		out = append(out, shrink{fmt.Sprintf("label replica: \"%d\"", n), func(pod *v1.Pod) {
			pod.Labels[kube.ReplicaLabel] = fmt.Sprint(n)
		}, true})
	}
	return out
}

// mostFree is the most cards of one node that could serve the ask.
func mostFree(near []explain.Node) int {
	most := 0
	for _, n := range near {
		free := 0
		for _, c := range n.Cards {
			if c.Reason == nil {
				free++
			}
		}
		most = max(most, free)
	}
	return most
}

// roomFor is the most memory on a card with compute enough, and the most
// compute on a card with memory enough.
func roomFor(a request.Ask, near []explain.Node) (mem, core int64) {
	for _, n := range near {
		for _, c := range n.Cards {
			if c.Card.InMIGMode() || !c.Card.Healthy() || !c.Card.Vendor.Shareable() || c.Use.Whole || c.Use.Mask != 0 {
				continue
			}
			freeMem, freeCore := c.Share-c.Use.MemMiB, 100-c.Use.Core
			if freeCore >= a.Core {
				mem = max(mem, freeMem)
			}
			if freeMem >= a.MemMiB {
				core = max(core, freeCore)
			}
		}
	}
	return mem, core
}

// setLimit changes a limit and the request that follows it.
func setLimit(pod *v1.Pod, container, res string, v int64) {
	q := *resource.NewQuantity(v, resource.DecimalSI)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name != container {
				continue
			}
			list[i].Resources.Limits[v1.ResourceName(res)] = q
			if _, ok := list[i].Resources.Requests[v1.ResourceName(res)]; ok {
				list[i].Resources.Requests[v1.ResourceName(res)] = q
			}
		}
	}
}
