package fleet

import (
	_ "embed"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
)

// Limits that keep a mistake in a file from becoming a machine without memory.
const (
	MaxBytes = 1 << 20
	MaxNodes = 10_000
)

// Fleet is the content of a fleet file.
type Fleet struct {
	// ConfigText is the cluster's settings as they go into lj-system/lj-config,
	// Config what they mean.
	ConfigText string
	Config     config.Config
	Nodes      []Node
}

// Node is one simulated node.
type Node struct {
	Name          string
	HyperNode     string
	Leaf          string
	NetworkPod    string
	CPU           resource.Quantity
	Memory        resource.Quantity
	Pods          int64
	Labels        map[string]string
	Taints        []v1.Taint
	Unschedulable bool
	// Enabled: the node has the enabling label.
	Enabled bool
	// Agent: an agent runs there, so that it has an inventory and offers our
	// resources.
	Agent bool
	// Ready: its kubelet answers.
	Ready bool
	Cards *Cards // nil: a node without cards
	NICs  NICs
}

// Cards are the equal cards of a node.
type Cards struct {
	Model  Model // with the file's own memory, vendor and layout
	Count  int
	MIG    MIG
	Health []Sick
}

// MIG says which cards are in MIG mode.
type MIG struct {
	All     bool
	Indices []int
}

// In tells whether card i is in MIG mode.
func (m MIG) In(i int) bool {
	if m.All {
		return true
	}
	for _, k := range m.Indices {
		if k == i {
			return true
		}
	}
	return false
}

// Any tells whether any card is in MIG mode.
func (m MIG) Any() bool { return m.All || len(m.Indices) > 0 }

// Sick is a health event of one card.
type Sick struct {
	Card  int
	Event device.HealthEvent
}

// NICs are the equal RDMA devices of a node, spread evenly over the switches.
type NICs struct {
	Count int
	Gbps  int
	Down  []int // those without a link
}

//go:embed default.yaml
var defaultText []byte

// Default is the built-in fleet.
func Default() (*Fleet, error) {
	f, err := Parse(defaultText)
	if err != nil {
		return nil, fmt.Errorf("built-in fleet: %w", err)
	}
	return f, nil
}

// DefaultText is the built-in fleet file, a sample for people's own.
func DefaultText() string { return string(defaultText) }

// Cards counts the cards of all nodes.
func (f *Fleet) Cards() int {
	n := 0
	for i := range f.Nodes {
		if c := f.Nodes[i].Cards; c != nil {
			n += c.Count
		}
	}
	return n
}
