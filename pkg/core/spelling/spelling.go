// Package spelling finds the word that a mistyped one most likely means, for
// hints to people. It decides nothing.
package spelling

import "strings"

// long is the length from which words are never near each other: it bounds
// the work on hostile input, and no name of the suite comes near it.
const long = 128

// Closest is the candidate nearest to a mistyped word, whatever the case;
// empty if none is near: at most a third of its letters differ. Ties go to the
// first candidate.
func Closest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	word = strings.ToLower(word)
	for _, c := range candidates {
		if d := Distance(word, strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// Distance is the Damerau-Levenshtein distance (optimal string alignment) in
// bytes: inserted, dropped, changed and swapped letters.
func Distance(a, b string) int {
	if len(a) > long || len(b) > long {
		return long
	}
	prev2, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, prev[j]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev, row = prev, row, prev2
	}
	return prev[len(b)]
}
