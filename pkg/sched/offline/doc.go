// Package offline is the scheduler of pkg/sched on a snapshot of a cluster,
// without an API server: the same engine, profile and plugins as the live one.
//
// Check says for one pod what each filter thinks of each node, every filter
// and not only the first that fails, which is what an explanation needs.
// Schedule says where the engine would put the pod and on which cards; Assume
// does it and keeps it, so that the next answer counts it in, until Forget.
// ScheduleGroup and AssumeGroup do the same for the waiting members of a group,
// by the scheduler's own registry of groups and plan.
//
// It is deterministic: all nodes are looked at, and equal scores are broken by
// name, where the live scheduler samples large clusters and throws dice. It
// never talks to anything: the informers that the engine's plugins read are
// filled from the snapshot (see static.go), so there is no client, not even a
// fake one, and nothing to wait for.
//
// Preemption is not simulated: a pod that only preemption would place does not
// fit here. Nor is what a live scheduler remembers and no object tells: pauses
// of groups, and nodes kept for jobs that have waited long. Members of real
// PodGroups of the API are taken for pods alone.
package offline
