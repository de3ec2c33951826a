package mig

import (
	"fmt"
	"slices"
	"testing"
)

// reachable lists all masks that sequences of creations and deletions can
// leave on a card.
func reachable(ps []Profile) []Mask {
	seen := map[Mask]bool{}
	var walk func(Mask)
	walk = func(m Mask) {
		if seen[m] {
			return
		}
		seen[m] = true
		for _, p := range ps {
			for _, s := range p.Free(m) {
				walk(m | MaskAt(s, p.Size))
			}
		}
	}
	walk(0)
	var out []Mask
	for m := range seen {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

// The best start leaves the most legal starts for 7, then 4, then 3, then 2
// slices, and so on down; Openness is one number that says the same. Counted
// one by one here, for every state of every model's card.
func TestOpennessLeavesTheMostStartsForTheLargest(t *testing.T) {
	left := func(used Mask, ps []Profile) string {
		key := ""
		for _, k := range []struct{ slices, size int }{{7, 8}, {4, 4}, {3, 4}, {2, 2}, {1, 2}, {1, 1}} {
			n := 0
			for _, p := range ps {
				if p.Slices == k.slices && p.Size == k.size {
					n += len(p.Free(used))
				}
			}
			key += fmt.Sprintf("%02d ", n)
		}
		return key
	}
	for model, mem := range map[string]int64{"NVIDIA A100-SXM4-40GB": 40960, "NVIDIA A100-SXM4-80GB": 81920, "NVIDIA H800": 81559} {
		ps := Catalogue(model, mem)
		choices := 0
		for _, used := range reachable(ps) {
			for _, p := range ps {
				open, starts := -1, ""
				var byOpenness, byCount int
				for _, s := range p.Free(used) {
					after := used | MaskAt(s, p.Size)
					if o := Openness(after, ps); o >= open {
						open, byOpenness = o, s
					}
					if k := left(after, ps); k >= starts {
						starts, byCount = k, s
					}
				}
				choices++
				if byOpenness != byCount {
					t.Errorf("%s %08b %s: openness says %d, counting starts says %d", model, used, p.Name, byOpenness, byCount)
				}
			}
		}
		if choices < 250 {
			t.Errorf("%s: only %d choices", model, choices)
		}
	}
}
