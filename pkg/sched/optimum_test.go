package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/mig"
)

// The rules for cards, written out anew, and a search over everything that
// they allow, by somebody who knows beforehand what comes later.

// cell is one H800 of the small fleets.
type cell struct {
	cut, whole bool
	core, mem  int64
	mask       mig.Mask
}

// optimum is a search in progress.
type optimum struct {
	tasks []task
	picky bool
	rest  []int64 // share of tasks[i:]
	best  int64
	seen  map[string]int64 // what was allocated when this was met
}

// bestShare is the largest total share of the tasks that can be on the nodes
// at the same time. They come in their order. A picky scheduler may refuse a
// task that fits, to keep room for a later one; one that is not chooses only
// where to put it.
func bestShare(nodes [][]cell, tasks []task, picky bool) int64 {
	o := &optimum{tasks: tasks, picky: picky, rest: make([]int64, len(tasks)+1), seen: map[string]int64{}}
	for i := len(tasks) - 1; i >= 0; i-- {
		o.rest[i] = o.rest[i+1] + tasks[i].share
	}
	o.search(0, 0, nodes)
	return o.best
}

func (o *optimum) search(i int, sum int64, nodes [][]cell) {
	o.best = max(o.best, sum)
	if i == len(o.tasks) || sum+o.rest[i] <= o.best {
		return
	}
	key := fmt.Sprint(i, canonical(nodes))
	if was, ok := o.seen[key]; ok && was >= sum {
		return
	}
	o.seen[key] = sum
	fits := false
	for n := range nodes {
		for _, after := range served(nodes[n], o.tasks[i]) {
			fits = true
			next := slices.Clone(nodes)
			next[n] = after
			o.search(i+1, sum+o.tasks[i].share, next)
		}
	}
	if o.picky || !fits {
		o.search(i+1, sum, nodes)
	}
}

// canonical is equal for fleets that differ in the order of nodes and cards.
func canonical(nodes [][]cell) string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		cards := make([]string, len(n))
		for k, c := range n {
			cards[k] = fmt.Sprint(c)
		}
		slices.Sort(cards)
		out[i] = strings.Join(cards, ",")
	}
	slices.Sort(out)
	return strings.Join(out, ";")
}

// served are the states of the node after the task, one for each way to serve
// it; none if it does not fit.
func served(node []cell, t task) [][]cell {
	l := t.pod.Spec.Containers[0].Resources.Limits
	amount := func(name string) int64 {
		if name != config.NvidiaGPU {
			name = cfg.Prefix + "/" + name
		}
		q := l[v1.ResourceName(name)]
		return q.Value()
	}
	count := int64(1)
	if r := t.pod.Labels["replica"]; r != "" {
		_, _ = fmt.Sscan(r, &count)
	}
	one := func(c cell) []cell { return shared(c, amount("gpu-core"), amount("gpu-memory")) }
	if n := amount(config.NvidiaGPU); n > 0 {
		count, one = n, taken
	} else if n := amount("gpu-slice"); n > 0 {
		one = func(c cell) []cell { return sliced(c, int(n)) }
	}
	return spread(node, 0, count, one)
}

// spread serves count cards of the node from index i on.
func spread(node []cell, i int, count int64, one func(cell) []cell) [][]cell {
	if count == 0 {
		return [][]cell{node}
	}
	var out [][]cell
	for k := i; k < len(node); k++ {
		if slices.Contains(node[i:k], node[k]) {
			continue // as good as one that was tried
		}
		for _, after := range one(node[k]) {
			next := slices.Clone(node)
			// Those before it are passed over: what is left stays in order.
			next[k], next[i] = next[i], after
			out = append(out, spread(next, i+1, count-1, one)...)
		}
	}
	return out
}

func taken(c cell) []cell {
	if c.cut || c.whole || c.core > 0 || c.mem > 0 {
		return nil
	}
	c.whole = true
	return []cell{c}
}

func shared(c cell, core, mem int64) []cell {
	if c.cut || c.whole || c.core+core > 100 || c.mem+mem > 79 {
		return nil
	}
	c.core, c.mem = c.core+core, c.mem+mem
	return []cell{c}
}

var h800 = mig.Catalogue(coretest.H800, 81559)

func sliced(c cell, slices int) []cell {
	if !c.cut {
		return nil
	}
	var out []cell
	for _, p := range mig.Candidates(h800, slices, 1) {
		for _, start := range p.Free(c.mask) {
			after := c
			after.mask |= mig.MaskAt(start, p.Size)
			out = append(out, after)
		}
	}
	return out
}

func TestBruteForceOnCasesThatAreSeenAtAGlance(t *testing.T) {
	of := func(ds ...demand) []task {
		var out []task
		for i, d := range ds {
			d.percent = 100
			out = append(out, draw(rand.New(rand.NewPCG(1, 1)), fmt.Sprint("t", i), []demand{d}))
		}
		return out
	}
	one, two, four := demand{draw: whole(1)}, demand{draw: whole(2)}, demand{draw: whole(4)}
	half := demand{draw: func(*rand.Rand) (limits, string, int64) { return limits{"gpu-core": 50, "gpu-memory": 39}, "1", 500 }}
	seven := demand{draw: func(*rand.Rand) (limits, string, int64) { return limits{"gpu-slice": 7}, "", 1000 }}
	three := demand{draw: func(*rand.Rand) (limits, string, int64) { return limits{"gpu-slice": 3}, "", 428 }}
	plain, cut := make([]cell, 4), []cell{{cut: true}}
	for _, c := range []struct {
		about          string
		nodes          [][]cell
		tasks          []task
		placing, picky int64
	}{
		{"two pairs beside each other leave a node to four", [][]cell{plain, plain}, of(two, two, four), 8000, 8000},
		{"a small one is refused for a large one only by the picky", [][]cell{plain}, of(one, four), 1000, 4000},
		{"two halves share a card", [][]cell{plain[:1]}, of(half, half, half), 1000, 1000},
		{"a card that is shared is not taken whole", [][]cell{plain[:1]}, of(half, one), 500, 1000},
		{"two instances of three on one card, and no third", [][]cell{cut}, of(three, three, three), 856, 856},
		{"an instance of seven needs the whole line", [][]cell{cut}, of(three, seven), 428, 1000},
		{"a cut card is neither taken nor shared", [][]cell{cut}, of(one, half), 0, 0},
	} {
		if got := bestShare(c.nodes, c.tasks, false); got != c.placing {
			t.Errorf("%s: %d, want %d", c.about, got, c.placing)
		}
		if got := bestShare(c.nodes, c.tasks, true); got != c.picky {
			t.Errorf("%s, picky: %d, want %d", c.about, got, c.picky)
		}
	}
}
