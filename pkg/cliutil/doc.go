// Package cliutil has what all programs of the suite share at their edge: the
// Factory that commands get their streams, clients, settings and clock from,
// errors with a next step and an exit code, safe printing, and completion.
//
// Commands return errors; only Main prints them (Report) and exits. Data goes
// to Streams.Out, everything else to Streams.ErrOut.
package cliutil
