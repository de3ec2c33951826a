package whypending

import (
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// describe is the request as understood, for the report.
func describe(pod *v1.Pod, r *request.Request, cfg config.Config, pods int) *explain.Request {
	out := &explain.Request{Cards: r.Cards(), Pods: pods, RDMA: r.RDMA, Phases: r.Phases, Unit: string(r.Unit), Containers: []explain.Ask{}}
	if r.Replica > 1 {
		out.Replica = r.Replica
	}
	for _, a := range r.Asks {
		out.Containers = append(out.Containers, explain.Ask{
			Container: a.Container, Init: a.Kind == request.Init, Mode: string(a.Mode), Cards: a.Count,
			Core: a.Core, MemMiB: a.MemMiB, Slices: a.Slices, NVIDIA: a.NVIDIAOnly,
		})
	}
	host := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	out.CPUMilli, out.MemoryMiB = host.Cpu().MilliValue(), host.Memory().Value()>>20
	if n, err := strconv.Atoi(pod.Labels[cfg.MinMemberLabel()]); err == nil && n > 0 {
		out.Gang = n
	}
	return out
}

// asksCards tells whether a container names one of the suite's resources,
// whatever the amount.
func asksCards(pod *v1.Pod, cfg config.Config) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name := range list[i].Resources.Limits {
				if cfg.IsResource(string(name)) {
					return true
				}
			}
		}
	}
	return false
}

// zeroCore names a container that asks gpu-core 0, empty if there is none.
func zeroCore(pod *v1.Pod, cfg config.Config) string {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if q, ok := list[i].Resources.Limits[v1.ResourceName(cfg.GPUCore())]; ok && q.IsZero() {
				return list[i].Name
			}
		}
	}
	return ""
}

// checkNames looks for mistyped names of our resources that no node offers:
// the API server took them, and no amount of anything makes them there.
func (q *inquiry) checkNames() {
	seen := map[string]bool{}
	for _, list := range [][]v1.Container{q.pod.Spec.InitContainers, q.pod.Spec.Containers} {
		for i := range list {
			for _, name := range slices.Sorted(maps.Keys(list[i].Resources.Limits)) {
				right := rules.Nearest(string(name), q.cfg)
				if right == "" || seen[string(name)] || q.offered(name) {
					continue
				}
				seen[string(name)] = true
				c := explain.Cause{Reason: reason.Reason{Code: "unknown-gpu-resource", Device: string(name)}}
				c.Text = c.Reason.Sentence() + "; the nearest right name is " + right
				q.say(c)
			}
		}
	}
}

// offered tells whether some node has the resource.
func (q *inquiry) offered(name v1.ResourceName) bool {
	for _, n := range q.nodes {
		if v, ok := n.Status.Allocatable[name]; ok && !v.IsZero() {
			return true
		}
	}
	return false
}
