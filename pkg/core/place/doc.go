// Package place decides whether a pod fits on a node, on which cards, and how
// good that is. It is the one home of these decisions: the scheduler,
// simulate, why-pending, submit's preview, the agent and the TUI all call it.
//
// A View is one node with what is left of its cards. Check says whether a
// request fits, Fit also chooses the cards, Capacity how often it fits; Rank
// and Score compare nodes; Explain says card by card what is in the way, an
// Offer's Summary what a pod got; Census counts what is left, and in what
// pieces; Evict says who must go for a request. Each answer is an offer or at least
// one reason, never both and never neither; a request that cannot be
// understood never gets here (request.Parse refuses it).
//
// The rules for a card: out of MIG mode it has 100 % compute and its memory
// in whole units to share, or is taken whole; in MIG mode it has the placement
// line of pkg/core/mig. Never both at once. A request without gpu-core takes
// no compute, one without gpu-memory no memory.
//
// Of all cards that can serve it, a container gets the set that is best as a
// set: with the nearest NICs where RDMA is asked, then with the best links
// among its cards, in the fewest domains, by the card policy, and leaving the
// best groups to others. pick has the order in full; pkg/core/topo measures.
// The choice is exact for up to 20,000 sets. Of several containers the one
// that is hardest to serve chooses first, and no choice of it keeps the others
// from being served.
//
// Policies are the pod's own, else the node's (for cards), else the cluster's.
//
// All arithmetic is on whole numbers and all orders are total, so the same
// node and request always give the same answer.
package place
