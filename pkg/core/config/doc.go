// Package config holds the settings of a cluster that every decision depends
// on: the resource prefix, the unit of gpu-memory, which models may be cut by
// MIG, the topology label keys, and the placement policies.
//
// It decides nothing and reads nothing: pkg/kube fills it from the ConfigMap
// lj-system/lj-config, and Default is what holds where there is none.
package config
