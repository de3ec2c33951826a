package cliutil

import (
	"context"
	"errors"
	"fmt"
	"io"

	"lj.aliyun.com/kit/pkg/core/reason"
)

// ExitError is an error that decides the exit code. A nil Err prints nothing:
// the answer has been given already, on the output.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Exit is the answer that was printed, as an exit code.
func Exit(v reason.Verdict) error {
	if c := v.ExitCode(); c != reason.ExitOK {
		return &ExitError{Code: c}
	}
	return nil
}

// Usagef is a mistake in the command line: exit code 2.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: reason.ExitUsage, Err: fmt.Errorf(format, args...)}
}

// hinted is an error with the next step for its reader.
type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// WithHint adds the next step to an error.
func WithHint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return hinted{err, fmt.Sprintf(format, args...)}
}

// Report prints an error the way kubectl does, with its hint, and returns the
// exit code. What an API server or the way to it says is put in plain words
// first; see Explain.
func Report(w io.Writer, err error) int {
	if err == nil {
		return reason.ExitOK
	}
	err = Explain(err)
	code := reason.ExitError
	var ee *ExitError
	if errors.As(err, &ee) {
		code = ee.Code
		if ee.Err == nil {
			return code
		}
	} else if errors.Is(err, context.Canceled) {
		fmt.Fprintln(w, "interrupted")
		return reason.ExitInterrupted
	}
	fmt.Fprintf(w, "error: %s\n", Escape(err.Error()))
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintf(w, "hint: %s\n", Escape(h.hint))
	}
	return code
}

// AsExit gives an error an exit code unless it already has one.
func AsExit(code int, err error) error {
	var ee *ExitError
	if err == nil || errors.As(err, &ee) {
		return err
	}
	return &ExitError{Code: code, Err: err}
}
