package place

import (
	"slices"

	"lj.aliyun.com/kit/pkg/core/cluster"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/coretest"
	"lj.aliyun.com/kit/pkg/core/device"
	"lj.aliyun.com/kit/pkg/core/request"
)

// judgement is the documented order of sets, written once more, slowly, from
// the inventory and the holds alone.
type judgement struct {
	n     *cluster.Node
	r     *request.Request
	c     config.Config
	cards []device.Card // by index
}

func eq(a, b *int) bool { return a != nil && b != nil && *a == *b }

// level is 1 to 5: switch, NUMA node, socket, two sockets, unknown.
func level(swA, swB string, numaA, numaB, sockA, sockB *int) int {
	switch {
	case swA != "" && swA == swB:
		return 1
	case eq(numaA, numaB):
		return 2
	case eq(sockA, sockB):
		return 3
	case sockA != nil && sockB != nil, numaA != nil && numaB != nil:
		return 4
	}
	return 5
}

func (j *judgement) path(a, b int) int64 {
	x, y := &j.cards[a], &j.cards[b]
	return []int64{0, 10, 4, 3, 2, 0}[level(x.Switch, y.Switch, x.NUMA, y.NUMA, x.Socket, y.Socket)]
}

func (j *judgement) worth(a, b int) int64 {
	w := j.path(a, b)
	for _, l := range j.n.Inventory.Links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			w = max(w, 20*int64(l.N))
		}
	}
	return w
}

func (j *judgement) use(card int) cluster.CardUse {
	var sum cluster.CardUse
	for _, h := range j.n.Holds {
		for _, u := range h.Cards {
			if u.Card == j.cards[card].UUID {
				sum = sum.Plus(u)
			}
		}
	}
	return sum
}

func (j *judgement) serves(card int) bool {
	u, a := j.use(card), j.r.Asks[0]
	if len(j.cards[card].Health) > 0 || u.Whole {
		return false
	}
	if a.Mode == request.Whole {
		return u.Shares == 0
	}
	return u.Core+a.Core <= 100
}

// ring is the largest worth w by which each card of the set has two others (a
// pair: one) and all hang together.
func (j *judgement) ring(set []int) int64 {
	var best int64
	for _, a := range set {
		for _, b := range set {
			if a != b && j.worth(a, b) > best && j.ringOf(set, j.worth(a, b)) {
				best = j.worth(a, b)
			}
		}
	}
	return best
}

func (j *judgement) ringOf(set []int, w int64) bool {
	reached := map[int]bool{set[0]: true}
	for range set {
		for _, a := range set {
			others := 0
			for _, b := range set {
				if a != b && j.worth(a, b) >= w {
					others++
					if reached[b] {
						reached[a] = true
					}
				}
			}
			if others < min(2, len(set)-1) {
				return false
			}
		}
	}
	return len(reached) == len(set)
}

// domains counts what the set touches, an unknown place being one of its own
// unless a nearer one is shared.
func (j *judgement) domains(set []int) int64 {
	// Two cards far from each other may be known to be together by a third.
	groups := func(together func(a, b *device.Card) bool) int64 {
		group := make([]int, len(j.cards))
		for i := range group {
			group[i] = i
		}
		for range j.cards {
			for a := range j.cards {
				for b := range j.cards {
					if together(&j.cards[a], &j.cards[b]) {
						m := min(group[a], group[b])
						group[a], group[b] = m, m
					}
				}
			}
		}
		seen := map[int]bool{}
		for _, c := range set {
			seen[group[c]] = true
		}
		return int64(len(seen))
	}
	sw := func(a, b *device.Card) bool { return a.Switch != "" && a.Switch == b.Switch }
	numa := func(a, b *device.Card) bool {
		return eq(a.NUMA, b.NUMA) || (a.NUMA == nil || b.NUMA == nil) && sw(a, b)
	}
	sock := func(a, b *device.Card) bool {
		return eq(a.Socket, b.Socket) || (a.Socket == nil || b.Socket == nil) && numa(a, b)
	}
	return groups(sock)*10_000 + groups(numa)*100 + groups(sw)
}

func (j *judgement) tier(card int) int64 {
	best := 5
	c := &j.cards[card]
	for _, n := range j.n.Inventory.NICs {
		if n.Ports[0].State == "ACTIVE" {
			best = min(best, level(c.Switch, n.Switch, c.NUMA, n.NUMA, c.Socket, n.Socket))
		}
	}
	return int64(best)
}

func (j *judgement) key(set []int) []int64 {
	var tier, ring, sum, domains, policy, lossLinks, lossPath int64
	near := len(set) > 1
	if j.cards[0].Model == coretest.PPU810E {
		near = len(set) == 2 || len(set) == 4
	}
	for i, a := range set {
		if j.r.RDMA {
			tier = max(tier, j.tier(a))
		}
		if u := j.use(a); u.Shares > 0 {
			full := max(1, u.Core*100, u.MemMiB*10_000/(j.cards[a].MemMiB/1024*1024))
			if j.c.CardPolicy == config.Binpack {
				full = -full
			}
			policy += full
		}
		for _, b := range set[:i] {
			sum += j.worth(a, b)
		}
		for b := range j.cards {
			free := func(c int) bool { return j.use(c).Untouched() && len(j.cards[c].Health) == 0 }
			if a == b || !free(a) || !free(b) || b < a && slices.Contains(set, b) {
				continue
			}
			lossLinks, lossPath = lossLinks+j.worth(a, b), lossPath+j.path(a, b)
		}
	}
	if !near {
		return []int64{tier, policy, lossLinks, lossPath}
	}
	ring, domains = j.ring(set), j.domains(set)
	if j.cards[0].Model == coretest.PPUM890P {
		return []int64{tier, domains, -ring, -sum, policy, lossLinks, lossPath}
	}
	return []int64{tier, -ring, -sum, domains, policy, lossLinks, lossPath}
}

func (j *judgement) best() []int { return j.bestWhere(func([]int) bool { return true }) }

// bestWhere tries all sets, in the order of their indices.
func (j *judgement) bestWhere(ok func([]int) bool) []int {
	var best []int
	var bestKey []int64
	var try func(from int, set []int)
	try = func(from int, set []int) {
		if len(set) == j.r.Asks[0].Count {
			if k := j.key(set); ok(set) && (best == nil || slices.Compare(k, bestKey) < 0) {
				best, bestKey = slices.Clone(set), k
			}
			return
		}
		for c := from; c < len(j.cards); c++ {
			if j.serves(c) {
				try(c+1, append(set, c))
			}
		}
	}
	try(0, nil)
	return best
}
