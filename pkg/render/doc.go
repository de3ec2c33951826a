// Package render is how the suite's tables look: kubectl's, without borders,
// the same in every locale, safe to print, without blanks at line ends.
//
// It decides nothing and knows no cluster; callers hand it finished cells.
package render
