package whypending

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

const (
	// triedNodes bounds the nodes on which changes are tried, nearest first.
	triedNodes = 24
	// maxSuggestions bounds what is told of each kind of change.
	maxSuggestions = 3
	// maxCommands is the same for commands to nodes: whoever has forgotten to
	// label one has forgotten several.
	maxCommands = 8
)

// outlook says whether waiting helps: it takes the pods that end by
// themselves, and then all pods, off the nodes that only wait.
func (q *inquiry) outlook(ctx context.Context, r *explain.Report) error {
	if r.Fit != explain.FitNever || len(q.in.Nodes) == 0 {
		return nil
	}
	tried := 0
	for _, n := range explain.Nearest(q.in.Nodes) {
		if n.Unknown() {
			r.Fit = explain.FitUnknown
		}
		if !n.Waits() || tried == triedNodes {
			continue
		}
		tried++
		ending, all := map[types.UID]bool{}, map[types.UID]bool{}
		for _, pod := range q.onNode[n.Name] {
			all[pod.UID] = true
			if q.endsByItself(pod) {
				ending[pod.UID] = true
			}
		}
		ok, err := q.fitsWith(ctx, n.Name, offline.Change{Gone: ending})
		if err != nil {
			return err
		}
		if ok {
			r.Fit = explain.FitAfterRelease
			return nil
		}
		if ok, err = q.fitsWith(ctx, n.Name, offline.Change{Gone: all}); err != nil {
			return err
		}
		if ok {
			r.Fit = explain.FitEmptyOnly
		}
	}
	return nil
}

// fitsWith tries the pod on one node under a change.
func (q *inquiry) fitsWith(ctx context.Context, node string, ch offline.Change) (bool, error) {
	e, err := q.scheduler(ctx)
	if err != nil {
		return false, err
	}
	res, err := e.CheckNode(ctx, q.pod, node, ch)
	if err != nil {
		return false, err
	}
	n := q.nodes[node]
	if ch.Node != nil {
		n = ch.Node
	}
	return res.Fits() && q.notReady(n) == nil, nil
}

// suggest tries changes on the picture and tells those that make the pod fit.
func (q *inquiry) suggest(ctx context.Context, r *explain.Report) error {
	if len(q.in.Evidence) > 0 {
		return nil // what fits cannot be checked
	}
	near := explain.Nearest(q.in.Nodes)
	near = near[:min(len(near), triedNodes)]
	for _, try := range []func(context.Context, *explain.Report, []explain.Node) error{q.smaller, q.tolerate, q.release, q.mend} {
		if err := try(ctx, r, near); err != nil {
			return err
		}
	}
	return nil
}

// release finds single pods whose end makes room.
func (q *inquiry) release(ctx context.Context, r *explain.Report, near []explain.Node) error {
	found := 0
	for _, n := range near {
		if !n.Waits() {
			continue
		}
		for _, pod := range q.removable(n) {
			ok, err := q.fitsWith(ctx, n.Name, offline.Change{Gone: map[types.UID]bool{pod.UID: true}})
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			actor, text := "you", "stop "+key(pod)
			switch {
			case q.endsByItself(pod):
				actor, text = "wait", "until "+key(pod)+" ends"
			case pod.Namespace != q.pod.Namespace:
				actor = "admin"
			}
			r.Suggestions = append(r.Suggestions, explain.Suggestion{Actor: actor, Change: text, Verified: true, FitsNodes: []string{n.Name}, Nodes: 1})
			if found++; found == maxSuggestions {
				return nil
			}
		}
	}
	return nil
}

// removable are the pods whose end could help on a node: the holders of cards
// where cards are short, all but those of daemon sets otherwise. Pods that
// end by themselves and pods of the same namespace come first.
func (q *inquiry) removable(n explain.Node) []*v1.Pod {
	pods := q.holdersOf(n.Name)
	for _, c := range n.Told() {
		if c.Check != explain.Free {
			pods = nil
			for _, pod := range q.onNode[n.Name] {
				if !kube.Finished(pod) && !ofDaemonSet(pod) {
					pods = append(pods, pod)
				}
			}
			break
		}
	}
	rank := func(pod *v1.Pod) int {
		switch {
		case q.endsByItself(pod):
			return 0
		case pod.Namespace == q.pod.Namespace:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return rank(a) - rank(b) })
	return pods[:min(len(pods), 32)]
}

func ofDaemonSet(pod *v1.Pod) bool {
	for _, ref := range pod.OwnerReferences {
		if ref.Kind == "DaemonSet" {
			return true
		}
	}
	return false
}

// mend tries what an administrator can do to a node with one command each:
// the label and the cordon.
func (q *inquiry) mend(ctx context.Context, r *explain.Report, near []explain.Node) error {
	found := 0
	for _, n := range near {
		changed := q.nodes[n.Name].DeepCopy()
		command := ""
		for _, c := range n.Told() {
			switch c.Reason.Code {
			case "node-cordoned":
				changed.Spec.Unschedulable = false
				changed.Spec.Taints = slices.DeleteFunc(changed.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeUnschedulable })
			case "enable-label-missing", "enable-label-value", "enable-label-key", "enable-label-is-annotation":
				if changed.Labels == nil {
					changed.Labels = map[string]string{}
				}
				changed.Labels[kube.EnableLabel] = "true"
			default:
				continue
			}
			if command != "" {
				command += " && "
			}
			command += nodeCommand(c.Reason.Fix(), n.Name)
		}
		if command == "" {
			continue
		}
		ok, err := q.fitsWith(ctx, n.Name, offline.Change{Node: changed})
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		r.Suggestions = append(r.Suggestions, explain.Suggestion{Actor: "admin", Change: command, Verified: true, FitsNodes: []string{n.Name}, Nodes: 1})
		if found++; found == maxCommands {
			return nil
		}
	}
	return nil
}

// tolerate tries the toleration that the nearest tainted node wants.
func (q *inquiry) tolerate(ctx context.Context, r *explain.Report, near []explain.Node) error {
	for _, n := range near {
		told := n.Told()
		if len(told) != 1 || told[0].Reason.Code != "taint-not-tolerated" {
			continue
		}
		for _, t := range q.nodes[n.Name].Spec.Taints {
			if t.ToString() != told[0].Reason.Device {
				continue
			}
			pod := q.pod.DeepCopy()
			tol := v1.Toleration{Key: t.Key, Operator: v1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, tol)
			text := "add toleration {key: " + t.Key + ", operator: Equal, value: " + quoted(t.Value) + ", effect: " + string(t.Effect) + "}"
			return q.tryPod(ctx, r, pod, text)
		}
	}
	return nil
}

// tryPod asks whether a changed pod fits anywhere, and tells it if so.
func (q *inquiry) tryPod(ctx context.Context, r *explain.Report, pod *v1.Pod, text string) error {
	fits, err := q.fitsAnywhere(ctx, pod)
	if err != nil || len(fits) == 0 {
		return err
	}
	r.Suggestions = append(r.Suggestions, explain.Suggestion{Actor: "you", Change: text, Verified: true, FitsNodes: fits[:min(len(fits), 5)], Nodes: len(fits)})
	return nil
}

// fitsAnywhere lists the nodes that a pod fits now.
func (q *inquiry) fitsAnywhere(ctx context.Context, pod *v1.Pod) ([]string, error) {
	e, err := q.scheduler(ctx)
	if err != nil {
		return nil, err
	}
	res, err := e.Check(ctx, pod)
	if err != nil {
		return nil, err
	}
	var fits []string
	for _, n := range res.PerNode {
		if n.Fits() && q.notReady(q.nodes[n.Name]) == nil {
			fits = append(fits, n.Name)
		}
	}
	return fits, nil
}

// worthShrinking tells whether a smaller request could help at all: some node
// is ruled out by the cards alone.
func worthShrinking(near []explain.Node) bool {
	for _, n := range near {
		told := n.Told()
		if len(told) > 0 && !slices.ContainsFunc(told, func(c explain.Cause) bool {
			return c.Check != explain.Cards && c.Check != explain.Free || c.Reason.Code == "no-gpu-on-node" ||
				c.Word() == reason.Unknown
		}) {
			return true
		}
	}
	return false
}
