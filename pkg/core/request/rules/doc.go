// Package rules judges what a manifest says about cards: every rule of the
// guide that can be checked before anything is created, and with a Fleet also
// whether the cards that there are could ever take the pods.
//
// A Workload is one object in plain values, with its pod templates wherever
// they were; Check returns all findings at once, each with a reason code and
// the JSON path that it is about. Rules about single amounts are not written
// here but in package request, where the scheduler uses them too.
//
// It never reads files, knows nothing of YAML, and leaves to pkg/manifest what
// the API server's own decoding and validation refuse.
package rules
