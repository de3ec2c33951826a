package gang

import (
	"cmp"
	"slices"
	"strings"
)

// Keep chooses the rooms that take nobody else until a group has been placed
// that has waited too long: the domain that could hold it if nobody else were
// there and has most of that room already, and of it the fewest rooms, the
// emptiest first. idle has for each room how many members it takes when it is
// empty. It is nil where no domain could ever hold the group.
//
// before are the rooms that were kept last: they stay as long as they do, or
// what has become free there would have been for nothing.
func Keep(rooms []Room, idle []int, need int, before []int) []int {
	empty := slices.Clone(rooms)
	for i := range empty {
		empty[i].Cap = idle[i]
	}
	sum := 0
	for _, i := range before {
		sum += idle[i]
	}
	if len(before) > 0 && sum >= need {
		return before
	}
	var best *Domain
	most := -1
	found := Domains(empty, need, need)
	for d := range found {
		now := 0
		for _, i := range found[d].Rooms {
			now += min(rooms[i].Cap, idle[i])
		}
		if now = min(now, need); now > most {
			best, most = &found[d], now
		}
	}
	if best == nil {
		return nil
	}
	order := slices.Clone(best.Rooms)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(rooms[a].Held, rooms[b].Held), -cmp.Compare(rooms[a].Cap, rooms[b].Cap),
			-cmp.Compare(idle[a], idle[b]), strings.Compare(rooms[a].Node, rooms[b].Node))
	})
	var out []int
	for _, i := range order {
		if need <= 0 {
			break
		}
		if idle[i] > 0 {
			out = append(out, i)
			need -= idle[i]
		}
	}
	return out
}
