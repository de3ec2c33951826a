// Package hypernode follows the HyperNodes of a cluster, Volcano's objects
// for the network, whether the API server serves them yet or not.
//
// Most clusters do not serve them. So the watch is one of its own: nobody
// waits for it longer than told, it keeps asking, and it starts as soon as the
// API is there. What the objects mean is decided in pkg/core/netplace, by way
// of kube.NetworkOf.
package hypernode
