package cliutil

import (
	"fmt"
	"strings"
	"unicode"
)

// Escape makes text from manifests, annotations and servers safe to print: a
// control character, which could move the cursor or colour the terminal, is
// shown by its code. Line breaks stay, since errors may have several lines.
func Escape(s string) string {
	bad := func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	}
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
