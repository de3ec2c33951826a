// Package sched is the scheduler lj-runtimekit-scheduler as parts of the
// kube-scheduler engine (k8s.io/kubernetes/pkg/scheduler, v1.37): the plugin
// LJDevices that gives pods their cards, a NodeResourcesFit that does not see
// the suite's resources, and the profile that joins both with the in-tree
// plugins. NewRegistry and Profiles are all it takes to build the same
// framework elsewhere: on an API server (pkg/sched/server) or on a snapshot
// with a fake client.
//
// It decides nothing about cards: pkg/core/place does. What it owns is the
// translation between the engine and the core, and State, the memory of which
// pod holds which cards.
//
// # Where the truth is
//
// Free cards are never stored. They follow from the pods that are present in
// the NodeInfo that the engine passes in, so that preemption (victims taken
// out), nominated pods (put in) and what-if questions stay right. What each of
// those pods holds is, in this order: what Reserve gave it in this process,
// what its annotation says, what its request would take at most.
//
// # Who goes for whom
//
// Preemption is the in-tree one, shown what the core has chosen: by
// place.View.Evict on one node, by gang.Cheapest among the nodes for a group.
// Every filter still has its say, and where the choice does not stand, the
// in-tree way decides.
//
// # What reaches people
//
// A refusal by a node is a slug of pkg/core/reason with the amount asked, the
// same text on every node with the same cause, because the engine counts equal
// texts ("0/12 nodes are available: 3 gpus-busy: 4 cards asked, …"). The
// numbers of the node that comes closest follow once.
//
// The engine is silent about members of groups that it does not try. Keeper
// tells why they wait, shows how far each group has come, and frees the nodes
// of a group that stays bound in part.
//
// Words: a record is what State knows of one pod; a class is the set of pods
// whose requests are equal but for names; wide is a pod that must be tried on
// every node because the best ones for its cards refused it for other reasons.
package sched
