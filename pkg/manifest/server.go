package manifest

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// server notes what the API server's decoder and the rules about names and
// labels refuse. Its full validation follows in refusals.
func (j *judge) server(n *Node, g gvk, path string, w *rules.Workload) {
	j.types(n, g, path)
	for _, m := range w.Owners {
		j.labels(m)
	}
	for i := range w.Templates {
		t := &w.Templates[i]
		if g.group != "" || g.kind != "Pod" {
			j.labels(t.Meta)
		}
		if typeOf(g) == nil && w.Elsewhere == "" {
			j.typed(j.places[t.Path].node, templateType, t.Path)
		}
	}
	if g.kind == "JobSet" {
		j.jobSetName(n, path, w)
	}
}

// types compares an object with its Go type, or its metadata if the type is
// not compiled in.
func (j *judge) types(n *Node, g gvk, path string) {
	if t := typeOf(g); t != nil {
		j.typed(n, t, path)
		return
	}
	if m := n.Get("metadata"); m != nil {
		j.typed(m, reflect.TypeFor[metav1.ObjectMeta](), rules.Join(path, "metadata"))
	}
}

func (j *judge) typed(n *Node, t reflect.Type, path string) {
	if n == nil {
		return
	}
	var c typeCheck
	c.check(n, t, path)
	j.found = append(j.found, c.found...)
}

// labels applies the API server's syntax of label keys and values.
func (j *judge) labels(m rules.Meta) {
	for _, key := range sortedKeys(m.Labels) {
		at := rules.Join(rules.Join(m.Path, "labels"), key)
		if len(validation.IsQualifiedName(key)) > 0 {
			j.add(at, reason.Invalid, reason.Reason{Code: "bad-label-key", Device: key})
		}
		if v := m.Labels[key]; m.Refused[key] {
			f := j.add(at, reason.Invalid, reason.Reason{Code: "bad-label-value", Device: key, Detail: []string{v}})
			if len(v) > validation.LabelValueMaxLength {
				f.Hint = "shorten the value to 63 characters"
			}
		}
	}
}

// jobSetName: the pods of a JobSet are named <name>-<job>-<job index>-<pod
// index>-<five letters>, and that must be a DNS label. The JobSet is created
// all the same, and its pods are not.
func (j *judge) jobSetName(n *Node, path string, w *rules.Workload) {
	name := n.Get("metadata", "name").text()
	if name == "" {
		return
	}
	at := rules.Join(rules.Join(path, "metadata"), "name")
	if len(validation.IsDNS1035Label(name)) > 0 && len(name) <= validation.DNS1035LabelMaxLength {
		j.add(at, reason.Invalid, reason.Reason{Code: "name-not-dns-label", Device: name})
		return
	}
	for i := range w.Templates {
		t := &w.Templates[i]
		if t.Job == nil {
			continue
		}
		replicas := int64(1)
		if t.Job.Parallelism > 0 {
			replicas = max(t.Pods/t.Job.Parallelism, 1)
		}
		pod := fmt.Sprintf("%s-%s-%d-%d-abcde", name, t.Role, replicas-1, max(t.Job.Parallelism-1, 0))
		if over := len(pod) - validation.DNS1035LabelMaxLength; over > 0 {
			j.add(at, reason.Invalid, reason.Reason{Code: "name-too-long", Device: name, Want: int64(len(pod)),
				Free: int64(over), Detail: []string{pod}})
			return
		}
	}
}
