package reason

import (
	"strconv"
	"strings"
)

// Sentence is the reason in words: lower case, no full stop, numbers filled
// in. Text comes from manifests and annotations too, so it is not yet safe
// for a terminal; whoever prints it escapes it.
func (r Reason) Sentence() string {
	i, ok := Lookup(r.Code)
	if !ok || i.Text == "" {
		return string(r.Code)
	}
	return r.fill(i.Text)
}

// Fix is the next step in words, empty if there is none.
func (r Reason) Fix() string {
	i, _ := Lookup(r.Code)
	return r.fill(i.Fix)
}

func (r Reason) fill(template string) string {
	if !strings.ContainsRune(template, '{') {
		return template
	}
	unit := r.Unit
	if unit != "" && unit != "%" {
		unit = " " + unit
	}
	return strings.NewReplacer(
		"{want}", amount(r.Want)+unit, "{free}", amount(r.Free)+unit, "{total}", amount(r.Total)+unit,
		"{device}", r.Device, "{detail}", strings.Join(r.Detail, ", "),
	).Replace(template)
}

func amount(v int64) string { return strconv.FormatInt(v, 10) }
