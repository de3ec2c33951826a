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

// worthOf is what a path without links of its own is worth.
func worthOf(t Tier) int32 {
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

// Set is a set of cards, one bit for each position in the list that New got.
type Set = uint64

// Host has the distances of all cards of one host. It does not change.
type Host struct {
	n      int
	worth  []int32 // n × n: links or PCI path, whichever is worth more
	path   []int32 // n × n: PCI path only
	levels []int32 // the values of worth that occur, best first
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
	flat := make([]int32, 2*n*n)
	h := &Host{n: n, worth: flat[:n*n], path: flat[n*n:]}
	h.locate(cards)
	for i := range n {
		for j := range i {
			w := worthOf(Between(OfCard(cards[i]), OfCard(cards[j])))
			h.path[i*n+j], h.path[j*n+i] = w, w
		}
	}
	copy(h.worth, h.path)
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
		w := max(h.worth[i*n+j], WorthLink*int32(min(l.N, maxWidth)))
		h.worth[i*n+j], h.worth[j*n+i] = w, w
	}
	h.grade()
	return h
}

// grade lists the values of worth that occur and who is that near to whom.
func (h *Host) grade() {
	for i := range h.n {
		for j := range i {
			if w := h.worth[i*h.n+j]; !slices.Contains(h.levels, w) {
				h.levels = append(h.levels, w)
			}
		}
	}
	slices.SortFunc(h.levels, func(a, b int32) int { return int(b) - int(a) })
	h.near = make([]Set, len(h.levels)*h.n)
	for l, level := range h.levels {
		for i := range h.n {
			var s Set
			for j := range h.n {
				if i != j && h.worth[i*h.n+j] >= level {
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
		for j := range i {
			o := cards[j]
			sameSwitch := c.Switch != "" && c.Switch == o.Switch
			sameNUMA := same(c.NUMA, o.NUMA) || (c.NUMA == nil || o.NUMA == nil) && sameSwitch
			if sameSwitch {
				h.sw[i] = h.sw[j]
			}
			if sameNUMA {
				h.numa[i] = h.numa[j]
			}
			if same(c.Socket, o.Socket) || (c.Socket == nil || o.Socket == nil) && sameNUMA {
				h.socket[i] = h.socket[j]
			}
		}
	}
}

func same(a, b *int) bool { return a != nil && b != nil && *a == *b }

// Worth is what the connection of two cards is worth.
func (h *Host) Worth(i, j int) int64 { return int64(h.worth[i*h.n+j]) }

// Path is what the PCI path between two cards is worth, whatever links they
// have.
func (h *Host) Path(i, j int) int64 { return int64(h.path[i*h.n+j]) }

// Best is the largest worth of any two cards of the host.
func (h *Host) Best() int64 {
	if len(h.levels) == 0 {
		return 0
	}
	return int64(h.levels[0])
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
		if h.ringAt(s, l) {
			return int64(h.levels[l])
		}
	}
	return 0
}

func (h *Host) ringAt(s Set, level int) bool {
	near := h.near[level*h.n : (level+1)*h.n]
	need := min(2, bits.OnesCount64(s)-1)
	for m := s; m != 0; m &= m - 1 {
		if bits.OnesCount64(near[bits.TrailingZeros64(m)]&s) < need {
			return false
		}
	}
	reached := s & -s
	for grown := reached; grown != 0; {
		var next Set
		for ; grown != 0; grown &= grown - 1 {
			next |= near[bits.TrailingZeros64(grown)]
		}
		grown = next & s &^ reached
		reached |= grown
	}
	return reached == s
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
