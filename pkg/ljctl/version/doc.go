// Package version is "ljctl version": what this program is built from, and
// which Kubernetes the cluster runs.
package version
