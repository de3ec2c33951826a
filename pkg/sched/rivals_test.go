package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Gangs that need 60 % of the cluster each, whose members come in any order
// with pods alone between them: exactly one runs, and when it has ended the
// next, without any member of another holding anything meanwhile.
func TestRivalGangs(t *testing.T) {
	eachSeed(t, amount(t, "LJ_SEEDS", 50), func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 60))
		w := newWorld(t, network(t, 1, 2, 5)...)
		sets := []string{"a", "b", "c"}[:2+rnd.IntN(2)]
		var pods []*v1.Pod
		for _, s := range sets {
			w.api.put(setJob(s, 6, 0))
			pods = append(pods, members(s, 0, 6, 6, limits{"nvidia": 8})...)
		}
		alone := rnd.IntN(5)
		for i := range alone {
			pods = append(pods, podObj(fmt.Sprintf("single%d", i), limits{"nvidia": 2}))
		}
		rnd.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		killAt := rnd.IntN(2 * len(pods)) // or never
		w.run()
		for i, p := range pods {
			w.api.put(p)
			if rnd.IntN(3) == 0 {
				time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
			}
			if i == killAt {
				w.kill()
				w.run()
			}
		}
		for len(sets) > 0 {
			first := w.only(t, sets)
			if n := len(w.bindings("single")); n != alone {
				t.Errorf("%d of %d pods alone are bound", n, alone)
			}
			w.api.put(setJob(first, 6, 6))
			for i := range 6 {
				w.api.erase(podsGVR, fmt.Sprintf("%s-%d", first, i))
			}
			sets = slices.DeleteFunc(sets, func(s string) bool { return s == first })
		}
	})
}

// only waits until the cluster rests, and returns the one gang that runs.
func (w *world) only(t *testing.T, sets []string) string {
	t.Helper()
	w.settled(nil)
	running := ""
	for _, s := range sets {
		switch n := len(w.bindings(s + "-")); {
		case n == 6 && running == "":
			running = s
		case n != 0:
			t.Fatalf("%d members of %s are bound beside %q", n, s, running)
		}
	}
	if running == "" {
		t.Fatal("no gang runs")
	}
	return running
}
