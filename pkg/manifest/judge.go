package manifest

import (
	"sort"
	"strings"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// Object is what a document turned out to be, judged.
type Object struct {
	File     string
	Document int
	Line     int
	// APIVersion, Kind, Namespace and Name are as written, empty if they could
	// not be read. A List keeps its own.
	APIVersion, Kind, Namespace, Name string
	Verdict                           reason.Verdict
	// Request is what the object asks for, nil if it asks for no card or
	// breaks the rules about amounts.
	Request  *rules.Understood
	Findings []Finding
}

// Judge applies all rules to a document: the decoder's, the API server's and
// the product's. Findings are sorted: errors first, then by place.
func (d *Document) Judge(o rules.Options) Object {
	out := Object{File: d.File, Document: d.Index, Line: d.Line, Findings: d.Problems}
	if d.Root != nil {
		out.APIVersion, out.Kind = d.Root.Get("apiVersion").text(), d.Root.Get("kind").text()
		out.Name, out.Namespace = nameOf(d.Root), d.Root.Get("metadata", "namespace").text()
		j := judge{options: o, places: d.places}
		j.root(d.Root)
		for _, f := range j.found {
			at := d.places.find(f.Path)
			out.Findings = append(out.Findings, Finding{f, at.line, at.col})
		}
		out.Request = j.request
	}
	verdicts := make([]reason.Verdict, 0, len(out.Findings))
	for _, f := range out.Findings {
		verdicts = append(verdicts, f.Verdict)
	}
	out.Verdict = reason.Worst(verdicts...)
	sortFindings(out.Findings)
	return out
}

func nameOf(n *Node) string {
	if name := n.Get("metadata", "name").text(); name != "" {
		return name
	}
	return n.Get("metadata", "generateName").text()
}

// sortFindings puts what decides first, then goes by place in the file.
func sortFindings(fs []Finding) {
	rank := func(f Finding) int {
		switch f.Verdict {
		case reason.OK:
			return 2
		case reason.Warn:
			return 1
		}
		return 0
	}
	sort.SliceStable(fs, func(i, j int) bool {
		a, b := fs[i], fs[j]
		switch {
		case rank(a) != rank(b):
			return rank(a) < rank(b)
		case a.Line != b.Line:
			return a.Line < b.Line
		case a.Col != b.Col:
			return a.Col < b.Col
		}
		return a.Path < b.Path
	})
}

// judge collects what there is to say about one document.
type judge struct {
	options rules.Options
	places  places
	found   []rules.Finding
	request *rules.Understood
}

func (j *judge) add(path string, v reason.Verdict, r reason.Reason) *rules.Finding {
	j.found = append(j.found, rules.Finding{Path: path, Verdict: v, Reason: r})
	return &j.found[len(j.found)-1]
}

func (j *judge) root(n *Node) {
	if n.Kind != Map {
		j.add("", reason.Invalid, reason.Reason{Code: "not-an-object"})
		return
	}
	j.list(n, "")
}

// list judges an object, or the items of a List, which may be Lists again:
// kubectl takes them apart to any depth.
func (j *judge) list(n *Node, path string) {
	if n.Get("kind").text() != "List" || n.Get("apiVersion").text() != "v1" {
		j.object(n, path)
		return
	}
	at := rules.Join(path, "items")
	items := n.Get("items").list()
	if len(items) == 0 {
		j.add(at, reason.Unknown, reason.Reason{Code: "nothing-to-check"})
	}
	for i, item := range items {
		if item.Kind != Map {
			j.add(rules.Index(at, i), reason.Invalid, reason.Reason{Code: "not-an-object"})
			continue
		}
		j.list(item, rules.Index(at, i))
	}
}

// object judges one object at a path.
func (j *judge) object(n *Node, path string) {
	missing := false
	for _, key := range []string{"apiVersion", "kind"} {
		if v := n.Get(key); v == nil || v.Text == "" {
			missing = true
			f := j.add(rules.Join(path, key), reason.Invalid, reason.Reason{Code: "kind-missing", Device: key})
			for _, have := range n.Fields {
				if strings.EqualFold(have.Key, key) && have.Key != key {
					f.Hint = "write " + key + ", not " + have.Key
				}
			}
		}
	}
	if missing {
		return
	}
	g := gvkOf(n)
	if right := g.right(); right != "" {
		have := n.Get("apiVersion").text()
		j.add(rules.Join(path, "apiVersion"), reason.Invalid,
			reason.Reason{Code: "api-version-wrong", Device: g.kind, Detail: []string{have}}).Hint = right
		return
	}
	read := readerOf(g)
	if read == nil {
		j.other(n, g, path)
		return
	}
	w := &rules.Workload{Kind: g.kind, Name: nameOf(n), Namespace: n.Get("metadata", "namespace").text()}
	w.Owners = []rules.Meta{metaOf(n.Get("metadata"), rules.Join(path, "metadata"))}
	read(n, path, w)
	j.server(n, g, path, w)
	j.found = append(j.found, rules.Check(w, j.options)...)
	j.merge(rules.Understand(w, j.options))
	j.refusals(n, g, path, w)
}

// merge adds the request of one object to that of the document, which has
// several if it is a List.
func (j *judge) merge(u *rules.Understood) {
	switch {
	case u == nil:
	case j.request == nil:
		j.request = u
	default:
		j.request.Pods += u.Pods
		j.request.Cards += u.Cards
		j.request.Templates = append(j.request.Templates, u.Templates...)
	}
}

// other judges kinds without a reader: those of Kubernetes that make no pods
// are checked against their schema, unknown ones are never called valid, nor
// is a PodList, whose pods the schema alone says nothing about.
func (j *judge) other(n *Node, g gvk, path string) {
	if typeOf(g) != nil && !strings.HasSuffix(g.kind, "List") {
		j.types(n, g, path)
		return
	}
	if podless[g.group+"/"+g.kind] {
		return
	}
	r := reason.Reason{Code: "kind-not-known", Device: g.kind, Detail: []string{""}}
	if paths := lookalikes(n, path, 0, nil); len(paths) > 0 {
		r.Detail[0] = "; these look like pod templates: " + strings.Join(paths, ", ")
	}
	j.add(rules.Join(path, "kind"), reason.Unknown, r)
}
