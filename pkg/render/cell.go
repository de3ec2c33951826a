package render

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Cell makes any text fit for one cell: on one line, without control
// characters, which a server or a manifest could have put there.
func Cell(s string) string {
	ok := func(r rune) bool { return !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) }
	if strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case ok(r):
			b.WriteRune(r)
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// Age is the time since then as kubectl writes it, "<unknown>" for no time.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(max(0, now.Sub(then)))
}

// Short cuts a text at n characters and marks the cut.
func Short(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:max(0, n-1)]) + "…"
}
