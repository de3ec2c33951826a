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
const keyLen = 6

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
// 1 and 2 are settled by leaving cards out (must and pool); the rest is
// compared by key.
type pick struct {
	host   *topo.Host
	manner manner
	must   topo.Set // cards that every set has
	pool   []int    // cards to choose from, by index
	need   int      // how many of pool
	size   int      // of a whole set
	free   topo.Set // untouched cards, by which what is left behind is judged
	policy [topo.MaxCards][2]int64
	loss   [topo.MaxCards]topo.Worth // to all other untouched cards
	skip   func(topo.Set) bool       // sets that will not do
	best   topo.Set
	key    key
	any    bool
	short  bool // not all sets were looked at
	leaves int
}

// sums are the properties of a set that grow card by card.
type sums struct {
	worth  topo.Worth
	loss   topo.Worth
	policy [2]int64
	dom    topo.Domains
}

// newPick prepares the choice of a.Count cards out of cand. fresh has the
// cards that are new to the pod.
func (s *search) newPick(a *request.Ask, cand []int) *pick {
	v := s.v
	p := &pick{host: v.chart(), manner: v.mannerOf(a, cand), need: a.Count, size: a.Count}
	for c := range v.cards {
		if v.cards[c].use.Untouched() && v.takeable(c) && s.elsewhere(c).Untouched() {
			p.free |= 1 << c
		}
	}
	p.narrow(s, cand)
	for _, c := range cand {
		p.policy[c] = v.preference(a, c, s.during(a, c))
		if p.free&(1<<c) != 0 {
			p.loss[c] = p.host.Toward(c, p.free&^(1<<c))
		}
	}
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
func (p *pick) narrow(s *search, cand []int) {
	var own, fresh []int
	for _, c := range cand {
		if s.elsewhere(c).Untouched() {
			fresh = append(fresh, c)
		} else {
			own = append(own, c)
		}
	}
	p.pool = fresh
	if len(own) >= p.need {
		p.pool = own
	} else {
		for _, c := range own {
			p.must |= 1 << c
		}
		p.need -= len(own)
	}
	if !s.r.RDMA || p.need == 0 {
		return
	}
	tiers := make([]topo.Tier, len(s.v.cards))
	sorted := make([]topo.Tier, 0, len(p.pool))
	for _, c := range p.pool {
		tiers[c] = topo.Nearest(s.v.cards[c].dev, s.v.fabric())
		sorted = append(sorted, tiers[c])
	}
	slices.Sort(sorted)
	worst := sorted[p.need-1]
	for m := p.must; m != 0; m &= m - 1 {
		worst = max(worst, topo.Nearest(s.v.cards[bits.TrailingZeros64(m)].dev, s.v.fabric()))
	}
	p.pool = slices.DeleteFunc(p.pool, func(c int) bool { return tiers[c] > worst })
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
		if more := p.with(s, set, c); !p.hopeless(&more, left-1) {
			p.walk(at+1, left-1, set|1<<c, more)
		}
	}
}

// hopeless tells whether no set with left more cards can be better than the
// best so far: it touches more domains already, and cannot make up for that by
// its connections. Behind NVSwitch, where all connections are equal, this
// leaves few of the sets.
func (p *pick) hopeless(s *sums, left int) bool {
	switch {
	case !p.any || !p.manner.near:
		return false
	case p.manner.domains:
		return s.dom.Count() > p.key[0]
	case p.key[0] != -p.host.Best():
		return false
	}
	have := p.size - left
	most := s.worth.Links() + p.host.Best()*int64(p.size*(p.size-1)/2-have*(have-1)/2)
	return most < -p.key[1] || most == -p.key[1] && s.dom.Count() > p.key[2]
}

// with adds a card to a set.
func (p *pick) with(s sums, set topo.Set, c int) sums {
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
	var k key
	if p.manner.near {
		k = key{-p.host.Ring(set), -s.worth.Links(), s.dom.Count()}
		if p.manner.domains {
			k = key{k[2], k[0], k[1]}
		}
	}
	k[3], k[4], k[5] = s.policy[0], s.policy[1], int64(s.loss)
	if p.any && !k.less(&p.key) || p.skip != nil && p.skip(set) {
		return
	}
	p.best, p.key, p.any = set, k, true
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
