// Package snapshot is "ljctl snapshot": the cluster's lists in one file, for
// answers elsewhere and later.
package snapshot
