package command

import (
	"errors"
	"fmt"

	"kedis/internal/resp"
	"kedis/storage"
)

// Error is an error reply.
type Error = resp.Error

// Replies that many commands give. The texts are Redis's.
const (
	ErrSyntax     = Error("ERR syntax error")
	ErrNotInteger = Error("ERR value is not an integer or out of range")
	ErrNotFloat   = Error("ERR value is not a valid float")
	ErrWrongType  = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	ErrNoSuchKey  = Error("ERR no such key")
	ErrOutOfRange = Error("ERR index out of range")
	ErrTooLong    = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
	ErrNotReal    = Error("ERR value is out of range, must be positive")
	ErrExecAbort  = Error("EXECABORT Transaction discarded because of previous errors.")
	ErrNoAuth     = Error("NOAUTH Authentication required.")
	ErrDBIndex    = Error("ERR DB index is out of range")
)

// Errorf makes an error reply.
func Errorf(format string, args ...any) Error { return Error(fmt.Sprintf(format, args...)) }

func wrongArity(name string) Error {
	return Errorf("ERR wrong number of arguments for '%s' command", name)
}

// toReply turns an error into the text that the client sees. known is false for those that are
// nobody's mistake but ours or the disk's: they are worth a line in the log.
func (t *Table) toReply(err error) (text string, known bool) {
	var reply Error
	if errors.As(err, &reply) {
		return string(reply), true
	}
	if errors.Is(err, storage.ErrWrongType) {
		return string(ErrWrongType), true
	}
	for known, text := range t.errors {
		if errors.Is(err, known) {
			return text, true
		}
	}
	return "ERR internal error: " + err.Error(), false
}
