package netplace

import (
	"cmp"
	"fmt"
	"slices"
)

// Place is where a node stands: the names of what it is in, nearest first,
// empty where nothing is known.
type Place struct{ HyperNode, Leaf, NetworkPod string }

// Or fills what p leaves open with what q says.
func (p Place) Or(q Place) Place {
	return Place{cmp.Or(p.HyperNode, q.HyperNode), cmp.Or(p.Leaf, q.Leaf), cmp.Or(p.NetworkPod, q.NetworkPod)}
}

// Match tells whether a node is a member, by its name and labels. It must
// always answer the same.
type Match func(name string, labels map[string]string) bool

// HyperNode is one set of nodes. Names are unique.
type HyperNode struct {
	Name string
	Tier int64
	// Below are the HyperNodes in it, Nodes the nodes by name, Match those by
	// other marks. A node may be in it by more than one of them.
	Below []string
	Nodes []string
	Match []Match
}

// Tree is the network as the HyperNodes have it. It never changes and is safe
// for concurrent use. A nil Tree knows no node.
type Tree struct {
	byNode map[string]*domain // the nearest HyperNode with the node by name
	// matchers is by tier and name, so that the first to match is the nearest.
	matchers []*domain
	size     int
	problems []string
}

// domain is a HyperNode in its place.
type domain struct {
	name   string
	tier   int64
	match  []Match
	parent *domain
	root   *domain
	tiers  []int64 // of the root: those of its tree, rising
	level  level
}

// level is what a HyperNode is to its nodes.
type level int

const (
	noLevel level = iota
	hyperNode
	leaf
	networkPod
)

// Resolve puts HyperNodes in their places, in whatever order they come. What
// was wrong when they were read stands among the tree's problems.
func Resolve(all []HyperNode, unread ...string) *Tree {
	t := &Tree{byNode: map[string]*domain{}, size: len(all)}
	for _, sentence := range unread {
		t.problem("%s", sentence)
	}
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b HyperNode) int {
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.Name, b.Name))
	})
	domains := make(map[string]*domain, len(sorted))
	order := make([]*domain, len(sorted))
	for i := range sorted {
		h := &sorted[i]
		order[i] = &domain{name: h.Name, tier: h.Tier, match: h.Match}
		domains[h.Name] = order[i]
		if len(h.Match) > 0 {
			t.matchers = append(t.matchers, order[i])
		}
	}
	for i, d := range order {
		t.adopt(d, sorted[i].Below, domains)
	}
	rank(order)
	for i, d := range order {
		t.name(d, sorted[i].Nodes)
	}
	slices.Sort(t.problems)
	t.problems = slices.Compact(t.problems)
	return t
}

// adopt makes d the parent of its members. A parent is on a higher tier than
// its members, so rings cannot close. d comes before those on higher tiers, so
// the nearest of several parents wins.
func (t *Tree) adopt(d *domain, below []string, domains map[string]*domain) {
	for _, name := range below {
		m := domains[name]
		switch {
		case m == nil:
			t.problem("HyperNode %s has the member HyperNode %s, which does not exist", d.name, name)
		case m.tier >= d.tier:
			t.problem("HyperNode %s of tier %d has the member HyperNode %s of tier %d, which is not lower: left out", d.name, d.tier, name, m.tier)
		case m.parent == d:
		case m.parent != nil:
			t.problem("HyperNode %s is a member of %s and of %s: the first holds", name, m.parent.name, d.name)
		default:
			m.parent = d
		}
	}
}

// rank finds each domain's tree, the tree's tiers, and what a domain of each
// tier is. order rises by tier, so parents come after their members.
func rank(order []*domain) {
	for _, d := range slices.Backward(order) {
		d.root = d
		if d.parent != nil {
			d.root = d.parent.root
		}
	}
	for _, d := range order {
		if r := d.root; len(r.tiers) == 0 || r.tiers[len(r.tiers)-1] != d.tier {
			r.tiers = append(r.tiers, d.tier)
		}
	}
	for _, d := range order {
		tiers := d.root.tiers
		switch n := len(tiers); {
		case d.tier == tiers[0]:
			d.level = hyperNode
		case d.tier == tiers[n-1]:
			d.level = networkPod
		case d.tier == tiers[(n-1)/2]:
			d.level = leaf
		}
	}
}

// name makes d the domain of the nodes, unless they are in a nearer one.
func (t *Tree) name(d *domain, nodes []string) {
	for _, n := range nodes {
		first := t.byNode[n]
		if first == nil {
			t.byNode[n] = d
		} else if !first.within(d) {
			t.problem("node %s is a member of HyperNode %s and of %s, which is not around it: the first holds", n, first.name, d.name)
		}
	}
}

// within tells whether d is o or somewhere in it.
func (d *domain) within(o *domain) bool {
	for ; d != nil; d = d.parent {
		if d == o {
			return true
		}
	}
	return false
}

// problem notes what is wrong, up to a bound that hostile input cannot pass.
func (t *Tree) problem(format string, args ...any) {
	if len(t.problems) < maxProblems {
		t.problems = append(t.problems, fmt.Sprintf(format, args...))
	}
}

const maxProblems = 100

// At is where a node of this name and these labels stands. A node in several
// HyperNodes that are not in each other is in the one of the lowest tier, of
// these the first by name. A node in none has the zero Place.
func (t *Tree) At(node string, labels map[string]string) Place {
	if t == nil {
		return Place{}
	}
	d := t.byNode[node]
	for _, m := range t.matchers {
		if d != nil && !m.before(d) {
			break
		}
		if slices.ContainsFunc(m.match, func(is Match) bool { return is(node, labels) }) {
			d = m
			break
		}
	}
	var p Place
	for ; d != nil; d = d.parent {
		switch d.level {
		case hyperNode:
			p.HyperNode = d.name
		case leaf:
			p.Leaf = d.name
		case networkPod:
			p.NetworkPod = d.name
		}
	}
	return p
}

// before is the order of Resolve.
func (d *domain) before(o *domain) bool {
	return cmp.Or(cmp.Compare(d.tier, o.tier), cmp.Compare(d.name, o.name)) < 0
}

// Len is how many HyperNodes there are.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return t.size
}

// Problems are the contradictions among the HyperNodes, one sentence each,
// sorted; the first hundred.
func (t *Tree) Problems() []string {
	if t == nil {
		return nil
	}
	return t.problems
}
