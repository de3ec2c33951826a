// Package kube is the only place that knows the suite's Kubernetes names and
// that turns API objects into the core's plain types and back. It lists a
// cluster into a snapshot, from the API server or from a file.
//
// It decides nothing about cards: pkg/core does.
package kube
