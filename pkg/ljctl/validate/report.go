package validate

import (
	"strings"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/manifest"
)

// APIVersion and Kind name the report's format, which only grows.
const (
	APIVersion = "ljctl.lj.aliyun.com/v1"
	ReportKind = "ValidationReport"
)

// Report is the answer about all documents.
type Report struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Verdict    reason.Verdict `json:"verdict"`
	Objects    []Object       `json:"objects"`
}

// Object is the answer about one document.
type Object struct {
	File      string            `json:"file"`
	Document  int               `json:"document"`
	Kind      string            `json:"kind,omitempty"`
	Namespace string            `json:"namespace,omitempty"`
	Name      string            `json:"name,omitempty"`
	Line      int               `json:"line,omitempty"`
	Verdict   reason.Verdict    `json:"verdict"`
	Request   *rules.Understood `json:"request,omitempty"`
	Findings  []Finding         `json:"findings"`
}

// Finding is one thing to say about a document.
type Finding struct {
	Code     reason.Code    `json:"code"`
	Severity Severity       `json:"severity"`
	Verdict  reason.Verdict `json:"verdict"`
	Path     string         `json:"path,omitempty"`
	Line     int            `json:"line,omitempty"`
	Column   int            `json:"column,omitempty"`
	Message  string         `json:"message"`
	Fix      string         `json:"fix,omitempty"`
}

// Severity is how a finding counts.
type Severity string

// The severities: an error decides the verdict, a warning does under
// --strict, a note never does.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Severities lists every Severity.
func Severities() []Severity { return []Severity{Error, Warning, Note} }

func severityOf(v reason.Verdict) Severity {
	switch v {
	case reason.OK:
		return Note
	case reason.Warn:
		return Warning
	}
	return Error
}

// newReport is the empty report.
func newReport() *Report {
	return &Report{APIVersion: APIVersion, Kind: ReportKind, Verdict: reason.OK, Objects: []Object{}}
}

// add judges the documents of one source and adds them to the report.
func (r *Report) add(s manifest.Source, o rules.Options) {
	docs := manifest.Parse(s)
	for i := range docs {
		obj := docs[i].Judge(o)
		r.Objects = append(r.Objects, objectOf(&obj))
		r.Verdict = reason.Worst(r.Verdict, obj.Verdict)
	}
}

func objectOf(o *manifest.Object) Object {
	out := Object{File: o.File, Document: o.Document, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
		Line: o.Line, Verdict: o.Verdict, Request: o.Request, Findings: make([]Finding, 0, len(o.Findings))}
	for _, f := range o.Findings {
		out.Findings = append(out.Findings, Finding{
			Code: f.Reason.Code, Severity: severityOf(f.Verdict), Verdict: f.Verdict, Path: f.Path,
			Line: f.Line, Column: f.Col, Message: f.Reason.Sentence(), Fix: f.Fix(),
		})
	}
	return out
}

// nothing notes that the paths held no file at all: an empty folder must not
// count as valid.
func (r *Report) nothing(paths []string) {
	if len(r.Objects) > 0 {
		return
	}
	why := reason.Reason{Code: "nothing-to-check"}
	r.Objects = append(r.Objects, Object{File: strings.Join(paths, ", "), Document: 1, Verdict: reason.Unknown,
		Findings: []Finding{{Code: why.Code, Severity: Error, Verdict: reason.Unknown, Message: why.Sentence(), Fix: why.Fix()}}})
	r.Verdict = reason.Unknown
}

// exit is the verdict that decides the exit code.
func (r *Report) exit(strict bool) reason.Verdict {
	if strict && r.Verdict == reason.Warn {
		return reason.Invalid
	}
	return r.Verdict
}

// counts are for the summary.
type counts struct{ objects, ok, warn, bad, unknown, files int }

func (r *Report) counts() counts {
	var c counts
	files := map[string]bool{}
	for i := range r.Objects {
		o := &r.Objects[i]
		files[o.File] = true
		c.objects++
		switch o.Verdict {
		case reason.OK:
			c.ok++
		case reason.Warn:
			c.warn++
		case reason.Unknown, reason.Env:
			c.unknown++
		default:
			c.bad++
		}
	}
	c.files = len(files)
	return c
}
