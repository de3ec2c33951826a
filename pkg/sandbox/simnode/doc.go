// Package simnode plays the kubelets of simulated nodes against a real API
// server: it registers nodes, keeps them alive, admits bound pods by what the
// node offers, and carries them through their phases to the end that their
// annotations ask for. It runs no containers.
//
// It keeps the node's side of the suite's contract: a pod that asks for cards
// through our scheduler starts only with an allocation that is its own, on
// cards that exist and are free on that node, as lj-runtime insists.
//
// One informer and one work queue serve all nodes, however many; there is no
// goroutine for each pod or node. Decisions (admit, uses, run.step) are pure:
// objects and a time in, values out.
//
// Words: a run is what a kubelet remembers about one pod; a rejection is a pod
// that the kubelet will not start; a refusal is a container that the runtime
// will not create.
package simnode
