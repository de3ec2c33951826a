// Package cli is the command line of ljsandbox. Each command is one file; a
// new one is added in New.
//
// It does not link the API server: what runs a cluster is handed in as
// Program.Serve, so that the commands can be tested without one.
package cli
