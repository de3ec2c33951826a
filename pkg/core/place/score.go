package place

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// Score compares nodes that fit, 0 to 100, by the node policy.
// Binpack prefers the node that is fullest and where the pod opens the fewest
// untouched cards; Spread the opposite. Where cards are to be near each other
// or near NICs, nodes that are alike to the policy, to a twentieth, are
// compared by how near they are.
func (v *View) Score(r *request.Request) int64 {
	if r.Empty() || len(v.cards) == 0 {
		return 0
	}
	o, why := v.Fit(r)
	if why != nil {
		return 0
	}
	score := v.policyScore(r, o)
	if !v.nearness(r) {
		return score
	}
	return min(score, 99)/nearSteps*nearSteps + v.near(r, o)
}

// policyScore is what the node policy says, 0 to 100.
func (v *View) policyScore(r *request.Request, o *Offer) int64 {
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
	if v.nodePolicy(r) == config.Spread {
		return 100 - score
	}
	return score
}

// nearSteps is how many grades of nearness there are. The engine takes no
// score above 100, so they are put into the last digits. A whole card more in
// use is worth five points on a node of sixteen cards and ten on one of eight,
// so no grade outweighs it.
const nearSteps = 5

// nearness tells whether the nearness of cards matters to the request. It
// depends on the request alone: scores are compared between nodes.
func (v *View) nearness(r *request.Request) bool {
	if r.RDMA {
		return true
	}
	for i := range r.Asks {
		if r.Asks[i].Count > 1 && r.Asks[i].Mode != request.MIG {
			return true
		}
	}
	return false
}

// near grades an offer from 0 to 4: by the worst tier of a card and its NIC
// where RDMA is asked, the links deciding between nodes that reach the switch;
// else by the ring of the cards, against the best connection of the host.
func (v *View) near(r *request.Request, o *Offer) int64 {
	host := v.chart()
	if host == nil {
		return 0
	}
	var set topo.Set
	for i := range v.cards {
		for _, u := range o.Uses {
			if u.Card == v.cards[i].dev.UUID {
				set |= 1 << i
			}
		}
	}
	alone := set&(set-1) == 0
	ring := host.Ring(set)
	if r.RDMA {
		switch o.Tier {
		case topo.Switch:
			if alone || ring == host.Best() {
				return 4
			}
			return 3
		case topo.NUMA:
			return 2
		case topo.Socket:
			return 1
		}
		return 0
	}
	switch {
	case alone, ring > 0 && ring == host.Best():
		return 4
	case ring >= topo.WorthLink:
		return 3
	case ring >= topo.WorthSwitch:
		return 2
	case ring >= topo.WorthNUMA:
		return 1
	}
	return 0
}
