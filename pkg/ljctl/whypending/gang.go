package whypending

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/gang"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

// lookAtGroup adds what the group adds to the pod's own causes: a group is
// placed whole or not at all. Who is in it and how far it has come, the
// scheduler's own registry says.
func (q *inquiry) lookAtGroup(ctx context.Context) error {
	if q.draft || q.pod.Spec.NodeName != "" || kube.GroupOf(q.pod, q.cfg) == nil {
		return nil
	}
	e, err := q.scheduler(ctx)
	if err != nil {
		return err
	}
	g, pods, ok := e.Group(q.pod)
	if !ok {
		return nil
	}
	var open []*v1.Pod
	for _, p := range pods {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			open = append(open, p)
		}
	}
	switch phase := g.Phase(q.now.Unix(), q.cfg.GangTimeoutSeconds); {
	case phase == gang.Invalid:
		q.say(explain.Cause{Reason: *g.Wrong})
		return nil
	case phase == gang.Placed || replaces(pods):
		q.suffix = append(q.suffix, explain.Cause{Reason: reason.Reason{Code: "gang-degraded", Free: int64(g.Bound + g.Finished), Want: int64(g.Size)}})
		if phase != gang.Placed {
			q.notes = append(q.notes, "the group has no mark that it was placed whole: whether its running members are rolled back is not known from here")
		}
	case phase == gang.Forming || phase == gang.Incomplete:
		q.incomplete(g, pods)
		return nil
	case phase == gang.HalfBound:
		return q.halfBound(ctx, e, g, open)
	}
	_, err = q.together(ctx, e, g, open)
	return err
}

// replaces tells whether the waiting members were made after others had their
// nodes, and so come in the place of members that were lost.
func replaces(pods []*v1.Pod) bool {
	var bound time.Time
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			continue
		}
		at := p.CreationTimestamp.Time
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
				at = c.LastTransitionTime.Time
			}
		}
		if at.After(bound) {
			bound = at
		}
	}
	return !bound.IsZero() && !slices.ContainsFunc(pods, func(p *v1.Pod) bool {
		return p.Spec.NodeName == "" && !p.CreationTimestamp.After(bound)
	})
}

// halfBound is for a group of which some members got nodes and the others not,
// which only a failure in the middle or another scheduler leaves behind.
func (q *inquiry) halfBound(ctx context.Context, e *offline.Engine, g gang.Group, open []*v1.Pod) error {
	fits, err := q.together(ctx, e, g, open)
	if err != nil {
		return err
	}
	have := reason.Reason{Code: "gang-half-bound", Free: int64(g.Bound + g.Finished), Want: int64(g.Size)}
	rival := ""
	if !fits {
		rival = q.rival(e)
	}
	left := q.cfg.GangTimeoutSeconds - (q.now.Unix() - g.Created)
	switch {
	case rival != "" && left <= 0:
		have.Code, have.Device = "gang-contention", rival
	case rival != "":
		q.notes = append(q.notes, fmt.Sprintf("%s is half placed as well; after %d s more the scheduler may free one of the two", rival, left))
	}
	q.say(explain.Cause{Reason: have})
	return nil
}

// rival names another group that is half placed, "" if there is none.
func (q *inquiry) rival(e *offline.Engine) string {
	mine := kube.GroupOf(q.pod, q.cfg)
	for _, p := range q.s.Pods {
		ref := kube.GroupOf(p, q.cfg)
		if ref == nil || ref.Name == mine.Name && p.Namespace == q.pod.Namespace {
			continue
		}
		if g, _, ok := e.Group(p); ok && g.Phase(q.now.Unix(), q.cfg.GangTimeoutSeconds) == gang.HalfBound {
			return ref.Owner + " of " + p.Namespace
		}
	}
	return ""
}

// incomplete says who should make the missing members.
func (q *inquiry) incomplete(g gang.Group, members []*v1.Pod) {
	count := reason.Reason{Free: int64(g.Members + g.Finished), Want: int64(g.Size)}
	newest := members[len(members)-1].CreationTimestamp.Time
	job := q.parent(q.pod)
	set := q.pod.Labels[kube.JobSetNameLabel]
	gone := ""
	if set != "" && q.s.Lacks("jobsets.jobset.x-k8s.io") == nil && q.find(Target{"JobSet", q.pod.Namespace, set}) == nil {
		gone = "jobset/" + set
	} else if set == "" && job == nil && q.s.Lacks("jobs.batch") == nil {
		gone = "job/" + metav1.GetControllerOf(q.pod).Name
	}
	if gone != "" {
		q.say(cause("gang-owner-gone", gone))
		return
	}
	top := job
	if set != "" {
		if s := q.find(Target{"JobSet", q.pod.Namespace, set}); s != nil {
			top = s
		}
	}
	if top != nil {
		for _, m := range family(top) {
			if done, failed, text := ended(m); done && failed {
				q.say(explain.Cause{Reason: reason.Reason{Code: "job-failed", Device: m.Name, Detail: []string{m.Name + " " + text}}})
				return
			}
		}
		if q.owner == nil || q.owner.Kind == "Job" {
			q.ownerCauses(top, true)
		}
	}
	code := reason.Code("gang-incomplete")
	if q.age(newest) < slow && !q.hasBlockingLead() {
		code = "gang-forming"
	}
	count.Code = code
	q.say(explain.Cause{Reason: count})
}

func (q *inquiry) hasBlockingLead() bool {
	return slices.ContainsFunc(q.in.Lead, func(c explain.Cause) bool { return !c.Passes() && c.Word() != reason.Warn })
}

// together tries the waiting members as one, and tells whether they fit.
func (q *inquiry) together(ctx context.Context, e *offline.Engine, g gang.Group, open []*v1.Pod) (bool, error) {
	if !slices.ContainsFunc(q.in.Nodes, func(n explain.Node) bool { return n.Fits() }) {
		return false, nil
	}
	r, err := e.ScheduleGroup(ctx, open)
	if err != nil {
		return false, err
	}
	if r.Placed > 0 {
		q.notes = append(q.notes, fmt.Sprintf("the group of %d would go to %s", g.Size, r.Spot))
		return true, nil
	}
	c := explain.Cause{Check: explain.Free, Reason: reason.Reason{Code: "gang-short", Want: int64(g.Quorum())}, Text: r.Why}
	if r.Short != nil {
		c.Reason, c.Text = *r.Short, ""
	}
	if q.groupFit, err = q.groupOutlook(ctx, e, open); err != nil {
		return false, err
	}
	if q.groupFit == explain.FitNever {
		c = blocked(c)
		q.notes = append(q.notes, fmt.Sprintf("no end of other pods makes room: the group of %d does not fit if all nodes are empty", g.Size))
	}
	// Nothing of the group is placed, so no node fits after all.
	for i := range q.in.Nodes {
		if q.in.Nodes[i].Fits() {
			q.in.Nodes[i].Causes = append(q.in.Nodes[i].Causes, c)
		}
	}
	return false, nil
}

// groupOutlook tells when a group fits that does not fit now: without the pods
// that end by themselves, or without any.
func (q *inquiry) groupOutlook(ctx context.Context, e *offline.Engine, open []*v1.Pod) (explain.Fit, error) {
	later, err := q.without(ctx, &q.later, q.endsByItself)
	if err != nil {
		return "", err
	}
	if r, err := later.ScheduleGroup(ctx, open); err != nil || r.Placed > 0 {
		return explain.FitAfterRelease, err
	}
	idle, err := q.without(ctx, &q.idle, func(*v1.Pod) bool { return true })
	if err != nil {
		return "", err
	}
	_, pods, _ := e.Group(open[0])
	var all []*v1.Pod
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		p = p.DeepCopy()
		p.Spec.NodeName, p.Spec.SchedulingGroup = "", nil
		all = append(all, p)
	}
	if r, err := idle.ScheduleGroup(ctx, all); err != nil || r.Placed > 0 {
		return explain.FitEmptyOnly, err
	}
	return explain.FitNever, nil
}
