// Package decisionlog writes one structured line for each decision about a
// pod with cards: which it was given, or why it was refused. With
// --logging-format=json the lines are for machines.
//
// Every placement is written. A refusal is written at verbosity 2, once for
// each pod and reason code however often the pod is tried, and never faster
// than a bounded rate; what that leaves out is counted in the next line, and in
// the metric lj_refusals_total in any case.
//
// It decides nothing.
package decisionlog
