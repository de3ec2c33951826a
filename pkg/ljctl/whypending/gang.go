package whypending

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
)

// Labels that the JobSet controller puts on pods.
const (
	jobSetName    = "jobset.sigs.k8s.io/jobset-name"
	jobSetAttempt = "jobset.sigs.k8s.io/restart-attempt"
)

// maxMembers bounds the groups that are tried as a whole.
const maxMembers = 256

// group finds the members of the pod's group: the pods with the label, of the
// same job set and attempt, or of the same job. It returns 0 for a pod that is
// in no group.
func (q *inquiry) group() (want int, members []*v1.Pod) {
	text, ok := q.pod.Labels[q.cfg.MinMemberLabel()]
	if !ok {
		return 0, nil
	}
	n, bad := request.ParseCount(text, "min-member")
	if bad != "" {
		return 0, nil
	}
	set, job := q.pod.Labels[jobSetName], metav1.GetControllerOf(q.pod)
	if set == "" && (job == nil || job.Kind != "Job") {
		return 0, nil
	}
	for _, pod := range q.s.Pods {
		if pod.Namespace != q.pod.Namespace || pod.DeletionTimestamp != nil {
			continue
		}
		if _, ok := pod.Labels[q.cfg.MinMemberLabel()]; !ok {
			continue
		}
		if set != "" {
			if pod.Labels[jobSetName] != set || pod.Labels[jobSetAttempt] != q.pod.Labels[jobSetAttempt] {
				continue
			}
		} else if ref := metav1.GetControllerOf(pod); ref == nil || ref.UID != job.UID {
			continue
		}
		members = append(members, pod)
	}
	return n, members
}

// lookAtGroup adds what the group adds to the pod's own causes: a group is
// placed whole or not at all.
func (q *inquiry) lookAtGroup(ctx context.Context) error {
	if q.draft || q.pod.Spec.NodeName != "" {
		return nil
	}
	want, members := q.group()
	if want == 0 {
		return nil
	}
	var open []*v1.Pod
	bound := 0
	for _, m := range members {
		switch {
		case kube.Finished(m):
			bound++
		case m.Spec.NodeName != "":
			bound++
		default:
			open = append(open, m)
		}
	}
	switch {
	case bound > 0 && bound+len(open) >= want:
		q.suffix = append(q.suffix, explain.Cause{Reason: reason.Reason{Code: "gang-degraded", Free: int64(bound), Want: int64(want)}})
		q.notes = append(q.notes, "whether the running members are rolled back is not known from here")
		return nil
	case len(members) < want:
		q.incomplete(want, members)
		return nil
	}
	return q.together(ctx, want, open)
}

// incomplete says who should make the missing members.
func (q *inquiry) incomplete(want int, members []*v1.Pod) {
	count := reason.Reason{Free: int64(len(members)), Want: int64(want), Unit: ""}
	newest := members[0].CreationTimestamp.Time
	for _, m := range members {
		if m.CreationTimestamp.After(newest) {
			newest = m.CreationTimestamp.Time
		}
	}
	job := q.parent(q.pod)
	set := q.pod.Labels[jobSetName]
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

// together tries the whole group on the picture, member by member. Network
// distance is not looked at here.
func (q *inquiry) together(ctx context.Context, want int, open []*v1.Pod) error {
	if len(open) > maxMembers || !slices.ContainsFunc(q.in.Nodes, func(n explain.Node) bool { return n.Fits() }) {
		return nil
	}
	e, err := q.scheduler(ctx)
	if err != nil {
		return err
	}
	placed := 0
	for _, m := range open {
		_, _, err := e.Assume(ctx, m)
		var no *framework.FitError
		if errors.As(err, &no) {
			break
		}
		if err != nil {
			return err
		}
		placed++
	}
	for range placed {
		if err := e.Forget(ctx); err != nil {
			return err
		}
	}
	if placed < len(open) {
		// Nothing of the group is placed, so no node fits after all.
		c := explain.Cause{Check: explain.Free, Reason: reason.Reason{Code: "gang-short", Free: int64(placed), Want: int64(want)}}
		for i := range q.in.Nodes {
			if q.in.Nodes[i].Fits() {
				q.in.Nodes[i].Causes = append(q.in.Nodes[i].Causes, c)
			}
		}
	}
	q.notes = append(q.notes, fmt.Sprintf("group of %d: network distance is not judged here", want))
	return nil
}
