package place

import (
	"math/bits"
	"slices"
	"sort"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/topo"
)

// outcome of a search.
type outcome int

const (
	found outcome = iota
	impossible
	gaveUp
)

// maxSteps bounds the exact search. A pod with one asking container needs one
// step; sixteen containers with shares of their own on sixteen cards that
// differ stay far below it unless they almost fit.
const maxSteps = 50_000

// maxOrdered bounds the search in the order of preference.
const maxOrdered = 4_000

// search assigns cards to the asks of one pod, exactly, by backtracking. It
// first goes through the sets of cards of each ask from the best on, so that
// the first answer has the best cards for the first ask with which the others
// can be served. Where that takes too long it assigns card by card, by the
// card policy alone.
type search struct {
	v     *View
	r     *request.Request
	order []int               // asks, hardest first, apps before init containers
	own   [][]cluster.CardUse // [phase][card]: what the pod takes itself
	given [][]device.Grant    // by ask
	at    [][]int             // by ask: the cards' positions
	steps int
	plain bool // card by card
	short bool // not all sets of cards have been tried
}

func newSearch(v *View, r *request.Request) *search {
	s := &search{v: v, r: r, given: make([][]device.Grant, len(r.Asks)), at: make([][]int, len(r.Asks))}
	s.own = make([][]cluster.CardUse, r.Phases)
	flat := make([]cluster.CardUse, r.Phases*len(v.cards))
	for p := range s.own {
		s.own[p], flat = flat[:len(v.cards)], flat[len(v.cards):]
	}
	s.order = make([]int, len(r.Asks))
	for i := range s.order {
		s.order[i] = i
	}
	sort.SliceStable(s.order, func(i, j int) bool { return harder(&r.Asks[s.order[i]], &r.Asks[s.order[j]]) })
	return s
}

// harder orders asks: what lasts to the end of the pod first, then whole
// cards, instances, shares, and the larger of each.
func harder(a, b *request.Ask) bool {
	if (a.Kind == request.Init) != (b.Kind == request.Init) {
		return b.Kind == request.Init
	}
	if ra, rb := modeRank(a.Mode), modeRank(b.Mode); ra != rb {
		return ra < rb
	}
	if a.Count != b.Count {
		return a.Count > b.Count
	}
	if a.Slices != b.Slices {
		return a.Slices > b.Slices
	}
	if a.Core != b.Core {
		return a.Core > b.Core
	}
	return a.MemMiB > b.MemMiB
}

func modeRank(m request.Mode) int {
	switch m {
	case request.Whole:
		return 0
	case request.MIG:
		return 1
	}
	return 2
}

// run looks for the best cards.
func (s *search) run() outcome {
	if out := s.ordered(); out != gaveUp {
		return out
	}
	return s.cardByCard()
}

// fits looks for any cards: sooner, with the same outcome as run.
func (s *search) fits() outcome {
	if out := s.cardByCard(); out != gaveUp {
		return out
	}
	return s.ordered()
}

func (s *search) ordered() outcome {
	s.plain, s.short, s.steps = false, false, 0
	switch {
	case s.v.chart() == nil:
		return gaveUp
	case s.assign(0):
		return found
	case s.short || s.steps > maxOrdered:
		return gaveUp
	}
	return impossible
}

func (s *search) cardByCard() outcome {
	s.plain, s.steps = true, 0
	switch {
	case s.assign(0):
		return found
	case s.steps > maxSteps:
		return gaveUp
	}
	return impossible
}

// assign gives cards to the asks from the k-th on.
func (s *search) assign(k int) bool {
	if k == len(s.order) {
		return true
	}
	i := s.order[k]
	a := &s.r.Asks[i]
	cand := s.candidates(a)
	switch {
	case len(cand) < a.Count:
		return false
	case s.plain:
		s.byPolicy(a, cand)
		return s.choose(k, i, cand, a.Count)
	}
	return s.chooseSets(k, i, cand)
}

// chooseSets serves ask i with sets of cards from the best on, and goes on to
// the next ask. Of sets that are the same to every ask one is tried.
func (s *search) chooseSets(k, i int, cand []int) bool {
	p := s.newPick(&s.r.Asks[i], cand)
	var kinds, tried []topo.Set
	for {
		set, ok := p.run()
		if !ok && p.widen() {
			continue
		}
		if !ok {
			s.short = s.short || p.short
			return false
		}
		// Judging a set is far cheaper than serving one.
		if s.steps += 1 + p.leaves/64; s.steps > maxOrdered {
			return false
		}
		if s.serve(k, i, set) {
			return true
		}
		if tried == nil {
			kinds = s.kinds(cand)
			p.skip = func(set topo.Set) bool { return slices.Contains(tried, plainest(set, kinds)) }
		}
		tried = append(tried, plainest(set, kinds))
	}
}

// serve gives the cards of the set to ask i, in all ways in which they can
// serve it, and goes on to the next ask.
func (s *search) serve(k, i int, set topo.Set) bool {
	if set == 0 {
		return s.assign(k + 1)
	}
	c := bits.TrailingZeros64(set)
	for _, g := range s.grants(i, c) {
		s.take(i, c, g)
		if s.serve(k, i, set&(set-1)) {
			return true
		}
		s.giveBack(i)
		if s.steps++; s.steps > maxOrdered {
			return false
		}
	}
	return false
}

// kinds lists the sets of cards that are the same to every ask.
func (s *search) kinds(cand []int) []topo.Set {
	var out []topo.Set
next:
	for _, c := range cand {
		for x := range out {
			if s.twins(bits.TrailingZeros64(out[x]), c) {
				out[x] |= 1 << c
				continue next
			}
		}
		out = append(out, 1<<c)
	}
	return out
}

// plainest is the set with as many cards of each kind, the lowest ones.
func plainest(set topo.Set, kinds []topo.Set) topo.Set {
	var out topo.Set
	for _, kind := range kinds {
		for n := bits.OnesCount64(set & kind); n > 0; n-- {
			out |= kind & -kind
			kind &= kind - 1
		}
	}
	return out
}

// choose takes n more of the candidates for ask i, in their order, and goes
// on to the next ask. Two cards in the same state are tried once.
func (s *search) choose(k, i int, cand []int, n int) bool {
	if n == 0 {
		return s.assign(k + 1)
	}
	for x := 0; x+n <= len(cand); x++ {
		if s.steps++; s.steps > maxSteps {
			return false
		}
		if s.triedTwin(cand[:x], cand[x]) {
			continue
		}
		for _, g := range s.grants(i, cand[x]) {
			s.take(i, cand[x], g)
			if s.choose(k, i, cand[x+1:], n-1) {
				return true
			}
			s.giveBack(i)
		}
	}
	return false
}

func (s *search) grants(i, c int) []device.Grant {
	a := &s.r.Asks[i]
	return s.v.grants(a, &s.v.cards[c], s.during(a, c), s.elsewhere(c))
}

func (s *search) triedTwin(tried []int, c int) bool {
	for _, t := range tried {
		if s.twins(t, c) {
			return true
		}
	}
	return false
}

// twins tells whether two cards are the same to every ask.
func (s *search) twins(a, b int) bool {
	ca, cb := &s.v.cards[a], &s.v.cards[b]
	if ca.dev.Model != cb.dev.Model || ca.dev.Vendor != cb.dev.Vendor || ca.dev.MemMiB != cb.dev.MemMiB ||
		ca.dev.InMIGMode() != cb.dev.InMIGMode() || ca.dev.Healthy() != cb.dev.Healthy() || !sameUse(ca.use, cb.use) {
		return false
	}
	for p := range s.own {
		if !sameUse(s.own[p][a], s.own[p][b]) {
			return false
		}
	}
	return true
}

func sameUse(a, b cluster.CardUse) bool {
	a.Card, b.Card = "", ""
	return a == b
}

// during is what is taken of a card while the ask's container runs: by other
// pods, and by this pod at the worst of these phases.
func (s *search) during(a *request.Ask, c int) cluster.CardUse {
	var mine cluster.CardUse
	for p := a.From; p <= a.To; p++ {
		mine = mine.Peak(s.own[p][c])
	}
	return s.v.cards[c].use.Plus(mine)
}

// elsewhere is what the pod takes of a card in any phase of its life.
func (s *search) elsewhere(c int) cluster.CardUse {
	var mine cluster.CardUse
	for p := range s.own {
		mine = mine.Peak(s.own[p][c])
	}
	return mine
}

func (s *search) take(i, c int, g device.Grant) {
	a := &s.r.Asks[i]
	s.given[i], s.at[i] = append(s.given[i], g), append(s.at[i], c)
	u := cluster.UseOf(g)
	for p := a.From; p <= a.To; p++ {
		s.own[p][c] = s.own[p][c].Plus(u)
	}
}

func (s *search) giveBack(i int) {
	last := len(s.given[i]) - 1
	c := s.at[i][last]
	s.given[i], s.at[i] = s.given[i][:last], s.at[i][:last]
	a := &s.r.Asks[i]
	for p := a.From; p <= a.To; p++ {
		s.own[p][c] = s.rebuild(p, c)
	}
}

// rebuild sums what the pod takes of a card in a phase: a mask cannot be
// subtracted.
func (s *search) rebuild(p, c int) cluster.CardUse {
	var sum cluster.CardUse
	for i := range s.r.Asks {
		if a := &s.r.Asks[i]; p < a.From || p > a.To {
			continue
		}
		for x, at := range s.at[i] {
			if at == c {
				sum = sum.Plus(cluster.UseOf(s.given[i][x]))
			}
		}
	}
	return sum
}

// candidates are the cards that can serve the ask now, by index.
func (s *search) candidates(a *request.Ask) []int {
	out := make([]int, 0, len(s.v.cards))
	for c := range s.v.cards {
		if s.v.refuse(a, &s.v.cards[c], s.during(a, c)) == "" {
			out = append(out, c)
		}
	}
	return out
}

// byPolicy sorts cards: first those that the pod has anyway in another phase,
// then by the card policy.
func (s *search) byPolicy(a *request.Ask, cand []int) {
	keys := make([][3]int64, len(s.v.cards))
	policy := s.v.cardPolicy(s.r)
	for _, c := range cand {
		p := s.v.preference(policy, a, c, s.during(a, c))
		keys[c] = [3]int64{0, p[0], p[1]}
		if s.elsewhere(c).Untouched() {
			keys[c][0] = 1
		}
	}
	slices.SortStableFunc(cand, func(x, y int) int { return slices.Compare(keys[x][:], keys[y][:]) })
}
