package place

import (
	"sort"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Offer is an answer that fits: the cards of each container, and what the pod
// then holds at its peak.
type Offer struct {
	Containers map[string][]device.Grant
	Uses       []cluster.CardUse
}

// Check returns nil if the request fits on the node, else the reasons, most
// important first. It answers as Fit does, without choosing cards.
func (v *View) Check(r *request.Request) []reason.Reason {
	if r.Empty() {
		return nil
	}
	if why := v.gate(r); why != nil {
		return []reason.Reason{*why}
	}
	out := impossible
	if len(r.Asks) == 1 {
		if v.serving(&r.Asks[0]) >= r.Asks[0].Count {
			out = found
		}
	} else {
		out = newSearch(v, r).fits()
	}
	return v.verdict(r, out)
}

// Fit chooses cards. It returns an offer, or the reasons why there is none,
// most important first. An empty request is offered nothing, successfully.
func (v *View) Fit(r *request.Request) (*Offer, []reason.Reason) {
	if r.Empty() {
		return &Offer{Containers: map[string][]device.Grant{}}, nil
	}
	if why := v.gate(r); why != nil {
		return nil, []reason.Reason{*why}
	}
	s := newSearch(v, r)
	if why := v.verdict(r, s.run()); why != nil {
		return nil, why
	}
	return s.offer(), nil
}

// verdict turns the outcome of a search into reasons, nil if it fits.
func (v *View) verdict(r *request.Request, out outcome) []reason.Reason {
	switch out {
	case gaveUp:
		return []reason.Reason{{Code: "placement-search-limit", Want: int64(len(r.Asks))}}
	case impossible:
		return v.whyNot(r)
	}
	for _, res := range r.Resources {
		if v.Node.Allocatable[res] <= 0 {
			return []reason.Reason{v.unreported(res)}
		}
	}
	return nil
}

// gate is why the node is no candidate whatever its cards have, nil if it is:
// not enabled, unreadable, or the agent's reports are missing (kubelet drops
// requests for resources that are not in allocatable, so a pod there would
// run without what it asked).
func (v *View) gate(r *request.Request) *reason.Reason {
	n := v.Node
	switch {
	case n.Gate != nil:
		return n.Gate
	case n.Unread != nil:
		return n.Unread
	case n.Inventory == nil:
		return &reason.Reason{Code: "no-gpu-on-node"}
	case usesMemory(r) && n.Inventory.Unit != r.Unit:
		return &reason.Reason{Code: "memory-unit-mismatch", Detail: []string{string(n.Inventory.Unit)}}
	}
	for _, res := range r.Resources {
		// Where the cards themselves do not offer the resource, the cards are
		// the better answer (MIG is not enabled, say).
		if n.Allocatable[res] <= 0 && n.Inventory.Capacity(v.cfg)[res] > 0 {
			why := v.unreported(res)
			return &why
		}
	}
	return nil
}

func usesMemory(r *request.Request) bool {
	for _, a := range r.Asks {
		if a.MemMiB > 0 {
			return true
		}
	}
	return false
}

// unreported tells a resource that was never there from one that was lost.
func (v *View) unreported(res string) reason.Reason {
	if res == v.cfg.RDMA() && v.Node.Inventory.Capacity(v.cfg)[res] == 0 {
		return reason.Reason{Code: "no-rdma-nic", Device: res}
	}
	if _, ok := v.Node.Allocatable[res]; ok {
		return reason.Reason{Code: "agent-link-lost", Device: res}
	}
	return reason.Reason{Code: "resource-not-reported", Device: res}
}

// serving counts the cards that can serve the ask.
func (v *View) serving(a *request.Ask) int {
	n := 0
	for i := range v.cards {
		if v.refuse(a, &v.cards[i], v.cards[i].use) == "" {
			n++
		}
	}
	return n
}

// offer reads the answer of a search that found one.
func (s *search) offer() *Offer {
	o := &Offer{Containers: make(map[string][]device.Grant, len(s.r.Asks))}
	for i := range s.r.Asks {
		gs := append([]device.Grant(nil), s.given[i]...)
		index := func(g device.Grant) int { return s.v.Node.Inventory.Card(g.Card).Index }
		sort.Slice(gs, func(x, y int) bool { return index(gs[x]) < index(gs[y]) })
		o.Containers[s.r.Asks[i].Container] = gs
	}
	for c := range s.v.cards {
		if u := s.elsewhere(c); !u.Untouched() {
			u.Card = s.v.cards[c].dev.UUID
			o.Uses = append(o.Uses, u)
		}
	}
	sort.Slice(o.Uses, func(i, j int) bool { return o.Uses[i].Card < o.Uses[j].Card })
	return o
}

// Score compares nodes that fit, 0 to 100, by the cluster's node policy.
// Binpack prefers the node that is fullest and where the pod opens the fewest
// untouched cards; Spread the opposite.
func (v *View) Score(r *request.Request) int64 {
	if r.Empty() || len(v.cards) == 0 {
		return 0
	}
	o, why := v.Fit(r)
	if why != nil {
		return 0
	}
	var full, opened, gpus int64
	for i := range v.cards {
		c := &v.cards[i]
		if !c.dev.Vendor.IsGPU() {
			continue
		}
		gpus++
		after := c.use
		for _, u := range o.Uses {
			if u.Card == c.dev.UUID {
				after = after.Plus(u)
				if c.use.Untouched() {
					opened++
				}
			}
		}
		full += v.fullness(c, after)
	}
	if gpus == 0 {
		return 0
	}
	score := full/gpus/125 + 20 - min(20, 20*opened/gpus) // 0…80 for fullness, 20 for opening no card
	if v.cfg.NodePolicy == config.Spread {
		return 100 - score
	}
	return score
}
