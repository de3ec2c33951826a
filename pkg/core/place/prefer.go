package place

import (
	"cmp"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
)

// manner is which properties of a set of cards count for an ask.
type manner struct {
	near    bool // how the cards are connected, and how many domains they touch
	domains bool // the domains before the connections
}

// mannerOf follows the product's rules. An M890P is placed by PCI domains
// first. Instances have no links: a card in MIG mode takes part in no
// peer-to-peer traffic. Cards of several families are placed as any other.
func (v *View) mannerOf(a *request.Ask, cand []int) manner {
	if a.Count < 2 || a.Mode == request.MIG {
		return manner{}
	}
	f := FamilyOf(v.cards[cand[0]].dev.Model)
	for _, c := range cand[1:] {
		if FamilyOf(v.cards[c].dev.Model) != f {
			f = Other
		}
	}
	near := f.UsesTopology(int64(a.Count))
	return manner{near: near, domains: near && f == PPUM890P}
}

// cardPolicy is the one by which the pod's cards are chosen on this node.
func (v *View) cardPolicy(r *request.Request) config.Policy {
	return cmp.Or(r.CardPolicy, v.Node.CardPolicy, v.cfg.CardPolicy)
}

// nodePolicy is the one by which the pod's node is chosen. It does not depend
// on the node, since scores are compared between nodes.
func (v *View) nodePolicy(r *request.Request) config.Policy {
	return cmp.Or(r.NodePolicy, v.cfg.NodePolicy)
}

// preference orders cards by the card policy; smaller is better. Binpack fills
// what is in use: of MIG cards the one that loses the least, else the fullest.
func (v *View) preference(p config.Policy, a *request.Ask, c int, use cluster.CardUse) [2]int64 {
	used := v.fullness(&v.cards[c], use)
	key := [2]int64{0, -used}
	if a.Mode == request.MIG {
		key[0] = v.opennessLost(a, &v.cards[c], use.Mask)
	}
	if p == config.Spread {
		key = [2]int64{used, key[0]}
	}
	return key
}

// fullness is how much of a card is in use, 0 to 10,000: the scarcer of
// compute and memory decides.
func (v *View) fullness(c *card, use cluster.CardUse) int64 {
	if use.Whole {
		return 10_000
	}
	if use.Mask != 0 {
		return int64(mig.MemorySlices-use.Mask.FreeSlices()) * 10_000 / mig.MemorySlices
	}
	f := use.Core * 100
	if c.shareMiB > 0 {
		f = max(f, use.MemMiB*10_000/c.shareMiB)
	}
	if f == 0 && use.Shares > 0 {
		f = 1 // a share without amounts still makes the card a shared one
	}
	return min(f, 10_000)
}

// opennessLost is how much future a card loses by the best instance that
// serves the ask.
func (v *View) opennessLost(a *request.Ask, c *card, used mig.Mask) int64 {
	profiles := v.profiles(c)
	for _, p := range mig.Candidates(profiles, a.Slices, a.MemMiB) {
		if p.Room(used) == 0 {
			continue
		}
		best := 0
		for _, s := range p.Starts {
			if m := mig.MaskAt(s, p.Size); m != 0 && m&used == 0 {
				best = max(best, mig.Openness(used|m, profiles))
			}
		}
		return int64(mig.Openness(used, profiles) - best)
	}
	return 0
}
