// Package gang has the rules about groups of pods that are placed whole or not
// at all: what state a group is in (Group), which part of the network it goes
// to (Domains), how its members are laid out there (Fill), and where making room
// for it by evictions costs the least (Cheapest).
//
// A node stands in a HyperNode, that in a leaf, that in a network-pod. A group
// prefers to be within one node, then one HyperNode, one leaf, one network-pod;
// it is never spread over network-pods.
package gang
