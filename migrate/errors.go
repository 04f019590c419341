package migrate

import (
	"errors"
	"fmt"
)

// Exit codes of port, import and export; docs/migration.md lists them for users.
const (
	ExitFailed      = 1 // anything else
	ExitUsage       = 2 // the command line is wrong
	ExitInterrupted = 3 // ended before it was done, and can be gone on with
	ExitSource      = 4 // the source can't be reached, or refuses
	ExitTarget      = 5 // the target can't be reached, or refuses
	ExitConflict    = 6 // a key is at the target already, under --on-conflict fail
	ExitNoPosition  = 7 // what an earlier run has begun can't be gone on with
	ExitUnsupported = 8 // something that the target, or Kedis, doesn't have
)

// Error is an error with the exit code that it ends a program with.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *Error) Unwrap() error { return e.Err }

func failure(code int, format string, arguments ...any) error {
	return &Error{code, fmt.Errorf(format, arguments...)}
}

// ExitCode is the exit code for an error: 0 for none.
func ExitCode(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return ExitFailed
}
