package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/sched/offline"
)

// Preview is what --preview prints: the request as understood, and whether it
// fits now.
type Preview struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Objects    []ObjectFit    `json:"objects"`
	Settings   string         `json:"settings"` // where the cluster's settings are from
	NotChecked []string       `json:"notChecked,omitempty"`
	Verdict    reason.Verdict `json:"verdict"`
}

// ObjectFit is one object of the preview.
type ObjectFit struct {
	Ref       string        `json:"ref"`
	Templates []TemplateFit `json:"templates"`
}

// TemplateFit is one pod template.
type TemplateFit struct {
	Role    string        `json:"role,omitempty"`
	Pods    int           `json:"pods"`
	Request []request.Ask `json:"request"`
	RDMA    bool          `json:"rdma,omitempty"`
	// Placed of Pods fit now, on Nodes, a node for each pod.
	Placed int      `json:"placed"`
	Nodes  []string `json:"nodes,omitempty"`
	// Why is the scheduler's answer for the first pod that does not fit.
	Why string `json:"why,omitempty"`
}

// showPreview reads the cluster and tries the pods on the scheduler's engine.
func (o *options) showPreview(ctx context.Context, p *plan, cfg config.Config, origin kube.Origin) error {
	clients, err := o.f.Clients()
	if err != nil {
		return err
	}
	ns, _, err := o.f.Namespace()
	if err != nil {
		return err
	}
	s, err := kube.Collect(ctx, clients, kube.CollectOptions{Fallback: ns, Now: o.f.Clock.Now()})
	if err != nil {
		return err
	}
	pv := Preview{APIVersion: kube.SnapshotAPIVersion, Kind: "SubmitPreview", Settings: origin.String(), Verdict: reason.OK}
	for _, m := range s.Missing {
		if m.Resource != "events" {
			pv.NotChecked = append(pv.NotChecked, m.Resource+": "+m.Why)
		}
	}
	if s.Lacks("nodes") != nil || s.Lacks("pods") != nil {
		pv.Verdict = reason.Unknown
	}
	fits, err := pv.try(ctx, s, p, cfg)
	if err != nil {
		return err
	}
	if !fits && pv.Verdict == reason.OK {
		if pv.Verdict, err = onEmptyCluster(ctx, s, p, cfg); err != nil {
			return err
		}
	}
	return o.printPreview(&pv)
}

// try fills in the objects and tells whether all of their pods fit.
func (pv *Preview) try(ctx context.Context, s *kube.Snapshot, p *plan, cfg config.Config) (bool, error) {
	e, err := offline.New(ctx, s, cfg)
	if err != nil {
		return false, err
	}
	defer e.Close()
	all, gang := true, false
	for i := range p.items {
		fit, err := tryObject(ctx, e, &p.items[i], cfg)
		if err != nil {
			return false, err
		}
		if len(fit.Templates) == 0 {
			continue
		}
		pv.Objects = append(pv.Objects, fit)
		for _, t := range fit.Templates {
			all = all && t.Placed == t.Pods
			gang = gang || p.items[i].object.GetKind() == kube.JobSetKind.Kind && t.Pods > 1
		}
	}
	if gang {
		pv.NotChecked = append(pv.NotChecked, "whether one network-pod holds all pods of the group: they were tried one by one")
	}
	return all, nil
}

// onEmptyCluster tells a job that waits for others to end from one that never
// fits: it tries the same without any other pod.
func onEmptyCluster(ctx context.Context, s *kube.Snapshot, p *plan, cfg config.Config) (reason.Verdict, error) {
	empty := *s
	empty.Pods = nil
	var pv Preview
	fits, err := pv.try(ctx, &empty, p, cfg)
	if err != nil || fits {
		return reason.Wait, err
	}
	return reason.Blocked, nil
}

// tryObject places the pods of an object one after the other and keeps them.
func tryObject(ctx context.Context, e *offline.Engine, it *planned, cfg config.Config) (ObjectFit, error) {
	out := ObjectFit{Ref: ref(it.object)}
	for _, t := range templatesOf(it.object) {
		pod := &v1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(t.pod, pod); err != nil {
			return out, fmt.Errorf("%s: %w", it.source, err)
		}
		pod.Namespace = it.object.GetNamespace()
		q, bad := kube.RequestOf(pod, cfg)
		if len(bad) > 0 || q.Empty() {
			continue
		}
		fit := TemplateFit{Role: t.role, Pods: t.pods, Request: q.Asks, RDMA: q.RDMA}
		for i := range t.pods {
			one := pod.DeepCopy()
			one.Name = fmt.Sprintf("%s-%d", strings.TrimSuffix(first(it.object.GetName(), it.object.GetGenerateName(), "preview"), "-"), i)
			one.UID = types.UID(fmt.Sprintf("preview-%s-%s-%d", out.Ref, t.role, i))
			node, _, err := e.Assume(ctx, one)
			var unfit *framework.FitError
			switch {
			case errors.As(err, &unfit):
				fit.Why = err.Error()
			case err != nil:
				return out, err
			default:
				fit.Placed++
				fit.Nodes = append(fit.Nodes, node)
			}
			if err != nil {
				break
			}
		}
		out.Templates = append(out.Templates, fit)
	}
	return out, nil
}

// podTemplate is a template of an object, with how many pods are made of it.
type podTemplate struct {
	role string
	pods int
	pod  map[string]any
}
