// Package shebang reads the first line of a library of functions, which has its name and its
// engine, as in #!lua name=mine . It knows no engine.
package shebang

import (
	"bytes"

	"kedis/internal/quotes"
)

// Error says what is wrong with the first line of a library's source, in Redis's words.
type Error string

func (e Error) Error() string { return string(e) }

const (
	errNoMetadata      = Error("Missing library metadata")
	errInvalidMetadata = Error("Invalid library metadata")
	errNamedTwice      = Error("Invalid metadata value, name argument was given multiple times")
	errNotNamed        = Error("Library name was not given")
	errName            = Error("Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
)

// Library is what the first line of a library's source says, as in  #!lua name=mine .
type Library struct {
	Engine, Name string
	Line         int // bytes of the line, without its end
}

// ParseLibrary reads the first line of a library's source.
func ParseLibrary(source []byte) (h Library, err error) {
	if !bytes.HasPrefix(source, []byte("#!")) {
		return h, errNoMetadata
	}
	if h.Line = bytes.IndexAny(source, "\n\x00"); h.Line < 0 || source[h.Line] == 0 { // C's text ends at a zero byte
		return h, errInvalidMetadata
	}
	words, ok := quotes.Split(nil, bytes.Clone(source[:h.Line]))
	if !ok || len(words) == 0 {
		return h, errInvalidMetadata
	}
	h.Engine = string(words[0][2:])
	named := false
	for _, word := range words[1:] {
		const option = "name="
		if len(word) < len(option) || !bytes.EqualFold(word[:len(option)], []byte(option)) {
			return h, Error("Invalid metadata value given: " + string(word))
		}
		if named {
			return h, errNamedTwice
		}
		named, h.Name = true, string(word[len(option):])
	}
	switch {
	case !named:
		return h, errNotNamed
	case !validName(h.Name):
		return h, errName
	}
	return h, nil
}

// validName reports whether a library may have a name.
func validName(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}
