package manifest

import (
	"strings"

	"lj.aliyun.com/kit/pkg/core/request/rules"
)

// Kind is the JSON kind of a value.
type Kind int

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Map
)

// String is the kind in words for people.
func (k Kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "a text", "a list", "a mapping"}[k]
}

// Node is a value with its place in the file.
type Node struct {
	Kind Kind
	// Text is the value that counts, for scalars: the string, the number's
	// JSON literal, "true" or "false".
	Text string
	// Raw is the text as the file has it, without quotes.
	Raw       string
	Line, Col int
	Fields    []Field // of a Map, in file order
	Items     []*Node // of a List
}

// Field is one entry of a Map.
type Field struct {
	Key       string
	Line, Col int // of the key
	Value     *Node
}

// Get is the value under a chain of keys, nil if it is not there. A nil
// Node has no keys.
func (n *Node) Get(keys ...string) *Node {
	for _, k := range keys {
		f := n.field(k)
		if f == nil {
			return nil
		}
		n = f.Value
	}
	return n
}

func (n *Node) field(key string) *Field {
	if n == nil {
		return nil
	}
	for i := range n.Fields {
		if n.Fields[i].Key == key {
			return &n.Fields[i]
		}
	}
	return nil
}

// text is a scalar's value, empty for anything else.
func (n *Node) text() string {
	if n == nil {
		return ""
	}
	return n.Text
}

// truth reads a boolean; the texts "true" and "false" count too, since their
// wrong type is reported apart and need not bring more findings with it.
func (n *Node) truth() bool { return n != nil && strings.EqualFold(n.Text, "true") }

// list is the items of a List, nothing for anything else.
func (n *Node) list() []*Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// entries are the fields of a Map, nothing for anything else.
func (n *Node) entries() []Field {
	if n == nil {
		return nil
	}
	return n.Fields
}

// texts are the scalar items of a list.
func (n *Node) texts() []string {
	var out []string
	for _, i := range n.list() {
		out = append(out, i.text())
	}
	return out
}

// strings is a map of scalars, nil if there is none.
func (n *Node) strings() map[string]string {
	if n == nil || n.Kind != Map {
		return nil
	}
	out := make(map[string]string, len(n.Fields))
	for _, f := range n.Fields {
		out[f.Key] = f.Value.text()
	}
	return out
}

// places finds the position of JSON paths, also of ones that are not there:
// then it is that of the nearest thing above.
type places map[string]place

// place is a value and where to point when speaking of it.
type place struct {
	position
	node *Node
}

type position struct{ line, col int }

func placesOf(root *Node) places {
	p := places{"": {position{root.Line, root.Col}, root}}
	p.walk(root, "")
	return p
}

func (p places) walk(n *Node, path string) {
	for _, f := range n.Fields {
		at := rules.Join(path, f.Key)
		pos := position{f.Line, f.Col}
		if f.Value.Kind < List && f.Value.Line > 0 {
			pos = position{f.Value.Line, f.Value.Col}
		}
		p[at] = place{pos, f.Value}
		p.walk(f.Value, at)
	}
	for i, item := range n.Items {
		at := rules.Index(path, i)
		p[at] = place{position{item.Line, item.Col}, item}
		p.walk(item, at)
	}
}

func (p places) find(path string) position {
	for {
		if pos, ok := p[path]; ok {
			return pos.position
		}
		path = parent(path)
	}
}

// parent drops the last step of a path. Keys in brackets may hold dots.
func parent(path string) string {
	if strings.HasSuffix(path, "]") {
		if i := strings.LastIndexByte(path, '['); i >= 0 {
			return path[:i]
		}
	}
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i]
	}
	return ""
}
