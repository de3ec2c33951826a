package sched

import (
	"reflect"
	"slices"
	"testing"

	"lj.aliyun.com/kit/pkg/core/request"
)

// A field that the key forgets gives one pod the answer of another. Whoever
// adds a field says here that no answer of a node depends on it, or adds it to
// the key.
func TestTheClassKeyHasAllThatAnAnswerDependsOn(t *testing.T) {
	base := request.Request{Asks: []request.Ask{{}}, Resources: []string{"r"}}
	told := func(what string, v any, free ...string) {
		for f := range reflect.ValueOf(v).Elem().NumField() {
			field, before := reflect.ValueOf(v).Elem().Field(f), classKey(&base)
			was := reflect.ValueOf(field.Interface())
			switch field.Kind() {
			case reflect.String:
				field.SetString("x")
			case reflect.Bool:
				field.SetBool(true)
			case reflect.Int, reflect.Int64:
				field.SetInt(7)
			case reflect.Slice:
				field.Set(reflect.AppendSlice(field, field))
			default:
				t.Fatalf("%s: no value for a %s", what, field.Kind())
			}
			name := reflect.TypeOf(v).Elem().Field(f).Name
			if differs := classKey(&base) != before; differs == slices.Contains(free, name) {
				t.Errorf("%s.%s: the key differs with it: %v", what, name, differs)
			}
			field.Set(was)
		}
	}
	told("Request", &base, "Namespace", "Name", "UID", "Replica")
	told("Ask", &base.Asks[0], "Container")
	a, b := base, base
	a.NodePolicy, b.CardPolicy = "spread", "spread"
	if classKey(&a) == classKey(&b) {
		t.Error("a policy for nodes and one for cards are the same class")
	}
}
