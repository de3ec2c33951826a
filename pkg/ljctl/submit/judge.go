package submit

import (
	"bytes"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/config"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/kube"
	"lj.aliyun.com/kit/pkg/manifest"
)

// plan is what is to be created, in order.
type plan struct{ items []planned }

// planned is one object.
type planned struct {
	object *unstructured.Unstructured
	// source is where it comes from: "flags", or file and line.
	source string
	// document is what it was read from, nil for flags.
	document *manifest.Document
	judged   manifest.Object
}

func (p *plan) objects() []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(p.items))
	for i := range p.items {
		out[i] = p.items[i].object
	}
	return out
}

// judge checks every object as validate does and prints the findings.
// INVALID, and UNKNOWN for lack of a schema, stop everything.
func (o *options) judge(p *plan, c config.Config, origin kube.Origin) error {
	opts := rules.Options{Config: c}
	worst := reason.OK
	for i := range p.items {
		it := &p.items[i]
		doc := it.document
		if doc == nil {
			b, err := yaml.Marshal(it.object.Object)
			if err != nil {
				return err
			}
			doc = &manifest.Parse(manifest.Source{Name: it.source, Data: b})[0]
		}
		it.judged = doc.Judge(opts)
		printFindings(o.f.Streams.ErrOut, it)
		v := it.judged.Verdict
		if v == reason.Unknown {
			v = reason.Warn // a kind that nobody knows is the server's to judge
		}
		worst = reason.Worst(worst, v)
	}
	if worst.ExitCode() == reason.ExitOK {
		return nil
	}
	if origin.Kind == kube.FromDefault && !origin.Absent {
		fmt.Fprintf(o.f.Streams.ErrOut, "checked against %s\n", cliutil.Escape(origin.String()))
	}
	return cliutil.WithHint(&cliutil.ExitError{Code: worst.ExitCode(), Err: fmt.Errorf("%s: nothing was created", worst)},
		"correct what is named above; ljctl validate -f FILE shows it with its place in the file")
}

// printFindings writes a line for each finding, and its fix.
func printFindings(w io.Writer, it *planned) {
	var b bytes.Buffer
	for _, f := range it.judged.Findings {
		if f.Verdict == reason.OK {
			continue
		}
		place := ""
		if it.document != nil {
			place = it.judged.File + ": "
			if f.Line > 0 {
				place = fmt.Sprintf("%s:%d: ", it.judged.File, f.Line)
			}
		}
		path := f.Path
		if path != "" {
			path += ": "
		}
		fmt.Fprintf(&b, "%s%s %s: %s%s\n", place, f.Verdict, f.Reason.Code, path, f.Reason.Sentence())
		if fix := f.Fix(); fix != "" {
			fmt.Fprintf(&b, "  fix: %s\n", fix)
		}
	}
	fmt.Fprint(w, cliutil.Escape(b.String()))
}
