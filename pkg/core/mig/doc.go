// Package mig knows how a GPU can be cut into MIG instances: the grammar of
// profile names, the catalogue of what each model offers, and where on the
// card's eight memory slices an instance may lie.
//
// Words: a profile is a kind of instance (3g.40gb); slices are its compute
// slices (3); size is how many of the eight memory slices it covers (4); a
// start is the first of them; a Mask has one bit per memory slice in use.
//
// It never talks to hardware and never chooses a card: pkg/core/place does.
package mig
