// Package server runs the scheduler against an API server: clients,
// informers, the cluster's settings, leader election, health and metrics, and
// a clean end.
//
// It is a set-up of its own and not the stock command's
// (k8s.io/kubernetes/cmd/kube-scheduler/app), for three reasons: the stock one
// waits for ever on API servers older than itself, because it lists API groups
// that they do not have; it ends by os.Exit from a callback; and its Lease and
// port are those of the cluster's own scheduler.
//
// It decides nothing about pods and nodes: pkg/sched does.
package server
