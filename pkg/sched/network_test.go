package sched

import (
	"testing"

	"k8s.io/klog/v2"

	"lj.aliyun.com/kit/pkg/core/netplace"
)

// Two nodes that labels put into different network-pods are in one as soon as
// HyperNodes say so.
func TestHyperNodesWinOverLabels(t *testing.T) {
	state := NewState(cfg)
	r := newRig(t, state, network(t, 2, 1, 1)...)
	r.add(members("a", 0, 2, 2, limits{"nvidia": 8})...)
	r.refused("a-0", nil)
	state.SetNetwork(netplace.Resolve([]netplace.HyperNode{
		{Name: "s0", Tier: 1, Nodes: []string{"n-0-0-0"}}, {Name: "s1", Tier: 1, Nodes: []string{"n-1-0-0"}},
		{Name: "spine", Tier: 2, Below: []string{"s0", "s1"}},
	}))
	state.Retry(klog.Background())
	r.allBound("a", 2)
}
