// Package demo runs the suite's main job on a cluster, as a user would: the
// programs are run as programs, what they print is shown, and each step states
// what it expects. It ends with an error if one expectation did not hold, so
// that the demonstration is a test as well.
package demo
