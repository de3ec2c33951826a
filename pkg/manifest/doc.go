// Package manifest reads files of Kubernetes objects as the API server would,
// and finds the pod templates in them.
//
// Bytes become documents (Split, Parse), documents become trees whose every
// value knows its line and column, and trees become the plain workloads that
// pkg/core/request/rules judges. Values are what kubectl and the API server
// make of the text (YAML 1.1: 010 is 8, yes is true), while positions and raw
// texts come from a second parse that keeps them; the common typed decoding
// repairs mistakes and hides them, so it is used as a cross-check only.
//
// Input is hostile until proven otherwise: size, nesting and aliases are
// bounded before anything is expanded, and nothing here panics.
//
// Words: a source is a file or standard input; a document is what lies
// between two --- lines; an object is what a document holds, a List several.
package manifest
