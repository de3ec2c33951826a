// Package cliutil has what all programs of the suite share at their edge:
// errors with a next step and an exit code, streams, and the kubeconfig
// flags. Commands return errors; only Main prints them and exits.
package cliutil
