package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
)

// stockPacking is the stock scheduler that packs: NodeResourcesFit with
// MostAllocated for cards, and the scores that the suite leaves out left out.
func stockPacking(tb testing.TB) entrant {
	e := stock(tb)
	p := &e.profiles[0]
	var keep []schedulerapi.Plugin
	for _, pl := range p.Plugins.MultiPoint.Enabled {
		if pl.Name != names.NodeResourcesBalancedAllocation && pl.Name != names.ImageLocality {
			keep = append(keep, pl)
		}
	}
	p.Plugins.MultiPoint.Enabled = keep
	mostAllocated(p)
	return e
}

// ourCardsStockNodes is the suite's profile in which the stock MostAllocated
// chooses between nodes: the stock scheduler knows no shares and slices, so
// this is what it could do best with ours.
func ourCardsStockNodes() entrant {
	e := ours()
	e.state.NarrowTo(0)
	p := &e.profiles[0]
	p.Plugins.Score.Disabled = []schedulerapi.Plugin{{Name: Name}, {Name: FitName}}
	p.Plugins.Score.Enabled = []schedulerapi.Plugin{{Name: names.NodeResourcesFit, Weight: weight}}
	mostAllocated(p)
	return e
}

// mostAllocated packs by every resource for cards.
func mostAllocated(p *schedulerapi.KubeSchedulerProfile) {
	var cards []schedulerapi.ResourceSpec
	for _, name := range []string{config.NvidiaGPU, cfg.GPU(), cfg.GPUCore(), cfg.GPUMemory(), cfg.GPUSlice()} {
		cards = append(cards, schedulerapi.ResourceSpec{Name: name, Weight: 1})
	}
	for i := range p.PluginConfig {
		switch a := p.PluginConfig[i].Args.(type) {
		case *schedulerapi.NodeResourcesFitArgs:
			a.ScoringStrategy = &schedulerapi.ScoringStrategy{Type: schedulerapi.MostAllocated, Resources: cards}
		case *schedulerapi.PodTopologySpreadArgs:
			a.DefaultingType, a.DefaultConstraints = schedulerapi.ListDefaulting, nil
		}
	}
}

// h800s are n nodes with 8 cards each, one in four with its cards cut.
func h800s(tb testing.TB, n int, cut bool) []*v1.Node {
	var out []*v1.Node
	for i := range n {
		b := coretest.Node(fmt.Sprintf("n%02d", i), cfg)
		if cut && i%4 == 3 {
			b.MIG(8, coretest.H800)
		} else {
			b.Cards(8, coretest.H800)
		}
		out = append(out, nodeObj(tb, b.Obj()))
	}
	return out
}

// shares is what each of two entrants allocated on average over the seeds, in
// thousandths of all cards.
type shares struct{ ours, peer int64 }

// traced replays seeded traces with both.
func traced(tb testing.TB, of []demand, cut bool, peer func() entrant) shares {
	const nodes, tasks, load, seeds = 12, 300, 120, 6
	var out shares
	for seed := range uint64(seeds) {
		ts := trace(seed, tasks, nodes*8, load, of)
		out.ours += replay(newPacker(tb, h800s(tb, nodes, cut), ours()), ts, nodes*8)
		out.peer += replay(newPacker(tb, h800s(tb, nodes, cut), peer()), ts, nodes*8)
	}
	return shares{out.ours / seeds, out.peer / seeds}
}

func tracedWhole(tb testing.TB) shares {
	return traced(tb, onlyWhole, false, func() entrant { return stockPacking(tb) })
}

func tracedMixed(tb testing.TB) shares { return traced(tb, everyKind, true, ourCardsStockNodes) }

func TestPacksAsWellAsTheStockMostAllocated(t *testing.T) {
	for what, f := range map[string]func(testing.TB) shares{"whole cards": tracedWhole, "all kinds": tracedMixed} {
		got := f(t)
		t.Logf("%s: %d of 1000 allocated, stock %d", what, got.ours, got.peer)
		if got.ours < got.peer {
			t.Errorf("%s: %d of 1000 allocated on average, the stock MostAllocated %d", what, got.ours, got.peer)
		}
	}
}

// The trace is hard enough to tell packing from spreading, or the comparison
// above would say nothing.
func TestSpreadingAllocatesLessOfTheTrace(t *testing.T) {
	got := traced(t, onlyWhole, false, func() entrant { return stock(t) })
	t.Logf("%d of 1000 allocated, stock with its default profile %d", got.ours, got.peer)
	if got.peer >= got.ours {
		t.Errorf("spreading allocates %d of 1000, packing %d", got.peer, got.ours)
	}
}

// nearness is what is allocated of small fleets that more is asked of than
// they have, in thousandths of the most that is possible: without refusing
// what fits, and by somebody who refuses tasks for the sake of later ones.
type nearness struct{ placing, picky int64 }

func ofOptimum(tb testing.TB) nearness {
	const fleets = 150
	var mine, placing, picky int64
	for seed := range uint64(fleets) {
		r := rand.New(rand.NewPCG(seed, 2))
		var nodes []*v1.Node
		var cells [][]cell
		for i := range 2 + r.IntN(2) {
			b, cards := coretest.Node(fmt.Sprintf("n%d", i), cfg), make([]cell, 4)
			n := 4
			if r.IntN(3) == 0 {
				n = 2
				for k := n; k < 4; k++ {
					cards[k].cut = true
				}
			}
			b.Cards(n, coretest.H800).MIG(4-n, coretest.H800)
			nodes, cells = append(nodes, nodeObj(tb, b.Obj())), append(cells, cards)
		}
		tasks := make([]task, 8)
		for i := range tasks {
			tasks[i] = draw(r, fmt.Sprintf("t%d", i), smallKinds)
		}
		p := newPacker(tb, nodes, ours())
		for _, t := range tasks {
			if p.place(t.pod) {
				mine += t.share
			}
		}
		placing += bestShare(cells, tasks, false)
		picky += bestShare(cells, tasks, true)
	}
	return nearness{mine * 1000 / placing, mine * 1000 / picky}
}

// smallKinds fit on nodes of 4 cards.
var smallKinds = []demand{{15, whole(1)}, {20, whole(2)}, {10, whole(4)}, {25, share(1)}, {15, share(2)}, {15, slice}}

func TestAllocatesNearlyTheOptimumOfSmallFleets(t *testing.T) {
	got := ofOptimum(t)
	t.Logf("%d of 1000 of the optimum, %d of that of a picky scheduler", got.placing, got.picky)
	if got.placing < 950 {
		t.Errorf("%d of 1000 of what brute force allocates, want 950", got.placing)
	}
}

// BenchmarkQuality reports the shares for the table of bench-sched.
func BenchmarkQuality(b *testing.B) {
	var whole, mixed shares
	var optimum nearness
	for b.Loop() {
		whole, mixed, optimum = tracedWhole(b), tracedMixed(b), ofOptimum(b)
	}
	b.ReportMetric(float64(whole.ours)/10, "whole-%")
	b.ReportMetric(float64(whole.peer)/10, "whole-stock-%")
	b.ReportMetric(float64(mixed.ours)/10, "mixed-%")
	b.ReportMetric(float64(mixed.peer)/10, "mixed-stock-%")
	b.ReportMetric(float64(optimum.placing)/10, "of-optimum-%")
	b.ReportMetric(float64(optimum.picky)/10, "of-picky-optimum-%")
}
