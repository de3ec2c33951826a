// Package config is "ljctl config": which settings hold, the user's and the
// cluster's, and where each comes from.
package config
