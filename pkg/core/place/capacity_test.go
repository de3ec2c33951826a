package place

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
)

// oneByOne places pods until none fits, each on a View of its own.
func oneByOne(n cluster.Node, c config.Config, r *request.Request, limit int) int {
	n.Holds = slices.Clone(n.Holds)
	for k := range limit {
		o, _ := NewView(&n, c).Fit(r)
		if o == nil {
			return k
		}
		n.Holds = append(n.Holds, cluster.Hold{UID: fmt.Sprint("more", k), Cards: o.Uses})
	}
	return limit
}

func TestCapacityIsHowOftenFitSucceeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cfg
		c.CardPolicy = rapid.SampledFrom(config.Policies()).Draw(t, "policy")
		n := drawNode(t, 5)
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			if o, _ := NewView(n, c).Fit(drawRequest(t, fmt.Sprint("p", i), c)); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: fmt.Sprint("p", i), Cards: o.Uses})
			}
		}
		if rapid.IntRange(0, 9).Draw(t, "overdrawn") == 0 && len(n.Inventory.Cards) > 0 {
			n.Holds = append(n.Holds, cluster.Hold{UID: "over", Cards: []cluster.CardUse{
				{Card: n.Inventory.Cards[0].UUID, Shares: 1, Core: 120, MemMiB: 1 << 20}}})
		}
		r := drawRequest(t, "new", c)
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		v := NewView(n, c)
		before := slices.Clone(v.cards)
		if got, want := v.Capacity(r, limit), oneByOne(*n, c, r, limit); got != want {
			t.Fatalf("capacity %d, placing one by one gives %d: %+v", got, want, r.Asks)
		}
		for i := range before {
			if diff := cmp.Diff(before[i].use, v.cards[i].use); diff != "" {
				t.Fatalf("the view was changed (-before +after):\n%s", diff)
			}
		}
	})
}

// Instances are counted without placing them; every state of a card and every
// ask that has an answer on it is tried.
func TestCapacityOfCutCards(t *testing.T) {
	for _, model := range cuttable {
		c := cfg
		c.MIGModels = []string{"A100", "H800", "H20"}
		for mask := range 256 {
			n := coretest.Node("n", c).MIG(1, model).Obj()
			n.Holds = []cluster.Hold{{UID: "h", Cards: []cluster.CardUse{{Card: n.Inventory.Cards[0].UUID, Mask: mig.Mask(mask)}}}}
			for _, s := range mig.AllowedSlices() {
				for _, mem := range []int64{0, 6, 12, 20, 30} {
					r := coretest.Request(c, "", L{"gpu-slice": int64(s), "gpu-memory": mem})
					if got, want := NewView(n, c).Capacity(r, 99), oneByOne(*n, c, r, 99); got != want {
						t.Errorf("%s with %08b in use, %d slices of %d GiB: capacity %d, placing one by one gives %d", model, mask, s, mem, got, want)
					}
				}
			}
		}
	}
}

func TestCapacityAtItsEdges(t *testing.T) {
	n := node("n").Cards(8, coretest.A100x80).Obj()
	one := coretest.Request(cfg, "", L{"nvidia": 1})
	for name, x := range map[string]struct {
		r           *request.Request
		limit, want int
	}{
		"nothing is asked for":         {&request.Request{}, 5, 5},
		"no limit left":                {one, 0, 0},
		"a limit below zero":           {one, -1, 0},
		"a limit that would overflow":  {coretest.Request(cfg, "", L{"nvidia": 3}), 1<<63 - 1, 2},
		"smallest shares of each card": {coretest.Request(cfg, "", L{"gpu-core": 1}), 9999, 800},
	} {
		if got := NewView(n, cfg).Capacity(x.r, x.limit); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
	n.Allocatable[config.NvidiaGPU] = 0
	if got := NewView(n, cfg).Capacity(one, 5); got != 0 {
		t.Errorf("a node that does not report the resource: %d", got)
	}
}

func BenchmarkCapacity(b *testing.B) {
	for name, x := range map[string]struct {
		n *cluster.Node
		r *request.Request
	}{
		"whole1":    {node("n").Cards(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"nvidia": 1})},
		"whole2":    {coretest.Hosts()[0].Build("n", cfg).Obj(), coretest.Request(cfg, "", L{"gpu": 2})},
		"share":     {busyNode(), coretest.Request(cfg, "", L{"gpu-core": 10})},
		"slice":     {node("m").MIG(8, coretest.A100x80).Obj(), coretest.Request(cfg, "", L{"gpu-slice": 1})},
		"replica2":  {busyNode(), coretest.Request(cfg, "2", L{"gpu-core": 30})},
		"twoShares": {busyNode(), coretest.Request(cfg, "", L{"gpu-core": 30}, L{"gpu-core": 60})},
	} {
		b.Run(name, func(b *testing.B) {
			v := NewView(x.n, cfg)
			b.ReportAllocs()
			for b.Loop() {
				v.Capacity(x.r, 64)
			}
		})
	}
}
