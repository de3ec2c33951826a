package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/request"
)

// alone makes a victim of each pod of a node, all of one priority, in the
// order of their names.
func alone(pods ...string) []Victim {
	var out []Victim
	for _, p := range pods {
		out = append(out, Victim{Pods: []string{p}, Size: 1, Priority: 1})
	}
	return out
}

// named lists whom a choice evicts.
func named(victims []Victim, chosen []int) []string {
	var out []string
	for _, i := range chosen {
		out = append(out, victims[i].Pods...)
	}
	return out
}

func TestEvict(t *testing.T) {
	quarters := func(b *coretest.NodeBuilder, card int, pods ...string) *coretest.NodeBuilder {
		for _, p := range pods {
			b.Share(card, p, 25, 10_240)
		}
		return b
	}
	gang := func(pods ...string) Victim { return Victim{Pods: pods, Size: 16, Priority: 1} }
	leaving := func(v Victim) Victim { v.Leaving = true; return v }
	ranked := func(v Victim, p int32) Victim { v.Priority = p; return v }
	two := func() *coretest.NodeBuilder { return coretest.Node("n", cfg).Cards(2, coretest.A100x80) }
	for name, c := range map[string]struct {
		node    *coretest.NodeBuilder
		limits  L
		replica string
		n       int
		victims []Victim
		allowed []int
		want    []string
		no      bool
	}{
		"one whole card is freed of one pod, not of four, though the one is older": {
			node: quarters(two(), 0, "a", "b", "c", "d").Whole(1, "old"), limits: L{"nvidia": 1}, victims: alone("old", "a", "b", "c", "d"), want: []string{"old"}},
		"four of low priority go before one of high": {
			node: quarters(two(), 0, "a", "b", "c", "d").Whole(1, "old"), limits: L{"nvidia": 1},
			victims: append([]Victim{ranked(alone("old")[0], 2)}, alone("a", "b", "c", "d")...), want: []string{"a", "b", "c", "d"}},
		"half a card is freed of one half, not of two quarters": {
			node: quarters(two().Share(1, "half", 50, 20_480).Share(1, "other", 50, 20_480), 0, "a", "b", "c", "d"), limits: L{"gpu-core": 50},
			victims: alone("half", "other", "a", "b", "c", "d"), want: []string{"other"}},
		"an instance is freed where the profile can lie": {
			node: coretest.Node("n", cfg).MIG(1, coretest.A100x80).Instance(0, "x", 0, 1).Instance(0, "y", 2, 2).Instance(0, "z", 4, 4),
			// 3g lies at 0 and 4: either z alone, or x and y.
			limits: L{"gpu-slice": 3}, victims: alone("z", "x", "y"), want: []string{"z"}},
		"two cards whose holder is one pod": {
			node: coretest.Node("n", cfg).Cards(4, coretest.A100x80).Whole(0, "a").Whole(1, "b").Whole(2, "c"), limits: L{"nvidia": 2},
			victims: alone("c", "b", "a"), want: []string{"a"}},
		"a pod with several cards goes rather than several with one": {
			node:   &coretest.NodeBuilder{},
			limits: L{"nvidia": 2}, victims: alone("pair", "a", "b"), want: []string{"pair"}},
		"a single rather than a group, whatever their order": {
			node: two().Whole(0, "member").Whole(1, "single"), limits: L{"nvidia": 1},
			victims: []Victim{alone("single")[0], gang("member")}, want: []string{"single"}},
		"a group that dies anyway frees all its cards": {
			node: coretest.Node("n", cfg).Cards(3, coretest.A100x80).Whole(0, "m1").Whole(1, "m2").Whole(2, "single"), limits: L{"nvidia": 2},
			victims: append([]Victim{gang("m1", "m2")}, alone("single")...), want: []string{"m1", "m2"}},
		"who is leaving costs nothing": {
			node: quarters(two(), 0, "a", "b", "c", "d").Whole(1, "old"), limits: L{"nvidia": 1},
			victims: append(alone("old"), leaving(alone("a")[0]), leaving(alone("b")[0]), leaving(alone("c")[0]), leaving(alone("d")[0])),
			want:    []string{"a", "b", "c", "d"}},
		"a budget is not broken for fewer victims": {
			node: quarters(two(), 0, "a", "b", "c", "d").Whole(1, "old"), limits: L{"nvidia": 1}, allowed: []int{0},
			victims: append([]Victim{{Pods: []string{"old"}, Size: 1, Priority: 1, Budgets: []int{0}}}, alone("a", "b", "c", "d")...), want: []string{"a", "b", "c", "d"}},
		"a budget that allows one lets one go": {
			node: two().Whole(0, "a").Whole(1, "b"), limits: L{"nvidia": 1}, allowed: []int{1},
			victims: []Victim{{Pods: []string{"a"}, Size: 1, Priority: 1, Budgets: []int{0}}, {Pods: []string{"b"}, Size: 1, Priority: 1, Budgets: []int{0}}}, want: []string{"b"}},
		"nobody goes where it fits": {
			node: two().Whole(0, "a"), limits: L{"nvidia": 1}, victims: alone("a")},
		"nobody goes in vain": {
			node: two().Whole(0, "a").Whole(1, "stays"), limits: L{"nvidia": 2}, victims: alone("a"), no: true},
		"cards out of MIG mode are no instances": {
			node: two().Whole(0, "a"), limits: L{"gpu-slice": 1}, victims: alone("a"), no: true},
		"room for three pods": {
			node: quarters(two(), 0, "a", "b", "c").Whole(1, "old"), limits: L{"gpu-core": 25}, n: 3, victims: alone("old", "a", "b", "c"), want: []string{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := c.node
			if slices.Contains(named(c.victims, []int{0}), "pair") {
				n = coretest.Node("n", cfg).Cards(4, coretest.A100x80).Whole(2, "a").Whole(3, "b").Whole(0, "pair")
				obj := n.Obj()
				obj.Holds[2].Cards = append(obj.Holds[2].Cards, cluster.CardUse{Card: coretest.UUID("n", 1), Whole: true})
			}
			v := NewView(n.Obj(), cfg)
			chosen, ok := v.Evict(coretest.Request(cfg, c.replica, c.limits), max(c.n, 1), c.victims, c.allowed)
			if ok == c.no {
				t.Fatalf("ok is %v", ok)
			}
			if diff := cmp.Diff(c.want, named(c.victims, chosen)); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
		})
	}
}

// drawCrowd makes a node on which much fits, so that many pods are in the way:
// cards of one kind.
func drawCrowd(t *rapid.T, most int) *cluster.Node {
	b := coretest.Node("n", cfg)
	if rapid.Bool().Draw(t, "any") {
		return drawNode(t, most)
	}
	if rapid.IntRange(0, 2).Draw(t, "cut") == 0 {
		return b.MIG(rapid.IntRange(1, 2).Draw(t, "cards"), coretest.A100x80).Obj()
	}
	return b.Cards(rapid.IntRange(2, most).Draw(t, "cards"), coretest.A100x80).Obj()
}

// drawUsual is a pod that takes something of a usual kind, or of any.
func drawUsual(t *rapid.T, uid string) *request.Request {
	l := L{}
	switch rapid.IntRange(0, 5).Draw(t, "asks") {
	case 0:
		return drawRequest(t, uid, cfg)
	case 1:
		l["nvidia"] = int64(rapid.IntRange(1, 3).Draw(t, "n"))
	case 2:
		l["gpu-slice"] = int64(rapid.IntRange(1, 4).Draw(t, "slices"))
	default:
		l["gpu-core"] = int64(10 * rapid.IntRange(1, 6).Draw(t, "core"))
	}
	r, bad := request.Parse(request.Pod{Namespace: "default", Name: uid, UID: uid,
		Containers: []request.Container{coretest.Container(cfg, "c", request.App, l)}}, cfg)
	if bad != nil {
		t.Fatalf("a legal request was refused: %v", bad)
	}
	return r
}

// drawVictims fills a node and makes victims of most of its pods, some of them
// groups.
func drawVictims(t *rapid.T, n *cluster.Node, leaving bool) (victims []Victim, allowed []int) {
	if rapid.Bool().Draw(t, "budgets") {
		allowed = []int{rapid.IntRange(0, 2).Draw(t, "allowed"), rapid.IntRange(0, 1).Draw(t, "allowed")}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		uid := fmt.Sprint("p", i)
		r := drawUsual(t, uid)
		o, _ := NewView(n, cfg).Fit(r)
		if o == nil {
			continue
		}
		hold := cluster.Hold{UID: uid, Cards: o.Uses}
		if rapid.IntRange(0, 9).Draw(t, "unplaced") == 0 {
			hold = cluster.Hold{UID: uid, Unplaced: r}
		}
		n.Holds = append(n.Holds, hold)
		if rapid.IntRange(0, 9).Draw(t, "stays") == 0 {
			continue
		}
		x := Victim{Pods: []string{uid}, Size: 1, Priority: int32(rapid.IntRange(-1, 1).Draw(t, "priority"))}
		x.Leaving = leaving && rapid.IntRange(0, 4).Draw(t, "leaving") == 0
		for b := range allowed {
			if rapid.IntRange(0, 2).Draw(t, "covered") == 0 {
				x.Budgets = append(x.Budgets, b)
			}
		}
		if k := len(victims) - 1; k >= 0 && rapid.IntRange(0, 4).Draw(t, "joins") == 0 {
			victims[k].Pods, victims[k].Size = append(victims[k].Pods, uid), victims[k].Size+2
			continue
		}
		victims = append(victims, x)
	}
	slices.SortStableFunc(victims, func(a, b Victim) int { return int(b.Priority) - int(a.Priority) })
	return victims, allowed
}

// without is the node after an eviction.
func without(n *cluster.Node, v *View, victims []Victim, gone func(int) bool) *cluster.Node {
	var uids []string
	for i := range victims {
		if gone(i) {
			uids = append(uids, victims[i].Pods...)
		}
	}
	out := *n
	out.Holds = nil
	for _, h := range n.Holds {
		if h.Unplaced != nil { // the guess is the same before and after
			h = cluster.Hold{UID: h.UID, Cards: v.guessed[h.UID]}
		}
		if !slices.Contains(uids, h.UID) {
			out.Holds = append(out.Holds, h)
		}
	}
	return &out
}

func TestEvictAgreesWithBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawCrowd(t, 4)
		leaving := rapid.Bool().Draw(t, "some leave")
		victims, allowed := drawVictims(t, n, leaving)
		r := drawUsual(t, "new")
		pods := 1
		if len(r.Asks) == 1 && (r.Asks[0].Mode == request.Whole || r.Asks[0].Count == 1) {
			pods = rapid.IntRange(1, 3).Draw(t, "n")
		}
		v := NewView(n, cfg)
		got, ok := v.Evict(r, pods, victims, allowed)
		want, found := bruteEvict(n, v, r, pods, victims, allowed)
		if ok != found {
			t.Fatalf("ok is %v, brute force says %v", ok, found)
		}
		if leaving { // of free ones any will do
			if a, b := priceOf(victims, got, allowed), priceOf(victims, want, allowed); a != b {
				t.Fatalf("evicts %v at %+v, brute force %v at %+v", got, a, want, b)
			}
		} else if !slices.Equal(got, want) {
			t.Fatalf("evicts %v at %+v, brute force %v at %+v\n%+v", got, priceOf(victims, got, allowed), want, priceOf(victims, want, allowed), victims)
		}
	})
}

// bruteEvict tries all sets of victims. They come in the order in which they
// spare the important.
func bruteEvict(n *cluster.Node, v *View, r *request.Request, pods int, victims []Victim, allowed []int) (want []int, found bool) {
	for set := range 1 << len(victims) {
		in := func(i int) bool { return set&(1<<(len(victims)-1-i)) != 0 }
		var these []int
		for i := range victims {
			if in(i) {
				these = append(these, i)
			}
		}
		if found && priceOf(victims, these, allowed).Compare(priceOf(victims, want, allowed)) >= 0 {
			continue
		}
		if NewView(without(n, v, victims, in), cfg).Capacity(r, pods) >= pods {
			want, found = these, true
		}
	}
	return want, found
}

// Full nodes, where the choice is large: drawn evenly, since rapid prefers
// small numbers.
func TestEvictOnFullNodesAgreesWithBruteForce(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		ask := func() *request.Request {
			l := L{"gpu-core": int64(10 * (2 + rnd.IntN(6)))}
			if rnd.IntN(4) == 0 {
				l = L{"nvidia": int64(1 + rnd.IntN(2))}
			}
			return coretest.Request(cfg, "", l)
		}
		n := coretest.Node("n", cfg).Cards(2+rnd.IntN(3), coretest.A100x80).Obj()
		var victims []Victim
		for i := 0; len(victims) < 11 && i < 60; i++ {
			uid := fmt.Sprint("p", i)
			o, _ := NewView(n, cfg).Fit(ask())
			if o == nil {
				continue
			}
			n.Holds = append(n.Holds, cluster.Hold{UID: uid, Cards: o.Uses})
			victims = append(victims, Victim{Pods: []string{uid}, Size: 1, Priority: int32(rnd.IntN(1 + int(seed%4)))})
		}
		rnd.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		slices.SortStableFunc(victims, func(a, b Victim) int { return int(b.Priority) - int(a.Priority) })
		r, v := ask(), NewView(n, cfg)
		pods := 1 + rnd.IntN(3)
		got, ok := v.Evict(r, pods, victims, nil)
		want, found := bruteEvict(n, v, r, pods, victims, nil)
		if ok != found || !slices.Equal(got, want) {
			t.Errorf("seed %d, %d of %+v: evicts %v, brute force %v", seed, pods, r.Asks, got, want)
		}
	}
}

func priceOf(victims []Victim, chosen, allowed []int) Price {
	var set []Victim
	for _, i := range chosen {
		set = append(set, victims[i])
	}
	return PriceOf(set, allowed)
}

// Where the search is cut short, what it evicts is still enough, and none of
// it can be spared.
func TestEvictTakesNoMoreThanNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := drawCrowd(t, 8)
		victims, allowed := drawVictims(t, n, true)
		r := drawUsual(t, "new")
		v := NewView(n, cfg)
		got, ok := v.Evict(r, 1, victims, allowed)
		if !ok {
			return
		}
		fits := func(gone func(int) bool) bool { return NewView(without(n, v, victims, gone), cfg).Check(r) == nil }
		if !fits(func(i int) bool { return slices.Contains(got, i) }) {
			t.Fatalf("does not fit without %v", got)
		}
		for _, spared := range got {
			if fits(func(i int) bool { return i != spared && slices.Contains(got, i) }) {
				t.Fatalf("%d of %v need not go", spared, got)
			}
		}
	})
}

// BenchmarkEvict: 16 cards with 64 shares of different priorities, of which 4
// whole cards are to be freed; and the same for equal ones.
func BenchmarkEvict(b *testing.B) {
	for name, priority := range map[string]func(int) int32{"equal": func(int) int32 { return 1 }, "mixed": func(i int) int32 { return int32(i*7919) % 11 }} {
		b.Run(name, func(b *testing.B) {
			nb := coretest.Node("n", cfg).Cards(16, coretest.A100x80)
			var victims []Victim
			for i := range 64 {
				p := fmt.Sprint("p", i)
				nb.Share(i%16, p, 25, 1024)
				victims = append(victims, Victim{Pods: []string{p}, Size: 1, Priority: priority(i)})
			}
			slices.SortStableFunc(victims, func(a, b Victim) int { return int(b.Priority - a.Priority) })
			v, r := NewView(nb.Obj(), cfg), coretest.Request(cfg, "", L{"nvidia": 4})
			for b.Loop() {
				if got, ok := v.Evict(r, 1, victims, nil); !ok || len(got) < 16 {
					b.Fatal(got, ok)
				}
			}
		})
	}
}
