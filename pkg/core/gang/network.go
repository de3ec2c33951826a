package gang

import (
	"cmp"
	"slices"
	"strings"
)

// Tier is a level of the network.
type Tier int

// The tiers, nearest first.
const (
	Node Tier = iota
	HyperNode
	Leaf
	NetworkPod
)

// Tiers lists every Tier, nearest first.
func Tiers() []Tier { return []Tier{Node, HyperNode, Leaf, NetworkPod} }

// String is the tier's name as people read it.
func (t Tier) String() string {
	switch t {
	case Node:
		return "node"
	case HyperNode:
		return "HyperNode"
	case Leaf:
		return "leaf"
	}
	return "network-pod"
}

// Place is where a node stands in the network, empty where nobody says.
type Place struct{ HyperNode, Leaf, NetworkPod string }

// Room is what one node offers to a group.
type Room struct {
	Node string
	At   Place
	// Cap is how many members the node can take now.
	Cap int
	// Held members are on the node already.
	Held int
}

// Domain is a part of the network to which a group can go.
type Domain struct {
	Tier Tier
	// Name is the node's, HyperNode's, leaf's or network-pod's; empty for the
	// one network-pod of a cluster whose nodes are not labelled.
	Name string
	// Rooms are positions in the list that Domains was given.
	Rooms []int
	// Cap is the sum over the rooms, Held as well.
	Cap, Held int
}

// Domains lists the domains in which a group can be placed, best first: those
// that take all of its waiting members, then those that take as many as it
// needs; of these the nearest tier, then the tightest fit, then by name. need
// and all are numbers of waiting members.
//
// Members that are on nodes already stay where they are, so a domain must hold
// all of them; where they are in several network-pods, because labels have
// changed since, the one with the most of them counts.
//
// Where no node names its network-pod, all nodes are one network-pod. Where
// some do, a node that does not takes a group only alone.
func Domains(rooms []Room, need, all int) []Domain {
	every := domains(rooms)
	held := 0
	for i := range every {
		if every[i].Tier == NetworkPod || every[i].Tier == Node {
			held = max(held, every[i].Held)
		}
	}
	out := slices.DeleteFunc(every, func(d Domain) bool { return d.Cap < need || d.Cap == 0 || d.Held < held })
	slices.SortStableFunc(out, func(a, b Domain) int {
		if x, y := a.Cap < all, b.Cap < all; x != y {
			if x {
				return 1
			}
			return -1
		}
		fit := cmp.Compare(a.Cap, b.Cap)
		if a.Cap < all {
			fit = -fit
		}
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), fit, strings.Compare(a.Name, b.Name))
	})
	return out
}

// Largest is the network-pod with the most room, or the node where nodes stand
// alone, to tell people how close a group comes. ok is false without rooms.
func Largest(rooms []Room) (d Domain, ok bool) {
	for _, x := range domains(rooms) {
		if x.Tier != NetworkPod && x.Tier != Node {
			continue
		}
		better := cmp.Or(cmp.Compare(x.Cap, d.Cap), cmp.Compare(x.Tier, d.Tier), -strings.Compare(x.Name, d.Name))
		if !ok || better > 0 {
			d, ok = x, true
		}
	}
	return d, ok
}

// path names a domain within the tree: names need not be unique above it.
type path struct {
	tier Tier
	at   Place
}

// domains lists every domain of the network, in the order of the rooms.
func domains(rooms []Room) []Domain {
	labelled := slices.ContainsFunc(rooms, func(r Room) bool { return r.At.NetworkPod != "" })
	var out []Domain
	at := map[path]int{}
	for i := range rooms {
		r := &rooms[i]
		out = append(out, Domain{Tier: Node, Name: r.Node, Rooms: []int{i}, Cap: r.Cap, Held: r.Held})
		if labelled && r.At.NetworkPod == "" {
			continue
		}
		join := func(tier Tier, name string, p Place) {
			key := path{tier: tier, at: p}
			k, ok := at[key]
			if !ok {
				k = len(out)
				at[key] = k
				out = append(out, Domain{Tier: tier, Name: name})
			}
			out[k].Rooms = append(out[k].Rooms, i)
			out[k].Cap += r.Cap
			out[k].Held += r.Held
		}
		join(NetworkPod, r.At.NetworkPod, Place{NetworkPod: r.At.NetworkPod})
		if r.At.Leaf != "" {
			join(Leaf, r.At.Leaf, Place{NetworkPod: r.At.NetworkPod, Leaf: r.At.Leaf})
		}
		if r.At.HyperNode != "" {
			join(HyperNode, r.At.HyperNode, r.At)
		}
	}
	return out
}

// Reached is the nearest tier that holds all of the nodes at these places: how
// near the members of a group are to each other. ok is false if they are in
// several network-pods.
func Reached(nodes []string, at []Place) (t Tier, ok bool) {
	same := func(f func(int) string, need bool) bool {
		for i := range nodes {
			if f(i) != f(0) || need && f(i) == "" {
				return false
			}
		}
		return true
	}
	pod := func(i int) string { return at[i].NetworkPod }
	leaf := func(i int) string { return at[i].Leaf }
	switch {
	case same(func(i int) string { return nodes[i] }, false):
		return Node, true
	case !same(pod, false):
		return NetworkPod, false
	case same(leaf, false) && same(func(i int) string { return at[i].HyperNode }, true):
		return HyperNode, true
	case same(leaf, true):
		return Leaf, true
	}
	return NetworkPod, true
}

// Spot is a part of the network by its names: that of its tier and those of
// what it stands in. Node is set for the tier Node only.
type Spot struct {
	Tier Tier
	Node string
	At   Place
}

// SpotOf is the nearest part of the network that holds all of the nodes at
// these places; ok is false if there is none, or no node.
func SpotOf(nodes []string, at []Place) (s Spot, ok bool) {
	if len(nodes) == 0 {
		return s, false
	}
	if s.Tier, ok = Reached(nodes, at); !ok {
		return s, false
	}
	s.At = at[0]
	switch s.Tier {
	case Node:
		s.Node = nodes[0]
	case Leaf:
		s.At.HyperNode = ""
	case NetworkPod:
		s.At.HyperNode, s.At.Leaf = "", ""
	}
	return s, true
}

// String names the part as people read it: "leaf l3 of network-pod np-1".
func (s Spot) String() string {
	var parts []string
	for _, p := range []struct {
		tier Tier
		name string
	}{{Node, s.Node}, {HyperNode, s.At.HyperNode}, {Leaf, s.At.Leaf}, {NetworkPod, s.At.NetworkPod}} {
		if p.name != "" && (p.tier != HyperNode || s.Tier == HyperNode) {
			parts = append(parts, p.tier.String()+" "+p.name)
		}
	}
	if len(parts) == 0 {
		return "the network-pod that all nodes are" // nobody names one
	}
	return strings.Join(parts, " of ")
}
