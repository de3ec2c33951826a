package gang

import "lj.aliyun.com/kit/pkg/core/reason"

// Group is what is known about one group. Members are the pods that carry the
// group's label, have not ended and are not being deleted.
type Group struct {
	// Size is min-member: how many members run together or not at all.
	Size int
	// Wrong is what keeps the members from being one group: they name
	// different sizes, or one that cannot be read. nil if nothing does.
	Wrong *reason.Reason
	// Created is when the first member was created, in seconds of Unix time.
	Created int64
	// Members exist, Bound of them have a node.
	Members, Bound int
	// Leaving pods are being deleted. They are no members, and hold their
	// nodes until they are gone.
	Leaving int
	// Finished members have succeeded. They count as done for ever.
	Finished int
	// Marked: all members were bound at one time.
	Marked bool
}

// Satisfied tells whether the group has been placed whole: a member that is
// lost from then on is replaced alone. A group of which nothing is left starts
// anew.
func (g *Group) Satisfied() bool {
	return g.Bound+g.Finished > 0 && (g.Marked || g.Bound+g.Finished >= g.Size)
}

// Short tells whether members are missing that the group needs to be placed.
func (g *Group) Short() bool { return !g.Satisfied() && g.Members+g.Finished < g.Size }

// Quorum is how many members must be placed at one time, those that are bound
// counted in, for any to be placed. It is at least 1.
func (g *Group) Quorum() int {
	if g.Satisfied() {
		return 1
	}
	return max(1, g.Size-g.Finished)
}

// Threshold is Quorum for somebody who counts pods that are leaving as members.
func (g *Group) Threshold() int {
	if g.Satisfied() {
		return g.Quorum()
	}
	return g.Quorum() + g.Leaving
}

// Phase is how far a group has come.
type Phase string

// The phases in their order.
const (
	Forming    Phase = "Forming"    // members are missing, and still young
	Incomplete Phase = "Incomplete" // members are missing although the time is over
	Waiting    Phase = "Waiting"    // all exist, none is bound
	HalfBound  Phase = "HalfBound"  // some are bound, not enough of them
	Placed     Phase = "Placed"     // placed whole
	Invalid    Phase = "Invalid"    // the members do not agree
)

// Phases lists every Phase.
func Phases() []Phase { return []Phase{Forming, Incomplete, Waiting, HalfBound, Placed, Invalid} }

// Phase tells how far the group has come. now is in seconds of Unix time,
// timeout in seconds from the first member's creation.
func (g *Group) Phase(now, timeout int64) Phase {
	switch {
	case g.Wrong != nil:
		return Invalid
	case g.Satisfied():
		return Placed
	case g.Bound > 0:
		return HalfBound
	case g.Members+g.Finished >= g.Size:
		return Waiting
	case now-g.Created >= timeout:
		return Incomplete
	}
	return Forming
}

// Tried tells whether nothing about the group itself keeps its waiting members
// from being placed: they agree, and enough of them exist.
func (g *Group) Tried() bool {
	return g.Wrong == nil && (g.Satisfied() || g.Members+g.Finished >= g.Size)
}

// Why is the reason for which members wait that the group itself gives, nil if
// it gives none: members are missing, disagree, or only some have nodes. While
// members are missing that is the reason, also where some have nodes.
func (g *Group) Why(now, timeout int64) *reason.Reason {
	switch {
	case g.Wrong != nil:
		return g.Wrong
	case g.Tried() && g.Phase(now, timeout) == HalfBound:
		return &reason.Reason{Code: "gang-half-bound", Want: int64(g.Size), Free: int64(g.Bound + g.Finished)}
	case g.Tried():
		return nil
	}
	why := &reason.Reason{Code: "gang-forming", Want: int64(g.Size), Free: int64(g.Members + g.Finished)}
	if now-g.Created >= timeout {
		why.Code = "gang-incomplete"
	}
	return why
}
