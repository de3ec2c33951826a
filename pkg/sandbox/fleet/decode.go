package fleet

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lj.aliyun.com/kit/pkg/core/spelling"
)

// Problem is one thing that is wrong with a fleet file.
type Problem struct {
	Line  int
	Path  string // "nodes[2].cards.model", empty for the whole file
	Issue string
}

func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Issue
}

// Problems are all that is wrong with a file, by line.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// decoder walks the YAML tree itself: the common typed decode drops line
// numbers, stops at the first problem, and repairs what it should refuse.
type decoder struct {
	problems Problems
}

func (d *decoder) fail(n *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: n.Line, Path: path, Issue: fmt.Sprintf(format, args...)})
}

func (d *decoder) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	sort.SliceStable(d.problems, func(i, j int) bool { return d.problems[i].Line < d.problems[j].Line })
	return d.problems
}

// field reads one key of a mapping.
type field func(n *yaml.Node, path string)

// mapping calls the field of each key. Unknown and repeated keys are problems.
func (d *decoder) mapping(n *yaml.Node, path string, fields map[string]field) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "must be a mapping of keys to values, is %s", kindOf(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := key.Value
		if path != "" {
			at = path + "." + key.Value
		}
		f, ok := fields[key.Value]
		switch {
		case !ok || key.Kind != yaml.ScalarNode:
			d.fail(key, at, "unknown key%s", didYouMean(key.Value, keysOf(fields)))
		case seen[key.Value]:
			d.fail(key, at, "is given twice")
		case value.Kind == yaml.AliasNode:
			d.fail(value, at, "YAML aliases are not supported here: write the value out")
		default:
			f(value, at)
		}
		seen[key.Value] = true
	}
}

// list calls f for each item of a sequence.
func (d *decoder) list(n *yaml.Node, path string, f field) {
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list, is %s", kindOf(n))
		return
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item.Kind == yaml.AliasNode {
			d.fail(item, at, "YAML aliases are not supported here: write the value out")
			continue
		}
		f(item, at)
	}
}

// text reads a string; numbers count as what is written.
func (d *decoder) text(dst *string) field {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			d.fail(n, path, "must be text, is %s", kindOf(n))
			return
		}
		*dst = n.Value
	}
}

func (d *decoder) boolean(dst *bool) field {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
			d.fail(n, path, "must be true or false, is %s", kindOf(n))
			return
		}
		*dst = n.Value == "true" || n.Value == "True" || n.Value == "TRUE"
	}
}

// integer reads a whole number between two bounds.
func (d *decoder) integer(dst *int64, least, most int64) field {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			d.fail(n, path, "must be a whole number from %d to %d, is %s", least, most, kindOf(n))
			return
		}
		*dst = v
	}
}

// indices reads a list of card or NIC numbers.
func (d *decoder) indices(dst *[]int) field {
	return func(n *yaml.Node, path string) {
		d.list(n, path, func(n *yaml.Node, path string) {
			var v int64
			before := len(d.problems)
			if d.integer(&v, 0, 63)(n, path); len(d.problems) == before {
				*dst = append(*dst, int(v))
			}
		})
	}
}

func (d *decoder) strings(dst *map[string]string) field {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.MappingNode {
			d.fail(n, path, "must be a mapping of keys to values, is %s", kindOf(n))
			return
		}
		*dst = map[string]string{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			var v string
			d.text(&v)(n.Content[i+1], path+"."+n.Content[i].Value)
			(*dst)[n.Content[i].Value] = v
		}
	}
}

func keysOf(fields map[string]field) []string {
	out := make([]string, 0, len(fields))
	for k := range fields {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func didYouMean(word string, candidates []string) string {
	if near := spelling.Closest(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return "; known: " + strings.Join(candidates, ", ")
}

// kindOf names a value in a message, shortened.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	v := n.Value
	if len(v) > 40 {
		v = v[:40] + "…"
	}
	return strconv.Quote(v)
}
