package validate

import (
	"fmt"
	"io"
	"strings"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// style colours a word; the plain style leaves it alone.
type style struct{ colour bool }

func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) severity(v Severity) string {
	switch v {
	case Error:
		return s.paint("31", string(v))
	case Warning:
		return s.paint("33", string(v))
	}
	return s.paint("36", string(v))
}

func (s style) verdict(v reason.Verdict) string {
	switch v {
	case reason.OK:
		return s.paint("32", string(v))
	case reason.Warn:
		return s.paint("33", string(v))
	}
	return s.paint("31", string(v))
}

// printText writes compiler-style lines: each finding with file, line and
// column, its field and its fix indented below, and one verdict line for each
// document with the request as understood.
func printText(w io.Writer, r *Report, colour bool) error {
	s := style{colour}
	var b strings.Builder
	for i := range r.Objects {
		o := &r.Objects[i]
		for _, f := range o.Findings {
			fmt.Fprintf(&b, "%s: %s %s: %s\n", place(o.File, f.Line, f.Column), s.severity(f.Severity), f.Code, oneLine(f.Message))
			if f.Path != "" {
				fmt.Fprintf(&b, "  at: %s\n", oneLine(f.Path))
			}
			if f.Fix != "" {
				fmt.Fprintf(&b, "  fix: %s\n", oneLine(f.Fix))
			}
		}
		fmt.Fprintf(&b, "%s: %s %s%s\n", place(o.File, o.Line, 0), s.verdict(o.Verdict), title(o), asked(o.Request))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine makes foreign text safe to print on one line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(cliutil.Escape(s))
}

func place(file string, line, col int) string {
	out := oneLine(file)
	if line > 0 {
		out += fmt.Sprintf(":%d", line)
	}
	if line > 0 && col > 0 {
		out += fmt.Sprintf(":%d", col)
	}
	return out
}

func title(o *Object) string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	switch {
	case o.Kind == "":
		return fmt.Sprintf("document %d", o.Document)
	case name == "":
		return oneLine(o.Kind)
	}
	return oneLine(o.Kind + " " + name)
}

// asked is the request in words, empty if there is none.
func asked(u *rules.Understood) string {
	if u == nil {
		return ""
	}
	var parts []string
	for _, t := range u.Templates {
		parts = append(parts, pods(t, u))
	}
	return ": " + oneLine(strings.Join(parts, "; "))
}

func pods(t rules.UnderstoodPod, u *rules.Understood) string {
	var asks []string
	for _, a := range t.Containers {
		asks = append(asks, ask(a, u))
	}
	out := strings.Join(asks, " + ")
	if len(t.Containers) > 1 {
		out += fmt.Sprintf(" (%s per pod)", plural(int(t.CardsPerPod), "card"))
	}
	if t.RDMA {
		out += ", near RDMA NICs"
	}
	if t.Pods != 1 {
		out = fmt.Sprintf("%d pods of %s", t.Pods, out)
	}
	if t.Role != "" {
		out = t.Role + ": " + out
	}
	return out
}

// ask is what one container asks, in words.
func ask(a request.Ask, u *rules.Understood) string {
	cards := fmt.Sprintf("%d cards", a.Count)
	if a.Count == 1 {
		cards = "1 card"
	}
	memory := ""
	if a.MemMiB > 0 {
		memory = fmt.Sprintf("%d %s", a.MemMiB/u.MemoryUnit.MiB(), u.MemoryUnit)
		if u.UnitAssumed {
			memory += " (unit assumed)"
		}
	}
	switch a.Mode {
	case request.MIG:
		parts := []string{fmt.Sprintf("%d MIG slices", a.Slices)}
		if memory != "" {
			parts = append(parts, memory)
		}
		return strings.Join(parts, ", ") + " of " + cards
	case request.TDM:
		var parts []string
		if a.Core > 0 {
			parts = append(parts, fmt.Sprintf("%d %% compute", a.Core))
		}
		if memory != "" {
			parts = append(parts, memory)
		}
		return strings.Join(parts, ", ") + " of " + cards
	}
	vendor := ""
	if a.NVIDIAOnly {
		vendor = "NVIDIA "
	}
	return strings.Replace(cards, "card", "whole "+vendor+"card", 1)
}

// printSummary is the last line, for standard error.
func printSummary(w io.Writer, r *Report) {
	c := r.counts()
	fmt.Fprintf(w, "%s in %s: %d ok, %d with warnings, %d invalid or blocked, %d not judged: %s\n",
		plural(c.objects, "object"), plural(c.files, "file"), c.ok, c.warn, c.bad, c.unknown, r.Verdict)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
