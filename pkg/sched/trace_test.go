package sched

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/mig"
)

// task is one pod of a trace, in logical time.
type task struct {
	pod         *v1.Pod
	arrive, run int64
	// share is what the pod asks, in thousandths of a card.
	share int64
}

// demand is a kind of request with its probability in percent.
type demand struct {
	percent int
	draw    func(*rand.Rand) (limits, string, int64) // limits, replica, share
}

// onlyWhole are the sizes that training jobs have.
var onlyWhole = []demand{{50, whole(1)}, {20, whole(2)}, {15, whole(4)}, {15, whole(8)}}

// everyKind has shares, shares of several cards, and slices as well.
var everyKind = []demand{{15, whole(1)}, {10, whole(2)}, {8, whole(4)}, {7, whole(8)}, {30, share(1)}, {10, share(2)}, {20, slice}}

func whole(n int64) func(*rand.Rand) (limits, string, int64) {
	return func(*rand.Rand) (limits, string, int64) { return limits{"nvidia": n}, "", 1000 * n }
}

// share is a part of each of n H800s, of 79 GiB.
func share(n int64) func(*rand.Rand) (limits, string, int64) {
	return func(r *rand.Rand) (limits, string, int64) {
		core, mem := int64(10+10*r.IntN(8)), int64(4+r.IntN(56))
		return limits{"gpu-core": core, "gpu-memory": mem}, fmt.Sprint(n), n * max(core*10, mem*1000/79)
	}
}

func slice(r *rand.Rand) (limits, string, int64) {
	n := int64(mig.AllowedSlices()[r.IntN(5)])
	return limits{"gpu-slice": n, "gpu-memory": 1}, "", n * 1000 / 7
}

// trace draws n tasks whose total demand is load percent of so many cards.
func trace(seed uint64, n, cards int, load int64, of []demand) []task {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]task, n)
	var work int64 // thousandths of a card × time
	for i := range out {
		t := draw(r, fmt.Sprintf("t%03d", i), of)
		t.run = 1 + int64(r.ExpFloat64()*1000)
		work += t.share * t.run
		out[i] = t
	}
	// They come in the time that the cards would need at that load.
	span := work * 100 / load / int64(cards) / 1000
	for i := range out {
		out[i].arrive = r.Int64N(span + 1)
	}
	slices.SortStableFunc(out, func(a, b task) int { return cmp.Compare(a.arrive, b.arrive) })
	return out
}

func draw(r *rand.Rand, name string, of []demand) task {
	x := r.IntN(100)
	for _, d := range of {
		if x -= d.percent; x < 0 {
			l, replicas, share := d.draw(r)
			p := podObj(name, l)
			if replicas != "" {
				replica(p, replicas)
			}
			return task{pod: p, share: share}
		}
	}
	panic("the percentages do not add up to 100")
}

// replay runs a trace in which a task that does not fit goes elsewhere: with a
// queue, the small tasks in it would fill every gap that bad packing leaves. It
// returns the share of the cards that was allocated on average from the first
// arrival to the last, in thousandths.
func replay(p *packer, tasks []task, cards int) int64 {
	var running []task // run is when it ends
	var used, sum int64
	now := tasks[0].arrive
	start := now
	pass := func(t int64) { sum, now = sum+used*(t-now), t }
	for _, next := range tasks {
		for len(running) > 0 && running[0].run <= next.arrive {
			pass(running[0].run)
			used -= running[0].share
			p.remove(running[0].pod.UID)
			running = running[1:]
		}
		pass(next.arrive)
		if !p.place(next.pod) {
			continue
		}
		used += next.share
		next.run += now
		i, _ := slices.BinarySearchFunc(running, next.run, func(t task, end int64) int { return cmp.Compare(t.run, end) })
		running = slices.Insert(running, i, next)
	}
	return sum / max(now-start, 1) / int64(cards)
}
