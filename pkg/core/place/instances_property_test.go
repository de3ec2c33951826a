package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/mig"
)

// The loss of an instance is counted here start by start, over all profiles.
func lostBy(used mig.Mask, g device.Grant, profiles []mig.Profile) int {
	lost := 0
	for _, p := range profiles {
		for _, s := range p.Starts {
			m := mig.MaskAt(s, p.Size)
			if m&used == 0 && m&g.Mask() != 0 {
				lost += p.Size
			}
		}
	}
	return lost
}

// Of all cards and all starts of the smallest profile that will do on a card,
// those are taken that leave the most to others; then the fullest card, then
// the lowest index.
func TestInstancesAreTheBestOfAllCardsAndStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := coretest.Node("n", cfg)
		cards := rapid.IntRange(1, 4).Draw(t, "cards")
		for i := range cards {
			b.MIG(1, rapid.SampledFrom([]string{coretest.A100x40, coretest.A100x80, coretest.H800}).Draw(t, "model"))
			for k := range rapid.IntRange(0, 4).Draw(t, "pods") {
				n := b.Obj()
				v := NewView(&cluster.Node{Inventory: n.Inventory, Holds: n.Holds}, cfg)
				c := &n.Inventory.Cards[i]
				ps := n.Inventory.ProfilesOf(c)
				p := ps[rapid.IntRange(0, len(ps)-1).Draw(t, "profile")]
				if free := p.Free(v.Use(c.UUID).Mask); len(free) > 0 {
					b.Instance(i, fmt.Sprint("p", i, k), rapid.SampledFrom(free).Draw(t, "start"), p.Size)
				}
			}
		}
		n := b.Obj()
		slices_, mem := rapid.SampledFrom(mig.AllowedSlices()).Draw(t, "slices"), rapid.IntRange(0, 45).Draw(t, "mem")
		r := coretest.Request(cfg, "", L{"gpu-slice": int64(slices_), "gpu-memory": int64(mem)})
		v := NewView(n, cfg)
		var want [4]int
		found := false
		for i := range n.Inventory.Cards {
			c := &n.Inventory.Cards[i]
			used, ps := v.Use(c.UUID).Mask, n.Inventory.ProfilesOf(c)
			fits := slices.DeleteFunc(mig.Candidates(ps, slices_, int64(mem)*1024), func(p mig.Profile) bool { return p.Room(used) == 0 })
			if len(fits) == 0 {
				continue
			}
			for _, s := range fits[0].Free(used) {
				key := [4]int{lostBy(used, device.Grant{MIG: fits[0].Name, Start: &s, Size: fits[0].Size}, ps), used.FreeSlices(), i, -s}
				if !found || slices.Compare(key[:], want[:]) < 0 {
					want, found = key, true
				}
			}
		}
		o, why := v.Fit(r)
		if (o != nil) != found {
			t.Fatalf("offer %v, reasons %v; a legal start exists: %v", o, why, found)
		}
		if found {
			g := o.Containers["c0"][0]
			if i := slices.IndexFunc(n.Inventory.Cards, func(c device.Card) bool { return c.UUID == g.Card }); i != want[2] || *g.Start != -want[3] {
				t.Fatalf("took start %d of card %d, best is start %d of card %d", *g.Start, i, -want[3], want[2])
			}
		}
	})
}
