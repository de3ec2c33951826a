package netplace

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Bounds of a pattern. Go's matching takes time in proportion to the name and
// to the compiled pattern, and a short text such as ((a{99}){99}){9} compiles
// into a very long one. A pattern that lists a few hundred names passes.
const (
	maxPattern = 4096  // bytes
	maxSteps   = 10000 // compiled, about
)

// Pattern makes a Match of a regular expression (RE2), which may match any
// part of a node's name, as Volcano takes it. It also returns about how many
// steps a byte of a name costs, for callers that bound a sum. The error is one
// clause on what is wrong with the pattern.
func Pattern(text string) (Match, int, error) {
	if len(text) > maxPattern {
		return nil, 0, fmt.Errorf("a pattern of %d bytes, more than %d", len(text), maxPattern)
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("pattern %.80q: %s", text, clause(err))
	}
	cost := steps(re)
	if cost > maxSteps {
		return nil, 0, fmt.Errorf("pattern %.80q: too large when its repetitions are written out", text)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, 0, fmt.Errorf("pattern %.80q: %s", text, clause(err))
	}
	return func(name string, _ map[string]string) bool { return compiled.MatchString(name) }, cost, nil
}

// clause leaves out the expression that the parser's error quotes in full.
func clause(err error) string {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return e.Code.String()
	}
	return "not a regular expression"
}

// steps is about the size of the compiled expression, at most a little more
// than maxSteps.
func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxSteps+1)
}
