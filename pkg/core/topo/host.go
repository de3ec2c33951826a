package topo

import (
	"math/bits"
	"slices"

	"lj.aliyun.com/kit/pkg/core/device"
)

// What the path between two cards is worth. The scale is the one of NVIDIA's
// go-gpuallocator (NVLink 100 for each link, PIX 50, NODE 20, SYS 10) divided
// by five. It has no socket level, because nvidia-smi prints SYS for it; it
// lies between NODE and SYS. ICN and xGMI links count as NVLinks do: kinds are
// never mixed on one host.
const (
	WorthUnknown     = 0
	WorthCrossSocket = 2
	WorthSocket      = 3
	WorthNUMA        = 4
	WorthSwitch      = 10
	WorthLink        = 20 // for each link of the bundle
)

// maxWidth bounds the links of one pair; NVML's header allows 36.
const maxWidth = 64

// MaxCards is how many cards a Host can hold: sets of cards are bit masks.
const MaxCards = device.MaxCards

// pathWorth is what a path without links of its own is worth.
func pathWorth(t Tier) int64 {
	switch t {
	case Switch:
		return WorthSwitch
	case NUMA:
		return WorthNUMA
	case Socket:
		return WorthSocket
	case CrossSocket:
		return WorthCrossSocket
	}
	return WorthUnknown
}

// Worth is what one or several connections are worth: in the upper half by
// links, or by PCI path where that is worth more; in the lower half by PCI path
// alone. Worths add up and compare as plain numbers, the path deciding where
// the links are equal. Neither half can overflow: 64 cards have 2,016 pairs of
// at most 64 × WorthLink.
type Worth int64

const half = 32

func worthOf(links, path int64) Worth { return Worth(links<<half | path) }

// Links is the upper half.
func (w Worth) Links() int64 { return int64(w >> half) }

// Path is the lower half.
func (w Worth) Path() int64 { return int64(w & (1<<half - 1)) }

// Set is a set of cards, one bit for each position in the list that New got.
type Set = uint64

// Host has the distances of all cards of one host. It does not change.
type Host struct {
	n      int
	pair   []Worth // n × n
	levels []int64 // the values of links that occur, best first
	near   []Set   // [level][card]: the cards at that level or better
	sw     []Set   // by card, the bit of its switch, …
	numa   []Set
	socket []Set
}

// New measures cards, whose links are given by card index as in the
// inventory. Links that name other cards are passed over; of several for one
// pair the widest counts. It returns nil for more than MaxCards.
func New(cards []*device.Card, links []device.Link) *Host {
	n := len(cards)
	if n > MaxCards {
		return nil
	}
	h := &Host{n: n, pair: make([]Worth, n*n)}
	h.locate(cards)
	for i := range n {
		for j := range i {
			path := pathWorth(Between(OfCard(cards[i]), OfCard(cards[j])))
			w := worthOf(path, path)
			h.pair[i*n+j], h.pair[j*n+i] = w, w
		}
	}
	var at [MaxCards]int8 // index to position + 1, for the usual small indices
	for i, c := range cards {
		if c.Index >= 0 && c.Index < len(at) {
			at[c.Index] = int8(i + 1)
		}
	}
	find := func(index int) int {
		if index >= 0 && index < len(at) {
			return int(at[index]) - 1
		}
		return slices.IndexFunc(cards, func(c *device.Card) bool { return c.Index == index })
	}
	for _, l := range links {
		i, j := find(l.A), find(l.B)
		if i < 0 || j < 0 || i == j || l.N <= 0 {
			continue
		}
		w := max(h.pair[i*n+j], worthOf(WorthLink*int64(min(l.N, maxWidth)), h.pair[i*n+j].Path()))
		h.pair[i*n+j], h.pair[j*n+i] = w, w
	}
	h.grade()
	return h
}

// grade lists the values of worth that occur and who is that near to whom.
func (h *Host) grade() {
	for i := range h.n {
		for j := range i {
			if w := h.pair[i*h.n+j].Links(); !slices.Contains(h.levels, w) {
				h.levels = append(h.levels, w)
			}
		}
	}
	slices.SortFunc(h.levels, func(a, b int64) int { return int(b - a) })
	h.near = make([]Set, len(h.levels)*h.n)
	for l, level := range h.levels {
		for i := range h.n {
			var s Set
			for j := range h.n {
				if i != j && h.pair[i*h.n+j].Links() >= level {
					s |= 1 << j
				}
			}
			h.near[l*h.n+i] = s
		}
	}
}

// locate gives every switch, NUMA node and socket a bit. A card of which a
// level is not known shares it only with those that it shares a nearer level
// with: cards below one switch are on one NUMA node, whichever it is.
func (h *Host) locate(cards []*device.Card) {
	flat := make([]Set, 3*h.n)
	h.sw, h.numa, h.socket = flat[:h.n], flat[h.n:2*h.n], flat[2*h.n:]
	for i, c := range cards {
		h.sw[i], h.numa[i], h.socket[i] = 1<<i, 1<<i, 1<<i
		for j, o := range cards[:i] {
			sameSwitch := c.Switch != "" && c.Switch == o.Switch
			sameNUMA := same(c.NUMA, o.NUMA) || (c.NUMA == nil || o.NUMA == nil) && sameSwitch
			if sameSwitch {
				join(h.sw[:i+1], j)
			}
			if sameNUMA {
				join(h.numa[:i+1], j)
			}
			if same(c.Socket, o.Socket) || (c.Socket == nil || o.Socket == nil) && sameNUMA {
				join(h.socket[:i+1], j)
			}
		}
	}
}

// join makes the domain of the last card that of card j.
func join(domain []Set, j int) {
	was, is := domain[len(domain)-1], domain[j]
	if was == is {
		return
	}
	for k := range domain {
		if domain[k] == was {
			domain[k] = is
		}
	}
}

func same(a, b *int) bool { return a != nil && b != nil && *a == *b }

// Toward is what the connections of a card to the cards of a set are worth.
func (h *Host) Toward(i int, s Set) Worth {
	var sum Worth
	row := h.pair[i*h.n : (i+1)*h.n]
	for ; s != 0; s &= s - 1 {
		sum += row[bits.TrailingZeros64(s)]
	}
	return sum
}

// Best is the largest worth of any two cards of the host.
func (h *Host) Best() int64 {
	if len(h.levels) == 0 {
		return 0
	}
	return h.levels[0]
}

// Ring is the worst connection that a ring through the set cannot avoid: the
// largest worth w so that by connections of at least w the set hangs together
// and each card has two others (a pair: one). Collectives run on rings, so two
// cards of a group need no connection of their own: in the vendor's example of
// an 810E host the cards 0, 1, 7 and 6 are a ring of double links, and better
// than any four of one socket, though its diagonals have none. It is exact up
// to four cards and for larger groups never too small. 0 for a single card.
func (h *Host) Ring(s Set) int64 {
	if bits.OnesCount64(s) < 2 {
		return 0
	}
	for l := range h.levels {
		if h.RingWithin(s, s, bits.OnesCount64(s), l) {
			return h.levels[l]
		}
	}
	return 0
}

// Levels are the worths of pairs that occur on the host, by links, best first.
func (h *Host) Levels() []int64 { return h.levels }

// RingWithin tells whether cards out of all could make s a set of size cards
// with a Ring of the level, an index into Levels, or better. It is never false
// if they could, and exact if all is s.
func (h *Host) RingWithin(s, all Set, size, level int) bool {
	near := h.near[level*h.n : (level+1)*h.n]
	need := min(2, size-1)
	for m := s; m != 0; m &= m - 1 {
		if bits.OnesCount64(near[bits.TrailingZeros64(m)]&all) < need {
			return false
		}
	}
	reached := s & -s
	for grown := reached; grown != 0; {
		var next Set
		for ; grown != 0; grown &= grown - 1 {
			next |= near[bits.TrailingZeros64(grown)]
		}
		grown = next & all &^ reached
		reached |= grown
	}
	return s&^reached == 0
}

// Domains of a card: one bit each for its switch, NUMA node and socket. Of
// several cards, or them together and count.
type Domains struct{ Switch, NUMA, Socket Set }

// Domains of the card.
func (h *Host) Domains(i int) Domains { return Domains{h.sw[i], h.numa[i], h.socket[i]} }

// Or joins the domains of two sets of cards.
func (d Domains) Or(e Domains) Domains {
	return Domains{d.Switch | e.Switch, d.NUMA | e.NUMA, d.Socket | e.Socket}
}

// Count is a number that is smaller for fewer sockets, then fewer NUMA nodes,
// then fewer switches.
func (d Domains) Count() int64 {
	return int64(bits.OnesCount64(d.Socket))<<16 | int64(bits.OnesCount64(d.NUMA))<<8 | int64(bits.OnesCount64(d.Switch))
}
