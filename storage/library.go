package storage

import (
	"errors"

	"kedis/internal/shebang"
	"kedis/storage/layout"
)

// A library of functions is a key of the database of libraries, which no client can select: its
// name, with its source as a plain string. Flushing databases spares it, and everything that is
// done with databases as a whole (views, checkpoints, imports, recovery) takes it along. Nobody
// watches these keys, so changing them is no key event. Whoever changes them has closed the gate.

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
	head, err := shebang.ParseLibrary(source)
	if err != nil {
		return err
	}
	defer i.txn.scratch.slim()
	return i.TakeLibrary([]byte(head.Name), func() error { return i.txn.PutLibrary(head.Name, source) })
}
