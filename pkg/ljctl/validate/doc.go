// Package validate is ljctl validate: it reads manifests, judges them without
// a cluster, and prints all findings with file, line, field and fix.
//
// command.go wires flags, files and streams; report.go is the pure reduction
// of sources to a Report; print.go and sarif.go write the report. What is
// right and wrong is decided in pkg/core/request/rules and pkg/manifest.
package validate
