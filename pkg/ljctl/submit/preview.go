package submit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	Ref string `json:"ref"`
	// Group is the part of the network to which a group goes that fits now.
	Group     string        `json:"group,omitempty"`
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
	all := true
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
		}
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

// tryObject places the pods of an object and keeps them: those of a group
// together or not at all, others one after the other.
func tryObject(ctx context.Context, e *offline.Engine, it *planned, cfg config.Config) (ObjectFit, error) {
	out := ObjectFit{Ref: ref(it.object)}
	var group []*v1.Pod
	of := map[types.UID]int{} // the template of each member
	for _, t := range templatesOf(it.object) {
		pods, err := podsOf(it, t, out.Ref)
		if err != nil {
			return out, err
		}
		if len(pods) == 0 {
			continue
		}
		member := kube.GroupOf(pods[0], cfg) != nil
		if member {
			group = append(group, pods...)
		}
		q, bad := kube.RequestOf(pods[0], cfg)
		if len(bad) > 0 || q.Empty() {
			continue
		}
		fit := TemplateFit{Role: t.role, Pods: t.pods, Request: q.Asks, RDMA: q.RDMA}
		if member {
			for _, p := range pods {
				of[p.UID] = len(out.Templates)
			}
		} else if err := tryEach(ctx, e, pods, &fit); err != nil {
			return out, err
		}
		out.Templates = append(out.Templates, fit)
	}
	if len(of) == 0 {
		return out, nil
	}
	r, err := e.AssumeGroup(ctx, group)
	if err != nil {
		return out, err
	}
	if r.Placed > 0 {
		out.Group = r.Spot.String()
	}
	for _, m := range r.Members {
		k, ok := of[m.Pod.UID]
		if !ok {
			continue
		}
		fit := &out.Templates[k]
		if m.Node == "" {
			fit.Why = cmp.Or(m.Why, r.Why)
			continue
		}
		fit.Placed++
		fit.Nodes = append(fit.Nodes, m.Node)
	}
	return out, nil
}

// podsOf are the pods of a template as their controllers will make them.
func podsOf(it *planned, t podTemplate, ref string) ([]*v1.Pod, error) {
	pod := &v1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(t.pod, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", it.source, err)
	}
	pod.Namespace = it.object.GetNamespace()
	name := strings.TrimSuffix(first(it.object.GetName(), it.object.GetGenerateName(), "preview"), "-")
	if kind := it.object.GetKind(); kind == "Job" || kind == kube.JobSetKind.Kind {
		job := metav1.ObjectMeta{Name: name, UID: types.UID("preview-" + ref)}
		if kind == kube.JobSetKind.Kind {
			job.Name += "-" + t.role
			metav1.SetMetaDataLabel(&pod.ObjectMeta, kube.JobSetNameLabel, name)
		}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	}
	out := make([]*v1.Pod, t.pods)
	for i := range out {
		out[i] = pod.DeepCopy()
		out[i].Name = strings.Join(slices.DeleteFunc([]string{name, t.role, strconv.Itoa(i)}, func(s string) bool { return s == "" }), "-")
		out[i].UID = types.UID(fmt.Sprintf("preview-%s-%s-%d", ref, t.role, i))
	}
	return out, nil
}

// tryEach places pods one after the other until one does not fit.
func tryEach(ctx context.Context, e *offline.Engine, pods []*v1.Pod, fit *TemplateFit) error {
	for _, p := range pods {
		node, _, err := e.Assume(ctx, p)
		var unfit *framework.FitError
		if errors.As(err, &unfit) {
			fit.Why = err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		fit.Placed++
		fit.Nodes = append(fit.Nodes, node)
	}
	return nil
}

// podTemplate is a template of an object, with how many pods are made of it.
type podTemplate struct {
	role string
	pods int
	pod  map[string]any
}
