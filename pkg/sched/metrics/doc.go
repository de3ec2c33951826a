// Package metrics has what the scheduler tells about itself and the fleet
// beside the engine's own metrics (scheduler_…): counters of rare acts, which
// pkg/sched adds to, and a picture of the cards, which is worked out when it is
// asked.
//
// It counts and decides nothing. All names begin with lj_ and carry their unit;
// labels are card models, and closed sets.
package metrics
