package cluster

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Node is a node as far as cards are concerned.
type Node struct {
	Name string
	// Gate is why the node takes no pods of ours whatever they ask (the
	// enabling label is missing or misspelt); nil if it does.
	Gate *reason.Reason
	// Inventory is nil where the node publishes none that can be read;
	// Unread then says why, if the node should have one.
	Inventory *device.Inventory
	Unread    *reason.Reason
	// Allocatable has the node's amounts of the suite's resources. A name
	// that is not there was never reported; 0 means that the agent was lost.
	Allocatable map[string]int64
	// HyperNode, Leaf and NetworkPod are the node's places in the network,
	// empty where unlabelled.
	HyperNode, Leaf, NetworkPod string
	// CardPolicy is the node's own, empty if it says none.
	CardPolicy config.Policy
	// Holds are the pods on the node that hold cards.
	Holds []Hold
}

// Hold is what one pod takes on its node.
type Hold struct {
	UID string // of the pod
	Pod string // namespace/name, for people
	// Cards is what it takes of each card. It is empty if Unplaced is set.
	Cards []CardUse
	// Unplaced is the request of a pod that is bound and asks for cards but
	// has no allocation that can be trusted: it holds cards, nobody knows
	// which. Why tells what is wrong with the record.
	Unplaced *request.Request
	Why      string
}

// CardUse is what a pod, or all pods together, take of one card.
type CardUse struct {
	Card   string // UUID
	Whole  bool
	Core   int64    // percent
	MemMiB int64    // of shares
	Shares int      // number of shares, also those without amounts
	Mask   mig.Mask // memory slices under MIG instances
}

// Untouched tells whether nobody has any of the card.
func (u CardUse) Untouched() bool { return !u.Whole && u.Shares == 0 && u.Mask == 0 }

// add joins what runs at the same time.
func (u *CardUse) add(v CardUse) {
	u.Whole = u.Whole || v.Whole
	u.Core += v.Core
	u.MemMiB += v.MemMiB
	u.Shares += v.Shares
	u.Mask |= v.Mask
}

// peak joins what runs at different times.
func (u *CardUse) peak(v CardUse) {
	u.Whole = u.Whole || v.Whole
	u.Core = max(u.Core, v.Core)
	u.MemMiB = max(u.MemMiB, v.MemMiB)
	u.Shares = max(u.Shares, v.Shares)
	u.Mask |= v.Mask
}

// Plus returns the sum of two uses of the same card at the same time.
func (u CardUse) Plus(v CardUse) CardUse { u.add(v); return u }

// Peak returns the larger of two uses of the same card at different times.
func (u CardUse) Peak(v CardUse) CardUse { u.peak(v); return u }
