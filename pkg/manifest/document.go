package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// Finding is a finding with its place in the file; Line is 0 where there is
// none, as for a file that cannot be read.
type Finding struct {
	rules.Finding
	Line, Col int
}

// Document is one document of a source.
type Document struct {
	File  string
	Index int // from 1
	Line  int // of its first content
	Root  *Node
	// Problems are what makes it no tree, or what the reader noticed. Root is
	// nil if there is no tree.
	Problems []Finding
	places   places
}

// Parse cuts a source into documents and reads each. A source that cannot be
// read, or holds nothing, is one document that says so.
func Parse(s Source) []Document {
	whole := func(r reason.Reason, line, col int) []Document {
		d := Document{File: s.Name, Index: 1, Line: line}
		d.problem("", r, position{line, col})
		return []Document{d}
	}
	switch {
	case errors.Is(s.Err, ErrTooLarge):
		return whole(reason.Reason{Code: "file-too-large", Want: MaxFileBytes >> 20, Unit: "MiB"}, 0, 0)
	case s.Err != nil:
		return whole(reason.Reason{Code: "file-unreadable", Detail: []string{s.Err.Error()}}, 0, 0)
	}
	if what, at := notText(s.Data); what != "" {
		line := bytes.Count(s.Data[:at], []byte("\n")) + 1
		return whole(reason.Reason{Code: "not-text", Detail: []string{what}}, line, at-bytes.LastIndexByte(s.Data[:at], '\n'))
	}
	chunks := split(s.Data)
	if len(chunks) == 0 {
		return whole(reason.Reason{Code: "nothing-to-check"}, 0, 0)
	}
	out := make([]Document, 0, len(chunks))
	for i, c := range chunks {
		d := Document{File: s.Name, Index: i + 1, Line: firstLine(c)}
		d.read(c)
		out = append(out, d)
	}
	return out
}

// notText finds the first byte that no manifest has.
func notText(data []byte) (what string, at int) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return "a NUL byte", i
	}
	if utf8.Valid(data) {
		return "", 0
	}
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Sprintf("byte 0x%02x is no UTF-8", data[at]), at
		}
		at += n
	}
	return "", 0
}

// firstLine is the line of the first thing in a chunk that is no comment.
func firstLine(c chunk) int {
	line := c.line
	for _, l := range bytes.SplitAfter(c.text, []byte("\n")) {
		if hasContent(l) {
			break
		}
		line++
	}
	return line
}

func (d *Document) read(c chunk) {
	if len(c.text) > maxDocument {
		d.problem("", reason.Reason{Code: "document-too-large"}, position{d.Line, 1})
		return
	}
	var dups []duplicate
	var err error
	if n, ok := valueLength(c.text); ok && looksJSON(c.text) && !hasContent(c.text[n:]) {
		if d.Root, err = parseJSON(c.text); err == nil {
			dups = dropDuplicates(d.Root, "", nil)
		}
	} else {
		d.Root, dups, err = parseYAML(c.text)
	}
	if err != nil {
		d.Root = nil
		d.broken(err, c)
		return
	}
	shift := c.line - 1
	d.Root.shift(shift)
	d.colons(d.Root)
	d.places = placesOf(d.Root)
	for _, p := range dups {
		r := reason.Reason{Code: "duplicate-key", Device: p.key, Want: int64(p.first.line + shift)}
		d.problem(p.path, r, position{p.last.line + shift, p.last.col})
	}
}

// colons finds lines such as {aliyun.com/gpu-core "50"}: to YAML that is a key
// with blanks and quotes in it and no value, to its author a value.
func (d *Document) colons(n *Node) {
	kept := n.Fields[:0]
	for _, f := range n.Fields {
		if f.Value.Kind == Null && strings.ContainsAny(f.Key, " \t\"'") {
			r := reason.Reason{Code: "yaml-syntax", Detail: []string{"no colon and blank after the key in: " + f.Key}}
			d.problem("", r, position{f.Line, f.Col})
			continue
		}
		kept = append(kept, f)
		d.colons(f.Value)
	}
	n.Fields = kept
	for _, item := range n.Items {
		d.colons(item)
	}
}

// broken says why there is no tree.
func (d *Document) broken(err error, c chunk) {
	at := position{d.Line, 1}
	var r reason.Reason
	switch {
	case errors.Is(err, errTooDeep):
		r = reason.Reason{Code: "nested-too-deep", Want: maxDepth}
	case errors.Is(err, errBomb):
		r = reason.Reason{Code: "alias-bomb"}
	default:
		line, msg := errorLine(err)
		if line > 0 {
			at = position{c.line + line - 1, 0}
			if tabbed(c.text, line) {
				msg = "a tab indents the line, and YAML indents with blanks only"
			}
		}
		r = reason.Reason{Code: "yaml-syntax", Detail: []string{msg}}
	}
	d.problem("", r, at)
}

// tabbed tells whether the line (from 1) is indented with a tab.
func tabbed(text []byte, line int) bool {
	for range line - 1 {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return false
		}
		text = text[i+1:]
	}
	return bytes.HasPrefix(bytes.TrimLeft(text, " "), []byte("\t"))
}

func (d *Document) problem(path string, r reason.Reason, at position) {
	v := reason.Invalid
	if i, ok := reason.Lookup(r.Code); ok {
		v = i.Verdict
	}
	d.Problems = append(d.Problems, Finding{rules.Finding{Path: path, Verdict: v, Reason: r}, at.line, at.col})
}

// shift moves a tree down by so many lines.
func (n *Node) shift(lines int) {
	n.Line += lines
	for i := range n.Fields {
		n.Fields[i].Line += lines
		n.Fields[i].Value.shift(lines)
	}
	for _, item := range n.Items {
		item.shift(lines)
	}
}
