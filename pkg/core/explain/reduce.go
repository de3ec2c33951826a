package explain

import (
	"cmp"
	"slices"
	"strings"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// Input is everything that is known about one pod.
type Input struct {
	// Lead are the causes of the pod itself, the one that decides first. A
	// lead cause that does not pass decides before any node; one that passes
	// decides if some node fits.
	Lead []Cause
	// Nodes are all nodes, or nil if the question does not get that far
	// (nobody would look at the pod).
	Nodes []Node
	// Asks tells whether the pod asks for cards.
	Asks bool
	// Evidence is what is missing and could change the answer.
	Evidence []Cause
}

// shown bounds the names that are listed beside a count.
const shown = 5

// Reduce fills in verdict, code, reasons, table, counts and nodes. Fit is set
// to now, never or unknown as far as the nodes tell; whether waiting helps is
// for those who can try it.
func Reduce(in Input) *Report {
	r := &Report{APIVersion: APIVersion, Kind: Kind, TotalNodes: len(in.Nodes), Fit: FitUnknown}
	for i := range in.Nodes {
		in.Nodes[i].order()
		if in.Nodes[i].Fits() {
			r.FitNodes++
		}
	}
	near := Nearest(in.Nodes)
	r.Checks = table(in)
	r.RuledOut = ruledOut(in.Nodes)
	r.Nodes = nodeReports(near)
	r.Reasons = append(reasonsOf(in.Lead), overNodes(in, near)...)
	r.Reasons = append(r.Reasons, reasonsOf(in.Evidence)...)
	r.decide(in, near)
	return r
}

// decide applies the rules for the verdict, in this order: what is true of
// the pod whatever the nodes say; a node that fits; missing evidence; WAIT if
// one node only waits; BLOCKED.
func (r *Report) decide(in Input, near []Node) {
	if len(in.Nodes) > 0 {
		r.Fit = FitNever
		if r.FitNodes > 0 {
			r.Fit = FitNow
		}
	}
	head := headline(in, near)
	if head == nil {
		r.Verdict, r.Code = reason.OK, "about-to-schedule"
		return
	}
	r.Verdict, r.Code = head.Verdict, head.Code
	for i := range r.Reasons {
		if r.Reasons[i].Code == head.Code {
			first := r.Reasons[i]
			r.Reasons = append([]Reason{first}, slices.Delete(slices.Clone(r.Reasons), i, i+1)...)
			break
		}
	}
	r.Message = r.Reasons[0].Message
	if head.Code != r.Reasons[0].Code {
		r.Reasons = append([]Reason{*head}, r.Reasons...)
		r.Message = head.Message
	}
	for _, c := range in.Evidence {
		if c.Check != "" {
			r.Fit = FitUnknown // what is missing is about nodes
		}
	}
}

// headline is the cause that decides.
func headline(in Input, near []Node) *Reason {
	for _, c := range in.Lead {
		if w := c.Word(); w != reason.Wait && w != reason.Warn || len(in.Nodes) == 0 {
			return ptr(reasonOf(c))
		}
	}
	fits := len(near) > 0 && near[0].Fits()
	if fits || len(near) == 0 {
		if len(in.Evidence) > 0 {
			return ptr(reasonOf(in.Evidence[0]))
		}
		for _, c := range in.Lead {
			if c.Word() == reason.Wait {
				return ptr(reasonOf(c))
			}
		}
		return nil
	}
	waiting := slices.IndexFunc(near, func(n Node) bool { return n.Waits() })
	unknown := slices.IndexFunc(near, func(n Node) bool { return n.Unknown() })
	switch {
	case waiting >= 0 && len(in.Evidence) > 0:
		return ptr(reasonOf(in.Evidence[0]))
	case waiting >= 0:
		for _, c := range in.Lead {
			if c.Word() == reason.Wait {
				return ptr(reasonOf(c)) // it knows better what is waited for
			}
		}
		return ptr(reasonOf(near[waiting].Told()[0]))
	case unknown >= 0:
		for _, c := range near[unknown].Causes {
			if c.Word() == reason.Unknown {
				return ptr(reasonOf(c))
			}
		}
	}
	if c := nobodyEnabled(in); c != nil {
		return ptr(reasonOf(*c))
	}
	for _, c := range near[0].Told() {
		if !c.Passes() {
			h := reasonOf(c)
			h.Verdict = blocking(h.Verdict)
			return &h
		}
	}
	return ptr(reasonOf(near[0].Causes[0]))
}

// blocking is the word for a node's cause that decides: whatever the code is
// called elsewhere, the pod is blocked.
func blocking(v reason.Verdict) reason.Verdict {
	if v == reason.Unknown || v == reason.Env {
		return v
	}
	return reason.Blocked
}

// nobodyEnabled is the cause of its own when not one node with cards carries
// the label.
func nobodyEnabled(in Input) *Cause {
	if !in.Asks {
		return nil
	}
	unlabelled := 0
	for i := range in.Nodes {
		n := &in.Nodes[i]
		switch {
		case n.HasNoCards():
		case !n.fails(Enabled):
			return nil
		default:
			unlabelled++
		}
	}
	if unlabelled == 0 {
		return nil
	}
	return &Cause{Check: Enabled, Reason: reason.Reason{Code: "no-enabled-node", Total: int64(unlabelled)}}
}

func ptr[T any](v T) *T { return &v }

func reasonOf(c Cause) Reason {
	r := Reason{Reason: c.Reason, Verdict: c.Word(), Message: c.Reason.Sentence(), Fix: c.Reason.Fix()}
	if c.Text != "" {
		r.Message = c.Text
	}
	return r
}

func reasonsOf(cs []Cause) []Reason {
	out := []Reason{}
	for _, c := range cs {
		out = append(out, reasonOf(c))
	}
	return out
}

// overNodes lists every code that holds on some node, with the numbers of the
// nearest such node; those that are some node's first cause and concern most
// nodes first, "no cards" last, since nobody should act on it.
func overNodes(in Input, near []Node) []Reason {
	index := map[reason.Code]int{}
	var out []Reason
	for i := range near {
		for _, c := range near[i].Told() {
			at, seen := index[c.Reason.Code]
			if !seen {
				at = len(out)
				index[c.Reason.Code] = at
				out = append(out, reasonOf(c))
			}
			out[at].Nodes++
			out[at].Names = append(out[at].Names, near[i].Name)
		}
	}
	for i := range out {
		slices.Sort(out[i].Names)
		out[i].Names = out[i].Names[:min(len(out[i].Names), shown)]
	}
	if c := nobodyEnabled(in); c != nil {
		h := reasonOf(*c)
		out = append([]Reason{h}, out...)
	}
	slices.SortStableFunc(out, func(a, b Reason) int {
		return flag(a.Code == "no-gpu-on-node") - flag(b.Code == "no-gpu-on-node")
	})
	return out
}

// table is the elimination table.
func table(in Input) []Check {
	if in.Nodes == nil {
		return nil
	}
	byName := slices.Clone(in.Nodes)
	slices.SortFunc(byName, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	left := make([]bool, len(byName))
	for i := range left {
		left[i] = true
	}
	var out []Check
	for _, id := range CheckIDs() {
		row := Check{ID: id, Title: id.Title(), Total: len(byName)}
		for i := range byName {
			fails := byName[i].fails(id)
			if !fails {
				row.Pass++
			} else if left[i] {
				left[i] = false
				if len(row.Blocked) < shown {
					row.Blocked = append(row.Blocked, Blocked{byName[i].Name, firstOf(&byName[i], id)})
				}
			}
			if left[i] {
				row.Left++
			}
		}
		if id.always(in.Asks) || row.Pass < row.Total {
			out = append(out, row)
		}
	}
	return out
}

func firstOf(n *Node, id CheckID) reason.Code {
	for _, c := range n.Causes {
		if c.Check == id {
			return c.Reason.Code
		}
	}
	return ""
}

// ruledOut counts every node that does not fit once.
func ruledOut(nodes []Node) []Count {
	index := map[reason.Code]int{}
	var out []Count
	for i := range nodes {
		if nodes[i].Fits() {
			continue
		}
		c := nodes[i].Causes[0]
		at, seen := index[c.Reason.Code]
		if !seen {
			at = len(out)
			index[c.Reason.Code] = at
			out = append(out, Count{Code: c.Reason.Code, Verdict: c.Word()})
		}
		out[at].Nodes++
		out[at].Names = append(out[at].Names, nodes[i].Name)
	}
	for i := range out {
		slices.Sort(out[i].Names)
		out[i].Names = out[i].Names[:min(len(out[i].Names), shown)]
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(b.Nodes-a.Nodes, cmp.Compare(a.Code, b.Code)) })
	return out
}

func nodeReports(near []Node) []NodeReport {
	out := make([]NodeReport, len(near))
	for i := range near {
		n := &near[i]
		out[i] = NodeReport{Name: n.Name, Fits: n.Fits(), Verdict: word(n), Reasons: reasonsOf(n.Told())}
		for j := range out[i].Reasons {
			out[i].Reasons[j].Fix = strings.ReplaceAll(out[i].Reasons[j].Fix, "NODE", n.Name)
		}
		for _, a := range n.Cards {
			out[i].Cards = append(out[i].Cards, cardOf(a))
		}
	}
	return out
}

func word(n *Node) reason.Verdict {
	switch {
	case n.Fits():
		return reason.OK
	case n.Waits():
		return reason.Wait
	case n.Unknown():
		return reason.Unknown
	}
	return reason.Blocked
}
