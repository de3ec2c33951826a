// Package reason has the closed list of reason codes, the verdict words, and
// the one place where both become text and exit codes.
//
// A Reason is a code with numbers: want, free and total of what is short, and
// the device. Deciding code fills the numbers; Sentence makes the text, once,
// where a person or an event needs it. Codes are never renamed.
package reason
