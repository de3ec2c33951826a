package kube

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// Labels that the JobSet controller puts on its Jobs and their pods. Versions
// before 0.9 know no uid.
const (
	JobSetNameLabel    = "jobset.sigs.k8s.io/jobset-name"
	JobSetUIDLabel     = "jobset.sigs.k8s.io/jobset-uid"
	JobSetAttemptLabel = "jobset.sigs.k8s.io/restart-attempt"
	// JobSetRankLabel is a Job's number among all Jobs of the set.
	JobSetRankLabel = "jobset.sigs.k8s.io/job-global-index"
)

// GangCondition is the type of the pod condition by which the scheduler tells
// how far a pod's group has come. It stands on one member of each group, the
// oldest as long as the group waits. Its reason is a phase of core/gang, and
// its message says how many members exist and have nodes, since when, and in
// which round. Status True (Placed) is the mark of a group that was placed
// whole: a member that is lost from then on is replaced alone.
const GangCondition v1.PodConditionType = "lj.aliyun.com/Gang"

// GroupRef is what a pod says about its group.
type GroupRef struct {
	// Name identifies the group in its namespace. It is no name that an API
	// object can have, so it never meets one.
	Name string
	// Owner is the group's owner for people: "jobset/train-7", "job/train".
	Owner string
	// Size is min-member, 0 if the label cannot be read; Bad is then the code
	// of what is wrong with it.
	Size int
	Bad  reason.Code
}

// GroupOf tells to which group a pod belongs, nil if to none: it has no label
// min-member, or is not made by a Job (a group needs a controller that makes
// its members and their replacements), or names a PodGroup of the API itself.
// A pod that is being deleted is still told; it is no member any more.
//
// The pods of one restart attempt of one JobSet are one group, and those of a
// Job that belongs to none.
func GroupOf(p *v1.Pod, c config.Config) *GroupRef {
	if p.Spec.SchedulingGroup != nil && !Synthetic(p.Spec.SchedulingGroup) {
		return nil
	}
	text, ok := p.Labels[c.MinMemberLabel()]
	job := metav1.GetControllerOf(p)
	if !ok || job == nil || job.Kind != "Job" {
		return nil
	}
	return groupOf(p.Labels, job.Name, string(job.UID), text)
}

// GroupOfJob is the group of the pods that a Job makes, nil if they are in
// none. template has the labels of its pods.
func GroupOfJob(job metav1.Object, template map[string]string, c config.Config) *GroupRef {
	text, ok := template[c.MinMemberLabel()]
	if !ok {
		return nil
	}
	return groupOf(job.GetLabels(), job.GetName(), string(job.GetUID()), text)
}

// groupOf reads the labels of a Job or of its pods: both carry the same.
// Values of labels contain no colon, so the parts of the name stay apart.
func groupOf(labels map[string]string, job, uid, minMember string) *GroupRef {
	n, bad := request.ParseCount(minMember, "min-member")
	g := &GroupRef{Name: synthetic + "job:" + uid, Owner: "job/" + job, Size: n, Bad: bad}
	if set := labels[JobSetNameLabel]; set != "" {
		g.Name, g.Owner = synthetic+"jobset:"+set+":"+labels[JobSetUIDLabel], "jobset/"+set
		if attempt := labels[JobSetAttemptLabel]; attempt != "" && attempt != "0" {
			g.Name += ":r" + attempt
		}
	}
	return g
}

// synthetic begins the names of groups that exist in the scheduler only.
const synthetic = "lj:"

// Synthetic tells whether a pod's group is one that the scheduler made up from
// labels.
func Synthetic(g *v1.PodSchedulingGroup) bool {
	return g != nil && g.PodGroupName != nil && SyntheticName(*g.PodGroupName)
}

// SyntheticName tells whether a PodGroup of this name exists in the scheduler
// only.
func SyntheticName(name string) bool {
	return len(name) > len(synthetic) && name[:len(synthetic)] == synthetic
}
