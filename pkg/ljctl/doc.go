// Package ljctl is the command line of users and administrators: ljctl, the
// same binary as the kubectl plugin "kubectl lj", and kubectl's completion
// shim for it.
//
// Each command is a package below this one in three files: wiring, pure
// reduction, printing. Here is only what joins them: the root command, the
// names under which the binary may be called, and the exit code.
package ljctl
