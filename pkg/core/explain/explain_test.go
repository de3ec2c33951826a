package explain

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lj.aliyun.com/kit/pkg/core/reason"
)

func at(id CheckID, code reason.Code) Cause {
	return Cause{Check: id, Reason: reason.Reason{Code: code}}
}

func TestVerdict(t *testing.T) {
	busy, cordoned, none := at(Free, "gpus-busy"), at(Schedulable, "node-cordoned"), at(Cards, "no-gpu-on-node")
	unread := at(Agent, "inventory-unreadable")
	node := func(name string, cs ...Cause) Node { return Node{Name: name, Causes: cs} }
	lead := func(code reason.Code) Cause { return Cause{Reason: reason.Reason{Code: code}} }
	for _, c := range []struct {
		about   string
		in      Input
		verdict reason.Verdict
		code    reason.Code
	}{
		{"one node only waits", Input{Nodes: []Node{node("a", cordoned), node("b", busy)}}, reason.Wait, "gpus-busy"},
		{"every node has something that lasts", Input{Nodes: []Node{node("a", cordoned, busy), node("b", none)}}, reason.Blocked, "node-cordoned"},
		{"a node that nobody can see", Input{Nodes: []Node{node("a", unread), node("b", cordoned)}}, reason.Unknown, "inventory-unreadable"},
		{"waiting is known, the unread node adds nothing", Input{Nodes: []Node{node("a", unread), node("b", busy)}}, reason.Wait, "gpus-busy"},
		{"the node that the selector means, not one that it leaves out", Input{Nodes: []Node{node("a", at(Affinity, "selector-mismatch")), node("b", cordoned, at(Cards, "amd-no-share"))}}, reason.Blocked, "node-cordoned"},
		{"the node that the selector means has no cards", Input{Nodes: []Node{node("a", at(Affinity, "selector-mismatch")), node("b", none)}}, reason.Blocked, "selector-mismatch"},
		{"a list is missing and some node would do", Input{Nodes: []Node{node("a")}, Evidence: []Cause{lead("no-permission")}}, reason.Unknown, "no-permission"},
		{"a list is missing and no node would do anyway", Input{Nodes: []Node{node("a", cordoned)}, Evidence: []Cause{lead("no-permission")}}, reason.Blocked, "node-cordoned"},
		{"the pod itself is wrong", Input{Lead: []Cause{lead("slice-not-allowed")}}, reason.Invalid, "slice-not-allowed"},
		{"the pod itself blocks although a node fits", Input{Lead: []Cause{lead("scheduler-not-running")}, Nodes: []Node{node("a")}}, reason.Blocked, "scheduler-not-running"},
		{"a stage that passes, and a node that fits", Input{Lead: []Cause{lead("just-created")}, Nodes: []Node{node("a")}}, reason.Wait, "just-created"},
		{"a stage that passes does not hide what lasts", Input{Lead: []Cause{lead("gang-forming")}, Nodes: []Node{node("a", cordoned)}}, reason.Blocked, "node-cordoned"},
		{"a warning does not decide", Input{Lead: []Cause{{Reason: reason.Reason{Code: "core-zero"}, Verdict: reason.Warn}}, Nodes: []Node{node("a", busy)}}, reason.Wait, "gpus-busy"},
		{"nobody has the label", Input{Asks: true, Nodes: []Node{node("a", at(Enabled, "enable-label-missing")), node("b", none, Cause{Check: Enabled, Reason: none.Reason, Effect: true})}}, reason.Blocked, "no-enabled-node"},
		{"an effect does not last longer than its root", Input{Nodes: []Node{node("a", at(Agent, "agent-starting"), Cause{Check: Cards, Reason: reason.Reason{Code: "inventory-missing"}, Effect: true})}}, reason.Wait, "agent-starting"},
	} {
		t.Run(c.about, func(t *testing.T) {
			r := Reduce(c.in)
			if r.Verdict != c.verdict || r.Code != c.code {
				t.Errorf("%s %s, want %s %s", r.Verdict, r.Code, c.verdict, c.code)
			}
			if len(r.Reasons) == 0 || r.Reasons[0].Code != c.code {
				t.Errorf("reasons do not begin with it: %+v", r.Reasons)
			}
		})
	}
}

func TestTableCountsEachNodeOnce(t *testing.T) {
	in := Input{Asks: true, Nodes: []Node{
		{Name: "c", Causes: []Cause{at(Free, "gpus-busy"), at(Schedulable, "node-cordoned")}},
		{Name: "a", Causes: []Cause{at(Schedulable, "node-cordoned")}},
		{Name: "b", Causes: []Cause{at(Free, "gpus-busy")}},
		{Name: "d"},
	}}
	r := Reduce(in)
	type row struct {
		id         CheckID
		pass, left int
	}
	var got []row
	for _, c := range r.Checks {
		if c.Pass < c.Total {
			got = append(got, row{c.ID, c.Pass, c.Left})
		}
	}
	if diff := cmp.Diff([]row{{Schedulable, 2, 2}, {Free, 2, 1}}, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	want := []Count{{"node-cordoned", reason.Blocked, 2, []string{"a", "c"}}, {"gpus-busy", reason.Wait, 1, []string{"b"}}}
	if diff := cmp.Diff(want, r.RuledOut); diff != "" {
		t.Error(diff)
	}
	var order []string
	for _, n := range r.Nodes {
		order = append(order, n.Name)
	}
	if diff := cmp.Diff([]string{"d", "b", "a", "c"}, order); diff != "" {
		t.Error(diff)
	}
}

func TestEveryCheckHasATitle(t *testing.T) {
	seen := map[string]bool{}
	for _, id := range CheckIDs() {
		if id.Title() == "" || seen[id.Title()] {
			t.Errorf("%s: title %q", id, id.Title())
		}
		seen[id.Title()] = true
	}
}
