// Package cluster has the picture of a cluster on which decisions are made:
// nodes with their cards, and what each pod holds of them, in plain values.
//
// A Hold is what one pod takes from the cards of its node, at its peak over
// the phases of its life: a pod keeps its peak until it ends. Free capacity
// is never stored; it follows from the holds that are present, so that
// preemption and what-if questions stay right.
//
// It decides nothing: pkg/core/place does.
package cluster
