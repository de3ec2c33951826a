package simnode

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/config"
)

// rejection is why a kubelet will not start a pod, in kubelet's words, which
// tools and people look for.
type rejection struct {
	Reason  string
	Message string
}

// demand is what a pod takes of a node in kubelet's eyes: sums over its
// containers, blind to the replica label.
type demand struct {
	requests v1.ResourceList
	ports    []v1.ContainerPort
}

func demandOf(pod *v1.Pod) demand {
	d := demand{requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort > 0 {
				d.ports = append(d.ports, p)
			}
		}
	}
	return d
}

// admit decides as kubelet does: what a device plugin serves is counted first
// and fails as UnexpectedAdmissionError, the rest as OutOf<resource>; extended
// resources that the node does not offer are dropped; then ports, selectors
// and NoExecute taints. It returns nil for a pod that may start.
func admit(cfg config.Config, node *v1.Node, others []demand, pod *v1.Pod, d demand) *rejection {
	used := v1.ResourceList{}
	for _, o := range others {
		add(used, o.requests)
	}
	var short []v1.ResourceName
	for name, want := range d.requests {
		have, offered := node.Status.Allocatable[name]
		if !offered && isExtended(name) || want.IsZero() {
			continue
		}
		left := have.DeepCopy()
		left.Sub(used[name])
		if want.Cmp(left) > 0 {
			short = append(short, name)
		}
	}
	if r := shortOf(cfg, node, used, d.requests, short); r != nil {
		return r
	}
	if have, ok := node.Status.Allocatable[v1.ResourcePods]; ok && int64(len(others))+1 > have.Value() {
		return outOf(v1.ResourcePods, *resource.NewQuantity(1, resource.DecimalSI), *resource.NewQuantity(int64(len(others)), resource.DecimalSI), have)
	}
	for _, o := range others {
		if p, clash := portClash(d.ports, o.ports); clash {
			return &rejection{"NodePorts", fmt.Sprintf("Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports (%d)", p)}
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return &rejection{"NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	if _, bad := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, noExecute, true); bad {
		return &rejection{"TaintToleration", "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
	}
	return nil
}

// shortOf picks the first shortage in kubelet's order and words.
func shortOf(cfg config.Config, node *v1.Node, used, want v1.ResourceList, short []v1.ResourceName) *rejection {
	if len(short) == 0 {
		return nil
	}
	sort.Slice(short, func(i, j int) bool {
		a, b := servedByPlugin(cfg, short[i]), servedByPlugin(cfg, short[j])
		if a != b {
			return a
		}
		return short[i] < short[j]
	})
	name := short[0]
	have := node.Status.Allocatable[name]
	if !servedByPlugin(cfg, name) {
		return outOf(name, want[name], used[name], have)
	}
	left := have.DeepCopy()
	left.Sub(used[name])
	w := want[name]
	return &rejection{"UnexpectedAdmissionError", fmt.Sprintf(
		"Pod was rejected: Allocate failed due to requested number of devices unavailable for %s. Requested: %d, Available: %d, which is unexpected",
		name, w.Value(), max(left.Value(), 0))}
}

func outOf(name v1.ResourceName, want, used, have resource.Quantity) *rejection {
	value := func(q resource.Quantity) int64 {
		if name == v1.ResourceCPU {
			return q.MilliValue()
		}
		return q.Value()
	}
	return &rejection{"OutOf" + string(name), fmt.Sprintf("Pod was rejected: Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		name, value(want), value(used), value(have))}
}

// servedByPlugin tells whether a device plugin hands the resource out.
// gpu-memory is a plain number in the node's status.
func servedByPlugin(cfg config.Config, name v1.ResourceName) bool {
	return isExtended(name) && string(name) != cfg.GPUMemory()
}

// isExtended tells whether the resource is none of Kubernetes' own.
func isExtended(name v1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, v1.ResourceDefaultNamespacePrefix)
}

func portClash(a, b []v1.ContainerPort) (int32, bool) {
	proto := func(p v1.ContainerPort) v1.Protocol {
		if p.Protocol == "" {
			return v1.ProtocolTCP
		}
		return p.Protocol
	}
	any := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	for _, x := range a {
		if slices.ContainsFunc(b, func(y v1.ContainerPort) bool {
			return x.HostPort == y.HostPort && proto(x) == proto(y) && (x.HostIP == y.HostIP || any(x.HostIP) || any(y.HostIP))
		}) {
			return x.HostPort, true
		}
	}
	return 0, false
}

func add(sum, more v1.ResourceList) {
	for name, q := range more {
		s := sum[name]
		s.Add(q)
		sum[name] = s
	}
}
