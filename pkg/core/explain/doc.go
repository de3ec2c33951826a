// Package explain turns what the checks say about each node into one answer
// to "why is this pod not running": a verdict with its code, an elimination
// table whose counts add up, the nodes that come nearest, and whether the pod
// would fit if other pods ended.
//
// It fetches nothing and makes no text beyond the sentences of pkg/core/reason.
// Callers (why-pending, submit's preview) collect the causes: those about the
// pod itself, and for each node those of the cards (CardCauses) and of the
// scheduler's filters.
//
// Words: a cause is a reason found by a check; it passes if it goes away
// without anybody's act on the request or the cluster (busy cards, a grace
// period), and is lasting otherwise; an effect is what follows from another
// cause of the same node, so it makes its check fail and is not told again. A
// node waits if all its causes pass.
package explain
