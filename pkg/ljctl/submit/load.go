package submit

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/manifest"
)

// load reads all files. Every problem of every file is said before it fails.
func (o *options) load() (*plan, error) {
	ns, enforced, err := o.f.Namespace()
	if err != nil {
		return nil, err
	}
	p := &plan{}
	worst := reason.OK
	for _, s := range manifest.Sources(o.files, o.recursive) {
		docs := manifest.Parse(manifest.Read(s, o.f.Streams.In))
		for i := range docs {
			d := &docs[i]
			if d.Root == nil {
				for _, f := range d.Problems {
					worst = reason.Worst(worst, f.Verdict)
				}
				printFindings(o.f.Streams.ErrOut, &planned{document: d, judged: manifest.Object{File: d.File, Findings: d.Problems}})
				continue
			}
			items, err := objectsOf(d)
			if err != nil {
				return nil, err
			}
			p.items = append(p.items, items...)
		}
	}
	if len(p.items) == 0 {
		worst = reason.Worst(worst, reason.Invalid)
	}
	if worst.ExitCode() != reason.ExitOK {
		return nil, &cliutil.ExitError{Code: worst.ExitCode(), Err: fmt.Errorf("%s: nothing was created", worst)}
	}
	for _, it := range p.items {
		switch have := it.object.GetNamespace(); {
		case have == "" && !clusterScoped[it.object.GetKind()]:
			it.object.SetNamespace(ns)
		case have != ns && enforced && have != "":
			return nil, cliutil.Usagef("%s: the namespace %q of the object is not the %q of -n", it.source, have, ns)
		}
	}
	return p, nil
}

// clusterScoped are the kinds without a namespace that stand beside jobs.
var clusterScoped = map[string]bool{"Namespace": true, "PersistentVolume": true, "StorageClass": true, "PriorityClass": true,
	"RuntimeClass": true, "ClusterRole": true, "ClusterRoleBinding": true, "CustomResourceDefinition": true, "Node": true}

// objectsOf takes a document's objects; a List has several. All objects of a
// List share the document's verdict.
func objectsOf(d *manifest.Document) ([]planned, error) {
	source := fmt.Sprintf("%s:%d", d.File, d.Line)
	m, ok := valueOf(d.Root).(map[string]any)
	if !ok {
		// validate says what is wrong; it never gets further than that.
		return []planned{{object: &unstructured.Unstructured{Object: map[string]any{}}, source: source, document: d}}, nil
	}
	return itemsOf(m, source, d), nil
}

// itemsOf takes Lists apart, as kubectl does to any depth.
func itemsOf(m map[string]any, source string, d *manifest.Document) []planned {
	if m["kind"] != "List" {
		return []planned{{object: &unstructured.Unstructured{Object: m}, source: source, document: d}}
	}
	items, _ := m["items"].([]any)
	var out []planned
	for i, it := range items {
		im, ok := it.(map[string]any)
		if !ok {
			im = map[string]any{}
		}
		out = append(out, itemsOf(im, fmt.Sprintf("%s, item %d", source, i+1), d)...)
	}
	return out
}

// valueOf is the tree as client-go holds objects.
func valueOf(n *manifest.Node) any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case manifest.Bool:
		return n.Text == "true"
	case manifest.Number:
		num := json.Number(n.Text)
		if i, err := num.Int64(); err == nil {
			return i
		}
		f, err := num.Float64()
		if err != nil {
			return n.Text
		}
		return f
	case manifest.String:
		return n.Text
	case manifest.List:
		out := make([]any, len(n.Items))
		for i, it := range n.Items {
			out[i] = valueOf(it)
		}
		return out
	case manifest.Map:
		out := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			out[f.Key] = valueOf(f.Value)
		}
		return out
	}
	return nil
}
