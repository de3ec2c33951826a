// Package deploy holds the manifests of this folder, so that the sandbox runs
// the scheduler with exactly the rights and rules that a cluster gives it.
package deploy

import "embed"

// Files are the manifests, by path in this folder.
//
//go:embed base/*.yaml admission/*.yaml dra/*.yaml kustomization.yaml
var Files embed.FS

// Rules are the manifests that a control plane needs beside the programs
// themselves and the cluster's settings: namespace, runtime class, rights and
// admission policies, in the order in which to create them.
var Rules = []string{
	"base/namespace.yaml", "base/runtime-class.yaml", "base/scheduler-rbac.yaml",
	"admission/records.yaml", "admission/runtime-class.yaml", "admission/nodes.yaml",
}
