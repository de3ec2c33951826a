package gang

import (
	"cmp"
	"slices"

	"lj.aliyun.com/kit/pkg/core/place"
)

// Cheapest chooses the domain, and how many members each of its rooms takes,
// so that a group of need members finds room at the lowest price. prices has
// for each room what it costs to make room for so many members: prices[i][0]
// is the price of none, and the last entry that of as many as it can ever
// take. Of equal prices the nearest domain counts, as Domains orders them. ok
// is false if no domain can hold the group.
//
// The choice is exact for the prices given: their sums, and the highest Top.
func Cheapest(rooms []Room, prices [][]place.Price, need int) (members []int, ok bool) {
	empty := slices.Clone(rooms)
	for i := range empty {
		empty[i].Cap = len(prices[i]) - 1
	}
	var best place.Price
	var take []Share
	for _, d := range Domains(empty, need, need) {
		p, shares := cheapest(d.Rooms, prices, need)
		if !ok || p.Compare(best) < 0 {
			best, take, ok = p, shares, true
		}
	}
	members = make([]int, len(rooms))
	for _, s := range take {
		members[s.Room] = s.Members
	}
	return members, ok
}

// cheapest lays the members out over rooms that can hold them.
func cheapest(rooms []int, prices [][]place.Price, need int) (best place.Price, take []Share) {
	rooms = distinct(rooms, prices, need)
	for _, top := range tops(rooms, prices) {
		p, shares, ok := within(rooms, prices, need, top)
		if ok && (take == nil || p.Compare(best) < 0) {
			best, take = p, shares
		}
		if take != nil && best.Violations == 0 {
			break // a higher Top cannot be better
		}
	}
	return best, take
}

// distinct leaves out rooms that are like as many others as the group needs.
func distinct(rooms []int, prices [][]place.Price, need int) []int {
	order := slices.Clone(rooms)
	alike := func(a, b int) int { return slices.CompareFunc(prices[a], prices[b], place.Price.Compare) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Or(alike(a, b), cmp.Compare(a, b)) })
	var out []int
	same := 0
	for i, r := range order {
		if i > 0 && alike(r, order[i-1]) == 0 {
			same++
		} else {
			same = 0
		}
		if same < need && len(prices[r]) > 1 {
			out = append(out, r)
		}
	}
	return out
}

// tops lists the different Tops, lowest first.
func tops(rooms []int, prices [][]place.Price) []int64 {
	out := []int64{0}
	for _, r := range rooms {
		for _, p := range prices[r] {
			out = append(out, p.Top)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// within is the cheapest layout in which no Top is above the given one: of all
// rooms so far, for each number of members.
func within(rooms []int, prices [][]place.Price, need int, top int64) (place.Price, []Share, bool) {
	type state struct {
		price place.Price
		ok    bool
	}
	sums := make([]state, need+1)
	sums[0].ok = true
	took := make([][]int, len(rooms)) // by room, by members so far: how many of them are its own
	for k, r := range rooms {
		next := slices.Clone(sums)
		took[k] = make([]int, need+1)
		for had := range sums {
			if !sums[had].ok {
				continue
			}
			for n := 1; n < len(prices[r]) && had+n <= need; n++ {
				if prices[r][n].Top > top {
					continue
				}
				p := sums[had].price.Plus(prices[r][n])
				if at := &next[had+n]; !at.ok || lower(p, at.price) {
					*at, took[k][had+n] = state{p, true}, n
				}
			}
		}
		sums = next
	}
	if !sums[need].ok {
		return place.Price{}, nil, false
	}
	var out []Share
	for k, left := len(rooms)-1, need; k >= 0; k-- {
		if n := took[k][left]; n > 0 {
			out = append(out, Share{rooms[k], n})
			left -= n
		}
	}
	return sums[need].price, out, true
}

// lower compares where the Tops do not count.
func lower(a, b place.Price) bool {
	a.Top, b.Top = 0, 0
	return a.Compare(b) < 0
}
