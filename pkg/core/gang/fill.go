package gang

import (
	"cmp"
	"slices"
	"strings"
)

// Share is how many members go to one room.
type Share struct {
	Room    int // position in the list of rooms
	Members int
}

// Fill lays n members out over the rooms of a domain so that few leaves, then
// few HyperNodes, then few nodes are used, and what is left over stays
// together: the part that just takes the rest is used last. Neighbours in the
// result are near each other, so members in the order of their ranks are, too.
// With spread, the nodes within a HyperNode are used evenly instead.
//
// It returns fewer than n where the rooms have no more, and is exact about the
// number of leaves: the largest come first.
func Fill(rooms []Room, d Domain, n int, spread bool) []Share {
	f := filler{rooms: rooms, spread: spread}
	f.fill(d.Rooms, n, Leaf)
	return f.out
}

type filler struct {
	rooms  []Room
	spread bool
	out    []Share
}

// bin is a part of the network below the one that is being filled.
type bin struct {
	name  string
	rooms []int
	cap   int
}

// fill takes up to n members into the rooms, by the parts of the tier.
func (f *filler) fill(rooms []int, n int, tier Tier) {
	if tier == Node {
		f.nodes(rooms, n)
		return
	}
	bins := f.split(rooms, tier)
	for n > 0 && len(bins) > 0 {
		k := pick(bins, n)
		take := min(n, bins[k].cap)
		f.fill(bins[k].rooms, take, tier-1)
		n -= take
		bins = slices.Delete(bins, k, k+1)
	}
}

// pick chooses the smallest bin that takes all n, else the largest. The bins
// are sorted by name, so the first of equals wins.
func pick(bins []bin, n int) int {
	best := 0
	for i := 1; i < len(bins); i++ {
		c, b := bins[i].cap, bins[best].cap
		switch {
		case c >= n && (b < n || c < b), b < n && c > b:
			best = i
		}
	}
	return best
}

// split groups rooms by their part of a tier. Rooms that name none are parts
// of their own.
func (f *filler) split(rooms []int, tier Tier) []bin {
	var out []bin
	at := map[string]int{}
	for _, i := range rooms {
		if f.rooms[i].Cap == 0 {
			continue
		}
		name := f.rooms[i].At.Leaf
		if tier == HyperNode {
			name = f.rooms[i].At.HyperNode
		}
		key := "of " + name
		if name == "" {
			name = f.rooms[i].Node
			key = "node " + name
		}
		k, ok := at[key]
		if !ok {
			k = len(out)
			at[key] = k
			out = append(out, bin{name: name})
		}
		out[k].rooms = append(out[k].rooms, i)
		out[k].cap += f.rooms[i].Cap
	}
	slices.SortStableFunc(out, func(a, b bin) int { return strings.Compare(a.name, b.name) })
	return out
}

// nodes fills the rooms themselves.
func (f *filler) nodes(rooms []int, n int) {
	if f.spread {
		f.evenly(rooms, n)
		return
	}
	bins := make([]bin, 0, len(rooms))
	for _, i := range rooms {
		if f.rooms[i].Cap > 0 {
			bins = append(bins, bin{name: f.rooms[i].Node, rooms: []int{i}, cap: f.rooms[i].Cap})
		}
	}
	slices.SortStableFunc(bins, func(a, b bin) int { return cmp.Or(-cmp.Compare(a.cap, b.cap), strings.Compare(a.name, b.name)) })
	for len(bins) > 0 && n > 0 {
		// Sorted by size: the last one that takes all the rest, else the first.
		k := 0
		if bins[0].cap >= n {
			for k+1 < len(bins) && bins[k+1].cap >= n {
				k++
			}
			for k > 0 && bins[k-1].cap == bins[k].cap {
				k--
			}
		}
		take := min(n, bins[k].cap)
		f.out = append(f.out, Share{bins[k].rooms[0], take})
		n -= take
		bins = slices.Delete(bins, k, k+1)
	}
}

// evenly gives each room one member in turn.
func (f *filler) evenly(rooms []int, n int) {
	order := slices.Clone(rooms)
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(f.rooms[a].Node, f.rooms[b].Node) })
	count := make([]int, len(order))
	for n > 0 {
		before := n
		for k, i := range order {
			if n > 0 && count[k] < f.rooms[i].Cap {
				count[k]++
				n--
			}
		}
		if n == before {
			break
		}
	}
	for k, c := range count {
		if c > 0 {
			f.out = append(f.out, Share{order[k], c})
		}
	}
}
