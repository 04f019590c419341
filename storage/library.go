package storage

import (
	"bytes"
	"errors"

	"kedis/internal/resp"
	"kedis/storage/layout"
)

// A library of functions is a key of the database of libraries, which no client can select: its
// name, with its source as a plain string. Flushing databases spares it, and everything that is
// done with databases as a whole (views, checkpoints, imports, recovery) takes it along. Nobody
// watches these keys, so changing them is no key event. Whoever changes them has closed the gate.

// LibraryError says what is wrong with the first line of a library's source, in Redis's words.
type LibraryError string

func (e LibraryError) Error() string { return string(e) }

const (
	errNoMetadata      = LibraryError("Missing library metadata")
	errInvalidMetadata = LibraryError("Invalid library metadata")
	errNamedTwice      = LibraryError("Invalid metadata value, name argument was given multiple times")
	errNotNamed        = LibraryError("Library name was not given")

	// ErrLibraryName refuses the name of a library or a function.
	ErrLibraryName = LibraryError("Library names can only contain letters, numbers, or underscores(_) and must be at least one character long")
)

// LibraryHead is what the first line of a library's source says, as in  #!lua name=mine .
type LibraryHead struct {
	Engine, Name string
	Line         int // bytes of the line, without its end
}

// ParseLibraryHead reads the first line of a library's source.
func ParseLibraryHead(source []byte) (h LibraryHead, err error) {
	if !bytes.HasPrefix(source, []byte("#!")) {
		return h, errNoMetadata
	}
	if h.Line = bytes.IndexByte(source, '\n'); h.Line < 0 {
		return h, errInvalidMetadata
	}
	words, ok := resp.SplitArguments(nil, bytes.Clone(source[:h.Line]))
	if !ok || len(words) == 0 {
		return h, errInvalidMetadata
	}
	h.Engine = string(words[0][2:])
	named := false
	for _, word := range words[1:] {
		const option = "name="
		if len(word) < len(option) || !bytes.EqualFold(word[:len(option)], []byte(option)) {
			return h, LibraryError("Invalid metadata value given: " + string(word))
		}
		if named {
			return h, errNamedTwice
		}
		named, h.Name = true, string(word[len(option):])
	}
	switch {
	case !named:
		return h, errNotNamed
	case !ValidLibraryName(h.Name):
		return h, ErrLibraryName
	}
	return h, nil
}

// ValidLibraryName reports whether a library, or a function, may have a name.
func ValidLibraryName(name string) bool {
	for _, c := range []byte(name) {
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}

// PutLibrary keeps a library's source under its name.
func (t *Txn) PutLibrary(name string, source []byte) error {
	db := t.libraries()
	var old Key
	if err := db.lookupAny([]byte(name), &old); err != nil {
		return err
	}
	if !old.Exists {
		t.Count(db.space, 1, 0)
	}
	return db.putMetadata([]byte(name), &layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: source})
}

// DeleteLibrary forgets a library that exists.
func (t *Txn) DeleteLibrary(name string) error {
	db := t.libraries()
	t.Count(db.space, -1, 0)
	return t.Delete(db.space, db.metadataKey([]byte(name)))
}

// FlushLibraries forgets all libraries.
func (t *Txn) FlushLibraries() { t.Flush(t.LibraryDatabase()) }

// Libraries visits all libraries, in the order of their names. The source is valid until the
// transaction is reset.
func (t *Txn) Libraries(visit func(name string, source []byte) error) error {
	var failed error
	err := t.libraries().Keys(nil, func(name []byte, m *layout.Metadata) bool {
		failed = visit(string(name), m.Value)
		return failed == nil
	})
	return errors.Join(err, failed)
}

func (t *Txn) libraries() DB { return t.DB(t.LibraryDatabase()) }

// LibrariesOf visits the libraries of a view, or of the data as it is now when there is none.
func (s *Store) LibrariesOf(v *View, visit func(name string, source []byte) error) error {
	t := s.NewTxn()
	defer t.Reset()
	if v != nil {
		t.ReadFrom(v)
	}
	t.Begin(Mode{Applying: true}, 0, 0)
	return t.Libraries(visit)
}

// RestoreLibrary takes in a library by its source, which must not have come before.
func (i *Import) RestoreLibrary(source []byte) error {
	head, err := ParseLibraryHead(source)
	if err != nil {
		return err
	}
	defer i.txn.scratch.slim()
	return i.TakeLibrary([]byte(head.Name), func() error { return i.txn.PutLibrary(head.Name, source) })
}
