package whypending

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/kube"
)

// queueLabel names the queue of the common queue system on jobs.
const queueLabel = "kueue.x-k8s.io/queue-name"

// slow is how long a controller may take to make its pods.
const slow = 30 * time.Second

// explainOwner answers for what makes pods: by the pod that waits longest, or
// by what keeps the pods from being made.
func (p *Picture) explainOwner(ctx context.Context, c *controller) (*explain.Report, error) {
	pods := p.podsOf(c)
	i := slices.IndexFunc(pods, waiting)
	q := &inquiry{Picture: p, owner: c, count: len(pods)}
	if i >= 0 {
		q.pod = pods[i]
		q.ownerCauses(c, true)
		r, err := q.answer(ctx, c.Target)
		if err == nil {
			for _, pod := range pods {
				if waiting(pod) {
					r.Target.Waiting++
				}
			}
		}
		return r, err
	}
	q.ownerCauses(c, false)
	q.withoutPods(c, pods)
	r := explain.Reduce(q.in)
	q.finish(r, c.Target)
	if c.template != nil {
		draft := &v1.Pod{ObjectMeta: c.template.ObjectMeta, Spec: c.template.Spec}
		if req, bad := kube.RequestOf(draft, p.cfg); len(bad) == 0 {
			r.Request = describe(draft, req, p.cfg, int(c.want))
		}
	}
	return r, nil
}

// family is the controller with everything it made that makes pods.
func family(c *controller) []*controller {
	out := []*controller{c}
	for _, child := range c.children {
		out = append(out, family(child)...)
	}
	return out
}

// ownerCauses are what keeps pods from being made. With some pods there, only
// what refuses further ones is told.
func (q *inquiry) ownerCauses(c *controller, some bool) {
	for _, m := range family(c) {
		if m.suspend && !some {
			q.say(q.suspended(m))
			return
		}
	}
	for _, m := range family(c) {
		e := q.lastEvent(m.Kind, m.Namespace, m.Name, "FailedCreate", "CreateFailed", "JobCreationFailed")
		if e == nil || some && q.age(eventTime(e)) > time.Hour {
			continue
		}
		q.refusedCreate(m, e)
		break
	}
	if len(q.in.Lead) == 0 && !some {
		q.quotas(c)
	}
	q.oddQuotaKeys(c.Namespace)
}

func (q *inquiry) suspended(m *controller) explain.Cause {
	target := strings.ToLower(m.Kind) + "/" + m.Name
	for o := m; o != nil; o = q.parent(o.meta) {
		if queue := o.meta.GetLabels()[queueLabel]; queue != "" {
			return explain.Cause{Reason: reason.Reason{Code: "queue-suspended", Device: target, Detail: []string{queue}}}
		}
	}
	return explain.Cause{Reason: reason.Reason{Code: "suspended-by-user", Device: target}}
}

// refusedCreate reads why the API server refused a controller's pods. For
// quota the objects decide and the event is only what led here.
func (q *inquiry) refusedCreate(m *controller, e *v1.Event) {
	msg := e.Message
	low := strings.ToLower(msg)
	switch {
	case strings.Contains(low, "exceeded quota"):
		if q.quotas(m) {
			return
		}
		if q.s.Lacks("resourcequotas") != nil {
			q.say(explain.Cause{Reason: reason.Reason{Code: "quota-exceeded", Detail: []string{clip(msg, 200)}},
				Text: "a quota refused its pods " + since(q.age(eventTime(e))) + " ago: " + clip(msg, 200)})
			return
		}
		q.notes = append(q.notes, "a quota refused its pods "+since(q.age(eventTime(e)))+" ago, and has room now: the controller tries again")
	case strings.Contains(low, "runtimeclass") && strings.Contains(low, "not found"):
		if q.s.Lacks("runtimeclasses.node.k8s.io") == nil && q.runtimeClass(kube.RuntimeClass) != nil {
			q.notes = append(q.notes, "the RuntimeClass was missing "+since(q.age(eventTime(e)))+" ago, and is there now: the controller tries again")
			return
		}
		q.say(q.classNotFound())
	default:
		c := cause("pod-create-refused", clip(msg, 240))
		q.say(c)
	}
}

// quotas compares what one more pod of the controller takes with what the
// namespace's quotas have left. It returns whether one is used up.
func (q *inquiry) quotas(c *controller) bool {
	var t *v1.PodTemplateSpec
	for _, m := range family(c) {
		if m.template != nil {
			t = m.template
			break
		}
	}
	if t == nil {
		return false
	}
	ask := quotaAsk(t)
	for _, rq := range q.s.ResourceQuotas {
		if rq.Namespace != c.Namespace {
			continue
		}
		for _, name := range quotaKeys(rq) {
			want, ok := ask[name]
			if !ok || want.IsZero() {
				continue
			}
			hard, used := rq.Status.Hard[name], rq.Status.Used[name]
			if rq.Status.Hard == nil {
				hard = rq.Spec.Hard[name]
			}
			sum := used.DeepCopy()
			sum.Add(want)
			if sum.Cmp(hard) <= 0 {
				continue
			}
			text := fmt.Sprintf("%s: %s asked, %s of %s in use", name, want.String(), used.String(), hard.String())
			if by := q.quotaUsers(c.Namespace, name); by != "" {
				text += " by " + by
			}
			c := explain.Cause{Reason: reason.Reason{Code: "quota-exceeded", Device: rq.Name, Want: want.Value(), Free: hard.Value() - used.Value(), Total: hard.Value(), Detail: []string{text}}}
			if want.Cmp(hard) > 0 {
				c.Text = fmt.Sprintf("quota %s is smaller than one pod: %s; no pod's end makes room", rq.Name, text)
			}
			q.say(c)
			return true
		}
	}
	return false
}

func quotaKeys(rq *v1.ResourceQuota) []v1.ResourceName {
	var out []v1.ResourceName
	for name := range rq.Spec.Hard {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// quotaAsk is what one pod counts against a quota, by the quota's keys.
func quotaAsk(t *v1.PodTemplateSpec) map[v1.ResourceName]resource.Quantity {
	out := map[v1.ResourceName]resource.Quantity{"pods": *resource.NewQuantity(1, resource.DecimalSI), "count/pods": *resource.NewQuantity(1, resource.DecimalSI)}
	add := func(name v1.ResourceName, q resource.Quantity) {
		sum := out[name]
		sum.Add(q)
		out[name] = sum
	}
	for i := range t.Spec.Containers {
		r := &t.Spec.Containers[i].Resources
		for name, q := range r.Limits {
			add("limits."+name, q)
			if _, ok := r.Requests[name]; !ok {
				add("requests."+name, q)
			}
		}
		for name, q := range r.Requests {
			add("requests."+name, q)
		}
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := out["requests."+name]; ok {
			out[name] = q
		}
	}
	return out
}

// quotaUsers names the pods that use a quota's resource.
func (q *inquiry) quotaUsers(ns string, name v1.ResourceName) string {
	res := v1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits."))
	var by []string
	for _, pod := range q.s.Pods {
		if pod.Namespace != ns || kube.Finished(pod) {
			continue
		}
		for i := range pod.Spec.Containers {
			if v, ok := pod.Spec.Containers[i].Resources.Limits[res]; ok && !v.IsZero() {
				by = append(by, pod.Name)
				break
			}
		}
	}
	if len(by) > 4 {
		by = append(by[:4], fmt.Sprintf("%d more", len(by)-4))
	}
	return strings.Join(by, ", ")
}

// oddQuotaKeys warns of quota keys that limit nothing.
func (q *inquiry) oddQuotaKeys(ns string) {
	for _, rq := range q.s.ResourceQuotas {
		if rq.Namespace != ns {
			continue
		}
		for _, name := range quotaKeys(rq) {
			if q.cfg.IsResource(string(name)) {
				q.suffix = append(q.suffix, explain.Cause{Reason: reason.Reason{Code: "quota-key-without-prefix", Device: rq.Name, Detail: []string{string(name)}}})
			}
		}
	}
}

// withoutPods is for owners none of whose pods waits.
func (q *inquiry) withoutPods(c *controller, pods []*v1.Pod) {
	defer func() { q.in.Lead = append(q.in.Lead, q.suffix...) }()
	if len(q.in.Lead) > 0 {
		return
	}
	if done, failed, text := ended(c); done {
		code := reason.Code("job-finished")
		if failed {
			code = "job-failed"
		}
		q.say(cause(code, text))
		return
	}
	running, refused := 0, (*v1.Pod)(nil)
	for _, pod := range pods {
		if pod.Status.Phase == v1.PodRunning {
			running++
		}
		if kubeletRefusal(pod) {
			refused = pod
		}
	}
	switch {
	case running > 0:
		q.say(explain.Cause{Reason: reason.Reason{Code: "running"}, Text: plural(running, "pod of it runs", "pods of it run") + ", none waits"})
	case refused != nil:
		q.say(explain.Cause{Reason: reason.Reason{Code: "kubelet-refused", Device: refused.Spec.NodeName, Detail: []string{refused.Status.Reason, q.refusalMeaning(refused)}}})
	case c.template != nil && c.want == 0 && c.Kind != "CronJob":
		q.say(cause("scaled-to-zero"))
	case q.age(c.meta.GetCreationTimestamp().Time) < slow:
		q.say(cause("no-pods-yet", "created "+since(q.age(c.meta.GetCreationTimestamp().Time))+" ago"))
	case c.Kind == "JobSet" && slices.Contains(q.s.Absent, "jobsets.jobset.x-k8s.io"):
		q.say(cause("jobset-not-installed"))
	default:
		q.say(explain.Cause{Reason: reason.Reason{Code: "no-pods", Device: strings.ToLower(c.Kind) + " " + c.Name}})
	}
}

// ended tells whether a job or a job set is over, and how.
func ended(c *controller) (done, failed bool, text string) {
	if c.job != nil {
		for _, cond := range c.job.Status.Conditions {
			if cond.Status != v1.ConditionTrue {
				continue
			}
			switch cond.Type {
			case batchv1.JobComplete, batchv1.JobFailed:
				return true, cond.Type == batchv1.JobFailed, strings.TrimSpace(string(cond.Type) + " " + cond.Reason)
			}
		}
	}
	u, ok := c.meta.(*unstructured.Unstructured)
	if !ok {
		return false, false, ""
	}
	state, _, err := unstructured.NestedString(u.Object, "status", "terminalState")
	if err != nil || state == "" {
		return false, false, ""
	}
	return true, state == "Failed", state
}
