package jobs

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/kube"
)

// jobSetLabel is on every pod and job of a JobSet.
const jobSetLabel = "jobset.sigs.k8s.io/jobset-name"

// owner is a job as its own object says.
type owner struct {
	namespace, apiVersion, kind, name string
	meta                              metav1.Object // nil if the object was not read
	wanted                            int           // pods at a time, 0 if unknown
	total                             int           // pods that must end well, 0 if none must
	suspended                         bool
	ended                             Status // Complete or Failed
	reason, message                   string // why it failed
	sample                            *v1.Pod
}

type key struct{ namespace, kind, name string }

// group is an owner with its pods.
type group struct {
	owner
	pods []*v1.Pod
	// gone: the owner's list was read and it is not in it, so that its pods
	// are on their way out.
	gone bool
}

// builder finds the top owner of each pod.
type builder struct {
	c       config.Config
	parents map[types.UID]metav1.Object // jobs, replica sets: what owns pods and is owned
	groups  map[key]*group
	lacks   func(resource string) bool
}

func newBuilder(s *kube.Snapshot, c config.Config) *builder {
	b := &builder{c: c, parents: map[types.UID]metav1.Object{}, groups: map[key]*group{},
		lacks: func(r string) bool { return s.Lacks(r) != nil }}
	for _, o := range s.Jobs {
		b.parents[o.UID] = o
	}
	for _, o := range s.ReplicaSets {
		b.parents[o.UID] = o
	}
	for _, o := range s.Deployments {
		b.known("apps/v1", "Deployment", o, replicas(o.Spec.Replicas), podOf(o.Namespace, &o.Spec.Template))
	}
	for _, o := range s.StatefulSets {
		b.known("apps/v1", "StatefulSet", o, replicas(o.Spec.Replicas), podOf(o.Namespace, &o.Spec.Template))
	}
	for _, o := range s.ReplicaSets {
		if metav1.GetControllerOf(o) == nil {
			b.known("apps/v1", "ReplicaSet", o, replicas(o.Spec.Replicas), podOf(o.Namespace, &o.Spec.Template))
		}
	}
	for _, o := range s.DaemonSets {
		b.known("apps/v1", "DaemonSet", o, int(o.Status.DesiredNumberScheduled), podOf(o.Namespace, &o.Spec.Template))
	}
	return b
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func podOf(ns string, t *v1.PodTemplateSpec) *v1.Pod {
	p := &v1.Pod{ObjectMeta: *t.ObjectMeta.DeepCopy(), Spec: t.Spec}
	p.Namespace = ns
	return p
}

// known adds an owner that was read, if its pods ask for cards.
func (b *builder) known(api, kind string, o metav1.Object, wanted int, sample *v1.Pod) *group {
	if !asks(sample, b.c) {
		return nil
	}
	g := b.get(o.GetNamespace(), api, kind, o.GetName())
	g.meta, g.wanted, g.sample = o, wanted, sample
	return g
}

func (b *builder) get(ns, api, kind, name string) *group {
	k := key{ns, kind, name}
	g := b.groups[k]
	if g == nil {
		g = &group{owner: owner{namespace: ns, apiVersion: api, kind: kind, name: name}}
		b.groups[k] = g
	}
	return g
}

// asks tells whether a pod names a resource of ours, legal or not.
func asks(p *v1.Pod, c config.Config) bool {
	for _, ct := range kube.PodOf(p, c).Containers {
		for _, n := range ct.Resources {
			if n > 0 {
				return true
			}
		}
	}
	return false
}

// pod puts a pod to its top owner.
func (b *builder) pod(p *v1.Pod) {
	if !asks(p, b.c) {
		return
	}
	api, kind, name, meta := b.top(p)
	g := b.get(p.Namespace, api, kind, name)
	if g.meta == nil {
		g.meta = meta
	}
	g.pods = append(g.pods, p)
}

// top follows the owners up. A Job of a CronJob is a job of its own: each run
// is what its owner asks about.
func (b *builder) top(p *v1.Pod) (api, kind, name string, meta metav1.Object) {
	if js := p.Labels[jobSetLabel]; js != "" {
		return kube.JobSetKind.GroupVersion().String(), kube.JobSetKind.Kind, js, nil
	}
	api, kind, name, meta = "v1", "Pod", p.Name, p
	ref := metav1.GetControllerOf(p)
	for range 4 { // Pod, ReplicaSet, Deployment, and one more
		if ref == nil || kind == "Job" && ref.Kind == "CronJob" {
			break
		}
		api, kind, name, meta = ref.APIVersion, ref.Kind, ref.Name, nil
		parent := b.parents[ref.UID]
		if parent == nil {
			break
		}
		meta = parent
		ref = metav1.GetControllerOf(parent)
	}
	return api, kind, name, meta
}

// job adds what a Job says of itself, unless a JobSet does.
func (b *builder) job(j *batchv1.Job) {
	if j.Labels[jobSetLabel] != "" {
		return
	}
	if ref := metav1.GetControllerOf(j); ref != nil && ref.Kind != "CronJob" {
		return
	}
	wanted := replicas(j.Spec.Parallelism)
	if c := j.Spec.Completions; c != nil {
		wanted = min(wanted, int(*c))
	}
	g := b.known("batch/v1", "Job", j, wanted, podOf(j.Namespace, &j.Spec.Template))
	if g == nil {
		return
	}
	g.suspended = j.Spec.Suspend != nil && *j.Spec.Suspend
	if c := j.Spec.Completions; c != nil {
		g.total = int(*c)
	}
	for _, c := range j.Status.Conditions {
		if c.Status == v1.ConditionTrue {
			switch c.Type {
			case batchv1.JobComplete:
				g.ended = Complete
			case batchv1.JobFailed:
				g.ended, g.reason, g.message = Failed, c.Reason, c.Message
			}
		}
	}
}

// jobSetFields are those of a JobSet that matter here, in all its versions.
type jobSetFields struct {
	Spec struct {
		Suspend        bool `json:"suspend"`
		ReplicatedJobs []struct {
			Replicas *int32 `json:"replicas"`
			Template struct {
				Spec batchv1.JobSpec `json:"spec"`
			} `json:"template"`
		} `json:"replicatedJobs"`
	} `json:"spec"`
	Status struct {
		TerminalState string             `json:"terminalState"`
		Conditions    []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

func (b *builder) jobSet(u *unstructured.Unstructured) {
	var f jobSetFields
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &f) != nil {
		return // its pods still make a row
	}
	wanted, total := 0, 0
	var sample *v1.Pod
	for i := range f.Spec.ReplicatedJobs {
		r := &f.Spec.ReplicatedJobs[i]
		p := podOf(u.GetNamespace(), &r.Template.Spec.Template)
		if !asks(p, b.c) {
			continue
		}
		wanted += replicas(r.Replicas) * replicas(r.Template.Spec.Parallelism)
		if c := r.Template.Spec.Completions; c != nil {
			total += replicas(r.Replicas) * int(*c)
		}
		if sample == nil {
			sample = p
		}
	}
	if sample == nil {
		return
	}
	g := b.known(u.GetAPIVersion(), u.GetKind(), u, wanted, sample)
	g.suspended, g.total = f.Spec.Suspend, total
	for _, c := range f.Status.Conditions {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		switch c.Type {
		case "Completed":
			g.ended = Complete
		case "Failed":
			g.ended, g.reason, g.message = Failed, c.Reason, c.Message
		}
	}
}

// sorted orders pods by age, then name: the first is the one to speak for all.
func sorted(pods []*v1.Pod) []*v1.Pod {
	out := slices.Clone(pods)
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
			return d
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

// orphans marks the groups whose owner should have been read and is not there.
func (b *builder) orphans() {
	for _, g := range b.groups {
		k, ok := KindOf(g.apiVersion, g.kind)
		g.gone = ok && g.meta == nil && !b.lacks(k.list())
	}
}
