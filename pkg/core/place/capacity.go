package place

import (
	"slices"

	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Capacity is how many pods of the request the node's cards can serve one after
// another, each placed as Fit places it; counting stops at limit. It looks at
// cards alone, as Fit does: CPU, memory and ports are the in-tree filters'.
//
// A request of one container that takes whole cards, or one card of which it
// takes a part, is counted without placing anything; any other by Fit until it
// refuses, so that no more is promised than Fit will give. It is 0 for a node
// that takes no pods of ours, and limit for a request without cards. The View
// is not changed.
func (v *View) Capacity(r *request.Request, limit int) int {
	switch {
	case limit <= 0:
		return 0
	case r.Empty():
		return limit
	case v.Check(r) != nil:
		return 0
	}
	return v.count(r, limit)
}

// serves tells whether the cards of a node that takes the request's kind of
// pods serve n of them.
func (v *View) serves(r *request.Request, n int) bool {
	switch {
	case n > 1:
		return v.count(r, n) >= n
	case len(r.Asks) == 1:
		return v.serving(&r.Asks[0]) >= r.Asks[0].Count
	}
	return newSearch(v, r).fits() == found
}

// count is Capacity where the cards alone decide.
func (v *View) count(r *request.Request, limit int) int {
	if len(r.Asks) > 1 || r.Asks[0].Mode != request.Whole && r.Asks[0].Count > 1 {
		return v.fits(r, limit)
	}
	a := &r.Asks[0]
	n := 0
	for i := range v.cards {
		if n/a.Count >= limit {
			break
		}
		n += v.holds(a, &v.cards[i])
	}
	return min(n/a.Count, limit)
}

// fits counts how often Fit finds cards.
func (v *View) fits(r *request.Request, limit int) int {
	w := *v
	w.cards = slices.Clone(v.cards)
	for n := 0; n < limit; n++ {
		s := newSearch(&w, r)
		if s.run() != found {
			return n
		}
		w.Add(s.offer().Uses)
	}
	return limit
}

// holds is how often one card can serve the ask.
func (v *View) holds(a *request.Ask, c *card) int {
	if v.refuse(a, c, c.use) != "" {
		return 0
	}
	switch a.Mode {
	case request.TDM:
		return int(sharesLeft(a, c))
	case request.MIG:
		return mig.Most(c.use.Mask, mig.Candidates(v.profiles(c), a.Slices, a.MemMiB))
	}
	return 1
}

// sharesLeft is how many shares like the ask's fit side by side into what is
// left of a card that does not refuse it. The ask has at least one amount.
func sharesLeft(a *request.Ask, c *card) int64 {
	n := int64(0)
	if a.Core > 0 {
		n = (fullCore - c.use.Core) / a.Core
	}
	if a.MemMiB > 0 {
		if m := (c.shareMiB - c.use.MemMiB) / a.MemMiB; a.Core == 0 || m < n {
			n = m
		}
	}
	return n
}
