package manifest

import (
	"errors"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// refusals runs the API server's own validation over the object, so that
// whatever it refuses is INVALID here, also where no rule of ours knows it.
// What our rules have said already, in words about cards, is not repeated.
func (j *judge) refusals(n *Node, g gvk, path string, w *rules.Workload) {
	if j.undecodable(path) {
		return
	}
	said := spokenOf(j.found)
	version := g.version
	if g.group != "" {
		version = g.group + "/" + version
	}
	if r, ok := refusers[version+"/"+g.kind]; ok {
		j.refuse(r, n, path, said)
		return
	}
	if w.Elsewhere != "" {
		return
	}
	for i := range w.Templates {
		t := &w.Templates[i]
		r, at := refuse(refuseTemplate), t.Path
		if t.Job != nil && g.kind == "JobSet" {
			r, at = refuseJobTemplate, parent(t.Job.Path)
		}
		if p, ok := j.places[at]; ok {
			j.refuse(r, p.node, at, said)
		}
	}
}

// undecodable tells whether values have the wrong type, after which a typed
// decoding would only repeat the first of them.
func (j *judge) undecodable(path string) bool {
	for _, f := range j.found {
		if (f.Reason.Code == "wrong-type" || f.Reason.Code == "bad-quantity") && strings.HasPrefix(f.Path, path) {
			return true
		}
	}
	return false
}

func (j *judge) refuse(r refuse, n *Node, path string, said spoken) {
	list, err := r.guard(n.appendJSON(nil))
	switch {
	case errors.Is(err, errForeign):
		return
	case err != nil:
		j.add(path, reason.Invalid, reason.Reason{Code: "server-refuses", Detail: []string{clean(err.Error())}})
		return
	}
	seen := map[string]bool{}
	for _, e := range list {
		if e.Type == field.ErrorTypeForbidden && strings.HasSuffix(e.Field, ".privileged") {
			continue // a flag of the API server that is on nearly everywhere
		}
		at := inMetadata(e.Field)
		switch {
		case at == "<nil>" || at == "":
			at = path
		case path != "":
			at = path + "." + at
		}
		msg := clean(e.ErrorBody())
		if seen[at+msg] || said.covers(at) {
			continue
		}
		seen[at+msg] = true
		j.add(at, reason.Invalid, reason.Reason{Code: "server-refuses", Detail: []string{msg}})
	}
}

// inMetadata corrects paths of the labels and annotations of templates, where
// the validation leaves metadata out.
func inMetadata(path string) string {
	for _, m := range []string{"labels", "annotations"} {
		if path == m || strings.HasPrefix(path, m+"[") || strings.HasPrefix(path, m+".") {
			return "metadata." + path
		}
		path = strings.Replace(path, "template."+m, "template.metadata."+m, 1)
	}
	return path
}

// spoken are the fields that errors of ours are about, with everything above
// them, and the containers whose resources are at fault. A set, since a
// hostile object has a hundred thousand of each.
type spoken struct{ at, above, resources map[string]bool }

func spokenOf(found []rules.Finding) spoken {
	s := spoken{at: map[string]bool{}, above: map[string]bool{}, resources: map[string]bool{}}
	for _, f := range found {
		if f.Verdict == reason.OK || f.Verdict == reason.Warn || f.Path == "" {
			continue
		}
		s.at[f.Path] = true
		for p := parent(f.Path); p != "" && !s.above[p]; p = parent(p) {
			s.above[p] = true
		}
		if c, _, ok := strings.Cut(f.Path, ".resources"); ok {
			s.resources[c] = true
		}
	}
	return s
}

// covers tells whether an error of ours is about the same field, one above or
// one below, or about the same container's resources.
func (s spoken) covers(path string) bool {
	if s.above[path] {
		return true
	}
	if c, _, ok := strings.Cut(path, ".resources"); ok && s.resources[c] {
		return true
	}
	for p := path; p != ""; p = parent(p) {
		if s.at[p] {
			return true
		}
	}
	return false
}

// appendJSON writes the tree as JSON, with the values that count.
func (n *Node) appendJSON(b []byte) []byte {
	switch n.Kind {
	case Map:
		b = append(b, '{')
		for i, f := range n.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, f.Key)
			b = append(b, ':')
			b = f.Value.appendJSON(b)
		}
		return append(b, '}')
	case List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case String:
		return appendString(b, n.Text)
	case Null:
		return append(b, "null"...)
	}
	return append(b, n.Text...)
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
