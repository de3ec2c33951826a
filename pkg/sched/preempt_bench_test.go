package sched

import (
	"fmt"
	"testing"
)

// BenchmarkPreemption: one pod that needs a card on nodes full of pods of
// lower priority, from its creation until it is bound.
func BenchmarkPreemption(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			r := newRig(b, NewState(cfg), fleet(b, nodes, 8)...)
			r.add(priority(podObj("first", limits{"nvidia": 1}), 1000)) // reads the inventories
			r.bound("first")
			i := 0
			for b.Loop() {
				name := fmt.Sprintf("high-%d", i)
				i++
				r.add(priority(podObj(name, limits{"nvidia": 1}), 1000))
				r.bound(name)
			}
		})
	}
}

// BenchmarkPreemptionOfGroups: a group on nodes full of singles of lower
// priority, from the creation of its last member until all are bound.
func BenchmarkPreemptionOfGroups(b *testing.B) {
	for _, c := range []struct {
		nodes, size int
		cards       int64
	}{{512, 16, 1}, {512, 16, 8}, {5000, 16, 8}, {5000, 64, 8}} {
		b.Run(fmt.Sprintf("%d members of %d cards on %d nodes", c.size, c.cards, c.nodes), func(b *testing.B) {
			r := newRig(b, NewState(cfg), fleet(b, c.nodes, 8)...)
			r.add(priority(podObj("first", limits{"nvidia": 1}), 1000)) // reads the inventories
			r.bound("first")
			i := 0
			for b.Loop() {
				set := fmt.Sprintf("g%d", i)
				i++
				r.add(ranked(1000, members(set, 0, c.size, c.size, limits{"nvidia": c.cards})...)...)
				r.bound(fmt.Sprintf("%s-%d", set, c.size-1))
			}
		})
	}
}

// BenchmarkRefusalBesideLowPods: as BenchmarkRefusal, with a pod of lower
// priority on each node whose eviction frees no card.
func BenchmarkRefusalBesideLowPods(b *testing.B) {
	objs := fleet(b, 5000, 8)
	for i := range 5000 {
		p := priority(podObj(fmt.Sprintf("low-%d", i), limits{"cpu": 1}), -1)
		p.Spec.NodeName = fmt.Sprintf("n%04d", i)
		objs = append(objs, p)
	}
	r := newRig(b, NewState(cfg), objs...)
	r.add(podObj("first", limits{"nvidia": 1})) // reads the inventories
	r.refused("first", nil)
	i := 0
	for b.Loop() {
		name := fmt.Sprintf("no-%d", i)
		i++
		r.add(podObj(name, limits{"nvidia": 1}))
		r.refused(name, nil)
	}
}
