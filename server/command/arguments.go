package command

import (
	"bytes"

	"kedis/internal/number"
)

// arguments is a cursor over a command's words, for options. The first mistake is kept.
type arguments struct {
	words [][]byte
	err   error
}

// more tells whether there are words left and no mistake was found.
func (a *arguments) more() bool { return a.err == nil && len(a.words) > 0 }

// flag consumes a word if it is the one named, in any case.
func (a *arguments) flag(name string) bool {
	if len(a.words) == 0 || !equalFold(a.words[0], name) {
		return false
	}
	a.words = a.words[1:]
	return true
}

// option consumes a name and the word behind it. A missing word is a syntax error.
func (a *arguments) option(name string, value *[]byte) bool {
	if !a.flag(name) {
		return false
	}
	*value = a.next()
	return true
}

// integer consumes a name and the number behind it.
func (a *arguments) integer(name string, value *int64) bool {
	var word []byte
	if !a.option(name, &word) {
		return false
	}
	if a.err == nil {
		*value, a.err = parseInteger(word)
	}
	return true
}

// next consumes a word; a syntax error if there is none.
func (a *arguments) next() []byte {
	if len(a.words) == 0 {
		if a.err == nil {
			a.err = ErrSyntax
		}
		return nil
	}
	word := a.words[0]
	a.words = a.words[1:]
	return word
}

// fail notes a mistake, unless there was one before.
func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func parseInteger(word []byte) (int64, error) {
	if n, ok := number.ParseInt(word); ok {
		return n, nil
	}
	return 0, ErrNotInteger
}

// equalFold tells whether a word is an ASCII name in any case. It doesn't allocate.
func equalFold(word []byte, name string) bool {
	return len(word) == len(name) && bytes.EqualFold(word, []byte(name))
}
