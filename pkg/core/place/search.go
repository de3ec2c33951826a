package place

import (
	"sort"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
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

// search assigns cards to the asks of one pod: exact, by backtracking, in the
// order of preference, so that the first answer is the best by the policy.
type search struct {
	v     *View
	r     *request.Request
	order []int               // asks, hardest first, apps before init containers
	own   [][]cluster.CardUse // [phase][card]: what the pod takes itself
	given [][]device.Grant    // by ask
	at    [][]int             // by ask: the cards' positions
	steps int
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

func (s *search) run() outcome {
	if s.assign(0) {
		return found
	}
	if s.steps > maxSteps {
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
	if len(cand) < a.Count {
		return false
	}
	return s.choose(k, i, cand, a.Count)
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

// candidates are the cards that can serve the ask now, best first.
func (s *search) candidates(a *request.Ask) []int {
	type ranked struct {
		card int
		key  [3]int64
	}
	var list []ranked
	for c := range s.v.cards {
		use := s.during(a, c)
		if s.v.refuse(a, &s.v.cards[c], use) == "" {
			list = append(list, ranked{c, s.preference(a, c, use)})
		}
	}
	sort.Slice(list, func(i, j int) bool {
		for k := range list[i].key {
			if list[i].key[k] != list[j].key[k] {
				return list[i].key[k] < list[j].key[k]
			}
		}
		return list[i].card < list[j].card
	})
	out := make([]int, len(list))
	for i := range list {
		out[i] = list[i].card
	}
	return out
}

// preference orders cards that all fit; smaller is better. First a card that
// the pod has anyway in another phase, then what the policy says.
func (s *search) preference(a *request.Ask, c int, use cluster.CardUse) [3]int64 {
	var key [3]int64
	if s.elsewhere(c).Untouched() {
		key[0] = 1
	}
	used := s.v.fullness(&s.v.cards[c], use)
	if a.Mode == request.MIG {
		key[1] = s.v.opennessLost(a, &s.v.cards[c], use.Mask)
	}
	key[2] = -used
	if s.v.cfg.CardPolicy == config.Spread {
		key[1], key[2] = used, key[1]
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

// opennessLost is how much future a card loses by taking the ask.
func (v *View) opennessLost(a *request.Ask, c *card, used mig.Mask) int64 {
	options := v.instances(a, c, used, 0)
	if len(options) == 0 {
		return 0
	}
	profiles := v.profiles(c)
	return int64(mig.Openness(used, profiles) - mig.Openness(used|options[0].Mask(), profiles))
}
