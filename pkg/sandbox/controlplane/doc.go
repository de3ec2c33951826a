// Package controlplane runs a Kubernetes control plane inside this process:
// embedded etcd, the real kube-apiserver, the real controllers that jobs need,
// and the real JobSet controller. It installs what the suite expects to find
// in a cluster, and hands out kubeconfigs.
//
// It never listens anywhere but on 127.0.0.1 and on a unix socket in its own
// directory, never runs a scheduler (feature gates are process-wide, and the
// API server must not get the scheduler's), and knows nothing about simulated
// nodes.
//
// Words: the directory is where all its files are; an identity is a client
// certificate signed by the cluster's own authority.
package controlplane
