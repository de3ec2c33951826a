// Package logs is "ljctl logs": what the pods of a job have written.
package logs
