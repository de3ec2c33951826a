// Package statedir is the directory of one sandbox: who is running in it, what
// others need to know to reach it, and how it is left without a trace.
//
// The lock decides whether a sandbox runs: it is held with flock by the living
// process and released by the kernel however that process ends. A process id
// in a file decides nothing; it only says whom to signal while the lock is
// held. The package never removes a file that it did not name, so that a
// mistaken --state-dir costs nobody their data.
package statedir
