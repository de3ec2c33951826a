package place

import (
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// Offer is an answer that fits: the cards of each container, and what the pod
// then holds at its peak.
type Offer struct {
	Containers map[string][]device.Grant
	Uses       []cluster.CardUse
	// NICs has one NIC for each card of the pod, in the order of the cards'
	// indices, where RDMA is asked: NICs are shared and not counted. It is
	// empty if no NIC of the node can be named.
	NICs []device.NICGrant
	// Tier is the worst tier of a card and its NIC: Unknown if there is none,
	// topo.None where RDMA is not asked.
	Tier topo.Tier
	// Span is the smallest place that holds all cards of the pod and their
	// NICs; topo.None for a single card without NIC.
	Span topo.Tier
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
		gs := make([]device.Grant, 0, len(s.given[i]))
		for c := range s.v.cards {
			if x := slices.Index(s.at[i], c); x >= 0 {
				gs = append(gs, s.given[i][x])
			}
		}
		o.Containers[s.r.Asks[i].Container] = gs
	}
	var cards []*device.Card
	for c := range s.v.cards {
		if u := s.elsewhere(c); !u.Untouched() {
			u.Card = s.v.cards[c].dev.UUID
			o.Uses = append(o.Uses, u)
			cards = append(cards, s.v.cards[c].dev)
		}
	}
	slices.SortFunc(o.Uses, func(a, b cluster.CardUse) int { return strings.Compare(a.Card, b.Card) })
	s.v.place(o, s.r, cards)
	return o
}

// place adds the NICs of the cards and the tiers that they reach.
func (v *View) place(o *Offer, r *request.Request, cards []*device.Card) {
	at := make([]topo.Position, 0, 2*len(cards))
	for _, c := range cards {
		at = append(at, topo.OfCard(c))
	}
	if r.RDMA {
		pairs := topo.Assign(cards, v.fabric())
		for _, p := range pairs {
			o.NICs = append(o.NICs, device.NICGrant{PCI: p.NIC.PCI, Card: p.Card.UUID, Tier: p.Tier.String()})
			o.Tier = max(o.Tier, p.Tier)
			at = append(at, topo.OfNIC(p.NIC))
		}
		if len(pairs) == 0 {
			o.Tier = topo.Unknown
		}
	}
	o.Span = topo.Span(at)
}
