package whypending

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// endsByItself tells whether a pod will end without anybody's act: it is
// ending, or its program is allowed to finish.
func (p *Picture) endsByItself(pod *v1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return !p.overdue(pod)
	}
	return pod.Spec.RestartPolicy == v1.RestartPolicyNever || pod.Spec.RestartPolicy == v1.RestartPolicyOnFailure
}

// overdueBy is the slack past the grace period before a terminating pod is
// taken to hang.
const overdueBy = time.Minute

// overdue tells whether a terminating pod is well past its grace period. The
// deletion time already has the grace period in it.
func (p *Picture) overdue(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && p.now.Sub(pod.DeletionTimestamp.Time) > overdueBy
}

// describeHolder is a pod that holds cards, for people.
func (p *Picture) describeHolder(name string) explain.Holder {
	h := explain.Holder{Pod: name}
	pod := p.pods[name]
	if pod == nil {
		return h
	}
	if at := startOf(pod); !at.IsZero() {
		h.Since, h.Held = at.UTC().Format(time.RFC3339), since(p.age(at))
	}
	h.Ends = p.endsByItself(pod)
	h.Note = p.holderNote(pod)
	return h
}

func startOf(pod *v1.Pod) time.Time {
	if s := pod.Status.StartTime; s != nil {
		return s.Time
	}
	return pod.CreationTimestamp.Time
}

func (p *Picture) holderNote(pod *v1.Pod) string {
	if pod.DeletionTimestamp != nil {
		text := "terminating"
		if p.overdue(pod) {
			text += ", past its grace by " + since(p.now.Sub(pod.DeletionTimestamp.Time))
		}
		if len(pod.Finalizers) > 0 {
			text += fmt.Sprintf(", finalizers %v", pod.Finalizers)
		}
		return text
	}
	for i := range pod.Status.ContainerStatuses {
		cs := &pod.Status.ContainerStatuses[i]
		if w := cs.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			return "crash loop, " + plural(int(cs.RestartCount), "restart", "restarts")
		}
	}
	return ""
}

// nameHolders fills in who the holders of cards are.
func (q *inquiry) nameHolders(r *explain.Report) {
	for i := range r.Nodes {
		for j := range r.Nodes[i].Cards {
			hs := r.Nodes[i].Cards[j].Holders
			for k := range hs {
				hs[k] = q.describeHolder(hs[k].Pod)
			}
		}
	}
}

// holdersOf are the pods that hold cards of a node.
func (q *inquiry) holdersOf(node string) []*v1.Pod {
	n := q.cards[node]
	if n == nil {
		return nil
	}
	var out []*v1.Pod
	for _, h := range n.Holds {
		if pod := q.pods[h.Pod]; pod != nil {
			out = append(out, pod)
		}
	}
	return out
}

// anomalies are holders because of which waiting does not help although the
// cards are only busy: a pod that does not end, and the pod's own
// predecessor.
func (q *inquiry) anomalies() {
	if slices.ContainsFunc(q.in.Nodes, func(n explain.Node) bool { return n.Fits() }) {
		return
	}
	var ending *v1.Pod
	for _, n := range explain.Nearest(q.in.Nodes) {
		if !n.Waits() {
			break
		}
		for _, h := range q.holdersOf(n.Name) {
			switch {
			case q.overdue(h):
				text := fmt.Sprintf("%s on %s, deleted %s ago and past its grace period by %s", key(h), n.Name,
					since(q.age(h.DeletionTimestamp.Time)+grace(h)), since(q.age(h.DeletionTimestamp.Time)))
				if len(h.Finalizers) > 0 {
					text += fmt.Sprintf(", finalizers %v", h.Finalizers)
				}
				q.say(explain.Cause{Reason: reason.Reason{Code: "held-by-terminating-pod", Device: n.Name, Detail: []string{text}}})
				return
			case h.DeletionTimestamp != nil && ending == nil:
				ending = h
			case q.predecessor(h):
				q.say(explain.Cause{Reason: reason.Reason{Code: "rollout-holds-gpu", Device: n.Name, Detail: []string{key(h)}}})
				return
			}
		}
	}
	if ending != nil {
		q.suffix = append(q.suffix, cause("terminating-pod", key(ending)))
	}
}

func grace(pod *v1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds != nil {
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	return 0
}

// predecessor tells whether a holder is the old pod of the same Deployment,
// which a rolling update keeps until this one is ready.
func (q *inquiry) predecessor(h *v1.Pod) bool {
	mine, theirs := q.parent(q.pod), q.parent(h)
	if mine == nil || theirs == nil || mine == theirs {
		return false
	}
	a, b := q.parent(mine.meta), q.parent(theirs.meta)
	if a == nil || a != b || a.deploy == nil {
		return false
	}
	d := a.deploy
	if d.Spec.Strategy.Type == "Recreate" {
		return false
	}
	unavailable := int32(0)
	if ru := d.Spec.Strategy.RollingUpdate; ru != nil && ru.MaxUnavailable != nil {
		v, err := scaled(ru.MaxUnavailable, int(replicas(d.Spec.Replicas)))
		if err != nil {
			return false
		}
		unavailable = int32(v)
	} else {
		unavailable = replicas(d.Spec.Replicas) / 4
	}
	return unavailable == 0 && kube.HoldOf(h, q.cfg) != nil
}

// scaled is maxUnavailable in pods: percentages are rounded down.
func scaled(v *intstr.IntOrString, total int) (int, error) {
	return intstr.GetScaledValueFromIntOrPercent(v, total, false)
}
