package whypending

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/spelling"
	"lj.aliyun.com/kit/pkg/kube"
)

// inquiry is one question about one pod. pod is nil if there is none to look
// at, owner is nil for a pod of its own.
type inquiry struct {
	*Picture
	pod    *v1.Pod
	owner  *controller
	count  int  // pods of the target
	draft  bool // the pod does not exist: it comes from a manifest
	req    *request.Request
	in     explain.Input
	suffix []explain.Cause // causes that are worth a line and never decide
	notes  []string
	missed []explain.NotChecked
	// groupFit is when the pod's group fits, "" if it is not the group that
	// keeps the pod waiting. Changes on one node then say nothing.
	groupFit explain.Fit
}

// Explain answers for a pod or for what makes pods. It is an error only if
// the target does not exist or ctx ends.
func (p *Picture) Explain(ctx context.Context, t Target) (*explain.Report, error) {
	if t.Kind == "Pod" {
		pod := p.pods[t.Namespace+"/"+t.Name]
		if pod == nil {
			return nil, p.notFound(t)
		}
		return p.explainPod(ctx, t, pod)
	}
	c := p.find(t)
	if c == nil {
		return nil, p.notFound(t)
	}
	return p.explainOwner(ctx, c)
}

// notFound tells a name that is wrong from a list that nobody could read.
func (p *Picture) notFound(t Target) error {
	var names []string
	list := map[string]string{"Pod": "pods", "Job": "jobs.batch", "JobSet": "jobsets.jobset.x-k8s.io", "CronJob": "cronjobs.batch",
		"Deployment": "deployments.apps", "ReplicaSet": "replicasets.apps", "StatefulSet": "statefulsets.apps", "DaemonSet": "daemonsets.apps"}[t.Kind]
	if m := p.s.Lacks(list); m != nil && m.Partial != t.Namespace {
		return cliutil.WithHint(fmt.Errorf("%s: %s not read (%s)", t, list, m.Why), "ask for the permission, or for a snapshot taken by somebody who has it")
	}
	if t.Kind == "Pod" {
		for _, pod := range p.s.Pods {
			if pod.Namespace == t.Namespace {
				names = append(names, pod.Name)
			}
		}
	} else {
		for _, c := range p.owners {
			if c.Kind == t.Kind && c.Namespace == t.Namespace {
				names = append(names, c.Name)
			}
		}
	}
	err := fmt.Errorf("%s not found", t)
	if c := p.named(t); c != "" {
		return cliutil.WithHint(err, "ljctl why-pending %s", c)
	}
	if near := spelling.Closest(t.Name, names); near != "" {
		return cliutil.WithHint(err, "did you mean %s?", near)
	}
	for _, pod := range p.s.Pods {
		if t.Kind == "Pod" && pod.Name == t.Name {
			return cliutil.WithHint(err, "there is one in namespace %s: use -n %s", pod.Namespace, pod.Namespace)
		}
	}
	return cliutil.WithHint(err, "see what waits with: ljctl why-pending -A")
}

// named is what makes pods and has the name that was taken for a pod's, as
// the user would write it; of several the one that is made by no other.
func (p *Picture) named(t Target) string {
	var found []string
	for _, c := range p.owners {
		if t.Kind == "Pod" && c.Namespace == t.Namespace && c.Name == t.Name && p.parent(c.meta) == nil {
			found = append(found, strings.ToLower(c.Kind)+"/"+c.Name)
		}
	}
	slices.Sort(found)
	return strings.Join(found[:min(len(found), 1)], "")
}

// ExplainDraft answers for a pod that does not exist yet.
func (p *Picture) ExplainDraft(ctx context.Context, t Target, pod *v1.Pod, pods int) (*explain.Report, error) {
	q := &inquiry{Picture: p, pod: p.admitted(pod), count: pods, draft: true}
	return q.answer(ctx, t)
}

// admitted is the pod as admission would store it: what the RuntimeClass says
// about nodes is merged in.
func (p *Picture) admitted(pod *v1.Pod) *v1.Pod {
	if pod.Spec.RuntimeClassName == nil {
		return pod
	}
	rc := p.runtimeClass(*pod.Spec.RuntimeClassName)
	if rc == nil || rc.Scheduling == nil {
		return pod
	}
	pod = pod.DeepCopy()
	for k, v := range rc.Scheduling.NodeSelector {
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		if _, own := pod.Spec.NodeSelector[k]; !own {
			pod.Spec.NodeSelector[k] = v
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, rc.Scheduling.Tolerations...)
	return pod
}

func (p *Picture) explainPod(ctx context.Context, t Target, pod *v1.Pod) (*explain.Report, error) {
	q := &inquiry{Picture: p, pod: pod, count: 1, owner: p.parent(pod)}
	return q.answer(ctx, t)
}

// answer goes through the stages of a pod's life up to the one it is in.
func (q *inquiry) answer(ctx context.Context, t Target) (*explain.Report, error) {
	q.lead()
	if q.considersNodes() {
		if err := q.lookAtNodes(ctx); err != nil {
			return nil, err
		}
		if err := q.lookAtGroup(ctx); err != nil {
			return nil, err
		}
		q.anomalies()
		q.freshness()
	}
	q.in.Lead = append(q.in.Lead, q.suffix...)
	r := explain.Reduce(q.in)
	q.finish(r, t)
	if q.in.Nodes == nil || r.FitNodes > 0 {
		return r, ctx.Err()
	}
	if q.groupFit != "" {
		r.Fit = q.groupFit
		return r, ctx.Err()
	}
	if err := q.outlook(ctx, r); err != nil {
		return nil, err
	}
	return r, q.suggest(ctx, r)
}

// finish fills in what is about the target and not about its causes.
func (q *inquiry) finish(r *explain.Report, t Target) {
	r.GeneratedAt = q.now.UTC().Format(time.RFC3339)
	r.Target = q.target(t)
	if q.req != nil && q.pod != nil {
		r.Request = describe(q.pod, q.req, q.cfg, max(1, q.count))
	}
	r.Scheduler = q.said()
	r.NotChecked = append(q.missed, q.notChecked()...)
	r.Notes = q.notes
	q.nameHolders(r)
}

func (q *inquiry) target(t Target) explain.Target {
	out := explain.Target{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
	if q.count > 1 || t.Kind != "Pod" {
		out.Pods = q.count
	}
	if q.pod == nil {
		if q.owner != nil {
			out.UID = string(q.owner.meta.GetUID())
			out.Since = q.owner.meta.GetCreationTimestamp().UTC().Format(time.RFC3339)
		}
		return out
	}
	out.SchedulerName = q.pod.Spec.SchedulerName
	if q.pod.Spec.Priority != nil {
		out.Priority = *q.pod.Spec.Priority
	}
	if q.draft {
		return out
	}
	out.UID, out.Phase = string(q.pod.UID), string(q.pod.Status.Phase)
	if !q.pod.CreationTimestamp.IsZero() {
		out.Since = q.pod.CreationTimestamp.UTC().Format(time.RFC3339)
	}
	if t.Kind != "Pod" {
		out.Pod = q.pod.Name
	}
	return out
}

// considersNodes tells whether the answer depends on nodes: the pod waits for
// the scheduler, and its request can be read.
func (q *inquiry) considersNodes() bool {
	if q.pod == nil || q.req == nil || q.pod.Spec.NodeName != "" && !q.draft || kube.Finished(q.pod) {
		return false
	}
	for _, c := range q.in.Lead {
		switch c.Reason.Code {
		case "scheduling-gate", "queue-not-admitted", "being-deleted", "no-permission", "list-missing":
			return false
		}
	}
	return true
}

func cause(code reason.Code, detail ...string) explain.Cause {
	return explain.Cause{Reason: reason.Reason{Code: code, Detail: detail}}
}

// blocked gives a code that manifests call INVALID the word for a live pod.
func blocked(c explain.Cause) explain.Cause {
	c.Verdict = reason.Blocked
	return c
}
