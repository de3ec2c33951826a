// Package e2e has the tests that need the real API server. They are in one
// package, because each test program that links it is about 180 MB: one
// cluster is started for all of them, and each test has a namespace of its own.
package e2e
