package reason

// Verdict is the one word that every answer of the suite begins with.
type Verdict string

// The verdict words.
const (
	OK      Verdict = "OK"      // nothing wrong
	Warn    Verdict = "WARN"    // will run, but something deserves a line
	Invalid Verdict = "INVALID" // breaks a rule, or the API server refuses it
	Blocked Verdict = "BLOCKED" // cannot be placed until somebody acts
	Wait    Verdict = "WAIT"    // goes on by itself
	Unknown Verdict = "UNKNOWN" // the evidence is missing
	Env     Verdict = "ENV"     // the cluster lacks a piece
	Refused Verdict = "REFUSED" // the host tool declines, nothing was changed
	Partial Verdict = "PARTIAL" // changed, one more step is needed
)

// Verdicts lists every Verdict.
func Verdicts() []Verdict {
	return []Verdict{OK, Warn, Invalid, Blocked, Wait, Unknown, Env, Refused, Partial}
}

// Exit codes of every program, never dependent on the output format.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNo          = 3
	ExitTimeout     = 4
	ExitNotYet      = 5
	ExitUnknown     = 6
	ExitInterrupted = 130
)

// ExitCode maps a verdict to the exit code of a program that answers with it.
func (v Verdict) ExitCode() int {
	switch v {
	case OK, Warn:
		return ExitOK
	case Invalid, Blocked, Refused:
		return ExitNo
	case Wait, Partial:
		return ExitNotYet
	case Unknown:
		return ExitUnknown
	}
	return ExitError
}

// rank orders verdicts from best to worst, for a report over several objects.
func (v Verdict) rank() int {
	switch v {
	case OK:
		return 0
	case Warn:
		return 1
	case Partial:
		return 2
	case Wait:
		return 3
	case Unknown:
		return 4
	case Blocked:
		return 5
	case Refused:
		return 6
	case Invalid:
		return 7
	}
	return 8
}

// Worst returns the worst of the verdicts, OK for none.
func Worst(vs ...Verdict) Verdict {
	worst := OK
	for _, v := range vs {
		if v.rank() > worst.rank() {
			worst = v
		}
	}
	return worst
}
