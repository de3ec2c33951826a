package whypending

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lj.aliyun.com/kit/pkg/core/spelling"
	"lj.aliyun.com/kit/pkg/kube"
)

// Target is what a question is about.
type Target struct{ Kind, Namespace, Name string }

func (t Target) String() string { return strings.ToLower(t.Kind) + " " + t.Namespace + "/" + t.Name }

// kinds are the kinds that can be asked about, by the names that kubectl
// takes for them.
var kinds = map[string]string{
	"pod": "Pod", "pods": "Pod", "po": "Pod",
	"job": "Job", "jobs": "Job", "jobset": "JobSet", "jobsets": "JobSet",
	"cronjob": "CronJob", "cronjobs": "CronJob", "cj": "CronJob",
	"deployment": "Deployment", "deployments": "Deployment", "deploy": "Deployment",
	"replicaset": "ReplicaSet", "replicasets": "ReplicaSet", "rs": "ReplicaSet",
	"statefulset": "StatefulSet", "statefulsets": "StatefulSet", "sts": "StatefulSet",
	"daemonset": "DaemonSet", "daemonsets": "DaemonSet", "ds": "DaemonSet",
}

// ParseTarget reads NAME or KIND/NAME; the kind may carry its API group, as in
// jobset.jobset.x-k8s.io.
func ParseTarget(arg, namespace string) (Target, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok {
		return Target{"Pod", namespace, arg}, nil
	}
	word, _, _ := strings.Cut(strings.ToLower(kind), ".")
	k := kinds[word]
	switch {
	case name == "" || strings.Contains(name, "/"):
		return Target{}, fmt.Errorf("%q: want NAME or KIND/NAME", arg)
	case k == "":
		if near := spelling.Closest(word, []string{"pod", "job", "jobset", "deployment", "statefulset", "replicaset", "daemonset", "cronjob"}); near != "" {
			return Target{}, fmt.Errorf("kind %q is not known here, did you mean %s?", kind, near)
		}
		return Target{}, fmt.Errorf("kind %q is not known here: pods, jobs, jobsets, deployments, stateful, replica and daemon sets, cron jobs are", kind)
	}
	return Target{k, namespace, name}, nil
}

// controller is an object that makes pods, or makes objects that do.
type controller struct {
	Target
	meta     metav1.Object
	template *v1.PodTemplateSpec // nil for kinds that make other objects
	want     int32               // pods that it should have
	job      *batchv1.Job
	deploy   *appsv1.Deployment
	suspend  bool
	children []*controller
}

// controllers indexes everything that makes pods by uid and ties children to
// their parents.
func controllers(s *kube.Snapshot) map[types.UID]*controller {
	out := map[types.UID]*controller{}
	var list []*controller
	add := func(kind string, o metav1.Object, c controller) {
		c.Target, c.meta = Target{kind, o.GetNamespace(), o.GetName()}, o
		list = append(list, &c)
		out[o.GetUID()] = &c
	}
	for _, o := range s.Jobs {
		want := int32(1)
		if o.Spec.Parallelism != nil {
			want = *o.Spec.Parallelism
		}
		add("Job", o, controller{template: &o.Spec.Template, want: want, job: o, suspend: o.Spec.Suspend != nil && *o.Spec.Suspend})
	}
	for _, o := range s.CronJobs {
		add("CronJob", o, controller{template: &o.Spec.JobTemplate.Spec.Template, suspend: o.Spec.Suspend != nil && *o.Spec.Suspend})
	}
	for _, o := range s.JobSets {
		suspend, _, _ := nestedBool(o.Object, "spec", "suspend")
		add("JobSet", o, controller{suspend: suspend})
	}
	for _, o := range s.Deployments {
		add("Deployment", o, controller{template: &o.Spec.Template, want: replicas(o.Spec.Replicas), deploy: o})
	}
	for _, o := range s.ReplicaSets {
		add("ReplicaSet", o, controller{template: &o.Spec.Template, want: replicas(o.Spec.Replicas)})
	}
	for _, o := range s.StatefulSets {
		add("StatefulSet", o, controller{template: &o.Spec.Template, want: replicas(o.Spec.Replicas)})
	}
	for _, o := range s.DaemonSets {
		add("DaemonSet", o, controller{template: &o.Spec.Template, want: o.Status.DesiredNumberScheduled})
	}
	for _, c := range list {
		if ref := metav1.GetControllerOf(c.meta); ref != nil {
			if parent := out[ref.UID]; parent != nil {
				parent.children = append(parent.children, c)
			}
		}
	}
	return out
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func nestedBool(m map[string]any, keys ...string) (value, found bool, err error) {
	for i, k := range keys {
		v, ok := m[k]
		if !ok {
			return false, false, nil
		}
		if i == len(keys)-1 {
			value, found = v.(bool)
			return value, found, nil
		}
		if m, ok = v.(map[string]any); !ok {
			return false, false, nil
		}
	}
	return false, false, nil
}

// find looks a controller up by name.
func (p *Picture) find(t Target) *controller {
	for _, c := range p.owners {
		if c.Target == t {
			return c
		}
	}
	return nil
}

// parent is the controller's own controller, nil if there is none that the
// snapshot has.
func (p *Picture) parent(o metav1.Object) *controller {
	ref := metav1.GetControllerOf(o)
	if ref == nil {
		return nil
	}
	return p.owners[ref.UID]
}

// podsOf are the pods that the controller and its children made, oldest
// first.
func (p *Picture) podsOf(c *controller) []*v1.Pod {
	out := slices.Clone(p.owned[c.meta.GetUID()])
	for _, child := range c.children {
		out = append(out, p.podsOf(child)...)
	}
	slices.SortFunc(out, func(a, b *v1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// waiting tells whether a pod is worth explaining: not ended and not running.
func waiting(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodPending || pod.Status.Phase == ""
}
