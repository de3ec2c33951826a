// Package request says what a pod asks for, and which rules a manifest must
// keep.
//
// Parse turns the resource amounts and labels of one pod into a Request as
// the scheduler, why-pending and submit understand it; the same rules about
// single values, with field paths and advice, make the findings of validate.
//
// Words: an ask is what one container wants; its mode is whole cards, shares
// (TDM) or MIG slices; replica is the number of equal cards per ask; a phase
// is a stretch of a pod's life in which the same containers run together.
//
// It never looks at nodes: whether a legal request fits is pkg/core/place.
package request
