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
	return strings.NewReplacer(
		"{want}", measured(r.Want, r.Unit), "{free}", r.part(r.Free), "{total}", r.part(r.Total),
		"{device}", r.Device, "{detail}", strings.Join(r.Detail, ", "),
	).Replace(template)
}

// part is an amount beside {want}: its unit is said again only where a bare
// number would be misread ("6 GiB of 24 GiB", but "2 cards asked, 1 of 8").
func (r Reason) part(v int64) string {
	switch r.Unit {
	case "%", "GiB", "MiB":
		return measured(v, r.Unit)
	}
	return amount(v)
}

func measured(v int64, unit string) string {
	switch {
	case unit == "":
		return amount(v)
	case unit == "%":
		return amount(v) + "%"
	case v == 1:
		return amount(v) + " " + strings.TrimSuffix(unit, "s")
	}
	return amount(v) + " " + unit
}

func amount(v int64) string { return strconv.FormatInt(v, 10) }
