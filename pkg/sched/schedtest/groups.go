package schedtest

import (
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// Group is what the objects of a cluster say about one group of pods.
type Group struct {
	// Size is the largest min-member that a member names.
	Size int
	// Members are neither ended nor leaving, Bound of them have a node.
	Members, Bound int
	// Finished members have succeeded, as their Jobs say.
	Finished int
	// Differ: the members name different sizes, or one that cannot be read.
	Differ bool

	owner string
}

// Whole tells whether the group runs or has run.
func (g *Group) Whole() bool { return g.Size > 0 && g.Bound+g.Finished >= g.Size }

// Half tells whether some of the group, whose members agree, have nodes and not
// all. For a group that was never whole, outside the moment of its binding,
// that is the fault that group scheduling is there to prevent.
func (g *Group) Half() bool { return !g.Differ && g.Bound > 0 && !g.Whole() }

// Groups counts the groups of which there are members.
func Groups(pods []*v1.Pod, jobs []*batchv1.Job, c config.Config) map[types.NamespacedName]*Group {
	out := map[types.NamespacedName]*Group{}
	bare := map[string]bool{} // owners of which a member has lost the label
	for _, p := range pods {
		ref := kube.GroupOf(p, c)
		if set := p.Labels[kube.JobSetNameLabel]; ref == nil && set != "" && !kube.Finished(p) {
			bare[p.Namespace+"/jobset/"+set] = true
		}
		if ref == nil || kube.Finished(p) || p.DeletionTimestamp != nil {
			continue
		}
		key := types.NamespacedName{Namespace: p.Namespace, Name: ref.Name}
		g := out[key]
		if g == nil {
			g = &Group{Size: ref.Size, owner: p.Namespace + "/" + ref.Owner}
			out[key] = g
		}
		g.Differ = g.Differ || ref.Bad != "" || ref.Size != g.Size
		g.Size = max(g.Size, ref.Size)
		g.Members++
		if p.Spec.NodeName != "" {
			g.Bound++
		}
	}
	for _, g := range out {
		g.Differ = g.Differ || bare[g.owner]
	}
	for _, j := range jobs {
		if ref := kube.GroupOfJob(j, j.Spec.Template.Labels, c); ref != nil {
			if g := out[types.NamespacedName{Namespace: j.Namespace, Name: ref.Name}]; g != nil {
				g.Finished += int(j.Status.Succeeded)
			}
		}
	}
	return out
}
