// Package coretest builds nodes, holds and requests for tests, so that a test
// says only what it is about. It is imported by tests alone.
package coretest

import (
	"fmt"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Models of cards that tests use, with the memory that their drivers report.
const (
	A100x40 = "NVIDIA A100-SXM4-40GB"
	A100x80 = "NVIDIA A100-SXM4-80GB"
	H800    = "NVIDIA H800"
	H20     = "NVIDIA H20"
	T4      = "Tesla T4"
	PPU810E = "PPU-ZW810E"
	MI300X  = "AMD Instinct MI300X"
)

var memory = map[string]int64{A100x40: 40960, A100x80: 81920, H800: 81559, H20: 97871, T4: 15360, PPU810E: 98304, MI300X: 196608,
	V100: 32768, A10: 23028, PPUM890P: 147456}

// NodeBuilder makes a node that is enabled and reports its cards.
type NodeBuilder struct {
	n   *cluster.Node
	cfg config.Config
}

// Node starts an enabled node without cards, in the unit of c.
func Node(name string, c config.Config) *NodeBuilder {
	return &NodeBuilder{cfg: c, n: &cluster.Node{Name: name, Inventory: &device.Inventory{V: 1, Unit: c.Unit}}}
}

// Cards adds n cards of a model, out of MIG mode.
func (b *NodeBuilder) Cards(n int, model string) *NodeBuilder { return b.cards(n, model, false) }

// MIG adds n cards of a model in MIG mode.
func (b *NodeBuilder) MIG(n int, model string) *NodeBuilder { return b.cards(n, model, true) }

func (b *NodeBuilder) cards(n int, model string, cut bool) *NodeBuilder {
	vendor := device.NVIDIA
	switch model {
	case PPU810E, PPUM890P:
		vendor = device.PPU
	case MI300X:
		vendor = device.AMD
	}
	for range n {
		i := len(b.n.Inventory.Cards)
		c := device.Card{UUID: UUID(b.n.Name, i), Index: i, Model: model, Vendor: vendor, MemMiB: memory[model]}
		if cut || mig.Catalogue(model, c.MemMiB) != nil {
			c.MIG = &device.MIGMode{Cur: cut, Pend: cut}
		}
		b.n.Inventory.Cards = append(b.n.Inventory.Cards, c)
	}
	return b
}

// UUID is the identity of the i-th card of a node.
func UUID(node string, i int) string { return fmt.Sprintf("GPU-%s-%02d", node, i) }

// Sick marks a card unhealthy.
func (b *NodeBuilder) Sick(i int, code string) *NodeBuilder {
	c := &b.n.Inventory.Cards[i]
	c.Health = append(c.Health, device.HealthEvent{Code: code})
	return b
}

// NIC adds a usable RDMA NIC.
func (b *NodeBuilder) NIC(name string) *NodeBuilder {
	b.n.Inventory.NICs = append(b.n.Inventory.NICs, device.NIC{Name: name})
	return b
}

// Whole lets a pod hold a card whole.
func (b *NodeBuilder) Whole(i int, pod string) *NodeBuilder {
	return b.hold(pod, cluster.CardUse{Card: UUID(b.n.Name, i), Whole: true})
}

// Share lets a pod hold a share of a card.
func (b *NodeBuilder) Share(i int, pod string, core, memMiB int64) *NodeBuilder {
	return b.hold(pod, cluster.CardUse{Card: UUID(b.n.Name, i), Shares: 1, Core: core, MemMiB: memMiB})
}

// Instance lets a pod hold a MIG instance.
func (b *NodeBuilder) Instance(i int, pod string, start, size int) *NodeBuilder {
	return b.hold(pod, cluster.CardUse{Card: UUID(b.n.Name, i), Mask: mig.MaskAt(start, size)})
}

func (b *NodeBuilder) hold(pod string, u cluster.CardUse) *NodeBuilder {
	b.n.Holds = append(b.n.Holds, cluster.Hold{UID: pod, Pod: "default/" + pod, Cards: []cluster.CardUse{u}})
	return b
}

// Obj finishes the node: it reports what its inventory offers.
func (b *NodeBuilder) Obj() *cluster.Node {
	b.n.Allocatable = b.n.Inventory.Capacity(b.cfg)
	return b.n
}

// Limits are the resources of one container, by the last part of the name:
// {"gpu-core": 50}; "nvidia" is nvidia.com/gpu.
type Limits map[string]int64

// Request parses a pod with one app container for each of limits. It panics
// if the request breaks a rule: a test that wants that calls request.Parse.
func Request(c config.Config, replica string, limits ...Limits) *request.Request {
	p := request.Pod{Namespace: "default", Name: "p", UID: "p", Labels: map[string]string{}}
	if replica != "" {
		p.Labels[request.ReplicaLabel] = replica
	}
	for i, l := range limits {
		p.Containers = append(p.Containers, Container(c, fmt.Sprintf("c%d", i), request.App, l))
	}
	r, bad := request.Parse(p, c)
	if len(bad) > 0 {
		panic(fmt.Sprint(bad))
	}
	return r
}

// Container makes one container with resources.
func Container(c config.Config, name string, kind request.Kind, l Limits) request.Container {
	res := map[string]int64{}
	for k, v := range l {
		if k == "nvidia" {
			res[config.NvidiaGPU] = v
			continue
		}
		res[c.Prefix+"/"+k] = v
	}
	return request.Container{Name: name, Kind: kind, Resources: res}
}
