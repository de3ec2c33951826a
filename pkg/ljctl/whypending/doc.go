// Package whypending is "ljctl why-pending": why a pod, or a job, is not
// running, from the same picture that the scheduler sees, by the scheduler's
// own engine (pkg/sched/offline) and the same placement core.
//
// cmd.go is the wiring, print.go and summary.go print; what lies between is
// the reduction of a snapshot to an explain.Report and asks nobody anything:
//
//	picture.go   the snapshot, indexed, with its engine
//	target.go    what was asked about, and its pods
//	lead.go      causes of the pod itself; scheduler.go, gang.go, owner.go,
//	             placed.go for the stages before and after the scheduler
//	nodes.go     causes of each node; filters.go, agent.go
//	suggest.go   changes, each tried on the picture before it is told
//
// Events are hints with an age and never a proof: what the objects say now
// decides.
package whypending
