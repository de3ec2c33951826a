package manifest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lj.aliyun.com/kit/pkg/core/reason"
	"lj.aliyun.com/kit/pkg/core/request/rules"
	"lj.aliyun.com/kit/pkg/core/spelling"
)

// typeCheck compares a tree with a Go type of the Kubernetes API, field by
// field, and notes all unknown fields and wrong types at once. The strict
// decoder stops at the first, and gives no positions.
type typeCheck struct {
	found []rules.Finding
}

// Special types decode themselves.
var (
	quantityType  = reflect.TypeFor[resource.Quantity]()
	intOrString   = reflect.TypeFor[intstr.IntOrString]()
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
	durationType  = reflect.TypeFor[metav1.Duration]()
	rawType       = reflect.TypeFor[runtime.RawExtension]()
	fieldsType    = reflect.TypeFor[metav1.FieldsV1]()

	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (s *typeCheck) wrong(n *Node, path, want, hint string) {
	f := rules.Finding{Path: path, Verdict: reason.Invalid, Hint: hint,
		Reason: reason.Reason{Code: "wrong-type", Device: lastKey(path), Detail: []string{want + ", not " + n.Kind.String()}}}
	if hint == "" {
		f.Hint = "write " + want
	}
	s.found = append(s.found, f)
}

// check compares a value with a type.
func (s *typeCheck) check(n *Node, t reflect.Type, path string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == Null {
		return // null is the same as absent
	}
	if s.special(n, t, path) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if n.Kind != Map {
			s.wrong(n, path, "a mapping", "")
			return
		}
		s.fields(n, t, path)
	case reflect.Map:
		if n.Kind != Map {
			s.wrong(n, path, "a mapping", "")
			return
		}
		for _, f := range n.Fields {
			s.check(f.Value, t.Elem(), rules.Join(path, f.Key))
		}
	case reflect.Slice, reflect.Array:
		s.slice(n, t, path)
	default:
		s.scalar(n, t, path)
	}
}

func (s *typeCheck) slice(n *Node, t reflect.Type, path string) {
	if t.Elem().Kind() == reflect.Uint8 {
		if n.Kind != String {
			s.wrong(n, path, "base64 text", "")
		}
		return
	}
	if n.Kind != List {
		s.wrong(n, path, "a list", "begin each item with a dash")
		return
	}
	for i, item := range n.Items {
		s.check(item, t.Elem(), rules.Index(path, i))
	}
}

func (s *typeCheck) scalar(n *Node, t reflect.Type, path string) {
	switch t.Kind() {
	case reflect.String:
		if n.Kind != String {
			hint := ""
			if n.Kind < List {
				hint = fmt.Sprintf("put the value in quotes: \"%s\"", n.Raw)
			}
			s.wrong(n, path, "a text", hint)
		}
	case reflect.Bool:
		if n.Kind != Bool {
			hint := ""
			if l := strings.ToLower(n.Text); l == "true" || l == "false" {
				hint = "write " + l + " without quotes"
			}
			s.wrong(n, path, "true or false", hint)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v, err := strconv.ParseInt(strings.TrimSpace(n.Text), 10, t.Bits())
		if n.Kind == Number && err == nil {
			return
		}
		hint := ""
		if n.Kind == String && err == nil {
			hint = fmt.Sprintf("write %d without quotes", v)
		}
		s.wrong(n, path, "a whole number", hint)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if _, err := strconv.ParseUint(n.Text, 10, t.Bits()); n.Kind != Number || err != nil {
			s.wrong(n, path, "a whole number of 0 or more", "")
		}
	case reflect.Float32, reflect.Float64:
		if n.Kind != Number {
			s.wrong(n, path, "a number", "")
		}
	}
}

// special handles types that decode themselves. It tells whether t is one.
func (s *typeCheck) special(n *Node, t reflect.Type, path string) bool {
	text := func(parse func([]byte) error, want string) {
		if n.Kind != String || parse([]byte(strconv.Quote(n.Text))) != nil {
			s.wrong(n, path, want, "")
		}
	}
	switch t {
	case quantityType:
		s.quantity(n, path)
	case intOrString:
		if n.Kind != String && (n.Kind != Number || strings.ContainsAny(n.Text, ".eE")) {
			s.wrong(n, path, "a whole number or a text", "")
		}
	case timeType:
		text(new(metav1.Time).UnmarshalJSON, "a time such as 2026-01-31T08:00:00Z")
	case microTimeType:
		text(new(metav1.MicroTime).UnmarshalJSON, "a time such as 2026-01-31T08:00:00.000000Z")
	case durationType:
		text(new(metav1.Duration).UnmarshalJSON, "a duration such as 30s")
	case rawType, fieldsType:
		if n.Kind != Map {
			s.wrong(n, path, "a mapping", "")
		}
	default:
		p := reflect.PointerTo(t)
		// Anything else that decodes itself is left to the strict decoder.
		return t.Kind() == reflect.Interface || p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
	}
	return true
}

func (s *typeCheck) quantity(n *Node, path string) {
	if n.Kind != String && n.Kind != Number {
		s.wrong(n, path, "a number", "")
		return
	}
	if _, err := ParseQuantity(n.Text); err != nil {
		s.found = append(s.found, rules.Finding{Path: path, Verdict: reason.Invalid,
			Reason: reason.Reason{Code: "bad-quantity", Device: lastKey(path), Detail: []string{n.Raw}}})
	}
}

func (s *typeCheck) fields(n *Node, t reflect.Type, path string) {
	known := fieldsOf(t)
	for _, f := range n.Fields {
		at := rules.Join(path, f.Key)
		ft, ok := known.types[f.Key]
		if !ok {
			s.unknown(f.Key, t, known.names, at)
			continue
		}
		s.check(f.Value, ft, at)
	}
}

func (s *typeCheck) unknown(key string, t reflect.Type, names []string, path string) {
	f := rules.Finding{Path: path, Verdict: reason.Invalid, Reason: reason.Reason{Code: "unknown-field", Device: key}}
	switch right := spelling.Closest(key, names); {
	case right != "":
		f.Hint = fmt.Sprintf("did you mean %s?", right)
	default:
		f.Hint = elsewhere(key, t)
	}
	s.found = append(s.found, f)
}

// elsewhere says where a field belongs that is written one level off.
func elsewhere(key string, t reflect.Type) string {
	for _, h := range homes {
		if h.wrong != t {
			continue
		}
		if _, ok := fieldsOf(h.right).types[key]; ok {
			return fmt.Sprintf("%s belongs to %s", key, h.name)
		}
	}
	return ""
}

// typeFields are the JSON names of a struct, those of inlined structs too.
type typeFields struct {
	types map[string]reflect.Type
	names []string
}

var fieldCache sync.Map // reflect.Type -> typeFields

func fieldsOf(t reflect.Type) typeFields {
	if c, ok := fieldCache.Load(t); ok {
		return c.(typeFields)
	}
	out := typeFields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || (!f.IsExported() && !f.Anonymous) {
			continue
		}
		if f.Anonymous && (name == "" || strings.Contains(opts, "inline")) {
			ft := f.Type
			for ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() == reflect.Struct {
				in := fieldsOf(ft)
				for _, n := range in.names {
					out.types[n] = in.types[n]
				}
				out.names = append(out.names, in.names...)
				continue
			}
		}
		if name == "" {
			name = f.Name
		}
		out.types[name] = f.Type
		out.names = append(out.names, name)
	}
	fieldCache.Store(t, out)
	return out
}

// lastKey is the last step of a path, for people.
func lastKey(path string) string {
	rest := strings.TrimPrefix(path[len(parent(path)):], ".")
	if k, ok := strings.CutPrefix(rest, "["); ok && strings.HasSuffix(k, "]") {
		k = strings.TrimSuffix(k, "]")
		if _, err := strconv.Atoi(k); err == nil {
			return lastKey(parent(path)) + rest
		}
		return k
	}
	if rest == "" {
		return "the document"
	}
	return rest
}
