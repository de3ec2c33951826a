package kube

import "strings"

// Nearest is the candidate that a mistyped word most likely means, empty if
// none is close: at most a third of its letters differ, whatever the case.
// Ties go to the first candidate.
func Nearest(word string, candidates []string) string {
	best, dist := "", len(word)/3+1
	w := strings.ToLower(word)
	for _, c := range candidates {
		if d := editDistance(w, strings.ToLower(c)); d < dist {
			best, dist = c, d
		}
	}
	return best
}

// editDistance counts the bytes that were inserted, dropped or changed, and
// the neighbours that were swapped, between two short words. Long words are
// never near each other.
func editDistance(a, b string) int {
	const long = 128
	if len(a) > long || len(b) > long {
		return long
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
