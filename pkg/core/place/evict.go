package place

import (
	"cmp"
	"math"
	"slices"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Victim is what would be evicted together to make room for a request: a pod,
// or a group that is evicted whole.
type Victim struct {
	// Pods are the uids of those of its pods that are on the node.
	Pods []string
	// Size is how many pods go with it in all, those on other nodes as well.
	Size     int
	Priority int32
	// Budgets has the disruption budgets that its pods count against, as
	// positions in a list of allowances, one for each pod and budget.
	Budgets []int
	// Leaving: it is being deleted anyway and costs nothing.
	Leaving bool
}

// Price is what evictions cost, in the order in which Kubernetes compares
// them: disruption budgets broken, the highest priority, the sum of the
// priorities, the number of pods. Prices of evictions that have nothing in
// common add up.
type Price struct {
	Violations int64
	// Top is the highest priority, counted from 1 for the lowest there is; 0
	// where nobody is evicted.
	Top int64
	// Sum has the priorities, counted from 0 for the lowest, in its upper 48
	// bits and the pods in the lower 16.
	Sum int64
}

// Compare is negative for the lower price.
func (p Price) Compare(o Price) int {
	return cmp.Or(cmp.Compare(p.Violations, o.Violations), cmp.Compare(p.Top, o.Top), cmp.Compare(p.Sum, o.Sum))
}

// Plus is the price of both.
func (p Price) Plus(o Price) Price {
	return Price{p.Violations + o.Violations, max(p.Top, o.Top), p.Sum + o.Sum}
}

const podBits = 16

// price is that of one victim, budgets apart.
func (x *Victim) price() Price {
	if x.Leaving {
		return Price{}
	}
	rank := int64(x.Priority) - math.MinInt32
	return Price{Top: rank + 1, Sum: int64(x.Size) * (rank<<podBits | 1)}
}

// PriceOf is the price of all the victims, where the budgets allow so many
// disruptions.
func PriceOf(victims []Victim, allowed []int) Price {
	var sum Price
	used := make([]int, len(allowed))
	for i := range victims {
		sum = sum.Plus(victims[i].price())
		if victims[i].Leaving {
			continue
		}
		for _, b := range victims[i].Budgets {
			if used[b]++; used[b] > max(allowed[b], 0) {
				sum.Violations++
			}
		}
	}
	return sum
}

// Evict chooses whom to evict so that the node's cards serve n pods of the
// request, at the lowest price; of equal ones it spares the most important.
// victims are those that may be evicted, most important first; allowed has
// what the disruption budgets still allow. It returns positions in victims, in
// their order; none if the pods fit as it is. ok is false if they do not even
// fit with all victims gone.
//
// The choice is exact where that takes few steps, which is so unless many
// victims of different priorities share cards, or several containers ask for
// cards; else it is the best that was found, and never more than needed. The
// View is not changed.
func (v *View) Evict(r *request.Request, n int, victims []Victim, allowed []int) (chosen []int, ok bool) {
	if r.Empty() {
		return nil, true
	}
	e := v.newEviction(r, n, victims, allowed)
	if e.w.load(e.least); e.w.Check(r) != nil || !e.w.serves(r, n) {
		return nil, false
	}
	e.setFloor()
	e.search(0)
	return e.trimmed(), true
}

// maxEvictSteps bounds the search where cards are simply counted, maxEvictTries
// where cards must be looked for anew in each step.
const (
	maxEvictSteps = 2_000
	maxEvictTries = 200
)

// fate of a victim in the search.
type fate uint8

const (
	open fate = iota
	kept
	evicted
)

// eviction is a search for the cheapest victims: victim by victim, the most
// important first, each is kept and then evicted. A card that kept victims
// have spoilt decides about all others on it.
type eviction struct {
	w       *View // its cards have the use that is looked at
	r       *request.Request
	n       int
	victims []Victim
	allowed []int
	prices  []Price
	uses    [][]cluster.CardUse // by victim
	cards   [][]int             // by victim: positions of its cards
	on      [][]int             // by card: its victims
	base    []cluster.CardUse   // by card: what stays in any case

	fates []fate
	now   []cluster.CardUse // by card, with everybody who is not evicted
	least []cluster.CardUse // by card, with those only who are kept
	paid  Price
	used  []int // by budget
	floor int64 // no Top below it is enough
	steps int

	best  []fate
	price Price
}

func (v *View) newEviction(r *request.Request, n int, victims []Victim, allowed []int) *eviction {
	w := *v
	w.cards = slices.Clone(v.cards)
	k := len(w.cards)
	e := &eviction{w: &w, r: r, n: n, victims: victims, allowed: allowed, prices: make([]Price, len(victims)),
		uses: make([][]cluster.CardUse, len(victims)), cards: make([][]int, len(victims)), on: make([][]int, k),
		base: make([]cluster.CardUse, k), fates: make([]fate, len(victims)),
		now: make([]cluster.CardUse, k), least: make([]cluster.CardUse, k), used: make([]int, len(allowed))}
	whose := make(map[string]int, len(victims))
	for i := range victims {
		e.prices[i] = victims[i].price()
		for _, uid := range victims[i].Pods {
			whose[uid] = i
		}
		if victims[i].Leaving {
			e.fates[i] = evicted
		}
	}
	for i := range v.Node.Holds {
		e.hold(&v.Node.Holds[i], whose)
	}
	for c := range k {
		e.count(c)
	}
	return e
}

// hold takes what a pod holds, of a victim or of somebody who stays.
func (e *eviction) hold(h *cluster.Hold, whose map[string]int) {
	uses := h.Cards
	if h.Unplaced != nil {
		uses = e.w.guessed[h.UID]
	}
	i, victim := whose[h.UID]
	for _, u := range uses {
		c := slices.IndexFunc(e.w.cards, func(c card) bool { return c.dev.UUID == u.Card })
		switch {
		case c < 0:
		case !victim:
			e.base[c] = e.base[c].Plus(u)
		default:
			e.uses[i], e.cards[i] = append(e.uses[i], u), append(e.cards[i], c)
			if !slices.Contains(e.on[c], i) {
				e.on[c] = append(e.on[c], i)
			}
		}
	}
}

// count sums up anew what is held of a card: a mask cannot be subtracted.
func (e *eviction) count(c int) {
	now, least := e.base[c], e.base[c]
	for _, i := range e.on[c] {
		if e.fates[i] == evicted {
			continue
		}
		for k, at := range e.cards[i] {
			if at != c {
				continue
			}
			now = now.Plus(e.uses[i][k])
			if e.fates[i] == kept {
				least = least.Plus(e.uses[i][k])
			}
		}
	}
	now.Card, least.Card = e.w.cards[c].dev.UUID, e.w.cards[c].dev.UUID
	e.now[c], e.least[c] = now, least
}

// decide gives a victim its fate, and returns what was paid before.
func (e *eviction) decide(i int, f fate) Price {
	before := e.paid
	if (f == evicted) != (e.fates[i] == evicted) && !e.victims[i].Leaving {
		for _, b := range e.victims[i].Budgets {
			if f != evicted {
				e.used[b]--
			} else if e.used[b]++; e.used[b] > max(e.allowed[b], 0) {
				e.paid.Violations++
			}
		}
		if f == evicted {
			e.paid = e.paid.Plus(e.prices[i])
		}
	}
	e.fates[i] = f
	for _, c := range e.cards[i] {
		e.count(c)
	}
	return before
}

// undo takes a decision back.
func (e *eviction) undo(i int, before Price) {
	e.decide(i, open)
	e.paid = before
}

// setFloor finds the lowest priority up to which all must go for the pods to
// fit. Where no budget counts, those above stay.
func (e *eviction) setFloor() {
	from := 0
	for from < len(e.victims) {
		if e.victims[from].Leaving {
			from++
			continue
		}
		to := from
		for ; to < len(e.victims) && (e.victims[to].Leaving || e.prices[to].Top == e.prices[from].Top); to++ {
			if e.fates[to] == open {
				e.decide(to, kept)
			}
		}
		if !e.fits(e.least) {
			e.floor = e.prices[from].Top
			e.reopen(from, to)
			break
		}
		from = to
	}
	if len(e.allowed) > 0 {
		e.reopen(0, from)
	}
}

func (e *eviction) reopen(from, to int) {
	for i := from; i < to; i++ {
		if e.fates[i] == kept {
			e.undo(i, e.paid)
		}
	}
}

// fits tells whether the pods fit where so much is held of each card.
func (e *eviction) fits(use []cluster.CardUse) bool {
	e.w.load(use)
	return e.w.serves(e.r, e.n)
}

func (v *View) load(use []cluster.CardUse) {
	for c := range use {
		v.cards[c].use = use[c]
	}
}

// search decides about the victims from the k-th on.
func (e *eviction) search(k int) {
	if e.best != nil && e.steps >= e.most() {
		return
	}
	e.steps++
	if e.fits(e.now) {
		if e.best == nil || e.paid.Compare(e.price) < 0 {
			e.best, e.price = slices.Clone(e.fates), e.paid
		}
		return
	}
	if e.best != nil && e.bound().Compare(e.price) >= 0 || !e.fits(e.least) {
		return
	}
	var idle []int
	for ; k < len(e.victims) && !e.matters(k); k++ {
		if e.fates[k] == open {
			e.decide(k, kept)
			idle = append(idle, k)
		}
	}
	if k < len(e.victims) {
		before := e.decide(k, kept)
		if !e.wasted(k) {
			e.search(k + 1)
		}
		e.undo(k, before)
		before = e.decide(k, evicted)
		e.search(k + 1)
		e.undo(k, before)
	}
	for _, i := range idle {
		e.undo(i, e.paid)
	}
}

func (e *eviction) most() int {
	if len(e.r.Asks) > 1 || e.n > 1 && e.r.Asks[0].Count > 1 && e.r.Asks[0].Mode != request.Whole {
		return maxEvictTries
	}
	return maxEvictSteps
}

// matters tells whether it can help to evict a victim that is open: a card of
// its can serve the request, and does not yet.
func (e *eviction) matters(i int) bool {
	return e.fates[i] == open && slices.ContainsFunc(e.cards[i], e.undecided)
}

func (e *eviction) undecided(c int) bool { return !e.spoilt(c) && !e.done(c) }

// spoilt tells whether those who are kept leave nothing of the card to any
// container of the request.
func (e *eviction) spoilt(c int) bool { return !e.serves(c, e.least[c]) }

// done tells whether the card gives all that it can give as it is.
func (e *eviction) done(c int) bool {
	if len(e.r.Asks) > 1 || e.n > 1 && e.r.Asks[0].Mode != request.Whole {
		return false
	}
	return e.serves(c, e.now[c])
}

func (e *eviction) serves(c int, use cluster.CardUse) bool {
	for a := range e.r.Asks {
		if e.w.refuse(&e.r.Asks[a], &e.w.cards[c], use) == "" {
			return true
		}
	}
	return false
}

// wasted tells whether, now that a victim is kept, another was evicted in vain.
func (e *eviction) wasted(keep int) bool {
	for _, c := range e.cards[keep] {
		if !e.spoilt(c) {
			continue
		}
		for _, i := range e.on[c] {
			if e.fates[i] == evicted && !e.victims[i].Leaving && !slices.ContainsFunc(e.cards[i], func(c int) bool { return !e.spoilt(c) }) {
				return true
			}
		}
	}
	return false
}

// bound is a price that no way to go on from here, where the pods do not fit,
// can fall below. Each card that is still needed costs at least its share of
// the victims on it: of all of them if it must be untouched, else of one.
func (e *eviction) bound() Price {
	need := 1
	if a := &e.r.Asks[0]; len(e.r.Asks) == 1 && (a.Mode == request.Whole || e.n == 1) {
		need = a.Count * e.n
		for c := range e.w.cards {
			if e.done(c) {
				need--
			}
		}
	}
	var costs []int64
	for c := range e.w.cards {
		if !e.undecided(c) {
			continue
		}
		cost := int64(-1)
		for _, i := range e.on[c] {
			if e.fates[i] != open {
				continue
			}
			switch share := e.prices[i].Sum / int64(len(e.cards[i])); {
			case cost < 0:
				cost = share
			case len(e.r.Asks) == 1 && e.r.Asks[0].Mode == request.Whole:
				cost += share
			default:
				cost = min(cost, share)
			}
		}
		costs = append(costs, max(cost, 0))
	}
	slices.Sort(costs)
	out := e.paid
	out.Top = max(out.Top, e.floor)
	for _, c := range costs[:min(need, len(costs))] {
		out.Sum += c
	}
	return out
}

// trimmed is the best choice without those whom it need not evict.
func (e *eviction) trimmed() []int {
	for i, f := range e.best {
		e.decide(i, f)
	}
	for _, leaving := range []bool{false, true} {
		for i := range e.victims {
			if e.fates[i] != evicted || e.victims[i].Leaving != leaving {
				continue
			}
			if e.decide(i, kept); !e.fits(e.now) {
				e.decide(i, evicted)
			}
		}
	}
	var out []int
	for i, f := range e.fates {
		if f == evicted {
			out = append(out, i)
		}
	}
	return out
}
