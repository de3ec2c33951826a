package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// valueLength is the length of the JSON value that data begins with.
func valueLength(data []byte) (int, bool) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return 0, false
	}
	return int(dec.InputOffset()), true
}

// errTooDeep is nesting beyond maxDepth.
var errTooDeep = errors.New("nested too deep")

// maxDepth bounds recursion; real objects are nested some twenty levels deep.
const maxDepth = 200

// jsonTree reads one JSON value into a tree with positions; duplicate keys
// stay in it. The text must be valid JSON.
type jsonTree struct {
	dec   *json.Decoder
	data  []byte
	lines []int // offsets of line starts
}

func parseJSON(data []byte) (*Node, error) {
	t := &jsonTree{dec: json.NewDecoder(bytes.NewReader(data)), data: data, lines: []int{0}}
	t.dec.UseNumber()
	for i, b := range data {
		if b == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t.value(0)
}

// next is the next token and where it begins.
func (t *jsonTree) next() (json.Token, int, error) {
	at := int(t.dec.InputOffset())
	for at < len(t.data) && strings.IndexByte(" \t\r\n,:", t.data[at]) >= 0 {
		at++
	}
	tok, err := t.dec.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return tok, at, err
}

func (t *jsonTree) place(offset int) (line, col int) {
	line = sort.SearchInts(t.lines, offset+1)
	return line, offset - t.lines[line-1] + 1
}

func (t *jsonTree) value(depth int) (*Node, error) {
	tok, at, err := t.next()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, errTooDeep
	}
	n := &Node{}
	n.Line, n.Col = t.place(at)
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			n.Kind = Map
			return n, t.fields(n, depth)
		}
		n.Kind = List
		return n, t.items(n, depth)
	case string:
		n.Kind, n.Text, n.Raw = String, v, v
	case json.Number:
		n.Kind, n.Text, n.Raw = Number, v.String(), v.String()
	case bool:
		n.Kind, n.Text = Bool, fmt.Sprint(v)
		n.Raw = n.Text
	}
	return n, nil
}

func (t *jsonTree) fields(n *Node, depth int) error {
	for t.dec.More() {
		key, at, err := t.next()
		if err != nil {
			return err
		}
		f := Field{}
		f.Key, _ = key.(string)
		f.Line, f.Col = t.place(at)
		if f.Value, err = t.value(depth + 1); err != nil {
			return err
		}
		n.Fields = append(n.Fields, f)
	}
	_, _, err := t.next()
	return err
}

func (t *jsonTree) items(n *Node, depth int) error {
	for t.dec.More() {
		item, err := t.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	_, _, err := t.next()
	return err
}

// appendString writes a JSON string.
func appendString(b []byte, s string) []byte {
	q, err := json.Marshal(s)
	if err != nil { // cannot happen for a string
		return append(b, `""`...)
	}
	return append(b, q...)
}
