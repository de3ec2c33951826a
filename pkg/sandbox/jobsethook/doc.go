// Package jobsethook does for JobSets what the JobSet project's own admission
// webhook does: it fills in the defaults that the JobSet controller relies on,
// refuses what the controller could not carry out, and ties the pods of a
// JobSet with a topology of its own to their leader.
//
// The project's webhook cannot be linked with this Kubernetes version, so its
// behaviour is written anew here, from its API documentation and its source.
// Nothing here talks to a cluster: the handler asks a Leaders for what it must
// know about other pods.
//
// One thing is left out: the priority label on pods without a topology of
// their own, which only matters to a mix of both on the same nodes.
package jobsethook
