package place

import (
	"fmt"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Explanation is the node's answer in full.
type Explanation struct {
	// Offer is set if the request fits; Reasons otherwise, as from Check.
	Offer   *Offer
	Reasons []reason.Reason
	// Cards has each card's own answer to the first ask that the node cannot
	// serve alone, or else to the first ask, in the inventory's order.
	Cards []CardAnswer
}

// CardAnswer is what one card says to one ask.
type CardAnswer struct {
	Card    *device.Card
	Use     cluster.CardUse
	Share   int64          // MiB that the card offers to shares
	Reason  *reason.Reason // nil if it could serve the ask
	Holders []string       // namespace/name of the pods that hold some of it
}

// Explain answers as Fit does and says card by card why.
func (v *View) Explain(r *request.Request) Explanation {
	var e Explanation
	e.Offer, e.Reasons = v.Fit(r)
	if r.Empty() {
		return e
	}
	ask := &r.Asks[0]
	for i := range r.Asks {
		if v.serving(&r.Asks[i]) < r.Asks[i].Count {
			ask = &r.Asks[i]
			break
		}
	}
	for i := range v.cards {
		c := &v.cards[i]
		a := CardAnswer{Card: c.dev, Use: c.use, Share: c.shareMiB, Holders: v.Holders(c.dev.UUID)}
		if code := v.refuse(ask, c, c.use); code != "" {
			a.Reason = v.cardReason(code, ask, c, a.Holders)
		}
		e.Cards = append(e.Cards, a)
	}
	return e
}

// cardReason fills in the numbers of a card's refusal.
func (v *View) cardReason(code reason.Code, a *request.Ask, c *card, holders []string) *reason.Reason {
	r := &reason.Reason{Code: code, Device: c.dev.UUID}
	unit := v.Node.Inventory.Unit
	switch code {
	case "gpu-vendor":
		r.Detail = []string{string(c.dev.Vendor)}
	case "gpu-unhealthy":
		for _, h := range c.dev.Health {
			r.Detail = append(r.Detail, h.Code)
		}
	case "gpu-held-whole", "gpu-shared":
		r.Detail = holders
	case "gpu-core-short":
		r.Want, r.Free, r.Total, r.Unit = a.Core, fullCore-c.use.Core, fullCore, "%"
	case "gpu-memory-short", "gpu-memory-small":
		r.Want, r.Free, r.Total, r.Unit = a.MemMiB/unit.MiB(), (c.shareMiB-c.use.MemMiB)/unit.MiB(), c.shareMiB/unit.MiB(), string(unit)
	case "gpu-mig-model":
		r.Detail = []string{c.dev.Model}
	case "gpu-mig-no-profile":
		r.Device, r.Want, r.Unit = profileName(a), a.MemMiB, "MiB"
	case "gpu-mig-no-placement":
		r.Device, r.Free, r.Unit = profileName(a), int64(c.use.Mask.FreeSlices()), "memory slices"
	}
	return r
}

// profileName is the ask as people say it, without the memory that depends
// on the model.
func profileName(a *request.Ask) string { return fmt.Sprintf("%dg", a.Slices) }
