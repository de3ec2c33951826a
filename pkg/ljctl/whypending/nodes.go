package whypending

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/sched"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

// lookAtNodes asks the scheduler's filters and the cards of every node.
func (q *inquiry) lookAtNodes(ctx context.Context) error {
	e, err := q.scheduler(ctx)
	if err != nil {
		return err
	}
	res, err := e.Check(ctx, q.pod)
	if err != nil {
		return err
	}
	q.in.Asks = !q.req.Empty()
	q.in.Nodes = make([]explain.Node, 0, len(res.PerNode))
	for _, nr := range res.PerNode {
		q.in.Nodes = append(q.in.Nodes, q.node(q.nodes[nr.Name], nr))
	}
	if len(q.in.Nodes) == 0 && len(q.in.Lead) == 0 {
		q.say(cause("no-nodes"))
	}
	q.addCards()
	return nil
}

// addCards has the nearest nodes told card by card.
func (q *inquiry) addCards() {
	for _, n := range explain.Nearest(q.in.Nodes)[:min(len(q.in.Nodes), explain.MaxCardNodes)] {
		for i := range q.in.Nodes {
			if q.in.Nodes[i].Name == n.Name {
				q.in.Nodes[i].Cards = explain.Explained(q.cards[n.Name], q.req, q.cfg)
				break
			}
		}
	}
}

// node joins what is said about one node.
func (q *inquiry) node(n *v1.Node, nr offline.NodeResult) explain.Node {
	out := explain.Node{Name: n.Name}
	sick := q.notReady(n)
	if sick != nil {
		out.Causes = append(out.Causes, *sick)
	}
	cards := explain.CardCauses(q.cards[n.Name], q.req, q.cfg)
	refused := false
	for _, c := range nr.Failed {
		if c.Name == sched.Name {
			refused = true
			if len(cards) > 0 || len(q.in.Lead) > 0 {
				continue // the cards say it better, or the request itself
			}
		}
		for _, f := range q.filtered(n, c, sick != nil) {
			if !told(out.Causes, f) {
				out.Causes = append(out.Causes, f)
			}
		}
	}
	out.Causes = append(out.Causes, q.withAgent(n, cards)...)
	if !refused && len(cards) > 0 {
		// The core and the scheduler must not disagree; if they do, that is
		// worth more than any answer.
		q.notes = append(q.notes, fmt.Sprintf("node %s: the scheduler's filter would accept what the cards refuse; please report this", n.Name))
	}
	return out
}

// told tells whether a cause is among those said already. Four filters look at
// volumes, and each says of a missing claim that it is missing.
func told(said []explain.Cause, c explain.Cause) bool {
	return c.Check == explain.Volumes && slices.ContainsFunc(said, func(s explain.Cause) bool {
		return s.Check == c.Check && s.Reason.Code == c.Reason.Code
	})
}

// notReady is the node's own condition.
func (q *inquiry) notReady(n *v1.Node) *explain.Cause {
	for _, c := range n.Status.Conditions {
		if c.Type != v1.NodeReady || c.Status == v1.ConditionTrue {
			continue
		}
		text := "Ready is " + string(c.Status)
		if !c.LastTransitionTime.IsZero() {
			text += " since " + since(q.age(c.LastTransitionTime.Time))
		}
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		return &explain.Cause{Check: explain.Ready, Reason: reason.Reason{Code: "node-not-ready", Detail: []string{text}}}
	}
	return nil
}

// nodeCommand puts the node's name into a command of the catalogue.
func nodeCommand(fix, node string) string { return strings.ReplaceAll(fix, "NODE", node) }
