package rules

import (
	"fmt"
	"strings"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
)

// group judges the gang label. Only the pods of a JobSet, and of a plain Job,
// form a group; elsewhere the label has no effect.
func (k *checker) group() {
	key := k.Config.MinMemberLabel()
	switch k.w.Kind {
	case "JobSet", "Job", "CronJob":
		k.members(key)
	case "PodTemplate":
		return
	default:
		k.ungrouped(key)
	}
}

// member is a labelled template of a group.
type member struct {
	t *Template
	n int // the label's value, 0 if it cannot be read
}

func (k *checker) members(key string) {
	var labelled []member
	var pods int64
	for i := range k.w.Templates {
		t := &k.w.Templates[i]
		k.indexed(t)
		text, ok := t.Meta.Labels[key]
		if !ok {
			k.unlabelled(t, key)
			continue
		}
		pods += t.members()
		m := member{t: t}
		if !t.Meta.Refused[key] {
			var code reason.Code
			m.n, code = request.ParseCount(text, "min-member")
			if code != "" {
				k.add(t.label(key), reason.Reason{Code: code, Device: key, Detail: []string{text}})
			}
		}
		labelled = append(labelled, m)
	}
	for _, m := range labelled {
		k.size(m, labelled[0], pods, key)
	}
}

// members is how many pods of the template exist at once: a Job never makes
// more than its completions.
func (t *Template) members() int64 {
	j := t.Job
	if j == nil || j.Completions == nil || *j.Completions >= j.Parallelism || j.Parallelism <= 0 {
		return t.Pods
	}
	return t.Pods / j.Parallelism * *j.Completions
}

// size compares the label with the pods of the group. Too large and too small
// have different effects, so the finding says which.
func (k *checker) size(m, first member, pods int64, key string) {
	if m.n == 0 {
		return
	}
	path := m.t.label(key)
	if m.n != first.n && first.n != 0 {
		k.add(path, reason.Reason{Code: "min-member-differs", Want: int64(m.n), Free: int64(first.n)})
		return
	}
	if want := int64(m.n); want != pods && pods > 0 {
		effect := "it starts before all are there, and the last may starve"
		if want > pods {
			effect = fmt.Sprintf("it waits for ever, since pod %d never comes", pods+1)
		}
		k.add(path, reason.Reason{Code: "min-member-mismatch", Want: want, Free: pods, Device: key, Detail: []string{effect}})
	}
	if m.n > 1 && m.t.Job != nil && !m.t.Job.IgnoresDisruptions {
		k.add(m.t.Job.Path, reason.Reason{Code: "rollback-burns-backoff"})
	}
}

// unlabelled: a template without the label. Where the label is somewhere else
// that is the mistake; else a JobSet's pods with cards need it.
func (k *checker) unlabelled(t *Template, key string) {
	if k.misplaced(t, key) {
		return
	}
	if k.w.Kind != "JobSet" || !k.use(t).any {
		return
	}
	var all int64
	for i := range k.w.Templates {
		if k.use(&k.w.Templates[i]).any {
			all += k.w.Templates[i].Pods
		}
	}
	if all < 2 {
		return
	}
	f := k.add(Join(t.Meta.Path, "labels"), reason.Reason{Code: "min-member-missing", Device: key, Want: all})
	if t.Pods < 2 {
		f.Verdict = reason.Warn // a lone pod beside the group may be meant so
	}
}

// misplaced reports the label where nobody reads it.
func (k *checker) misplaced(t *Template, key string) bool {
	hit := func(m Meta, where string, labels map[string]string, field string) bool {
		if _, ok := labels[key]; !ok {
			return false
		}
		f := k.add(Join(Join(m.Path, field), key), reason.Reason{Code: "min-member-misplaced", Device: key, Detail: []string{where}})
		f.Hint = fmt.Sprintf("move it to %s", t.label(key))
		return true
	}
	if hit(t.Meta, "in the annotations of the pod template", t.Meta.Annotations, "annotations") {
		return true
	}
	for _, m := range k.w.Owners {
		if !governs(m, t) {
			continue
		}
		if hit(m, "in "+m.Path+".labels", m.Labels, "labels") || hit(m, "in "+m.Path+".annotations", m.Annotations, "annotations") {
			return true
		}
	}
	return false
}

// governs tells whether the metadata belongs to an object above the template.
func governs(m Meta, t *Template) bool {
	return strings.HasPrefix(t.Path, strings.TrimSuffix(m.Path, "metadata"))
}

// indexed: the API server refuses Indexed jobs without completions.
func (k *checker) indexed(t *Template) {
	j := t.Job
	switch {
	case j == nil:
	case j.Completions == nil && j.Indexed:
		k.add(Join(j.Path, "completions"), reason.Reason{Code: "completions-missing", Want: j.Parallelism})
	case j.Completions != nil && *j.Completions != j.Parallelism && t.Meta.Labels[k.Config.MinMemberLabel()] != "":
		k.add(Join(j.Path, "completions"), reason.Reason{Code: "completions-not-parallelism", Want: *j.Completions, Free: j.Parallelism})
	}
}

// ungrouped: kinds whose pods form no group.
func (k *checker) ungrouped(key string) {
	for i := range k.w.Templates {
		t := &k.w.Templates[i]
		text, ok := t.Meta.Labels[key]
		if !ok {
			continue
		}
		n, _ := request.ParseCount(text, "min-member")
		if k.w.Kind == "Deployment" {
			k.add(t.label(key), reason.Reason{Code: "gang-on-deployment"})
			continue
		}
		r := reason.Reason{Code: "gang-needs-jobset", Device: k.w.Kind}
		if c := k.count(); c != "" {
			r.Detail = []string{"; it makes " + c}
		}
		k.add(t.label(key), r)
		if k.w.OrderedPods && n > 1 {
			k.add("spec.podManagementPolicy", reason.Reason{Code: "ordered-pods", Want: int64(n)})
		}
		if k.w.LauncherLast && int64(n) > t.Pods {
			k.add("spec.launcherCreationPolicy", reason.Reason{Code: "launcher-after-workers", Want: int64(n)})
		}
	}
}

// count says how many pods the object makes, where that is not one number in
// the manifest.
func (k *checker) count() string {
	var all int64
	special := ""
	for i := range k.w.Templates {
		t := &k.w.Templates[i]
		all += t.Pods
		if t.Count != "" {
			special = t.Count
		}
	}
	if special == "" && len(k.w.Templates) < 2 {
		return ""
	}
	if special != "" {
		return fmt.Sprintf("%d pods: %s", all, special)
	}
	return fmt.Sprintf("%d pods", all)
}
