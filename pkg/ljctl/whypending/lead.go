package whypending

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/spelling"
	"lj.aliyun.com/kit/pkg/kube"
)

// say adds causes of the pod itself.
func (q *inquiry) say(cs ...explain.Cause) { q.in.Lead = append(q.in.Lead, cs...) }

// lead collects the causes of the pod itself, those that decide first.
func (q *inquiry) lead() {
	pod := q.pod
	var bad []reason.Reason
	q.req, bad = kube.RequestOf(pod, q.cfg)
	if !q.draft {
		if q.placed() {
			return
		}
		q.leaveGate()
	}
	if pod.Spec.NodeName != "" && q.draft {
		q.say(explain.Cause{Reason: reason.Reason{Code: "nodename-bypasses-scheduler", Detail: []string{pod.Spec.NodeName}}})
	}
	q.checkScheduler()
	for _, r := range bad {
		q.say(explain.Cause{Reason: r})
	}
	q.checkNames()
	if name := zeroCore(pod, q.cfg); name != "" {
		c := explain.Cause{Reason: reason.Reason{Code: "core-zero", Device: name}}
		if q.draft {
			q.say(c)
		} else {
			c.Verdict = reason.Warn // the scheduler takes 0 as not there
			q.suffix = append(q.suffix, c)
		}
	}
	q.checkRuntimeClass()
	if !q.draft {
		q.checkSisters()
		q.checkService()
		q.checkNomination()
	}
	q.checkEvidence()
}

// leaveGate is for pods that no scheduler looks at.
func (q *inquiry) leaveGate() {
	pod := q.pod
	if pod.DeletionTimestamp != nil {
		q.say(cause("being-deleted", since(q.age(pod.DeletionTimestamp.Time))))
	}
	for _, g := range pod.Spec.SchedulingGates {
		if strings.HasPrefix(g.Name, "kueue.x-k8s.io/") {
			q.say(cause("queue-not-admitted", g.Name))
		} else {
			q.in.Lead = append([]explain.Cause{cause("scheduling-gate", g.Name)}, q.in.Lead...)
		}
	}
}

// checkScheduler is the first question of the guide's FAQ: is it our
// scheduler that is to place the pod?
func (q *inquiry) checkScheduler() {
	name := q.pod.Spec.SchedulerName
	if name == kube.SchedulerName {
		return
	}
	near := spelling.Closest(name, []string{kube.SchedulerName}) != ""
	if !asksCards(q.pod, q.cfg) && !near {
		if name == "" {
			name = v1.DefaultSchedulerName
		}
		q.notes = append(q.notes, fmt.Sprintf("%s places this pod, not %s; it asks for no card", name, kube.SchedulerName))
		return
	}
	c := blocked(cause("scheduler-name-wrong", quoted(name)))
	if name == "" {
		c = cause("scheduler-name-missing")
	}
	if q.draft {
		c.Verdict = ""
	} else {
		c.Text = c.Reason.Sentence() + "; it cannot be changed on a pod: create it again"
		if sister := q.sisterWith(kube.SchedulerName); sister != "" {
			q.notes = append(q.notes, "sister pod "+sister+" has the right scheduler, so something filled it in before: put schedulerName and runtimeClassName in the template")
		}
	}
	q.say(c)
}

func quoted(name string) string { return fmt.Sprintf("%q", name) }

// sisterWith names a pod of the same controller that goes to a scheduler.
func (q *inquiry) sisterWith(scheduler string) string {
	for _, s := range q.sisters() {
		if s.Spec.SchedulerName == scheduler {
			return s.Name
		}
	}
	return ""
}

// sisters are the other pods of the pod's controller, and of the controller's
// controller, so that pods of an older replica set count.
func (q *inquiry) sisters() []*v1.Pod {
	c := q.parent(q.pod)
	if c == nil {
		return nil
	}
	if up := q.parent(c.meta); up != nil {
		c = up
	}
	return slices.DeleteFunc(q.podsOf(c), func(s *v1.Pod) bool { return s.UID == q.pod.UID && s.Name == q.pod.Name })
}

// checkRuntimeClass: without the runtime class no card reaches the container,
// and the scheduler refuses for good.
func (q *inquiry) checkRuntimeClass() {
	if !asksCards(q.pod, q.cfg) {
		return
	}
	name := q.pod.Spec.RuntimeClassName
	switch {
	case name == nil || *name == "":
		q.say(q.orInvalid(cause("runtime-class-missing")))
	case *name != kube.RuntimeClass:
		q.say(q.orInvalid(cause("runtime-class-wrong", quoted(*name))))
	case q.s.Lacks("runtimeclasses.node.k8s.io") == nil && q.runtimeClass(*name) == nil && q.draft:
		q.say(q.classNotFound())
	}
}

// classNotFound is the cluster's lack, not the pod's.
func (q *inquiry) classNotFound() explain.Cause {
	return explain.Cause{Reason: reason.Reason{Code: "runtime-class-missing", Device: kube.RuntimeClass}, Verdict: reason.Env,
		Text: "the cluster has no RuntimeClass " + kube.RuntimeClass + ", so the API server refuses the pods"}
}

func (q *inquiry) orInvalid(c explain.Cause) explain.Cause {
	if q.draft {
		return c
	}
	return blocked(c)
}

// kubeletRefusals are the reasons of pods that a kubelet rejected.
func kubeletRefusal(pod *v1.Pod) bool {
	if pod.Status.Phase != v1.PodFailed {
		return false
	}
	switch r := pod.Status.Reason; r {
	case "UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "AdmissionError", "RuntimeClassNotFound":
		return true
	default:
		return strings.HasPrefix(r, "OutOf")
	}
}

// checkSisters reads the pods that the same controller lost to a kubelet: the
// one that is pending for a moment has no cause of its own.
func (q *inquiry) checkSisters() {
	var dead []*v1.Pod
	for _, s := range q.sisters() {
		if kubeletRefusal(s) {
			dead = append(dead, s)
		}
	}
	if len(dead) == 0 {
		return
	}
	last := dead[len(dead)-1]
	c := explain.Cause{Reason: reason.Reason{Code: "kubelet-refused", Device: last.Spec.NodeName, Want: int64(len(dead)), Detail: []string{last.Status.Reason, q.refusalMeaning(last)}}}
	c.Text = fmt.Sprintf("%s before it, last %s on %s: %s", plural(len(dead), "pod was refused", "pods were refused"), last.Status.Reason, last.Spec.NodeName, q.refusalMeaning(last))
	q.say(c)
}

// refusalMeaning says what a kubelet's sub-reason means here.
func (q *inquiry) refusalMeaning(pod *v1.Pod) string {
	switch r := pod.Status.Reason; {
	case r == "TopologyAffinityError":
		return "the node's NUMA policy wants all devices on one NUMA node" + q.perNUMA(pod)
	case r == "UnexpectedAdmissionError":
		return "kubelet and agent see fewer free devices than the scheduler" + said(pod.Status.Message)
	case strings.HasPrefix(r, "OutOf"):
		return "kubelet has no " + strings.TrimPrefix(r, "OutOf") + " left: the pod was put there past the scheduler, or kubelet's numbers are old"
	}
	return strings.TrimPrefix(said(pod.Status.Message), ": ")
}

func said(msg string) string {
	if msg == "" {
		return ""
	}
	return ": " + clip(msg, 160)
}

// perNUMA counts the free cards per NUMA node of a pod's node.
func (q *inquiry) perNUMA(pod *v1.Pod) string {
	n := q.cards[pod.Spec.NodeName]
	if n == nil || n.Inventory == nil {
		return ""
	}
	held := map[string]bool{}
	for _, h := range n.Holds {
		for _, u := range h.Cards {
			held[u.Card] = true
		}
	}
	var counts []int
	total := 0
	for i := range n.Inventory.Cards {
		c := &n.Inventory.Cards[i]
		if held[c.UUID] || c.NUMA == nil || *c.NUMA < 0 || *c.NUMA > 63 {
			continue
		}
		for len(counts) <= *c.NUMA {
			counts = append(counts, 0)
		}
		counts[*c.NUMA]++
		total++
	}
	if total == 0 {
		return ""
	}
	parts := make([]string, len(counts))
	for i, c := range counts {
		parts[i] = fmt.Sprint(c)
	}
	return fmt.Sprintf(" (%d free: %s)", total, strings.Join(parts, " + "))
}

// checkNomination tells preemption under way from a nomination that nothing
// stands behind.
func (q *inquiry) checkNomination() {
	name := q.pod.Status.NominatedNodeName
	if name == "" || q.s.Lacks("nodes") != nil {
		return
	}
	if q.nodes[name] == nil {
		q.say(explain.Cause{Reason: reason.Reason{Code: "stale-nomination", Device: name, Detail: []string{"which does not exist any more"}}})
		return
	}
	for _, v := range q.onNode[name] {
		if v.DeletionTimestamp == nil || kube.Finished(v) {
			continue
		}
		left := v.DeletionTimestamp.Sub(q.now)
		text := fmt.Sprintf("%s is ending", key(v))
		if left > 0 {
			text += ", " + since(left) + " left"
		}
		q.say(explain.Cause{Reason: reason.Reason{Code: "preempting", Device: name, Detail: []string{text}}})
		return
	}
	q.notes = append(q.notes, "nominated to "+name+", where no pod is ending: the nomination is a hint only")
}

// checkEvidence names the lists without which no answer about nodes is one.
func (q *inquiry) checkEvidence() {
	var missing []string
	var forbidden bool
	for _, list := range []string{"nodes", "pods"} {
		m := q.s.Lacks(list)
		if m == nil {
			continue
		}
		what := list
		if m.Partial != "" {
			what = list + " in other namespaces"
		}
		missing = append(missing, what)
		forbidden = forbidden || strings.Contains(m.Why, "forbidden")
	}
	if len(missing) > 0 {
		c := cause("list-missing", strings.Join(missing, ", "))
		if forbidden {
			c.Reason.Code = "no-permission"
		}
		c.Check = explain.Free
		if q.s.Lacks("nodes") != nil {
			q.say(c)
			return
		}
		q.in.Evidence = append(q.in.Evidence, c)
	}
	if q.usesClaims() {
		for _, list := range []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"} {
			if m := q.s.Lacks(list); m != nil {
				c := cause("list-missing", list)
				if strings.Contains(m.Why, "forbidden") {
					c.Reason.Code = "no-permission"
				}
				c.Check = explain.Volumes
				q.in.Evidence = append(q.in.Evidence, c)
				break
			}
		}
	}
}

func (q *inquiry) usesClaims() bool {
	for _, v := range q.pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// since is a duration as people say it: one unit, rounded down.
func since(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clip bounds a text from elsewhere.
func clip(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
