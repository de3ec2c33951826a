// Package ljnode is the command line of the program for GPU hosts and the
// control plane: one package for each command below it. It wires flags to
// options and errors to exit codes, and decides nothing.
package ljnode
