package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
)

// drawHost is a host on which anything may be linked to anything, below any
// switch, or of unknown place.
func drawHost(t *rapid.T, most int) *cluster.Node {
	b := coretest.Node("n", cfg)
	model := rapid.SampledFrom([]string{coretest.V100, coretest.PPU810E, coretest.PPUM890P}).Draw(t, "model")
	cards := rapid.IntRange(1, most).Draw(t, "cards")
	b.Cards(cards, model)
	spot := func() (string, int, int) {
		sw := rapid.IntRange(-1, 5).Draw(t, "switch") // six switches on three NUMA nodes of two sockets
		numa, socket, name := sw/2, sw/4, string(rune('A'+sw))
		if sw < 0 {
			name, numa, socket = "", rapid.IntRange(-1, 2).Draw(t, "numa"), -1
		}
		if rapid.IntRange(0, 4).Draw(t, "noNUMA") == 0 {
			numa = -1
		}
		if rapid.IntRange(0, 4).Draw(t, "noSocket") == 0 {
			socket = -1
		}
		return name, numa, socket
	}
	for i := range cards {
		sw, numa, socket := spot()
		b.At(i, sw, numa, socket)
		switch rapid.IntRange(0, 7).Draw(t, "state") {
		case 0:
			b.Sick(i, "xid-79")
		case 1:
			b.Whole(i, fmt.Sprintf("w%d", i))
		case 2:
			b.Share(i, fmt.Sprintf("s%d", i), int64(10*rapid.IntRange(1, 8).Draw(t, "core")), 1024)
		}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "linked") == 0 {
				b.Link("nvlink", j, i, rapid.IntRange(1, 2).Draw(t, "width"))
			}
		}
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "nics") {
		sw, numa, socket := spot()
		b.NICAt(sw, numa, socket)
		if rapid.IntRange(0, 3).Draw(t, "down") == 0 {
			b.Down(i)
		}
	}
	return b.Obj()
}

func drawAsk(t *rapid.T, n *cluster.Node) *request.Request {
	count := rapid.IntRange(1, 6).Draw(t, "count")
	l := L{"gpu": int64(count)}
	replica := ""
	if rapid.IntRange(0, 2).Draw(t, "share") == 0 {
		l, replica = L{"gpu-core": int64(rapid.IntRange(1, 60).Draw(t, "core"))}, fmt.Sprint(count)
	}
	if n.Allocatable["aliyun.com/rdma"] > 0 && rapid.Bool().Draw(t, "rdma") {
		l["rdma"] = 1
	}
	return coretest.Request(cfg, replica, l)
}

func TestTheBestOfAllSetsIsChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 7)
		c := cfg
		c.CardPolicy = rapid.SampledFrom(config.Policies()).Draw(t, "policy")
		r := drawAsk(t, n)
		want := (&judgement{n, r, c, n.Inventory.Cards}).best()
		o, why := NewView(n, c).Fit(r)
		if (o == nil) != (want == nil) {
			t.Fatalf("offer %v, reasons %v, trying all sets gives %v", o, why, want)
		}
		if o == nil {
			return
		}
		if got := taken(n, o); !slices.Equal(got, want) {
			j := &judgement{n, r, c, n.Inventory.Cards}
			t.Fatalf("took %v with %v, best of all is %v with %v", got, j.key(got), want, j.key(want))
		}
		checkNICs(t, n, r, o)
	})
}

// checkNICs: one NIC in service for each card, none without RDMA.
func checkNICs(t *rapid.T, n *cluster.Node, r *request.Request, o *Offer) {
	if !r.RDMA {
		if len(o.NICs) > 0 || o.Tier != 0 {
			t.Fatalf("NICs without RDMA: %v at %q", o.NICs, o.Tier)
		}
		return
	}
	if len(o.NICs) != len(o.Uses) {
		t.Fatalf("%d NICs for %d cards", len(o.NICs), len(o.Uses))
	}
	for _, g := range o.NICs {
		i := slices.IndexFunc(n.Inventory.NICs, func(x device.NIC) bool { return x.PCI == g.PCI })
		if i < 0 || !n.Inventory.NICs[i].Usable() {
			t.Fatalf("NIC %v is not in service", g)
		}
		if !slices.ContainsFunc(o.Uses, func(u cluster.CardUse) bool { return u.Card == g.Card }) {
			t.Fatalf("NIC %v is for a card that the pod has not", g)
		}
	}
	if _, err := device.EncodeAllocation(&device.Allocation{UID: r.UID, Node: n.Name, Containers: o.Containers, NICs: o.NICs}); err != nil {
		t.Fatal(err)
	}
}

func TestTheOrderOfTheInventoryChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 7)
		r := drawAsk(t, n)
		want, wantWhy := NewView(n, cfg).Fit(r)
		inv := *n.Inventory
		inv.Cards = rapid.Permutation(inv.Cards).Draw(t, "cards")
		inv.Links = rapid.Permutation(inv.Links).Draw(t, "links")
		inv.NICs = rapid.Permutation(inv.NICs).Draw(t, "nics")
		for i := range inv.Links {
			if rapid.Bool().Draw(t, "turned") {
				inv.Links[i].A, inv.Links[i].B = inv.Links[i].B, inv.Links[i].A
			}
		}
		m := *n
		m.Inventory, m.Holds = &inv, rapid.Permutation(n.Holds).Draw(t, "holds")
		got, gotWhy := NewView(&m, cfg).Fit(r)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("offer (-as published +shuffled):\n%s", diff)
		}
		if diff := cmp.Diff(wantWhy, gotWhy); diff != "" {
			t.Fatalf("reasons (-as published +shuffled):\n%s", diff)
		}
		if a, b := NewView(n, cfg).Rank(r), NewView(&m, cfg).Rank(r); a != b {
			t.Fatalf("scores %d and %d", a, b)
		}
	})
}

func TestAnotherFreeCardNeverTurnsAFitIntoARefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 6)
		r := drawAsk(t, n)
		before, _ := NewView(n, cfg).Fit(r)
		if before == nil {
			return
		}
		m, inv := *n, *n.Inventory
		m.Inventory = &inv
		add := inv.Cards[0]
		add.Index, add.UUID, add.Health = len(inv.Cards), "GPU-more", nil
		inv.Cards = append(slices.Clone(inv.Cards), add)
		if o, why := NewView(&m, cfg).Fit(r); o == nil {
			t.Fatalf("one more card, and the request fits no more: %v", why)
		} else if o.Tier > before.Tier {
			t.Fatalf("one more card, and the tier falls from %q to %q", before.Tier, o.Tier)
		}
	})
}

// A host too large to try all sets, or to measure at all, still gives cards.
func TestVeryLargeHosts(t *testing.T) {
	whole8 := map[int][]int{ // a switch that is whole, where the fewest neighbours lose it
		40: {32, 33, 34, 35, 36, 37, 38, 39},
		64: {24, 25, 26, 27, 28, 29, 30, 31},
		70: nil, // too many to measure
	}
	for _, cards := range []int{40, 64, 70} {
		b := coretest.Node("n", cfg).Cards(cards, coretest.V100)
		for i := range cards {
			b.At(i, fmt.Sprint(i/8), i/16, i/32)
		}
		n := holding(b, 1, 9, 17)
		o, why := NewView(n, cfg).Fit(whole(8))
		if why != nil {
			t.Fatal(why)
		}
		if got, want := taken(n, o), whole8[cards]; want != nil && !slices.Equal(got, want) {
			t.Errorf("%d cards: took %v, want %v", cards, got, want)
		}
		if o, _ := NewView(n, cfg).Fit(whole(int64(cards - 3))); o == nil || len(o.Uses) != cards-3 {
			t.Errorf("%d cards: all free ones were refused", cards)
		}
	}
	if subsets(64, 32) <= maxSubsets || subsets(16, 8) != 12870 || subsets(5, 5) != 1 || subsets(math.MaxInt32, 1) <= maxSubsets {
		t.Error("subsets are counted wrong")
	}
}

// Of two containers the one with whole cards is served first: with the best
// set that leaves a card for the share of the other.
func TestTheFirstAskGetsTheBestSetThatServesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 6)
		share := L{"gpu-core": int64(rapid.IntRange(1, 90).Draw(t, "core"))}
		first := L{"gpu": int64(rapid.IntRange(1, 3).Draw(t, "count"))}
		if n.Allocatable["aliyun.com/rdma"] > 0 && rapid.Bool().Draw(t, "rdma") {
			first["rdma"] = 1
		}
		both := coretest.Request(cfg, "", first, share)
		j := &judgement{n, coretest.Request(cfg, "", first), cfg, n.Inventory.Cards}
		rest := &judgement{n, coretest.Request(cfg, "", share), cfg, n.Inventory.Cards}
		want := j.bestWhere(func(set []int) bool {
			for c := range rest.cards {
				if rest.serves(c) && !slices.Contains(set, c) {
					return true
				}
			}
			return false
		})
		o, _ := NewView(n, cfg).Fit(both)
		if (o == nil) != (want == nil) {
			t.Fatalf("offer %v, trying all sets gives %v", o, want)
		}
		if o == nil {
			return
		}
		var got []int
		for _, g := range o.Containers["c0"] {
			got = append(got, n.Inventory.Card(g.Card).Index)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("whole cards %v, want %v", got, want)
		}
	})
}

// Shares of several containers, some of which use the cards of others at other
// times: what the quick search finds possible the careful one must find too.
func TestSeveralContainersFitIfTheyCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawHost(t, 4)
		p := request.Pod{Namespace: "default", Name: "p", UID: "p", Labels: map[string]string{}}
		if k := rapid.IntRange(1, 3).Draw(t, "replica"); k > 1 {
			p.Labels[request.ReplicaLabel] = fmt.Sprint(k)
		}
		for i := range rapid.IntRange(2, 4).Draw(t, "containers") {
			l := L{"gpu-core": int64(10 * rapid.IntRange(1, 9).Draw(t, "core"))}
			if rapid.IntRange(0, 4).Draw(t, "whole") == 0 {
				l = L{"gpu": int64(rapid.IntRange(1, 2).Draw(t, "gpus"))}
			}
			if i == 0 && n.Allocatable["aliyun.com/rdma"] > 0 {
				l["rdma"] = 1
			}
			p.Containers = append(p.Containers, coretest.Container(cfg, fmt.Sprintf("c%d", i), request.App, l))
		}
		r, bad := request.Parse(p, cfg)
		if bad != nil {
			t.Fatal(bad)
		}
		possible := NewView(n, cfg).Check(r) == nil
		s := newSearch(NewView(n, cfg), r)
		if out := s.ordered(); out == gaveUp || (out == found) != possible {
			t.Fatalf("outcome %d, possible %v", out, possible)
		}
		o, why := NewView(n, cfg).Fit(r)
		if (o != nil) != possible || (o == nil) == (why == nil) {
			t.Fatalf("offer %v, reasons %v, possible %v", o, why, possible)
		}
		if o != nil {
			n.Holds = append(n.Holds, cluster.Hold{UID: "p", Cards: o.Uses})
			checkNothingTwice(t, n)
			checkNICs(t, n, r, o)
		}
	})
}
