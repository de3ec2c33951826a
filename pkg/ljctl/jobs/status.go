package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
)

// row reduces a group to what is shown.
func (g *group) row(c config.Config) Row {
	r := Row{Namespace: g.namespace, APIVersion: g.apiVersion, Kind: g.kind, Name: g.name, PodsWanted: g.wanted}
	pods := sorted(g.pods)
	r.pods = pods
	if g.meta != nil {
		r.Created = g.meta.GetCreationTimestamp()
	} else if len(pods) > 0 {
		r.Created = pods[0].CreationTimestamp
	}
	if g.meta != nil {
		r.labels = append(r.labels, g.meta.GetLabels())
	}
	if g.sample != nil {
		r.labels = append(r.labels, g.sample.Labels)
	}
	live := 0
	cards, nodes := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		r.labels = append(r.labels, p.Labels)
		if p.Status.Phase == v1.PodSucceeded {
			r.PodsSucceeded++
		}
		if kube.Finished(p) {
			continue
		}
		live++
		r.count(p, c, cards, nodes)
	}
	if live > r.PodsWanted || g.meta == nil {
		r.PodsWanted = max(live, r.PodsWanted)
	}
	r.CardsGranted, r.Nodes = len(cards), slices.Sorted(maps.Keys(nodes))
	sample := g.sample
	if sample == nil && len(pods) > 0 {
		sample = pods[0]
	}
	if sample != nil {
		r.Request = requestText(sample, c)
	}
	if !g.ended.Ended() && sample != nil {
		// Pods that are still to be made ask for cards, too.
		if missing := g.missing(&r, live); missing > 0 {
			if q, bad := kube.RequestOf(sample, c); len(bad) == 0 {
				r.CardsAsked += missing * q.Cards()
			}
		}
	}
	g.judge(&r, pods, live)
	return r
}

// missing is how many pods are still to be made: those that ended well are
// not made again.
func (g *group) missing(r *Row, live int) int {
	wanted := r.PodsWanted
	if g.total > 0 {
		wanted = min(wanted, g.total-r.PodsSucceeded)
	}
	return max(0, wanted-live)
}

// count adds one pod that has not ended.
func (r *Row) count(p *v1.Pod, c config.Config, cards, nodes map[string]bool) {
	if p.Status.Phase == v1.PodRunning {
		r.PodsRunning++
	}
	if p.Spec.NodeName != "" {
		nodes[p.Spec.NodeName] = true
	}
	if q, bad := kube.RequestOf(p, c); len(bad) == 0 {
		r.CardsAsked += q.Cards()
	}
	h := kube.HoldOf(p, c)
	if h == nil {
		return
	}
	if h.Unplaced != nil {
		r.CardsUnknown++
	}
	for _, u := range h.Cards {
		cards[p.Spec.NodeName+"/"+u.Card] = true
	}
}

// judge finds the status and the reason.
func (g *group) judge(r *Row, pods []*v1.Pod, live int) {
	switch {
	case g.meta != nil && g.meta.GetDeletionTimestamp() != nil:
		r.Status = Terminating
		return
	case live > 0 && (g.gone || allTerminating(pods)):
		r.Status = Terminating
		if g.gone {
			r.Reason, r.Message = "owner-gone", r.Ref()+" is gone, its pods are being deleted"
		}
		return
	case g.ended == Complete:
		r.Status, r.CardsAsked = Complete, 0
		return
	case g.ended == Failed:
		r.Status, r.CardsAsked = Failed, 0
		r.Reason, r.Message = g.reason, g.message
		if why, msg := lastFailure(pods); why != "" {
			r.Reason, r.Message = why, strings.TrimPrefix(g.message+"; "+msg, "; ")
		}
		return
	case g.suspended:
		r.Status, r.Reason = Suspended, "suspended"
		return
	case g.kind == "Pod" && len(pods) == 1:
		if g.podEnded(r, pods[0]) {
			return
		}
	case live == 0 && len(pods) > 0 && g.meta == nil:
		g.podEnded(r, pods[len(pods)-1])
		return
	}
	g.waiting(r, pods, live)
}

// allTerminating tells whether every pod that has not ended is being deleted.
func allTerminating(pods []*v1.Pod) bool {
	for _, p := range pods {
		if !kube.Finished(p) && p.DeletionTimestamp == nil {
			return false
		}
	}
	return true
}

// podEnded is for pods that nobody replaces.
func (g *group) podEnded(r *Row, p *v1.Pod) bool {
	switch p.Status.Phase {
	case v1.PodSucceeded:
		r.Status = Complete
	case v1.PodFailed:
		r.Status = Failed
		r.Reason, r.Message = lastFailure([]*v1.Pod{p})
	default:
		return false
	}
	r.CardsAsked, r.PodsWanted = 0, 1
	return true
}

// waiting is for jobs that go on.
func (g *group) waiting(r *Row, pods []*v1.Pod, live int) {
	r.Status = Running
	switch {
	case g.missing(r, live) > 0:
		r.Status, r.Reason = Pending, "pods-not-made"
		r.Message = fmt.Sprintf("%d of %d pods have been made", live, live+g.missing(r, live))
	case live == 0 && r.PodsSucceeded > 0:
		r.Reason, r.Message = "finishing", "all pods have ended well"
	case live == 0:
		r.Reason, r.Message = "no-pods", "it is scaled to 0 pods"
	}
	for _, p := range pods {
		switch {
		case kube.Finished(p):
		case p.Spec.NodeName == "":
			if r.Status != Pending || r.Reason == "pods-not-made" || r.Reason == "" {
				r.Reason, r.Message = unscheduled(p)
			}
			r.Status = Pending
		case p.Status.Phase != v1.PodRunning:
			if r.Status == Running {
				r.Status = Starting
				r.Reason, r.Message = notStarted(p)
			}
		case r.Status == Running && r.Reason == "":
			r.Reason, r.Message = notStarted(p)
		}
	}
	if r.Status == Pending && r.Reason == "pods-not-made" {
		if why, msg := lastFailure(pods); why != "" {
			r.Message += "; the last one: " + msg
		}
	}
}

// unscheduled is what the scheduler says about a pod without a node.
func unscheduled(p *v1.Pod) (string, string) {
	if len(p.Spec.SchedulingGates) > 0 {
		return "scheduling-gate", "scheduling gate " + p.Spec.SchedulingGates[0].Name
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
			if msg := strings.TrimSpace(c.Message); msg != "" {
				return c.Reason, msg
			}
			return c.Reason, c.Reason
		}
	}
	return "not-tried-yet", "no scheduler has tried it yet"
}

// notStarted is what kubelet says about containers that do not run.
func notStarted(p *v1.Pod) (string, string) {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
				return w.Reason, strings.TrimSuffix(w.Reason+": "+strings.TrimSpace(w.Message), ": ")
			}
		}
	}
	return "", ""
}

// lastFailure is how the youngest failed pod ended.
func lastFailure(pods []*v1.Pod) (string, string) {
	for _, p := range slices.Backward(pods) {
		if p.Status.Phase != v1.PodFailed {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				why := t.Reason
				if why == "" || why == "Error" {
					why = fmt.Sprintf("exit code %d", t.ExitCode)
				}
				return why, fmt.Sprintf("pod %s: container %s ended with exit code %d (%s)", p.Name, c.Name, t.ExitCode, t.Reason)
			}
		}
		if p.Status.Reason != "" {
			return p.Status.Reason, fmt.Sprintf("pod %s: %s %s", p.Name, p.Status.Reason, p.Status.Message)
		}
	}
	return "", ""
}

// requestText is what a pod asks, in words for one cell.
func requestText(p *v1.Pod, c config.Config) string {
	q, bad := kube.RequestOf(p, c)
	if len(bad) > 0 {
		return "not valid: " + string(bad[0].Code)
	}
	var parts []string
	for _, a := range q.Asks {
		if s := askText(a); !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	if q.RDMA {
		parts = append(parts, "RDMA")
	}
	return strings.Join(parts, " + ")
}

func askText(a request.Ask) string {
	var s string
	switch a.Mode {
	case request.Whole:
		if a.Count == 1 {
			return "1 card"
		}
		return fmt.Sprintf("%d cards", a.Count)
	case request.MIG:
		s = fmt.Sprintf("slice %d", a.Slices)
	case request.TDM:
		s = "share"
		if a.Core > 0 {
			s = fmt.Sprintf("core %d%%", a.Core)
		}
	}
	switch {
	case a.MemMiB == 0:
	case a.MemMiB%1024 == 0:
		s += fmt.Sprintf(" %d GiB", a.MemMiB/1024)
	default:
		s += fmt.Sprintf(" %d MiB", a.MemMiB)
	}
	if a.Count > 1 {
		s = fmt.Sprintf("%d x %s", a.Count, s)
	}
	return s
}
