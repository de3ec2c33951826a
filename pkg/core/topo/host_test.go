package topo_test

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/topo"
)

var cfg = config.Default()

func measure(inv *device.Inventory) *topo.Host {
	var cards []*device.Card
	for i := range inv.Cards {
		cards = append(cards, &inv.Cards[i])
	}
	return topo.New(cards, inv.Links)
}

func set(cards ...int) topo.Set {
	var s topo.Set
	for _, c := range cards {
		s |= 1 << c
	}
	return s
}

func TestRingsOfKnownHosts(t *testing.T) {
	build := map[string]func(string, config.Config) *coretest.NodeBuilder{
		"DGX-1": coretest.DGX1, "810E": coretest.PPU810Ex8, "A10": coretest.A10x8, "A100": coretest.DGXA100,
	}
	tests := map[string]struct {
		host  string
		cards topo.Set
		want  int64
	}{
		"a single card has none":                         {"DGX-1", set(3), 0},
		"a pair is its link":                             {"DGX-1", set(0, 3), 2 * topo.WorthLink},
		"the double ring of the cube mesh":               {"DGX-1", set(0, 1, 2, 3, 4, 5, 6, 7), 2 * topo.WorthLink},
		"a quad of the cube mesh":                        {"DGX-1", set(0, 1, 2, 3), topo.WorthLink},
		"a card with one link into the set breaks it":    {"DGX-1", set(0, 1, 2, 3, 4), topo.WorthCrossSocket},
		"five cards that can be a ring":                  {"DGX-1", set(0, 1, 3, 4, 7), topo.WorthLink},
		"the double ring of a PPU quad across sockets":   {"810E", set(0, 1, 6, 7), 2 * topo.WorthLink},
		"the other quad":                                 {"810E", set(2, 3, 4, 5), topo.WorthLink},
		"two full triangles on two sockets do not join":  {"A10", set(0, 1, 2, 4, 5, 6), topo.WorthCrossSocket},
		"a socket of cards without links":                {"A10", set(0, 1, 2, 3), topo.WorthNUMA},
		"any set behind NVSwitch":                        {"A100", set(0, 3, 5), 12 * topo.WorthLink},
		"two pairs of double links joined by no link up": {"810E", set(2, 3, 6, 7), topo.WorthCrossSocket},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := measure(build[tt.host]("n", cfg).Obj().Inventory)
			if got := h.Ring(tt.cards); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// longestRing tries all orders of the cards.
func longestRing(h *topo.Host, cards []int) int64 {
	if len(cards) == 2 {
		return h.Toward(cards[0], set(cards[1])).Links()
	}
	best := int64(-1)
	var try func(at int, worst int64)
	try = func(at int, worst int64) {
		if at == len(cards) {
			best = max(best, min(worst, h.Toward(cards[at-1], set(cards[0])).Links()))
			return
		}
		for i := at; i < len(cards); i++ {
			cards[at], cards[i] = cards[i], cards[at]
			try(at+1, min(worst, h.Toward(cards[at-1], set(cards[at])).Links()))
			cards[at], cards[i] = cards[i], cards[at]
		}
	}
	try(1, 1<<40)
	return best
}

func TestRingIsExactToFourAndNeverTooSmall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := coretest.Node("n", cfg).Cards(6, coretest.V100)
		for i := range 6 {
			b.At(i, rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "switch"), rapid.IntRange(-1, 1).Draw(t, "numa"), -1)
		}
		for range rapid.IntRange(0, 10).Draw(t, "links") {
			x := rapid.IntRange(0, 4).Draw(t, "x")
			b.Link("nvlink", x, rapid.IntRange(x+1, 5).Draw(t, "y"), rapid.IntRange(1, 3).Draw(t, "n"))
		}
		h := measure(b.Obj().Inventory)
		for s := topo.Set(1); s < 1<<6; s++ {
			var cards []int
			for m := s; m != 0; m &= m - 1 {
				cards = append(cards, bits.TrailingZeros64(m))
			}
			if len(cards) < 2 {
				continue
			}
			got, want := h.Ring(s), longestRing(h, cards)
			if got < want || len(cards) <= 4 && got != want {
				t.Fatalf("set %06b: got %d, trying all rings gives %d", s, got, want)
			}
		}
	})
}

func TestLinksFromOutsideDoNoHarm(t *testing.T) {
	b := coretest.Node("n", cfg).Cards(3, coretest.V100)
	b.Link("nvlink", 0, 1, 2).Link("nvlink", 1, 0, 1).Link("nvlink", 0, 9, 4).Link("nvlink", 2, 2, 4).Link("nvlink", 1, 2, 0).Link("nvlink", 0, 2, 1<<40)
	h := measure(b.Obj().Inventory)
	for _, tt := range []struct {
		x, y int
		want int64
	}{{0, 1, 2 * topo.WorthLink}, {1, 2, topo.WorthUnknown}, {0, 2, 64 * topo.WorthLink}} {
		if got := h.Toward(tt.x, set(tt.y)).Links(); got != tt.want {
			t.Errorf("cards %d and %d: got %d, want %d", tt.x, tt.y, got, tt.want)
		}
	}
	if topo.New(make([]*device.Card, topo.MaxCards+1), nil) != nil {
		t.Error("more cards than a set holds were measured")
	}
}

func TestUnknownDomainsAreDomainsOfTheirOwn(t *testing.T) {
	b := coretest.Node("n", cfg).Cards(8, coretest.V100)
	b.At(0, "A", 0, 0).At(1, "A", -1, -1).At(2, "", 0, -1).At(3, "", -1, -1).At(4, "", -1, 0)
	b.At(5, "B", -1, 1).At(6, "C", 1, -1).At(7, "B", 1, 1)
	h := measure(b.Obj().Inventory)
	for name, tt := range map[string]struct {
		x, y                 int
		switches, numa, sock int
	}{
		"the same switch is the same node": {0, 1, 1, 1, 1},
		"the same node is the same socket": {0, 2, 2, 1, 1},
		"nothing known":                    {0, 3, 2, 2, 2},
		"only the socket":                  {0, 4, 2, 2, 1},
		"a third card knows":               {5, 6, 2, 1, 1},
	} {
		d := h.Domains(tt.x).Or(h.Domains(tt.y))
		if got := d.Count(); got != int64(tt.sock<<16|tt.numa<<8|tt.switches) {
			t.Errorf("%s: got %06x", name, got)
		}
	}
}
