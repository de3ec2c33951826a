package gang

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// drawRooms draws a small network: up to three network-pods of up to three
// leaves of up to two HyperNodes, some nodes unlabelled.
func drawRooms(t *rapid.T) []Room {
	n := rapid.IntRange(1, 9).Draw(t, "nodes")
	labelled := rapid.Bool().Draw(t, "labelled")
	rooms := make([]Room, n)
	for i := range rooms {
		rooms[i] = Room{Node: fmt.Sprintf("n%02d", i), Cap: rapid.IntRange(0, 4).Draw(t, "cap")}
		if labelled && rapid.IntRange(0, 9).Draw(t, "has label") > 0 {
			rooms[i].At.NetworkPod = fmt.Sprint("p", rapid.IntRange(0, 2).Draw(t, "pod"))
			if rapid.Bool().Draw(t, "has leaf") {
				rooms[i].At.Leaf = fmt.Sprint("l", rapid.IntRange(0, 2).Draw(t, "leaf"))
				if rapid.Bool().Draw(t, "has hypernode") {
					rooms[i].At.HyperNode = fmt.Sprint("h", rapid.IntRange(0, 1).Draw(t, "hypernode"))
				}
			}
		}
	}
	return rooms
}

// together tells by the definition whether rooms are in one domain of a tier.
func together(rooms []Room, set []int, tier Tier) bool {
	labelled := slices.ContainsFunc(rooms, func(r Room) bool { return r.At.NetworkPod != "" })
	a := rooms[set[0]]
	for _, i := range set {
		b := rooms[i]
		same := a.Node == b.Node
		switch tier {
		case NetworkPod:
			same = same || a.At.NetworkPod == b.At.NetworkPod && (a.At.NetworkPod != "" || !labelled)
		case Leaf:
			same = a.At.NetworkPod == b.At.NetworkPod && a.At.Leaf == b.At.Leaf && a.At.Leaf != "" && (a.At.NetworkPod != "" || !labelled)
		case HyperNode:
			same = a.At == b.At && a.At.HyperNode != "" && (a.At.NetworkPod != "" || !labelled)
		}
		if !same {
			return false
		}
	}
	return true
}

// nearest is by brute force the nearest tier at which some set of rooms holds n.
func nearest(rooms []Room, n int) (Tier, bool) {
	for _, tier := range Tiers() {
		for mask := 1; mask < 1<<len(rooms); mask++ {
			var set []int
			sum := 0
			for i := range rooms {
				if mask&(1<<i) != 0 {
					set = append(set, i)
					sum += rooms[i].Cap
				}
			}
			if sum >= n && together(rooms, set, tier) {
				return tier, true
			}
		}
	}
	return 0, false
}

func TestDomainsFindTheNearestTier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := drawRooms(t)
		n := rapid.IntRange(1, 12).Draw(t, "members")
		want, ok := nearest(rooms, n)
		got := Domains(rooms, n, n)
		if ok != (len(got) > 0) {
			t.Fatalf("a domain for %d: found %v, there is one: %v\n%v", n, got, ok, rooms)
		}
		if ok && got[0].Tier != want {
			t.Fatalf("tier %v, brute force finds %v", got[0].Tier, want)
		}
		for _, d := range got {
			sum := 0
			for _, i := range d.Rooms {
				sum += rooms[i].Cap
			}
			if sum != d.Cap || sum < n || !together(rooms, d.Rooms, d.Tier) {
				t.Fatalf("domain %+v holds %d of %d", d, sum, n)
			}
		}
	})
}

func TestHeldMembersStay(t *testing.T) {
	rooms := []Room{
		{Node: "a", At: Place{NetworkPod: "p", Leaf: "x"}, Cap: 8},
		{Node: "b", At: Place{NetworkPod: "p", Leaf: "y"}, Cap: 1, Held: 3},
		{Node: "c", At: Place{NetworkPod: "q", Leaf: "z"}, Cap: 8},
	}
	got := Domains(rooms, 1, 1)
	if len(got) == 0 || got[0].Tier != Node || got[0].Name != "b" {
		t.Errorf("one more: %+v", got)
	}
	for _, d := range Domains(rooms, 2, 2) {
		if d.Tier != NetworkPod || d.Name != "p" {
			t.Errorf("two more cannot go to %v %s", d.Tier, d.Name)
		}
	}
}

func TestFillUsesFewLeavesAndNoMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := drawRooms(t)
		n := rapid.IntRange(1, 12).Draw(t, "members")
		spread := rapid.Bool().Draw(t, "spread")
		for _, d := range Domains(rooms, 1, n) {
			given := 0
			leaves := map[string]bool{}
			seen := map[int]bool{}
			for _, s := range Fill(rooms, d, n, spread) {
				if s.Members < 1 || s.Members > rooms[s.Room].Cap || seen[s.Room] || !slices.Contains(d.Rooms, s.Room) {
					t.Fatalf("share %+v of room %+v", s, rooms[s.Room])
				}
				seen[s.Room] = true
				given += s.Members
				leaves[leafOf(rooms[s.Room])] = true
			}
			if want := min(n, d.Cap); given != want {
				t.Fatalf("%d members given, %d wanted", given, want)
			}
			if best := fewestLeaves(rooms, d, min(n, d.Cap)); len(leaves) != best {
				t.Fatalf("%d leaves used, %d would do", len(leaves), best)
			}
		}
	})
}

func leafOf(r Room) string {
	if r.At.Leaf == "" {
		return "node " + r.Node
	}
	return "leaf " + r.At.Leaf
}

// fewestLeaves is by brute force the number of leaves that n members need.
func fewestLeaves(rooms []Room, d Domain, n int) int {
	caps := map[string]int{}
	for _, i := range d.Rooms {
		caps[leafOf(rooms[i])] += rooms[i].Cap
	}
	var all []int
	for _, c := range caps {
		all = append(all, c)
	}
	best := len(all)
	for mask := range 1 << len(all) {
		sum, k := 0, 0
		for i, c := range all {
			if mask&(1<<i) != 0 {
				sum += c
				k++
			}
		}
		if sum >= n {
			best = min(best, k)
		}
	}
	return best
}

func TestReachedAgreesWithDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := drawRooms(t)
		k := rapid.IntRange(1, len(rooms)).Draw(t, "nodes of the group")
		set := rapid.Permutation(seq(len(rooms))).Draw(t, "order")[:k]
		var names []string
		var at []Place
		for _, i := range set {
			names, at = append(names, rooms[i].Node), append(at, rooms[i].At)
		}
		labelled := slices.ContainsFunc(rooms, func(r Room) bool { return r.At.NetworkPod != "" })
		got, ok := Reached(names, at)
		for _, tier := range Tiers() {
			if together(rooms, set, tier) {
				if !ok || got != tier {
					t.Fatalf("reached %v %v, is %v: %v", got, ok, tier, at)
				}
				return
			}
		}
		// Nodes without labels among labelled ones are in no domain; Reached
		// sees the group's nodes only.
		if ok && labelled && at[0].NetworkPod != "" {
			t.Fatalf("reached %v, is in no domain: %v", got, at)
		}
	})
}

func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestKeepIsEnoughAndOfOneDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := drawRooms(t)
		idle := make([]int, len(rooms))
		empty := slices.Clone(rooms)
		for i := range rooms {
			idle[i] = rooms[i].Cap + rapid.IntRange(0, 3).Draw(t, "held by others")
			empty[i].Cap = idle[i]
		}
		n := rapid.IntRange(1, 12).Draw(t, "members")
		got := Keep(rooms, idle, n, nil)
		if _, could := nearest(empty, n); could != (got != nil) {
			t.Fatalf("kept %v, could ever: %v", got, could)
		}
		if got == nil {
			return
		}
		sum := 0
		for _, i := range got {
			sum += idle[i]
		}
		if sum < n || !together(rooms, got, NetworkPod) {
			t.Fatalf("kept %v: %d of %d", got, sum, n)
		}
		if again := Keep(rooms, idle, n, got); !slices.Equal(again, got) {
			t.Fatalf("kept %v, then %v", got, again)
		}
	})
}

func TestPhases(t *testing.T) {
	for _, c := range []struct {
		what   string
		g      Group
		now    int64
		phase  Phase
		quorum int
		code   reason.Code
	}{
		{"members come", Group{Size: 7, Members: 6, Created: 100}, 279, Forming, 7, "gang-forming"},
		{"the time is over", Group{Size: 7, Members: 6, Created: 100}, 280, Incomplete, 7, "gang-incomplete"},
		{"all are there", Group{Size: 7, Members: 7, Created: 100}, 1000, Waiting, 7, ""},
		{"bound in part", Group{Size: 7, Members: 7, Bound: 3}, 1000, HalfBound, 7, "gang-half-bound"},
		{"bound in part, one is missing", Group{Size: 7, Members: 6, Bound: 3, Created: 100}, 200, HalfBound, 7, "gang-forming"},
		{"bound in part, one is missing for long", Group{Size: 7, Members: 6, Bound: 3, Created: 100}, 280, HalfBound, 7, "gang-incomplete"},
		{"all bound", Group{Size: 7, Members: 7, Bound: 7}, 1000, Placed, 1, ""},
		{"one lost, marked", Group{Size: 7, Members: 6, Bound: 6, Marked: true}, 1000, Placed, 1, ""},
		{"nothing left, marked", Group{Size: 7, Members: 2, Marked: true}, 1000, Incomplete, 7, "gang-incomplete"},
		{"two have finished", Group{Size: 7, Members: 5, Finished: 2}, 0, Waiting, 5, ""},
		{"all but one have finished", Group{Size: 7, Members: 1, Finished: 7}, 0, Placed, 1, ""},
		{"they disagree", Group{Size: 7, Members: 7, Wrong: &reason.Reason{Code: "min-member-differs"}}, 0, Invalid, 7, "min-member-differs"},
	} {
		if p := c.g.Phase(c.now, 180); p != c.phase {
			t.Errorf("%s: phase %s, want %s", c.what, p, c.phase)
		}
		if q := c.g.Quorum(); q != c.quorum {
			t.Errorf("%s: quorum %d, want %d", c.what, q, c.quorum)
		}
		if tried := c.code == "" || c.code == "gang-half-bound"; c.g.Tried() != tried {
			t.Errorf("%s: tried %v, want %v", c.what, c.g.Tried(), tried)
		}
		code := reason.Code("")
		if why := c.g.Why(c.now, 180); why != nil {
			code = why.Code
		}
		if code != c.code {
			t.Errorf("%s: %q, want %q", c.what, code, c.code)
		}
	}
}
