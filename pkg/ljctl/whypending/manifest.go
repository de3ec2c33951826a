package whypending

import (
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
)

// maxManifest bounds what -f reads.
const maxManifest = 16 << 20

// draft is a pod that does not exist, and how many of it there would be.
type draft struct {
	target Target
	pod    *v1.Pod
	pods   int
}

// drafts reads the pods of a manifest, nil without -f.
func (o *options) drafts(ns string) ([]draft, error) {
	if o.file == "" {
		return nil, nil
	}
	in, closeIn, err := open(o.f.Streams.In, o.file)
	if err != nil {
		return nil, err
	}
	defer closeIn()
	dec := utilyaml.NewYAMLOrJSONDecoder(io.LimitReader(in, maxManifest), 4096)
	var out []draft
	for n := 1; ; n++ {
		var m map[string]any
		if err := dec.Decode(&m); err == io.EOF {
			break
		} else if err != nil {
			return nil, cliutil.WithHint(fmt.Errorf("%s: document %d: %w", o.file, n, err), "check the manifest with: ljctl validate -f %s", o.file)
		}
		if len(m) == 0 {
			continue
		}
		ds, err := draftsOf(&unstructured.Unstructured{Object: m}, ns)
		if err != nil {
			return nil, cliutil.WithHint(fmt.Errorf("%s: document %d: %w", o.file, n, err), "check the manifest with: ljctl validate -f %s", o.file)
		}
		out = append(out, ds...)
	}
	if len(out) == 0 {
		return nil, cliutil.WithHint(fmt.Errorf("%s: no pod in it", o.file), "pods, jobs, job sets, deployments and other sets are read")
	}
	return out, nil
}

// place is where a kind keeps its pod template and the number of its pods.
type place struct{ template, count []string }

var places = map[string]place{
	"Pod":         {},
	"Job":         {[]string{"spec", "template"}, []string{"spec", "parallelism"}},
	"CronJob":     {[]string{"spec", "jobTemplate", "spec", "template"}, []string{"spec", "jobTemplate", "spec", "parallelism"}},
	"Deployment":  {[]string{"spec", "template"}, []string{"spec", "replicas"}},
	"ReplicaSet":  {[]string{"spec", "template"}, []string{"spec", "replicas"}},
	"StatefulSet": {[]string{"spec", "template"}, []string{"spec", "replicas"}},
	"DaemonSet":   {[]string{"spec", "template"}, nil},
}

// draftsOf finds the pod templates of an object. Objects without pods are
// passed over.
func draftsOf(u *unstructured.Unstructured, ns string) ([]draft, error) {
	if own := u.GetNamespace(); own != "" {
		ns = own
	}
	name := u.GetName()
	if name == "" {
		name = u.GetGenerateName() + "(generated)"
	}
	t := Target{u.GetKind(), ns, name}
	switch {
	case u.IsList():
		var out []draft
		err := u.EachListItem(func(o runtime.Object) error {
			item, ok := o.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("a %T in the list", o)
			}
			ds, err := draftsOf(item, ns)
			out = append(out, ds...)
			return err
		})
		return out, err
	case t.Kind == "JobSet":
		return jobSetDrafts(u, t)
	}
	at, known := places[t.Kind]
	if !known {
		return nil, nil
	}
	d, err := draftAt(u.Object, t, at)
	if err != nil {
		return nil, err
	}
	return []draft{d}, nil
}

func jobSetDrafts(u *unstructured.Unstructured, t Target) ([]draft, error) {
	jobs, _, err := unstructured.NestedSlice(u.Object, "spec", "replicatedJobs")
	if err != nil {
		return nil, err
	}
	var out []draft
	for i, j := range jobs {
		m, ok := j.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("spec.replicatedJobs[%d]: no mapping", i)
		}
		d, err := draftAt(m, t, place{[]string{"template", "spec", "template"}, []string{"template", "spec", "parallelism"}})
		if err != nil {
			return nil, fmt.Errorf("spec.replicatedJobs[%d]: %w", i, err)
		}
		if n, ok := number(m, "replicas"); ok {
			d.pods *= n
		}
		out = append(out, d)
	}
	return out, nil
}

func draftAt(m map[string]any, t Target, at place) (draft, error) {
	tmpl := m
	if at.template != nil {
		var ok bool
		var err error
		if tmpl, ok, err = unstructured.NestedMap(m, at.template...); err != nil || !ok {
			return draft{}, fmt.Errorf("%s: no pod template", t)
		}
	}
	pod := &v1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tmpl, pod); err != nil {
		return draft{}, fmt.Errorf("%s: %w", t, err)
	}
	pod.Namespace = t.Namespace
	if pod.Name == "" {
		pod.Name = t.Name
	}
	pod.Status = v1.PodStatus{}
	defaults(pod)
	d := draft{target: t, pod: pod, pods: 1}
	if n, ok := number(m, at.count...); ok {
		d.pods = n
	}
	return d, nil
}

// defaults does what the API server does and the scheduler relies on: a
// request that is not there is the limit.
func defaults(pod *v1.Pod) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			r := &list[i].Resources
			for name, q := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = v1.ResourceList{}
					}
					r.Requests[name] = q
				}
			}
		}
	}
}

func number(m map[string]any, keys ...string) (int, bool) {
	if len(keys) == 0 {
		return 0, false
	}
	v, ok, err := unstructured.NestedFieldNoCopy(m, keys...)
	if err != nil || !ok {
		return 0, false
	}
	switch n := v.(type) {
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	}
	return 0, false
}
