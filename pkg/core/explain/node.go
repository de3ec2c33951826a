package explain

import (
	"cmp"
	"slices"

	"lj.aliyun.com/kit/pkg/core/place"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// Node is one node with all its causes.
type Node struct {
	Name   string
	Causes []Cause
	Cards  []place.CardAnswer
}

// order sorts the causes: what lasts first, then as the table does; effects
// come last.
func (n *Node) order() {
	rank := map[CheckID]int{}
	for i, c := range CheckIDs() {
		rank[c] = i
	}
	slices.SortStableFunc(n.Causes, func(a, b Cause) int {
		return cmp.Or(flag(a.Effect)-flag(b.Effect), flag(a.Passes())-flag(b.Passes()), cmp.Compare(rank[a.Check], rank[b.Check]))
	})
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Told are the causes without effects.
func (n *Node) Told() []Cause {
	var out []Cause
	for _, c := range n.Causes {
		if !c.Effect {
			out = append(out, c)
		}
	}
	return out
}

// Fits tells whether nothing rules the node out.
func (n *Node) Fits() bool { return len(n.Causes) == 0 }

// Waits tells whether the node is ruled out only by causes that pass.
func (n *Node) Waits() bool {
	told := n.Told()
	for _, c := range told {
		if !c.Passes() {
			return false
		}
	}
	return len(told) > 0
}

// Unknown tells whether the node could do for all that is known: some cause
// is missing evidence, and no other lasts.
func (n *Node) Unknown() bool {
	unknown := false
	for _, c := range n.Told() {
		switch {
		case c.Word() == reason.Unknown:
			unknown = true
		case !c.Passes():
			return false
		}
	}
	return unknown
}

// HasNoCards tells whether the node is no candidate and nobody should act on
// it.
func (n *Node) HasNoCards() bool {
	for _, c := range n.Causes {
		if c.Reason.Code == "no-gpu-on-node" {
			return true
		}
	}
	return false
}

// fails tells whether the check alone rules the node out.
func (n *Node) fails(id CheckID) bool {
	for _, c := range n.Causes {
		if c.Check == id {
			return true
		}
	}
	return false
}

// distance compares nodes by how near they are to taking the pod: without
// cards last, then those that the pod's own selector leaves out, since the
// others are the ones that its author meant, then by what lasts, by whether
// the cards are of the wrong kind altogether, by what is unmet at all, by how
// much of it is short.
type distance struct {
	none, unmeant, lasting, alien, unmet int
	short                                int64
}

// alien are the codes of cards that the pod cannot use however large and free
// they are: another amount would not help there.
var alien = []reason.Code{"amd-no-share", "vendor-mismatch", "mig-model-not-supported"}

func (n *Node) distance() distance {
	d := distance{none: flag(n.HasNoCards()), unmeant: flag(n.fails(Affinity))}
	for _, c := range n.Told() {
		d.unmet++
		d.lasting += flag(!c.Passes())
		d.alien = max(d.alien, flag(slices.Contains(alien, c.Reason.Code)))
		if r := c.Reason; r.Want > r.Free && r.Want > 0 {
			d.short += (r.Want - r.Free) * 1000 / r.Want
		}
	}
	return d
}

// Nearest returns the nodes, nearest first, ties by name. It does not change
// its argument.
func Nearest(nodes []Node) []Node {
	type ranked struct {
		d distance
		i int
	}
	rank := make([]ranked, len(nodes))
	for i := range nodes {
		rank[i] = ranked{nodes[i].distance(), i}
	}
	slices.SortFunc(rank, func(a, b ranked) int {
		return cmp.Or(a.d.none-b.d.none, a.d.unmeant-b.d.unmeant, a.d.lasting-b.d.lasting, a.d.alien-b.d.alien, a.d.unmet-b.d.unmet, cmp.Compare(a.d.short, b.d.short),
			cmp.Compare(nodes[a.i].Name, nodes[b.i].Name))
	})
	out := make([]Node, len(nodes))
	for i, r := range rank {
		out[i] = nodes[r.i]
	}
	return out
}
