package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// maxDocument is the largest request body that the API server takes.
const maxDocument = 3 << 20

var (
	errBomb   = errors.New("aliases expand too far")
	errCycle  = errors.New("an alias refers to what it is part of")
	errSecond = errors.New("a second document begins inside this one")
)

// parseYAML reads one YAML document into a tree. The values are those of
// sigs.k8s.io/yaml, which kubectl uses; the second parse, which comes first
// because it expands no aliases, gives positions and raw texts. It also
// returns the duplicate keys that the first would pass over.
func parseYAML(text []byte) (root *Node, dups []duplicate, err error) {
	// The two parsers are foreign code fed with foreign bytes.
	defer func() {
		if r := recover(); r != nil {
			root, dups, err = nil, nil, fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	dec := yaml3.NewDecoder(bytes.NewReader(text))
	var doc yaml3.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, nil, err
	}
	var more yaml3.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errSecond
		}
		return nil, nil, err
	}
	if len(doc.Content) == 0 {
		return &Node{Line: 1, Col: 1}, nil, nil
	}
	top := doc.Content[0]
	b := budget{sizes: map[*yaml3.Node]int64{}}
	if size, err := b.size(top, 0); err != nil {
		return nil, nil, err
	} else if size > maxDocument && b.aliased {
		return nil, nil, errBomb
	}
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, nil, err
	}
	root, err = parseJSON(js)
	if err != nil {
		return nil, nil, err
	}
	overlay(root, top, position{top.Line, top.Column})
	return root, duplicates(top, "", nil), nil
}

// budget adds up what a document is when its aliases are written out, without
// doing so.
type budget struct {
	sizes   map[*yaml3.Node]int64 // -1 while it is being added up
	aliased bool                  // there is an alias at all
}

func (b *budget) size(n *yaml3.Node, depth int) (int64, error) {
	if depth > maxDepth {
		return 0, errTooDeep
	}
	if n.Kind == yaml3.AliasNode {
		b.aliased = true
		if n.Alias == nil {
			return 0, nil
		}
		n = n.Alias
	}
	if s, ok := b.sizes[n]; ok {
		if s < 0 {
			return 0, errCycle
		}
		return s, nil
	}
	if n.Anchor != "" {
		b.sizes[n] = -1
	}
	total := int64(len(n.Value)) + 3 // quotes or brackets, and a comma
	for _, c := range n.Content {
		s, err := b.size(c, depth+1)
		if err != nil {
			return 0, err
		}
		if total += s; total > maxDocument {
			total = maxDocument + 1 // stays put, cannot overflow
		}
	}
	if n.Anchor != "" {
		b.sizes[n] = total
	}
	return total, nil
}

// overlay gives the values their positions and raw texts. Where the trees
// differ (a key that YAML 1.1 reads as true) the position above stands.
func overlay(n *Node, y *yaml3.Node, at position) {
	if y != nil && y.Kind == yaml3.AliasNode {
		y = y.Alias
	}
	if y != nil && y.Line > 0 {
		at = position{y.Line, y.Column}
	}
	n.Line, n.Col = at.line, at.col
	switch n.Kind {
	case Map:
		keys := map[string]entry{}
		collect(y, keys, 0)
		for i := range n.Fields {
			f := &n.Fields[i]
			f.Line, f.Col = at.line, at.col
			e := keys[f.Key]
			if e.key != nil {
				f.Line, f.Col = e.key.Line, e.key.Column
			}
			overlay(f.Value, e.value, position{f.Line, f.Col})
		}
		sort.SliceStable(n.Fields, func(i, j int) bool {
			a, b := &n.Fields[i], &n.Fields[j]
			return a.Line < b.Line || (a.Line == b.Line && a.Col < b.Col)
		})
	case List:
		for i, item := range n.Items {
			var v *yaml3.Node
			if y != nil && y.Kind == yaml3.SequenceNode && i < len(y.Content) {
				v = y.Content[i]
			}
			overlay(item, v, at)
		}
	default:
		n.Raw = n.Text
		if y != nil && y.Kind == yaml3.ScalarNode {
			n.Raw = y.Value
		}
	}
}

// entry is a key of a mapping with its value.
type entry struct{ key, value *yaml3.Node }

// collect lists the entries of a mapping by key: of a key that stands twice
// the last, which is the one that counts, and then what is merged in (<<) and
// not there already.
func collect(y *yaml3.Node, into map[string]entry, depth int) {
	if y == nil || y.Kind != yaml3.MappingNode || depth > maxDepth {
		return
	}
	for i := len(y.Content) - 2; i >= 0; i -= 2 {
		if k := y.Content[i]; into[k.Value].key == nil {
			into[k.Value] = entry{k, y.Content[i+1]}
		}
	}
	for i := 0; i+1 < len(y.Content); i += 2 {
		if y.Content[i].Tag == "!!merge" {
			for _, m := range merged(y.Content[i+1]) {
				collect(m, into, depth+1)
			}
		}
	}
}

func merged(n *yaml3.Node) []*yaml3.Node {
	if n.Kind == yaml3.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml3.SequenceNode {
		return []*yaml3.Node{n}
	}
	var out []*yaml3.Node
	for _, c := range n.Content {
		if c.Kind == yaml3.AliasNode {
			c = c.Alias
		}
		out = append(out, c)
	}
	return out
}

var lineInError = regexp.MustCompile(`line (\d+)`)

// errorLine takes the line out of a parser's message, and the message without
// it. The line counts from the document's first.
func errorLine(err error) (int, string) {
	msg := err.Error()
	for _, p := range []string{"error converting YAML to JSON: ", "yaml: ", "[", "unmarshal errors:\n  "} {
		msg = strings.TrimPrefix(msg, p)
	}
	m := lineInError.FindStringSubmatchIndex(msg)
	if m == nil {
		return 0, msg
	}
	n, _ := strconv.Atoi(msg[m[2]:m[3]])
	if rest, ok := strings.CutPrefix(msg[m[1]:], ": "); ok && m[0] == 0 {
		msg = rest
	}
	return n, msg
}
