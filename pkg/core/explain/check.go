package explain

import "lj.aliyun.com/kit/pkg/core/reason"

// CheckID is one row of the elimination table.
type CheckID string

// The checks, in the order in which the table applies them: what an
// administrator sees at a glance first, what moves with every pod last.
const (
	Ready       CheckID = "ready"
	Schedulable CheckID = "schedulable"
	Enabled     CheckID = "enabled"
	Affinity    CheckID = "affinity"
	Taints      CheckID = "taints"
	Agent       CheckID = "agent"
	Cards       CheckID = "cards"
	Free        CheckID = "free"
	Resources   CheckID = "resources"
	Ports       CheckID = "ports"
	Volumes     CheckID = "volumes"
	Spread      CheckID = "spread"
	PodAffinity CheckID = "pod-affinity"
	Other       CheckID = "other"
)

// CheckIDs lists every CheckID in the table's order.
func CheckIDs() []CheckID {
	return []CheckID{Ready, Schedulable, Enabled, Affinity, Taints, Agent, Cards, Free, Resources, Ports, Volumes, Spread, PodAffinity, Other}
}

// Title is the row's text for people.
func (c CheckID) Title() string {
	switch c {
	case Ready:
		return "node Ready"
	case Schedulable:
		return "not cordoned"
	case Enabled:
		return "label lj_runtimekit_enable=true"
	case Affinity:
		return "selector and node affinity"
	case Taints:
		return "taints tolerated"
	case Agent:
		return "cards reported by the agent"
	case Cards:
		return "has such cards"
	case Free:
		return "enough of them free"
	case Resources:
		return "cpu, memory, pod slots"
	case Ports:
		return "host ports"
	case Volumes:
		return "volumes"
	case Spread:
		return "topology spread"
	case PodAffinity:
		return "pod affinity"
	}
	return "other filters"
}

// always tells whether the row is in every table. The others are there only
// where they rule a node out.
func (c CheckID) always(cards bool) bool {
	switch c {
	case Ready, Schedulable, Affinity, Taints, Resources:
		return true
	case Enabled, Agent, Cards, Free:
		return cards
	}
	return false
}

// Cause is one reason why a node, or the pod itself, does not do.
type Cause struct {
	Check  CheckID // empty for causes of the pod itself
	Reason reason.Reason
	// Verdict overrides what the code causes in general, for a fact that is
	// worse or better than usual; empty for the catalogue's.
	Verdict reason.Verdict
	// Text replaces the code's sentence, where the same code has another fact
	// behind it.
	Text string
	// Effect: it follows from another cause.
	Effect bool
}

// Passes tells whether the cause goes away without anybody's act.
func (c Cause) Passes() bool {
	if c.Verdict != "" {
		return c.Verdict == reason.Wait
	}
	cure := reason.CureOf(c.Reason.Code)
	return cure == reason.CureRelease || cure == reason.CureSelf
}

// Word is the verdict that the cause alone gives.
func (c Cause) Word() reason.Verdict {
	if c.Verdict != "" {
		return c.Verdict
	}
	i, ok := reason.Lookup(c.Reason.Code)
	if !ok {
		return reason.Blocked
	}
	return i.Verdict
}
