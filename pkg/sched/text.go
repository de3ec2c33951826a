package sched

import (
	"strconv"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// statusOf is a node's refusal for the engine. Unschedulable, which makes the
// node a candidate for preemption, if the first and so deciding reason passes
// when pods end: evicting somebody from a node that lacks the model helps
// nobody. Reasons of the other kind are no news next to it.
func statusOf(why []reason.Reason) *fwk.Status {
	code := fwk.UnschedulableAndUnresolvable
	if passes(why[0]) {
		code = fwk.Unschedulable
	}
	var texts []string
	for _, r := range why {
		if passes(r) == passes(why[0]) {
			texts = append(texts, countable(r))
		}
	}
	return fwk.NewStatus(code, texts...)
}

func passes(r reason.Reason) bool {
	c := reason.CureOf(r.Code)
	return c == reason.CureRelease || c == reason.CureSelf
}

// countable is the text of a node's refusal that the engine counts over nodes:
// the code, and what the pod asks, which is the same on every node. Numbers
// and names of the node would make each text unique and the event endless.
func countable(r reason.Reason) string {
	info, ok := reason.Lookup(r.Code)
	switch {
	case ok && info.Text != "" && !strings.Contains(info.Text, "{"):
		return string(r.Code) + ": " + info.Text
	case r.Want > 0 && r.Unit != "":
		unit := r.Unit
		if r.Want == 1 {
			unit = strings.TrimSuffix(unit, "s")
		}
		if unit != "%" {
			unit = " " + unit
		}
		return string(r.Code) + ": " + strconv.FormatInt(r.Want, 10) + unit + " asked"
	}
	return string(r.Code)
}

// maxRefusal bounds what one pod's own mistakes take of an event, which the
// API server cuts at 1,024 bytes.
const maxRefusal = 900

// refusal is the text for a pod that no node can help: each code with its
// sentence, as far as an event has room.
func refusal(bad []reason.Reason) string {
	var b strings.Builder
	for i, r := range bad {
		s := full(r)
		if i > 0 && b.Len()+len(s) > maxRefusal {
			b.WriteString("; and " + strconv.Itoa(len(bad)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// full is code and sentence, with numbers and devices.
func full(r reason.Reason) string {
	if s := r.Sentence(); s != string(r.Code) {
		return string(r.Code) + ": " + s
	}
	return string(r.Code)
}
