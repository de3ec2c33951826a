package place

import (
	"cmp"
	"slices"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// Score compares nodes that fit, 0 to 100: Rank in the grades that the engine
// of a scheduler takes.
func (v *View) Score(r *request.Request) int64 { return ScoreOf(v.Rank(r)) }

// ScoreOf is the Score in a Rank.
func ScoreOf(rank int64) int64 { return rank >> scoreShift }

// MaxRank is the largest Rank, 1<<61 roughly: ranks can be subtracted.
const MaxRank = 101<<scoreShift - 1

// Rank compares nodes that fit, 0 to MaxRank, the larger the better; 0 for a
// node that does not fit or a request without cards. Ranks compare between
// nodes for the same request and settings only. Equal ranks are nodes that are
// alike in all that follows; the caller settles them by name.
//
// Binpack prefers the node where the pod opens the fewest untouched cards; then
// the one whose cards it fills best (shares) or keeps most open (instances),
// and the fullest, which weigh alike. For whole cards the fullest node is left
// of these. Spread prefers the emptiest node, and of equal ones the opposite of
// the rest. Where cards are to be near each other or near NICs, nodes that are
// alike to the policy, to a twentieth, are compared by how near they are.
func (v *View) Rank(r *request.Request) int64 {
	if r.Empty() || len(v.cards) == 0 {
		return 0
	}
	o, why := v.Fit(r)
	if why != nil {
		return 0
	}
	score, fine := v.packing(r, o).rank(v.nodePolicy(r))
	var near int64
	if v.nearness(r) {
		var grade int64
		grade, near = v.near(r, o)
		score = min(score, 99)/nearSteps*nearSteps + grade
	}
	return score<<scoreShift | near<<fineBits | fine
}

// Grades turns the ranks of nodes that fit into scores from 100 for the best
// down to 0 that keep their order: nodes are as far apart as by Score, and at
// least one point where the ranks differ, as long as there are points left. It
// is what a scheduler's NormalizeScore needs, over all nodes at once.
func Grades(ranks []int64) []int64 {
	order := slices.Clone(ranks)
	slices.SortFunc(order, func(a, b int64) int { return cmp.Compare(b, a) })
	order = slices.Compact(order)
	grades := make([]int64, len(order))
	for i, r := range order {
		grades[i] = 100 - (ScoreOf(order[0]) - ScoreOf(r))
		if i > 0 {
			grades[i] = max(0, min(grades[i], grades[i-1]-1))
		}
	}
	out := make([]int64, len(ranks))
	for i, r := range ranks {
		at, _ := slices.BinarySearchFunc(order, r, func(a, b int64) int { return cmp.Compare(b, a) })
		out[i] = grades[at]
	}
	return out
}

// A Rank has, from the left, the score, the nearness (two numbers up to mille)
// and the fine grade of the policy (one up to tenMille and two up to mille).
const (
	milleBits, tenMilleBits = 10, 14
	mille, tenMille         = 1_000, 10_000

	fineBits   = tenMilleBits + 2*milleBits
	scoreShift = fineBits + 2*milleBits
)

// packing is what a policy goes by. All are larger the fuller.
type packing struct {
	kept int64 // how many of the pod's cards were in use before, 0 to mille
	snug int64 // how well it fits into them: fullness, or openness not lost, 0 to mille
	full int64 // the node with the pod, 0 to tenMille
	// divides: the request divides cards, so that kept and snug can differ
	// between nodes.
	divides bool
}

// packing looks at the node as it were with the offer.
func (v *View) packing(r *request.Request, o *Offer) packing {
	var p packing
	for i := range r.Asks {
		p.divides = p.divides || r.Asks[i].Mode != request.Whole
	}
	var full, gpus, kept, snug, taken int64
	for i := range v.cards {
		c := &v.cards[i]
		if !c.dev.Vendor.IsGPU() {
			continue
		}
		gpus++
		after := c.use
		for _, u := range o.Uses {
			if u.Card != c.dev.UUID {
				continue
			}
			after = after.Plus(u)
			taken++
			if !c.use.Untouched() {
				kept++
			}
			snug += v.snug(c, after)
		}
		full += v.fullness(c, after)
	}
	if taken > 0 {
		p.kept, p.snug, p.full = kept*mille/taken, snug/taken, full/gpus
	}
	return p
}

// mostOpen is above the Openness of any empty card: 49 on the cards known.
const mostOpen = 64

// snug is how well a pod fits on one of its cards, 0 to mille. A share had
// better leave little behind. An instance had better take little of what could
// be placed.
func (v *View) snug(c *card, after cluster.CardUse) int64 {
	if after.Mask == 0 {
		return v.fullness(c, after) * mille / tenMille
	}
	profiles := v.profiles(c)
	lost := min(mostOpen, mig.Openness(c.use.Mask, profiles)-mig.Openness(after.Mask, profiles))
	return mille - int64(lost)*mille/mostOpen
}

// rank is the score and the fine grade by a policy. A card that is not opened
// counts for half of the score: on a node whose cards lie in pieces already
// nothing more is spoilt, however empty it is.
func (p packing) rank(policy config.Policy) (score, fine int64) {
	if policy == config.Spread {
		score = 100 - p.full/100
		return score, ((tenMille-p.full)<<milleBits|(mille-p.kept))<<milleBits | (mille - p.snug)
	}
	score = p.full / 100
	if p.divides {
		score = p.kept/20 + p.snug/40 + p.full/400
	}
	return score, (p.kept<<milleBits|p.snug)<<tenMilleBits | p.full
}

// nearSteps is how many grades of nearness there are in a score. A whole card
// more in use is worth six points on a node of sixteen cards and twelve on one
// of eight, so no grade outweighs it.
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
// else by the ring of the cards, against the best connection of the host. Fine
// has the tiers of all cards and the ring in full.
func (v *View) near(r *request.Request, o *Offer) (grade, fine int64) {
	host := v.chart()
	if host == nil {
		return 0, 0
	}
	var set topo.Set
	for i := range v.cards {
		for _, u := range o.Uses {
			if u.Card == v.cards[i].dev.UUID {
				set |= 1 << i
			}
		}
	}
	ring := int64(mille)
	worth := host.Ring(set)
	if alone := set&(set-1) == 0; !alone {
		ring = worth * mille / max(1, host.Best())
	}
	if r.RDMA {
		return rdmaGrade(o.Tier, ring == mille), tiers(o)<<milleBits | ring
	}
	return linkGrade(worth, ring == mille), ring
}

// rdmaGrade grades the worst tier of a card and its NIC.
func rdmaGrade(t topo.Tier, best bool) int64 {
	switch {
	case t == topo.Switch && best:
		return 4
	case t == topo.Switch:
		return 3
	case t == topo.NUMA:
		return 2
	case t == topo.Socket:
		return 1
	}
	return 0
}

// linkGrade grades the worst connection that a ring through the cards has.
func linkGrade(ring int64, best bool) int64 {
	switch {
	case best:
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

// tiers is how near the NICs are to their cards in the mean, 0 to mille.
func tiers(o *Offer) int64 {
	var sum int64
	for _, g := range o.NICs {
		for _, t := range topo.Tiers()[1:] {
			if g.Tier == t.String() {
				sum += int64(topo.Unknown - t)
			}
		}
	}
	if sum == 0 {
		return 0
	}
	return sum * mille / int64(len(o.NICs)) / int64(topo.Unknown-topo.Switch)
}
