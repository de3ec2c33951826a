// Package jobs is "ljctl jobs": who asks for cards, who has them, and what the
// others wait for.
//
// A row is what a user thinks of as his job: the top owner of the pods (a
// JobSet, Job, Deployment, …), or a pod that nobody owns. Reduce makes the rows
// from a snapshot; list, single rows and "submit --wait" all use it, so they
// cannot disagree.
package jobs
