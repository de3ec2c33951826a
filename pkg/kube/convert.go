package kube

import (
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// PodOf takes from a pod what decides about cards. Limits count: for extended
// resources the API server has made requests equal to them.
func PodOf(p *v1.Pod, c config.Config) request.Pod {
	out := request.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Labels: p.Labels, Annotations: p.Annotations}
	out.Containers = make([]request.Container, 0, len(p.Spec.InitContainers)+len(p.Spec.Containers))
	for i := range p.Spec.InitContainers {
		ct := &p.Spec.InitContainers[i]
		kind := request.Init
		if ct.RestartPolicy != nil && *ct.RestartPolicy == v1.ContainerRestartPolicyAlways {
			kind = request.Sidecar
		}
		out.Containers = append(out.Containers, request.Container{Name: ct.Name, Kind: kind, Resources: amounts(ct, c)})
	}
	for i := range p.Spec.Containers {
		ct := &p.Spec.Containers[i]
		out.Containers = append(out.Containers, request.Container{Name: ct.Name, Resources: amounts(ct, c)})
	}
	return out
}

func amounts(ct *v1.Container, c config.Config) map[string]int64 {
	var out map[string]int64
	for name, q := range ct.Resources.Limits {
		if !c.IsResource(string(name)) {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[string(name)] = q.Value()
	}
	return out
}

// RequestOf reads what a pod asks for, as the scheduler does.
func RequestOf(p *v1.Pod, c config.Config) (*request.Request, []reason.Reason) {
	return request.Parse(PodOf(p, c), c)
}

// Finished tells whether the pod has ended and so holds nothing.
func Finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// HoldOf is what a pod takes of the cards of its node: nil if nothing, because
// it is not bound, has ended, or asks for no card. Terminating pods hold until
// they are gone.
//
// A record that is the pod's own counts whatever the request says today: the
// label replica can be edited and the cluster's settings can change while the
// pod runs on the cards that it was given.
func HoldOf(p *v1.Pod, c config.Config) *cluster.Hold {
	if p.Spec.NodeName == "" || Finished(p) {
		return nil
	}
	r, bad := RequestOf(p, c)
	asks := len(bad) == 0 && !r.Empty()
	_, recorded := p.Annotations[AllocationAnnotation]
	if !asks && !recorded {
		// A request that breaks the rules gets no card: the scheduler does not
		// place it and the runtime does not serve it.
		return nil
	}
	h := &cluster.Hold{UID: string(p.UID), Pod: p.Namespace + "/" + p.Name}
	a, why := AllocationOf(p)
	if a != nil {
		if asks {
			if uses, err := cluster.HoldOf(r, a); err == nil {
				h.Cards = uses
				return h
			}
		}
		if h.Cards = cluster.Granted(a); len(h.Cards) > 0 {
			return h
		}
		why = "the allocation names no card"
	}
	if !asks {
		return nil
	}
	h.Unplaced, h.Why = r, why
	return h
}

// AllocationOf reads the scheduler's decision from a bound pod. It returns
// nil and the cause if there is none that can be trusted.
func AllocationOf(p *v1.Pod) (*device.Allocation, string) {
	text, ok := p.Annotations[AllocationAnnotation]
	if !ok {
		return nil, "the pod has no allocation: another scheduler bound it"
	}
	a, err := device.DecodeAllocation(text, string(p.UID), p.Spec.NodeName)
	if err != nil {
		return nil, err.Error()
	}
	return a, ""
}

// NodeOf takes from a node what decides about cards, without the pods on it.
func NodeOf(n *v1.Node, c config.Config) *cluster.Node {
	out := &cluster.Node{Name: n.Name, Allocatable: map[string]int64{}}
	for name, q := range n.Status.Allocatable {
		if c.IsResource(string(name)) {
			out.Allocatable[string(name)] = q.Value()
		}
	}
	out.HyperNode = n.Labels[c.Topology.HyperNode]
	out.Leaf = n.Labels[c.Topology.Leaf]
	out.NetworkPod = n.Labels[c.Topology.NetworkPod]
	out.CardPolicy = config.PolicyNamed(n.Labels[config.CardPolicyKey])
	text, published := n.Annotations[InventoryAnnotation]
	if published {
		inv, err := device.DecodeInventory(text)
		if err != nil {
			out.Unread = &reason.Reason{Code: "inventory-unreadable", Detail: []string{err.Error()}}
		} else {
			out.Inventory = inv
		}
	}
	out.Gate = gateOf(n, published, c)
	if out.Gate == nil && !published {
		out.Unread = &reason.Reason{Code: "inventory-missing"}
	}
	return out
}

// gateOf says why a node is not enabled, nil if it is. The label's value is
// exact; what looks like it gets its own reason, because people stare at it
// without seeing the difference.
func gateOf(n *v1.Node, published bool, c config.Config) *reason.Reason {
	value, ok := n.Labels[EnableLabel]
	switch {
	case value == "true":
		return nil
	case ok:
		return &reason.Reason{Code: "enable-label-value", Detail: []string{value}}
	}
	if key := nearKey(n.Labels); key != "" {
		return &reason.Reason{Code: "enable-label-key", Detail: []string{key}}
	}
	if _, ok := n.Annotations[EnableLabel]; ok {
		return &reason.Reason{Code: "enable-label-is-annotation"}
	}
	if !published && !looksLikeGPUNode(n, c) {
		return &reason.Reason{Code: "no-gpu-on-node"}
	}
	return &reason.Reason{Code: "enable-label-missing"}
}

// nearKey finds a label whose key differs from the enabling label only in
// case, dashes, dots or a prefix.
func nearKey(labels map[string]string) string {
	plain := func(s string) string {
		if i := strings.LastIndexByte(s, '/'); i >= 0 {
			s = s[i+1:]
		}
		return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(s))
	}
	var near []string
	for k := range labels {
		if plain(k) == plain(EnableLabel) {
			near = append(near, k)
		}
	}
	if len(near) == 0 {
		return ""
	}
	sort.Strings(near)
	return near[0]
}

// looksLikeGPUNode tells a GPU node that nobody has enabled from a node that
// has no card, by what device plugins and discovery leave on a node.
func looksLikeGPUNode(n *v1.Node, c config.Config) bool {
	for name := range n.Status.Capacity {
		if s := string(name); c.IsResource(s) || strings.HasSuffix(s, "/gpu") {
			return true
		}
	}
	for k := range n.Labels {
		if strings.HasPrefix(k, "aliyun.accelerator/") || strings.HasPrefix(k, "nvidia.com/gpu.") || k == VendorLabel {
			return true
		}
	}
	return false
}
