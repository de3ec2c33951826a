// Package netplace says where a node stands in a network that is described by
// HyperNodes: named sets of nodes, and of other HyperNodes, each on a tier. A
// lower tier is nearer.
//
// Resolve makes of all HyperNodes a Tree, which At asks for a node. HyperNodes
// that contain each other form trees; each tree is mapped on its own onto the
// three levels above a node that placement knows:
//
//	tiers in the tree   HyperNode   Leaf     NetworkPod
//	1                   lowest      -        -
//	2                   lowest      -        highest
//	3                   lowest      middle   highest
//	more                lowest      middle   highest, the others do not count
//
// A tree with a single tier says which nodes are near each other and nothing
// about what they may not leave, so it is no network-pod. With an even number
// of tiers the lower of the two in the middle is the leaf. What a tree does
// not say, node labels may: see Place.Or.
//
// Contradictions (a ring, two parents, a member of no lower tier) are
// problems that the tree lists in plain words; what they leave open is
// decided by tier and name, the same on every reading. The package never
// fails: it is fed by objects that anybody may have written.
package netplace
