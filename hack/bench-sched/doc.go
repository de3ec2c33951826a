// Bench-sched measures the scheduler and prints one table: what was measured,
// the figure, the same figure of a peer in the same run, their ratio, and
// whether the target is met. It is what `make bench-sched` runs.
//
// It has three sources. The engine in one process, without an API server, is
// measured by the benchmarks of pkg/sched, which it runs and reads. Throughput
// and latency with an API server are measured on ljsandbox, with the scheduler
// and the stock kube-scheduler of the same Kubernetes version as processes
// that take turns on the same cluster. The quality of packing comes from a
// seeded trace in logical time, a benchmark of pkg/sched as well.
//
// A missed target is a figure, not an error: the exit code is 0. It is 1 if
// something could not be measured.
//
// Words: a peer is whom a figure is compared with; a ratio says how many times
// better the suite is, so more than 1 is better whether the figure is a time
// or a rate; a bare node is a Node object that is kept Ready and runs nothing,
// so that pods on it are bound and no more.
package main
