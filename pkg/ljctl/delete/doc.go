// Package delete is "ljctl delete": it ends jobs, with all that they own, and
// says beforehand what that is.
package delete
