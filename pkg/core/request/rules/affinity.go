package rules

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// selectors looks for pods that no node can match. Terms are OR-ed, the
// expressions of a term AND-ed, and the selector is AND-ed to every term, so
// only a contradiction in all of them is one.
func (k *checker) selectors(t *Template) {
	if why := contradiction(t, nil); why != "" {
		k.add(t.spec(selectorField(t)), reason.Reason{Code: "selector-contradiction", Detail: []string{why}})
		return
	}
	enabled := Expr{Key: EnableLabel, Op: "In", Values: []string{"true"}}
	if contradiction(t, &enabled) == "" {
		return
	}
	r := reason.Reason{Code: "selector-excludes-enabled-nodes", Detail: []string{"to be other than \"true\""}}
	path := t.spec(selectorField(t))
	if v, ok := t.NodeSelector[EnableLabel]; ok && v != "true" {
		r.Detail, path = []string{"\"" + v + "\""}, Join(t.spec("nodeSelector"), EnableLabel)
	}
	k.add(path, r)
}

func selectorField(t *Template) string {
	if len(t.Terms) > 0 {
		return "affinity"
	}
	return "nodeSelector"
}

// contradiction says why no node can match, empty if some could.
func contradiction(t *Template, extra *Expr) string {
	var base []Expr
	for key, v := range t.NodeSelector {
		base = append(base, Expr{Key: key, Op: "In", Values: []string{v}})
	}
	sort.Slice(base, func(i, j int) bool { return base[i].Key < base[j].Key })
	if extra != nil {
		base = append(base, *extra)
	}
	if t.Terms == nil {
		return clash(base)
	}
	first := ""
	for _, term := range t.Terms {
		why := clash(append(slices.Clone(base), term.Exprs...))
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// clash names a label that the AND-ed expressions make impossible.
func clash(exprs []Expr) string {
	byKey := map[string][]Expr{}
	var keys []string
	for _, e := range exprs {
		if _, ok := byKey[e.Key]; !ok {
			keys = append(keys, e.Key)
		}
		byKey[e.Key] = append(byKey[e.Key], e)
	}
	for _, key := range keys {
		if !possible(byKey[key]) {
			var parts []string
			for _, e := range byKey[key] {
				parts = append(parts, e.String())
			}
			return strings.Join(parts, " and ")
		}
	}
	return ""
}

// String is the expression in words.
func (e Expr) String() string {
	switch e.Op {
	case "In", "NotIn":
		return e.Key + " " + e.Op + " [" + strings.Join(e.Values, " ") + "]"
	case "Gt", "Lt":
		return e.Key + " " + e.Op + " " + strings.Join(e.Values, " ")
	}
	return e.Key + " " + e.Op
}

// possible tells whether some value of one label, or its absence, satisfies
// all expressions about it.
func possible(exprs []Expr) bool {
	var candidates []string
	closed := false // an In limits the values to candidates
	for _, e := range exprs {
		if e.Op == "In" {
			closed = true
			candidates = append(candidates, e.Values...)
		}
	}
	all := func(v string, there bool) bool {
		for _, e := range exprs {
			if !e.Matches(v, there) {
				return false
			}
		}
		return true
	}
	if closed {
		return slices.ContainsFunc(candidates, func(v string) bool { return all(v, true) })
	}
	if all("", false) || all("some other value", true) {
		return true
	}
	// Only numbers are left to try: next to each bound.
	for _, e := range exprs {
		if n, err := strconv.ParseInt(strings.Join(e.Values, ""), 10, 64); err == nil {
			for d := int64(-2); d <= 2; d++ {
				if all(strconv.FormatInt(n+d, 10), true) {
					return true
				}
			}
		}
	}
	return false
}

// Matches tells whether a node with this value of the label, or without the
// label, satisfies the expression, as the scheduler reads it.
func (e Expr) Matches(value string, there bool) bool {
	switch e.Op {
	case "In":
		return there && slices.Contains(e.Values, value)
	case "NotIn":
		return !there || !slices.Contains(e.Values, value)
	case "Exists":
		return there
	case "DoesNotExist":
		return !there
	case "Gt", "Lt":
		have, err1 := strconv.ParseInt(value, 10, 64)
		want, err2 := strconv.ParseInt(strings.Join(e.Values, ""), 10, 64)
		if !there || err1 != nil || err2 != nil {
			return false
		}
		return (e.Op == "Gt" && have > want) || (e.Op == "Lt" && have < want)
	}
	return true // an unknown operator is the API server's to refuse
}

// Selects tells whether a node with these labels matches the template's
// selector and required affinity.
func (t *Template) Selects(labels map[string]string) bool {
	for key, v := range t.NodeSelector {
		if have, ok := labels[key]; !ok || have != v {
			return false
		}
	}
	if t.Terms == nil {
		return true
	}
	return slices.ContainsFunc(t.Terms, func(term Term) bool {
		for _, e := range term.Exprs {
			v, ok := labels[e.Key]
			if !e.Matches(v, ok) {
				return false
			}
		}
		return len(term.Exprs) > 0
	})
}
