package execute

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
	ErrWrongType  = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	ErrDBIndex    = Error("ERR DB index is out of range")
	ErrNoAuth     = Error("NOAUTH Authentication required.")
	errUnwanted   = Error("ERR the client sends no more, and the command takes too long to be read by somebody who may be gone")
)

// Errorf makes an error reply.
func Errorf(format string, args ...any) Error { return Error(fmt.Sprintf(format, args...)) }

// WrongArity refuses a request with too few or too many words.
func WrongArity(name string) Error {
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
