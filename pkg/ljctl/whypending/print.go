package whypending

import (
	"fmt"
	"strings"
	"time"

	"lj.aliyun.com/kit/pkg/cliutil"
	"lj.aliyun.com/kit/pkg/core/explain"
	"lj.aliyun.com/kit/pkg/core/reason"
)

// view is how a report is printed.
type view struct {
	color, wide, headers bool
	one                  string // the node that was asked for
}

// How much of a report the short form shows.
const (
	width        = 80
	nearestShown = 3
	cardsShown   = 8
	reasonsShown = 6
)

// report writes one answer. Everything from the cluster is escaped here and
// nowhere else.
func (v view) report(w *strings.Builder, r *explain.Report) {
	v.head(w, r)
	v.section(w, "VERDICT", v.verdict(r))
	if text := requestText(r.Request); text != "" {
		v.section(w, "REQUEST", text)
	}
	v.reasons(w, r)
	v.table(w, r)
	v.nodes(w, r)
	v.suggestions(w, r)
	v.foot(w, r)
}

func (v view) head(w *strings.Builder, r *explain.Report) {
	t := r.Target
	parts := []string{t.Kind + " " + t.Namespace + "/" + t.Name}
	state := t.Phase
	if age := ageOf(r, t.Since); age != "" {
		state = strings.TrimSpace(state + " " + age)
	}
	if state != "" {
		parts = append(parts, state)
	}
	if t.Pod != "" {
		parts = append(parts, fmt.Sprintf("%d of %d pods wait, shown: %s", t.Waiting, t.Pods, t.Pod))
	}
	if t.SchedulerName != "" {
		parts = append(parts, t.SchedulerName)
	}
	if t.Priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", t.Priority))
	}
	for _, line := range wrap(esc(strings.Join(parts, " · ")), width) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
}

func (v view) verdict(r *explain.Report) string {
	s := v.paint(r.Verdict) + " " + esc(string(r.Code)) + ": " + esc(r.Message)
	switch r.Fit {
	case explain.FitAfterRelease:
		s += ". Fits when pods that end by themselves are gone"
	case explain.FitEmptyOnly:
		s += ". Fits only when pods that run for ever are gone"
	case explain.FitNever:
		s += ". Waiting for other pods does not help"
	}
	return s + "."
}

// colours of the verdict words on a terminal.
var colours = map[reason.Verdict]string{
	reason.OK: "32", reason.Warn: "33", reason.Wait: "33", reason.Unknown: "35",
	reason.Blocked: "31", reason.Invalid: "31", reason.Env: "31",
}

func (v view) paint(word reason.Verdict) string {
	if c := colours[word]; v.color && c != "" {
		return "\x1b[1;" + c + "m" + string(word) + "\x1b[0m"
	}
	return string(word)
}

func (v view) section(w *strings.Builder, title, text string) {
	if text == "" {
		return
	}
	for i, line := range wrap(text, width-9) {
		if i > 0 {
			title = ""
		}
		fmt.Fprintf(w, "%-8s %s\n", title, line)
	}
}

// requestText is the request as understood: "2 pods x 1 card x [slice 3, …]".
func requestText(r *explain.Request) string {
	if r == nil {
		return ""
	}
	var asks []string
	for _, a := range r.Containers {
		asks = append(asks, askText(a, r))
	}
	if len(asks) == 0 {
		asks = []string{"no card"}
	}
	s := strings.Join(asks, "; ")
	if r.Pods > 1 {
		s = fmt.Sprintf("%d pods, each: %s", r.Pods, s)
	}
	if r.Phases > 1 && len(r.Containers) > 1 {
		s += fmt.Sprintf("; %d different cards at its peak over %d phases", r.Cards, r.Phases)
	}
	if r.RDMA {
		s += ", near RDMA NICs"
	}
	if r.CPUMilli > 0 {
		s += ", cpu " + milli(r.CPUMilli)
	}
	if r.MemoryMiB > 0 {
		s += fmt.Sprintf(", host memory %d MiB", r.MemoryMiB)
	}
	if r.Gang > 0 {
		s += fmt.Sprintf(", group of %d", r.Gang)
	}
	return s
}

func askText(a explain.Ask, r *explain.Request) string {
	var share []string
	if a.Slices > 0 {
		share = append(share, fmt.Sprintf("slice %d", a.Slices))
	}
	if a.Core > 0 {
		share = append(share, fmt.Sprintf("core %d%%", a.Core))
	}
	if a.MemMiB > 0 {
		if r.Unit == "GiB" && a.MemMiB%1024 == 0 {
			share = append(share, fmt.Sprintf("memory %d GiB", a.MemMiB/1024))
		} else {
			share = append(share, fmt.Sprintf("memory %d MiB", a.MemMiB))
		}
	}
	s := plural(a.Cards, "card", "cards")
	switch {
	case len(share) > 0:
		mode := map[string]string{"tdm": "TDM", "mig": "MIG"}[a.Mode]
		s = fmt.Sprintf("%s x [%s] (%s)", s, strings.Join(share, ", "), mode)
	case a.NVIDIA:
		s = plural(a.Cards, "whole NVIDIA card", "whole NVIDIA cards")
	default:
		s = plural(a.Cards, "whole card", "whole cards")
	}
	if len(r.Containers) > 1 {
		s += " in " + esc(a.Container)
		if a.Init {
			s += " (init)"
		}
	}
	return s
}

func milli(m int64) string {
	if m%1000 == 0 {
		return fmt.Sprint(m / 1000)
	}
	return fmt.Sprintf("%dm", m)
}

// reasons lists every cause but the one that the verdict has told.
func (v view) reasons(w *strings.Builder, r *explain.Report) {
	if len(r.Reasons) > 0 && r.Reasons[0].Fix != "" && r.Reasons[0].Verdict != reason.OK {
		v.section(w, "NEXT", esc(fixText(r.Reasons[0])))
	}
	title := "ALSO"
	for i, c := range r.Reasons {
		if i == 0 {
			continue
		}
		if i > reasonsShown && !v.wide {
			v.section(w, title, fmt.Sprintf("and %d more: -o wide", len(r.Reasons)-i))
			break
		}
		text := fmt.Sprintf("%s %s: %s", c.Verdict, c.Code, c.Message)
		if c.Nodes > 0 {
			text += " — " + nodeNames(c.Nodes, c.Names)
		}
		v.section(w, title, esc(text))
		title = ""
	}
}

// fixText puts the name of the node into a command, where it is one node's.
func fixText(c explain.Reason) string {
	if len(c.Names) > 0 {
		return nodeCommand(c.Fix, c.Names[0])
	}
	return c.Fix
}

func nodeNames(n int, first []string) string {
	s := plural(n, "node", "nodes") + ": " + strings.Join(first, " ")
	if n > len(first) {
		s += " …"
	}
	return s
}

// table is the elimination table.
func (v view) table(w *strings.Builder, r *explain.Report) {
	if len(r.Checks) == 0 {
		return
	}
	fmt.Fprintln(w)
	if v.headers {
		fmt.Fprintf(w, "%-32s %7s %6s  %s\n", "CHECK", "PASS", "LEFT", "FIRST BLOCKED")
	}
	for _, c := range r.Checks {
		var blocked []string
		for _, b := range c.Blocked {
			blocked = append(blocked, b.Node)
		}
		line := fmt.Sprintf("%-32s %7s %6d  %s", c.Title, fmt.Sprintf("%d/%d", c.Pass, c.Total), c.Left, strings.Join(blocked, " "))
		fmt.Fprintln(w, esc(cut(strings.TrimRight(line, " "), width)))
	}
	var counts []string
	for _, c := range r.RuledOut {
		counts = append(counts, fmt.Sprintf("%d %s", c.Nodes, c.Code))
	}
	if r.FitNodes > 0 {
		counts = append(counts, fmt.Sprintf("%d fit", r.FitNodes))
	}
	v.section(w, "NODES", fmt.Sprintf("%d = %s", r.TotalNodes, strings.Join(counts, " + ")))
}

func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func (v view) suggestions(w *strings.Builder, r *explain.Report) {
	if len(r.Suggestions) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, s := range r.Suggestions {
		title := map[string]string{"you": "TRY", "admin": "ADMIN", "wait": "WAIT"}[s.Actor]
		text := s.Change + "  → fits " + strings.Join(s.FitsNodes, " ")
		if s.Nodes > len(s.FitsNodes) {
			text += fmt.Sprintf(" and %d more", s.Nodes-len(s.FitsNodes))
		}
		if s.Verified {
			text += " (checked)"
		}
		v.section(w, title, esc(text))
	}
}

func (v view) foot(w *strings.Builder, r *explain.Report) {
	if r.Scheduler == nil && len(r.NotChecked) == 0 && len(r.Notes) == 0 {
		return
	}
	fmt.Fprintln(w)
	if s := r.Scheduler; s != nil {
		text := fmt.Sprintf("said %s ago, x%d: %q", ageOf(r, s.LastSeen), s.Count, cut(s.Message, 200))
		if s.Note != "" {
			text += " (" + s.Note + ")"
		}
		v.section(w, "EVENT", esc(text))
	}
	for _, n := range r.Notes {
		v.section(w, "NOTE", esc(n))
	}
	v.notChecked(w, r)
}

func (v view) notChecked(w *strings.Builder, r *explain.Report) {
	// A dump of nodes and pods lacks all else for one reason: one line.
	byWhy := map[string][]string{}
	var order []string
	for _, n := range r.NotChecked {
		if byWhy[n.Why] == nil {
			order = append(order, n.Why)
		}
		byWhy[n.Why] = append(byWhy[n.Why], n.What)
	}
	for _, why := range order {
		v.section(w, "NOTE", esc(fmt.Sprintf("not checked: %s (%s)", strings.Join(byWhy[why], ", "), why)))
	}
}

func esc(s string) string { return strings.ReplaceAll(cliutil.Escape(s), "\n", "\\n") }

func ageOf(r *explain.Report, stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	now, err2 := time.Parse(time.RFC3339, r.GeneratedAt)
	if err != nil || err2 != nil {
		return ""
	}
	return since(max(0, now.Sub(at)))
}

// wrap breaks a text at blanks; a longer word stays whole.
func wrap(s string, most int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
