package whypending

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

const (
	// young is the age up to which nobody need wonder why a pod waits.
	young = 10 * time.Second
	// leaseIdle is well beyond any lease duration in use (15 s).
	leaseIdle = 90 * time.Second
	// retryEvery is the engine's interval for pods that no event wakes
	// (5 min), with some room.
	retryEvery = 6 * time.Minute
)

// health is what is known about the scheduler itself.
type health struct {
	seen    bool // some trace of it was found
	down    string
	idle    time.Duration // age of the lease, if it is stale
	started time.Time
}

// schedulerHealth looks at the scheduler's deployment, pods and lease.
func (p *Picture) schedulerHealth() health {
	var h health
	ready, found := 0, 0
	var deployment *appsv1.Deployment
	for _, d := range p.s.Deployments {
		if d.Namespace == kube.Namespace && (d.Labels[kube.NameLabel] == kube.SchedulerApp || d.Name == kube.SchedulerApp) {
			deployment = d
		}
	}
	for _, pod := range p.s.Pods {
		if pod.Namespace != kube.Namespace || pod.Labels[kube.NameLabel] != kube.SchedulerApp || kube.Finished(pod) {
			continue
		}
		found++
		if podReady(pod) {
			ready++
			if s := pod.Status.StartTime; s != nil && s.After(h.started) {
				h.started = s.Time
			}
		}
	}
	switch {
	case deployment != nil && deployment.Status.ReadyReplicas == 0 && ready == 0:
		h.seen, h.down = true, fmt.Sprintf("deployment %s/%s has 0 of %d pods ready", deployment.Namespace, deployment.Name, replicas(deployment.Spec.Replicas))
	case found > 0 && ready == 0:
		h.seen, h.down = true, plural(found, "pod, and it is not ready", "pods, and none is ready")
	case found > 0 || deployment != nil:
		h.seen = true
	}
	for _, l := range p.s.Leases {
		if l.Namespace != kube.Namespace || l.Name != kube.SchedulerLease {
			continue
		}
		h.seen = true
		if l.Spec.AcquireTime != nil && l.Spec.AcquireTime.After(h.started) {
			h.started = l.Spec.AcquireTime.Time
		}
		// A scheduler that ends in order gives its lease back: no holder.
		free := l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == ""
		if t := l.Spec.RenewTime; t != nil && (free || p.age(t.Time) > leaseIdle) {
			h.idle = max(time.Second, p.age(t.Time))
		}
	}
	return h
}

// schedulerKnown tells whether the lists that show the scheduler were read.
func (p *Picture) schedulerKnown() bool {
	return p.s.Lacks("leases.coordination.k8s.io") == nil
}

func podReady(pod *v1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// checkService: is the scheduler at work?
func (q *inquiry) checkService() {
	if q.pod.Spec.SchedulerName != kube.SchedulerName || len(q.pod.Spec.SchedulingGates) > 0 {
		return
	}
	h := q.schedulerHealth()
	switch {
	case h.down != "":
		q.say(cause("scheduler-not-running", h.down))
	case h.idle > 0:
		q.say(cause("scheduler-not-active", since(h.idle)))
	case !h.seen && q.schedulerKnown() && q.s.Lacks("deployments.apps") == nil && q.heard() == nil && !q.placesOthers():
		q.say(cause("scheduler-not-running", "no deployment, no pod and no lease of it in "+kube.Namespace))
	}
}

// placesOthers tells whether the scheduler has placed a pod lately: one that
// runs without leader election outside the cluster leaves no other trace.
func (p *Picture) placesOthers() bool {
	for _, pod := range p.s.Pods {
		if pod.Spec.SchedulerName != kube.SchedulerName || pod.Spec.NodeName == "" {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue && p.age(c.LastTransitionTime.Time) < retryEvery {
				return true
			}
		}
	}
	return false
}

// heard is the scheduler's last event about the pod, nil if there is none.
func (q *inquiry) heard() *v1.Event {
	if q.pod == nil || q.draft {
		return nil
	}
	return q.lastEvent("Pod", q.pod.Namespace, q.pod.Name, "FailedScheduling")
}

// said is the scheduler's last word, or the pod's condition where the event
// has expired.
func (q *inquiry) said() *explain.Said {
	if e := q.heard(); e != nil {
		s := &explain.Said{Message: clip(e.Message, 600), Count: eventCount(e), LastSeen: eventTime(e).UTC().Format(time.RFC3339)}
		if old := q.age(eventTime(e)); old > retryEvery {
			s.Note = since(old) + " old: not what holds now"
		}
		return s
	}
	if q.pod == nil || q.draft {
		return nil
	}
	for _, c := range q.pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Message != "" {
			return &explain.Said{Message: clip(c.Message, 600), Count: 1, LastSeen: c.LastTransitionTime.UTC().Format(time.RFC3339), Note: "from the pod's condition"}
		}
	}
	return nil
}

// freshness is for pods that fit: is the scheduler about to place them, or has
// it stopped trying?
func (q *inquiry) freshness() {
	fits := 0
	for i := range q.in.Nodes {
		if q.in.Nodes[i].Fits() {
			fits++
		}
	}
	if fits == 0 || len(q.in.Evidence) > 0 {
		q.freeCards(fits)
		return
	}
	where := plural(fits, "node", "nodes")
	if q.hasBlockingLead() {
		q.notes = append(q.notes, "capacity is not short: it would fit now on "+where)
		return
	}
	if q.draft {
		q.say(explain.Cause{Reason: reason.Reason{Code: "about-to-schedule", Want: int64(fits), Unit: nodesWord(fits)}, Verdict: reason.OK,
			Text: "it would fit now on " + where})
		return
	}
	age := q.age(q.pod.CreationTimestamp.Time)
	last := age
	if e := q.heard(); e != nil {
		last = q.age(eventTime(e))
	}
	h := q.schedulerHealth()
	stale := last > retryEvery && (h.started.IsZero() || q.age(h.started) > retryEvery)
	word := explain.Cause{Reason: reason.Reason{Want: int64(fits), Unit: nodesWord(fits), Detail: []string{since(last)}}}
	switch {
	case !h.seen && !q.schedulerKnown() && stale:
		c := cause("list-missing", "the scheduler's lease: whether it is at work is not known")
		q.in.Evidence = append(q.in.Evidence, c)
	case age < young && !q.pod.CreationTimestamp.IsZero():
		word.Reason.Code, word.Reason.Detail = "just-created", []string{since(age)}
		q.say(word)
	case stale && q.s.Lacks("events") != nil:
		q.in.Evidence = append(q.in.Evidence, cause("list-missing", "events: when the scheduler last tried is not known"))
	case stale:
		word.Reason.Code = "not-retried"
		word.Text = "it fits now on " + where + ", but the scheduler has not tried for " + since(last)
		q.say(word)
	default:
		word.Reason.Code = "about-to-schedule"
		word.Text = "nothing rules it out: it fits now on " + where
		q.say(word)
	}
}

// freeCards states that cards are not what is short.
func (q *inquiry) freeCards(fits int) {
	free := 0
	for i := range q.in.Nodes {
		if !slices.ContainsFunc(q.in.Nodes[i].Causes, func(c explain.Cause) bool {
			return c.Check == explain.Enabled || c.Check == explain.Agent || c.Check == explain.Cards || c.Check == explain.Free
		}) {
			free++
		}
	}
	if q.in.Asks && free > fits {
		q.notes = append(q.notes, "cards for it are free on "+plural(free, "node", "nodes"))
	}
}

func nodesWord(n int) string {
	if n == 1 {
		return "node"
	}
	return "nodes"
}

// notChecked lists what the snapshot lacks. What is not needed for this pod is
// told all the same, in the report's last lines.
func (q *inquiry) notChecked() []explain.NotChecked {
	var out []explain.NotChecked
	for _, m := range q.s.Missing {
		out = append(out, explain.NotChecked{What: m.Resource, Why: m.Why, Decides: m.Resource == "nodes" || m.Resource == "pods"})
	}
	return out
}
