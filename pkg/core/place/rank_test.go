package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/mig"
	"lj.aliyun.com/kit/pkg/core/request"
)

func TestRanksFallFromTheBestNode(t *testing.T) {
	const gib = 1024
	cards := func() *coretest.NodeBuilder { return node("n").Cards(8, coretest.A100x80) }
	share := coretest.Request(cfg, "", L{"gpu-core": 30, "gpu-memory": 8})
	slice := coretest.Request(cfg, "", L{"gpu-slice": 2})
	for name, x := range map[string]struct {
		req  *request.Request
		best []*cluster.Node // by binpack, the best first
	}{
		"a card in use before a fuller node, the fuller of two cards, the fuller of two nodes": {share, []*cluster.Node{
			cards().Share(0, "a", 60, 4*gib).Whole(1, "w").Obj(),
			cards().Share(0, "a", 60, 4*gib).Obj(),
			cards().Share(0, "a", 40, 4*gib).Whole(1, "w").Obj(),
			cards().Whole(0, "u").Whole(1, "w").Whole(2, "v").Obj(),
			cards().Obj(),
		}},
		"one percent on one card of eight": {whole(4), []*cluster.Node{
			cards().Share(0, "a", 31, gib).Obj(), cards().Share(0, "a", 30, gib).Obj(),
		}},
		"an instance where it takes the least from what can be placed": {slice, []*cluster.Node{
			node("n").MIG(2, coretest.A100x80).Instance(0, "a", 0, 4).Instance(0, "b", 6, 1).Obj(),
			node("n").MIG(2, coretest.A100x80).Instance(0, "a", 6, 1).Obj(),
			node("n").MIG(2, coretest.A100x80).Obj(),
		}},
		"of nodes with the same worst tier the one with more NICs near": {rdma(3), []*cluster.Node{
			holding(m890p("n", cfg).Down(0), 1, 3, 5, 7), holding(m890p("n", cfg).Down(0).Down(1), 1, 3, 5, 6),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 1; i < len(x.best); i++ {
				if a, b := NewView(x.best[i-1], cfg).Rank(x.req), NewView(x.best[i], cfg).Rank(x.req); a <= b {
					t.Errorf("node %d has rank %x, node %d has %x", i-1, a, i, b)
				}
			}
		})
	}
	spread := cfg
	spread.NodePolicy = config.Spread
	empty, fuller := cards().Share(0, "a", 60, 4*gib).Obj(), cards().Share(0, "a", 60, 4*gib).Whole(1, "w").Obj()
	if a, b := NewView(empty, spread).Rank(share), NewView(fuller, spread).Rank(share); a <= b {
		t.Errorf("spread: the emptier node has rank %x, the fuller %x", a, b)
	}
	if got := NewView(holding(cards(), 0, 1), cfg).Rank(whole(7)); got != 0 {
		t.Errorf("a node that does not fit has rank %x", got)
	}
}

func TestRanksAreInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cfg
		c.CardPolicy = rapid.SampledFrom(config.Policies()).Draw(t, "cards")
		c.NodePolicy = rapid.SampledFrom(config.Policies()).Draw(t, "nodes")
		n := drawNode(t, 6)
		if rapid.Bool().Draw(t, "host") {
			n = drawHost(t, 6)
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
			if o, _ := NewView(n, c).Fit(drawRequest(t, fmt.Sprint("p", i), c)); o != nil {
				n.Holds = append(n.Holds, cluster.Hold{UID: fmt.Sprint("p", i), Cards: o.Uses})
			}
		}
		r := drawRequest(t, "new", c)
		r.RDMA = rapid.Bool().Draw(t, "rdma")
		v := NewView(n, c)
		rank, score := v.Rank(r), v.Score(r)
		if rank < 0 || rank > MaxRank || score != ScoreOf(rank) || score < 0 || score > 100 {
			t.Fatalf("rank %d of %d, score %d", rank, int64(MaxRank), score)
		}
		if o, why := v.Fit(r); why == nil {
			p := v.packing(r, o)
			grade, near := v.near(r, o)
			if p.kept < 0 || p.kept > mille || p.snug < 0 || p.snug > mille || p.full < 0 || p.full > tenMille ||
				grade < 0 || grade >= nearSteps || near < 0 || near >= 1<<(2*milleBits) || near&(1<<milleBits-1) > mille {
				t.Fatalf("%+v, grade %d, nearness %x", p, grade, near)
			}
		}
	})
}

func TestNoCardIsMoreOpenThanRanksAllow(t *testing.T) {
	for _, model := range cuttable {
		n := node("n").MIG(1, model).Obj()
		if got := mig.Openness(0, n.Inventory.ProfilesOf(&n.Inventory.Cards[0])); got > mostOpen {
			t.Errorf("%s: %d, more than %d", model, got, mostOpen)
		}
	}
}

func BenchmarkRank(b *testing.B) {
	share := coretest.Request(cfg, "", L{"gpu-core": 30, "gpu-memory": 8})
	for name, r := range map[string]*request.Request{"whole1": whole(1), "whole2": whole(2), "share": share} {
		b.Run(name, func(b *testing.B) {
			v := NewView(busyNode(), cfg)
			b.ReportAllocs()
			for b.Loop() {
				v.Rank(r)
			}
		})
	}
}

func TestGradesKeepTheOrderOfRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, MaxRank), rapid.Int64Range(70<<scoreShift, 70<<scoreShift+9)), 0, 60).Draw(t, "ranks")
		got := Grades(ranks)
		for i := range ranks {
			if got[i] < 0 || got[i] > 100 {
				t.Fatalf("grade %d", got[i])
			}
			for j := range ranks {
				switch {
				case ranks[i] == ranks[j] && got[i] != got[j], ranks[i] > ranks[j] && got[i] < got[j],
					ranks[i] > ranks[j] && got[i] == got[j] && got[i] > 0:
					t.Fatalf("ranks %d and %d have grades %d and %d", ranks[i], ranks[j], got[i], got[j])
				}
			}
		}
		if len(ranks) > 0 && slices.Max(got) != 100 {
			t.Fatalf("the best has grade %d", slices.Max(got))
		}
	})
}
