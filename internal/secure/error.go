package secure

// Error is what is wrong with the settings or their files, in the words of Redis's log.
type Error struct {
	What  string
	Cause error // may be nil
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.What
	}
	return e.What + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() error { return e.Cause }

func wrong(what string) error { return &Error{What: what} }
