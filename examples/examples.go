// Package examples holds the manifests of this folder, so that the sandbox's
// demonstration runs exactly what the reader sees.
package examples

import "embed"

// Files are the manifests, by file name.
//
//go:embed *.yaml
var Files embed.FS
