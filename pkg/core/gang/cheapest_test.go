package gang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lj.aliyun.com/kit/pkg/core/place"
)

// bruteCheapest tries every layout over every domain that Domains offers.
func bruteCheapest(rooms []Room, prices [][]place.Price, need int) (best place.Price, ok bool) {
	empty := slices.Clone(rooms)
	for i := range empty {
		empty[i].Cap = len(prices[i]) - 1
	}
	for _, d := range Domains(empty, need, need) {
		var try func(k, left int, sum place.Price)
		try = func(k, left int, sum place.Price) {
			if left == 0 {
				if !ok || sum.Compare(best) < 0 {
					best, ok = sum, true
				}
				return
			}
			if k == len(d.Rooms) {
				return
			}
			for n := 0; n <= left && n < len(prices[d.Rooms[k]]); n++ {
				try(k+1, left-n, sum.Plus(prices[d.Rooms[k]][n]))
			}
		}
		try(0, need, place.Price{})
	}
	return best, ok
}

func TestCheapestAgreesWithBruteForce(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var rooms []Room
		var prices [][]place.Price
		for i := range 1 + rnd.IntN(6) {
			rooms = append(rooms, Room{Node: fmt.Sprint("n", i), At: Place{NetworkPod: fmt.Sprint("p", rnd.IntN(2)), Leaf: fmt.Sprint("l", rnd.IntN(2))}})
			ps := []place.Price{{}}
			for range rnd.IntN(4) {
				// More members never cost less.
				p := ps[len(ps)-1].Plus(place.Price{Sum: int64(rnd.IntN(4)), Top: int64(rnd.IntN(3))})
				if rnd.IntN(6) == 0 {
					p.Violations++
				}
				ps = append(ps, p)
			}
			prices = append(prices, ps)
		}
		need := 1 + rnd.IntN(5)
		want, found := bruteCheapest(rooms, prices, need)
		got, ok := Cheapest(rooms, prices, need)
		if ok != found {
			t.Fatalf("seed %d: ok is %v, brute force says %v", seed, ok, found)
		}
		var sum place.Price
		total := 0
		at := map[string]bool{}
		for i, n := range got {
			sum, total = sum.Plus(prices[i][n]), total+n
			if n > 0 {
				at[rooms[i].At.NetworkPod] = true
			}
		}
		if ok && (sum != want || total != need || len(at) != 1) {
			t.Fatalf("seed %d: %v of %v costs %+v in %v, brute force %+v\n%v", seed, got, need, sum, at, want, prices)
		}
	}
}

func TestCheapestPrefersTheNearestOfEqualPrices(t *testing.T) {
	one := []place.Price{{}, {Sum: 1, Top: 1}}
	rooms := []Room{{Node: "a", At: Place{NetworkPod: "p", Leaf: "x"}}, {Node: "b", At: Place{NetworkPod: "p", Leaf: "y"}}, {Node: "c", At: Place{NetworkPod: "p", Leaf: "y"}}}
	got, ok := Cheapest(rooms, [][]place.Price{one, one, one}, 2)
	if !ok || !slices.Equal(got, []int{0, 1, 1}) {
		t.Errorf("members %v, the two on one leaf are as cheap", got)
	}
}

func BenchmarkCheapest(b *testing.B) {
	var rooms []Room
	var prices [][]place.Price
	for i := range 5000 {
		rooms = append(rooms, Room{Node: fmt.Sprintf("n%04d", i), At: Place{NetworkPod: fmt.Sprint("p", i/1000), Leaf: fmt.Sprint("l", i/50)}})
		ps := []place.Price{{}}
		for n := range int64(8) {
			ps = append(ps, place.Price{Sum: (n + 1) * int64(1+i*7919%97), Top: 1})
		}
		prices = append(prices, ps)
	}
	for b.Loop() {
		if _, ok := Cheapest(rooms, prices, 64); !ok {
			b.Fatal()
		}
	}
}
