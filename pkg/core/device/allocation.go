package device

import (
	"encoding/json"
	"fmt"
	"sort"

	"lj.aliyun.com/kit/pkg/core/mig"
)

// AllocationVersion is the newest version that this build reads and writes.
const AllocationVersion = 1

// MaxAllocationBytes bounds the annotation on a pod.
const MaxAllocationBytes = 64 << 10

// Allocation is the scheduler's decision for one pod: which cards of which
// node each container gets. It is bound to the pod's uid and the node; with
// another uid or node it counts for nothing.
type Allocation struct {
	V          int                `json:"v"`
	UID        string             `json:"uid"`
	Node       string             `json:"node"`
	Containers map[string][]Grant `json:"containers"`
	NICs       []NICGrant         `json:"nics,omitempty"`
	Gang       *GangMark          `json:"gang,omitempty"`
}

// Grant is one card for one container: whole, or a share, or an instance.
// Exactly one of the three holds.
type Grant struct {
	Card  string `json:"card"`            // UUID
	Whole bool   `json:"whole,omitempty"` // the card alone

	// A share. HasCore and HasMem tell an absent dimension, which takes
	// nothing and is not limited, from 0.
	Share  bool   `json:"-"`
	Core   *int64 `json:"core,omitempty"`   // percent of the card
	MemMiB *int64 `json:"memMiB,omitempty"` // MiB

	MIG   string `json:"mig,omitempty"`   // profile name
	Start *int   `json:"start,omitempty"` // first memory slice
	Size  int    `json:"size,omitempty"`  // memory slices
}

// NICGrant is one NIC for the pod.
type NICGrant struct {
	PCI  string `json:"pci"`
	Card string `json:"card,omitempty"`
	Tier string `json:"tier,omitempty"`
}

// GangMark says in which group and round the pod was placed, and how near the
// members are: "node", "HyperNode", "leaf", "network-pod"; empty for a member
// that was placed alone.
type GangMark struct {
	ID    string `json:"id"`
	Size  int    `json:"size"`
	Round int    `json:"round"`
	Tier  string `json:"tier,omitempty"`
}

// Mask is the part of the card's placement line that an instance covers.
func (g Grant) Mask() mig.Mask {
	if g.MIG == "" || g.Start == nil {
		return 0
	}
	return mig.MaskAt(*g.Start, g.Size)
}

// EncodeAllocation writes the annotation.
func EncodeAllocation(a *Allocation) (string, error) {
	c := *a
	c.V = AllocationVersion
	if err := c.check(); err != nil {
		return "", err
	}
	b, err := json.Marshal(&c)
	if err != nil {
		return "", fmt.Errorf("allocation: %w", err)
	}
	if len(b) > MaxAllocationBytes {
		return "", fmt.Errorf("allocation: %d bytes, more than %d", len(b), MaxAllocationBytes)
	}
	return string(b), nil
}

// DecodeAllocation reads the annotation of the pod with this uid on this
// node. Anything that it cannot trust is an error: the pod then has no
// allocation.
func DecodeAllocation(s, uid, node string) (*Allocation, error) {
	if len(s) > MaxAllocationBytes {
		return nil, fmt.Errorf("allocation: %d bytes, more than %d", len(s), MaxAllocationBytes)
	}
	var a Allocation
	if err := json.Unmarshal([]byte(s), &a); err != nil {
		return nil, fmt.Errorf("allocation: %w", err)
	}
	if a.V != AllocationVersion {
		return nil, fmt.Errorf("allocation: version %d is not known here", a.V)
	}
	if a.UID != uid {
		return nil, fmt.Errorf("allocation: written for the pod with uid %q, not for this one", a.UID)
	}
	if a.Node != node {
		return nil, fmt.Errorf("allocation: written for node %q, the pod is on %q", a.Node, node)
	}
	for name, gs := range a.Containers {
		for i := range gs {
			g := &a.Containers[name][i]
			g.Share = !g.Whole && g.MIG == ""
		}
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	return &a, nil
}

func (a *Allocation) check() error {
	if len(a.Containers) > 1024 {
		return fmt.Errorf("allocation: %d containers", len(a.Containers))
	}
	for name, gs := range a.Containers {
		seen := map[string]bool{}
		if len(gs) > MaxCards {
			return fmt.Errorf("allocation: container %s: %d cards", name, len(gs))
		}
		for _, g := range gs {
			if err := g.check(); err != nil {
				return fmt.Errorf("allocation: container %s: card %s: %w", name, g.Card, err)
			}
			if seen[g.Card] {
				return fmt.Errorf("allocation: container %s: card %s twice", name, g.Card)
			}
			seen[g.Card] = true
		}
	}
	return nil
}

func (g Grant) check() error {
	if g.Card == "" {
		return fmt.Errorf("no UUID")
	}
	kinds := 0
	for _, k := range []bool{g.Whole, g.Share, g.MIG != ""} {
		if k {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("must be exactly one of whole, share and MIG instance")
	}
	if !g.Share && (g.Core != nil || g.MemMiB != nil) {
		return fmt.Errorf("core and memMiB belong to a share only")
	}
	if g.Core != nil && (*g.Core < 1 || *g.Core > 100) {
		return fmt.Errorf("core %d: must be 1 to 100", *g.Core)
	}
	if g.MemMiB != nil && (*g.MemMiB < 1 || *g.MemMiB > 16<<20) {
		return fmt.Errorf("memory of %d MiB", *g.MemMiB)
	}
	if g.MIG != "" {
		if _, err := mig.ParseName(g.MIG); err != nil {
			return err
		}
		if g.Mask() == 0 {
			return fmt.Errorf("instance %s has no place on the card", g.MIG)
		}
	} else if g.Start != nil || g.Size != 0 {
		return fmt.Errorf("start and size belong to a MIG instance only")
	}
	return nil
}

// Names lists the containers of the allocation, sorted.
func (a *Allocation) Names() []string {
	out := make([]string, 0, len(a.Containers))
	for n := range a.Containers {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
