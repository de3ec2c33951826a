// Package submit is "ljctl submit": it makes a job from flags or takes it from
// a file, checks it as "ljctl validate" does, and creates it.
//
// build turns flags into objects and is pure; load reads files; preflight asks
// the cluster for what the job needs before anything is created; create makes
// all objects or says exactly which; preview and wait look at what becomes of
// them. An INVALID manifest never reaches the server.
package submit
