package place

import (
	"math/bits"
	"slices"

	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// maxSubsets bounds the exact choice of one set; C(16,8) is 12,870. Hosts with
// more cards than that are served by growing sets from each card in turn.
const maxSubsets = 20_000

// keyLen is how many properties of a set are compared.
const keyLen = 8

// key orders sets of cards; smaller is better, compared from the left. Of
// equal sets the one with the lowest indices wins.
type key [keyLen]int64

func (k *key) less(o *key) bool {
	for i := range k {
		if k[i] != o[i] {
			return k[i] < o[i]
		}
	}
	return false
}

// pick chooses the cards of one ask together. The order of preference is:
//
//  1. the fewest cards that are new to the pod, so that init containers use
//     those of the apps
//  2. the nearest worst tier of a card and its NIC, if RDMA is asked
//  3. the best ring through the cards, then the most worth in sum
//  4. the fewest sockets, NUMA nodes, switches (before 3 for M890P)
//  5. the card policy
//  6. the least worth taken from the cards that stay untouched: what groups
//     later requests can still form, by links, then by PCI path
//  7. the lowest indices
//
// 1 and 2 are settled at first by leaving cards out (must and pool): sets that
// are worse by them are looked at only if no other will do (widen).
type pick struct {
	host   *topo.Host
	manner manner
	must   topo.Set // cards that every set has
	pool   []int    // cards to choose from, by index
	need   int      // how many of pool
	size   int      // of a whole set
	cand   []int    // all cards that can serve the ask
	whole  bool     // nothing was left out
	loose  bool     // what was left out is in again
	fresh  topo.Set // cards that are new to the pod
	tier   [topo.MaxCards]topo.Tier
	free   topo.Set // untouched cards, by which what is left behind is judged
	policy [topo.MaxCards][2]int64
	loss   [topo.MaxCards]topo.Worth // to all other untouched cards
	skip   func(topo.Set) bool       // sets that will not do
	best   topo.Set
	key    key
	any    bool
	level  int                     // of the best set's ring, an index into the host's levels
	rest   [topo.MaxCards]topo.Set // by position in pool, the cards after it
	short  bool                    // not all sets were looked at
	leaves int
}

// sums are the properties of a set that grow card by card.
type sums struct {
	worth  topo.Worth
	loss   topo.Worth
	policy [2]int64
	dom    topo.Domains
	fresh  int64
	tier   topo.Tier
}

// newPick prepares the choice of a.Count cards out of cand.
func (s *search) newPick(a *request.Ask, cand []int) *pick {
	v := s.v
	p := &pick{host: v.chart(), manner: v.mannerOf(a, cand), cand: cand, size: a.Count}
	for c := range v.cards {
		if !s.elsewhere(c).Untouched() {
			continue
		}
		p.fresh |= 1 << c
		if v.cards[c].use.Untouched() && v.takeable(c) {
			p.free |= 1 << c
		}
	}
	policy := v.cardPolicy(s.r)
	for _, c := range cand {
		p.policy[c] = v.preference(policy, a, c, s.during(a, c))
		if s.r.RDMA {
			p.tier[c] = topo.Nearest(v.cards[c].dev, v.fabric())
		}
		if p.free&(1<<c) != 0 {
			p.loss[c] = p.host.Toward(c, p.free&^(1<<c))
		}
	}
	p.narrow()
	return p
}

// takeable tells whether the card could be taken whole if nobody had it.
func (v *View) takeable(c int) bool {
	d := v.cards[c].dev
	return d.Vendor.IsGPU() && d.Healthy() && !d.InMIGMode()
}

// narrow settles the first two preferences: cards that the pod has anyway come
// first, and of the others only those stay that are no farther from a NIC than
// they must be.
func (p *pick) narrow() {
	var own, fresh []int
	for _, c := range p.cand {
		if p.fresh&(1<<c) != 0 {
			fresh = append(fresh, c)
		} else {
			own = append(own, c)
		}
	}
	p.pool, p.need = fresh, p.size
	var worst topo.Tier
	if len(own) >= p.need {
		p.pool = own
	} else {
		p.need -= len(own)
		for _, c := range own {
			p.must |= 1 << c
			worst = max(worst, p.tier[c])
		}
	}
	tiers := make([]topo.Tier, len(p.pool))
	for i, c := range p.pool {
		tiers[i] = p.tier[c]
	}
	slices.Sort(tiers)
	worst = max(worst, tiers[p.need-1])
	p.pool = slices.DeleteFunc(p.pool, func(c int) bool { return p.tier[c] > worst })
	p.whole = len(p.pool) == len(p.cand)
}

// widen lets all sets in again. It tells whether there are more than before.
func (p *pick) widen() bool {
	if p.whole || p.loose {
		return false
	}
	p.must, p.pool, p.need, p.loose = 0, p.cand, p.size, true
	return true
}

// run finds the best set that skip lets pass.
func (p *pick) run() (topo.Set, bool) {
	p.any, p.leaves = false, 0
	var base sums
	set := topo.Set(0)
	for m := p.must; m != 0; m &= m - 1 {
		base = p.with(base, set, bits.TrailingZeros64(m))
		set |= m & -m
	}
	if subsets(len(p.pool), p.need) > maxSubsets {
		p.short = true
		p.grow(base, set)
	} else {
		var rest topo.Set
		for at := len(p.pool) - 1; at >= 0; at-- {
			p.rest[at] = rest
			rest |= 1 << p.pool[at]
		}
		p.walk(0, p.need, set, base)
	}
	return p.best, p.any
}

// walk tries all sets with left more cards of the pool from position at, in
// the order of their indices.
func (p *pick) walk(at, left int, set topo.Set, s sums) {
	if left == 0 {
		p.judge(set, &s)
		return
	}
	for ; at+left <= len(p.pool); at++ {
		c := p.pool[at]
		if more := p.with(s, set, c); !p.hopeless(set|1<<c, p.rest[at], &more, left-1) {
			p.walk(at+1, left-1, set|1<<c, more)
		}
	}
}

// hopeless tells whether no set with left more cards out of rest can be better
// than the best so far: its cards cannot be on as good a ring, or it touches
// more domains already and cannot make up for that by its connections. Where
// groups of cards are linked in themselves only, and behind NVSwitch, where
// all connections are equal, this leaves few of the sets. Until the pool is
// widened all sets are equal by what comes before these.
func (p *pick) hopeless(set, rest topo.Set, s *sums, left int) bool {
	switch {
	case !p.any || !p.manner.near || p.loose:
		return false
	case p.manner.domains:
		return s.dom.Count() > p.key[2]
	}
	if levels := len(p.host.Levels()); levels > 1 && p.level < levels {
		if !p.host.RingWithin(set, set|rest, p.size, p.level) {
			return true
		}
		if p.level > 0 && p.host.RingWithin(set, set|rest, p.size, p.level-1) {
			return false
		}
	} else if p.level > 0 {
		return false
	}
	have := p.size - left
	most := s.worth.Links() + p.host.Best()*int64(p.size*(p.size-1)/2-have*(have-1)/2)
	return most < -p.key[3] || most == -p.key[3] && s.dom.Count() > p.key[4]
}

// with adds a card to a set.
func (p *pick) with(s sums, set topo.Set, c int) sums {
	if p.fresh&(1<<c) != 0 {
		s.fresh++
	}
	s.tier = max(s.tier, p.tier[c])
	s.policy[0] += p.policy[c][0]
	s.policy[1] += p.policy[c][1]
	if p.manner.near {
		s.dom = s.dom.Or(p.host.Domains(c))
	}
	inner := p.host.Toward(c, set)
	s.worth += inner
	if p.free&(1<<c) != 0 {
		if set&^p.free != 0 {
			inner = p.host.Toward(c, set&p.free)
		}
		s.loss += p.loss[c] - inner // counted from both ends, and lost once
	}
	return s
}

// judge compares a whole set with the best so far.
func (p *pick) judge(set topo.Set, s *sums) {
	p.leaves++
	k := key{s.fresh, int64(s.tier), 0, 0, 0, s.policy[0], s.policy[1], int64(s.loss)}
	if p.manner.near {
		k[2], k[3], k[4] = -p.host.Ring(set), -s.worth.Links(), s.dom.Count()
		if p.manner.domains {
			k[2], k[3], k[4] = k[4], k[2], k[3]
		}
	}
	if p.any && !k.less(&p.key) || p.skip != nil && p.skip(set) {
		return
	}
	p.best, p.key, p.any = set, k, true
	if p.manner.near && !p.manner.domains {
		p.level = slices.Index(p.host.Levels(), -k[2])
		if p.level < 0 {
			p.level = len(p.host.Levels())
		}
	}
}

// grow starts a set with each card of the pool and adds the card that is worth
// most to it until it is whole: good, not exact.
func (p *pick) grow(base sums, must topo.Set) {
	for _, first := range p.pool {
		set, s := must|1<<first, p.with(base, must, first)
		for bits.OnesCount64(set&^must) < p.need {
			next, most := -1, topo.Worth(-1)
			for _, c := range p.pool {
				if set&(1<<c) != 0 {
					continue
				}
				if w := p.host.Toward(c, set); w > most {
					next, most = c, w
				}
			}
			s = p.with(s, set, next)
			set |= 1 << next
		}
		p.judge(set, &s)
	}
}

// subsets is the number of sets of k out of n, or more than maxSubsets.
func subsets(n, k int) int {
	c := 1
	for i := range min(k, n-k) {
		if c = c * (n - i) / (i + 1); c > maxSubsets {
			return c
		}
	}
	return c
}
