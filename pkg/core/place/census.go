package place

import (
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/mig"
)

// Census counts the GPUs of a node, or of several (Add), by what can still be
// done with them, and measures how far what is free lies in pieces.
//
// Every card is in exactly one of the first six. The rest is about cards of
// nodes that take pods, in health: amounts in percent of one card's compute,
// in MiB, and in memory slices, eight to a card.
type Census struct {
	Closed    int64 // on nodes that take no pods of ours, or cannot be read
	Unhealthy int64 // not given out, whatever they are used for
	Free      int64 // can be taken whole
	Held      int64 // taken whole
	Shared    int64 // divided in time
	Cut       int64 // divided by MIG, or a PPU divided in space

	// What shares can still get, on free and on shared cards, if their vendor
	// can divide them.
	FreeCore, FreeMiB int64
	// The part of it on shared cards: no request for a whole card can use it.
	SplitCore, SplitMiB int64
	// The part of that where the other of the two is used up: no share that
	// asks for compute and memory can use it.
	StuckCore, StuckMiB int64

	// What is not in use on cut cards, and the part of it that no instance can
	// cover any more: it comes back only when neighbours end.
	FreeSlices, StuckSlices int64
	// Instances is how many instances of a profile could still be created on
	// cut cards if no other were, by name of the profile. Nil if no card is cut.
	Instances map[string]int64
}

// Cards is the number of all GPUs.
func (c *Census) Cards() int64 {
	return c.Closed + c.Unhealthy + c.Free + c.Held + c.Shared + c.Cut
}

// Add joins the count of other nodes. It does not keep o's map.
func (c *Census) Add(o Census) {
	for _, x := range []struct {
		to *int64
		n  int64
	}{
		{&c.Closed, o.Closed}, {&c.Unhealthy, o.Unhealthy}, {&c.Free, o.Free}, {&c.Held, o.Held}, {&c.Shared, o.Shared}, {&c.Cut, o.Cut},
		{&c.FreeCore, o.FreeCore}, {&c.FreeMiB, o.FreeMiB}, {&c.SplitCore, o.SplitCore}, {&c.SplitMiB, o.SplitMiB},
		{&c.StuckCore, o.StuckCore}, {&c.StuckMiB, o.StuckMiB}, {&c.FreeSlices, o.FreeSlices}, {&c.StuckSlices, o.StuckSlices},
	} {
		*x.to += x.n
	}
	for name, n := range o.Instances {
		c.room(name, n)
	}
}

func (c *Census) room(profile string, n int64) {
	if c.Instances == nil {
		c.Instances = map[string]int64{}
	}
	c.Instances[profile] += n
}

// Census counts the node's cards. It chooses nothing and does not change the
// View.
func (v *View) Census() Census {
	var out Census
	for i := range v.cards {
		c := &v.cards[i]
		if !c.dev.Vendor.IsGPU() {
			continue
		}
		switch {
		case v.Node.Gate != nil || v.Node.Unread != nil:
			out.Closed++
		case !c.dev.Healthy():
			out.Unhealthy++
		case c.dev.InMIGMode() || c.use.Mask != 0:
			out.Cut++
			v.countSlices(&out, c)
		case c.use.Whole:
			out.Held++
		default:
			v.countShares(&out, c)
		}
	}
	return out
}

// countShares counts a card that is free or divided in time.
func (v *View) countShares(out *Census, c *card) {
	var core, mem int64
	if c.dev.Vendor.Shareable() {
		core, mem = max(0, fullCore-c.use.Core), max(0, c.shareMiB-c.use.MemMiB)
	}
	out.FreeCore += core
	out.FreeMiB += mem
	if c.use.Untouched() {
		out.Free++
		return
	}
	out.Shared++
	out.SplitCore += core
	out.SplitMiB += mem
	if mem < v.leastMiB() {
		out.StuckCore += core
	}
	if core == 0 {
		out.StuckMiB += mem
	}
}

// leastMiB is the smallest memory that a share can ask.
func (v *View) leastMiB() int64 {
	if u := v.Node.Inventory.Unit; u != config.MiB {
		return u.MiB()
	}
	return config.MiBStep
}

// countSlices counts a card that is divided in space.
func (v *View) countSlices(out *Census, c *card) {
	out.FreeSlices += int64(c.use.Mask.FreeSlices())
	reach := c.use.Mask
	if v.refuseCut(c) == "" {
		for _, n := range mig.AllowedSlices() {
			for _, p := range mig.Candidates(v.profiles(c), n, 0) {
				out.room(p.Name, int64(mig.Most(c.use.Mask, []mig.Profile{p})))
				for _, s := range p.Free(c.use.Mask) {
					reach |= mig.MaskAt(s, p.Size)
				}
			}
		}
	}
	out.StuckSlices += int64(reach.FreeSlices())
}
