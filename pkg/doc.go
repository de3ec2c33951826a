// Package pkg is the guide to the code base; it has no code of its own.
//
// # Rings
//
// Imports point inwards, and TestImportsPointInwards in this folder says so.
//
//	cmd/*                     main functions of a few lines
//	ljctl ljnode sandbox      programs: commands, wiring, printing
//	cliutil render            what programs share at their edge
//	kube sched manifest       adapters, one outside world each
//	core/...                  decisions: plain values in, plain values out
//
// # Where is the rule for …?
//
//	what a request means, and which are legal    core/request
//	which card may serve it                      core/place (card.go)
//	which cards are best together, which NICs    core/place (subset.go), core/topo
//	who is evicted for a pod, or for a group     core/place (evict.go), core/gang (cheapest.go)
//	where a MIG instance may lie                 core/mig
//	what a pod holds of its cards                core/cluster (hold.go)
//	the records on nodes and pods                core/device
//	reason codes, verdicts, exit codes           core/reason
//	where a node stands in the network           core/netplace, read by kube
//	what a group is, and where it goes           core/gang
//	settings of the cluster                      core/config, read by kube
//	what a manifest says, line by line           manifest
//	objects to core types                        kube (convert.go)
//	the scheduler's plugin and profile           sched
//	how groups reach the engine, their plan      sched (groups.go, gangplan.go)
//	what fails behind a group's commit           sched (gang.go, trial.go)
//	what is told about groups, and their mark    sched (keeper*.go)
//	nodes kept free for who waited longest       sched (backfill.go), core/gang (keep.go)
//	who is evicted for whom                      core/place (evict*.go), sched (preempt*.go)
//	the same engine on a snapshot                sched/offline
//	why a pod is pending                         core/explain, ljctl/whypending
//
// # The life of one pod
//
// A manifest is read by manifest, judged by core/request and created by
// ljctl/submit. The API server shows the pod to sched, whose plugin asks
// core/request what is asked, sums up with core/cluster what the pods on each
// node hold, and lets core/place check, score and choose. Bind writes the
// chosen cards as device.Allocation into the annotations of the Binding, so
// that the pod is bound if and only if it has its cards. On the node the
// agent reads that record and the runtime gives the container these cards
// and no others. Until the pod has ended, its record is what it holds.
package pkg
