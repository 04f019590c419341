package storage

import (
	"kedis/storage/digest"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// DataType is a row of the table of data types: what commands on keys of any type need to know of
// one. A new type needs its row, which stands in its own file, and its records in package layout.
type DataType struct {
	Name   string      // as TYPE shows it
	RDB    rdb.Kind    // as payloads and files have it
	Digest digest.Kind // as DEBUG DIGEST has it

	// encoding returns the name that Redis has for the form of a value which is neither a listpack
	// nor an intset.
	encoding func(m *layout.Metadata) string
	// encode writes a value as a payload.
	encode func(d DB, m *layout.Metadata, e *rdb.Encoder) error
	// restore reads a value from a payload.
	restore func(r *restoring) (layout.Metadata, error)
	// digest adds the elements of a value to its digest.
	digest func(v *digest.Value, d DB, key []byte, m *layout.Metadata) error

	// elements visits the elements of a spread collection, as DB.Elements does.
	elements func(d DB, m *layout.Metadata, visit visitElement) error
	// pieces is how a large collection goes to another Kedis.
	pieces Pieces
	// packedPairs: a listpack has two entries for each element.
	packedPairs bool
	// scanned returns the value of an element's record as SCAN and its like show it; nil: as it is.
	scanned func(t *Txn, value []byte) ([]byte, error)
}

// visitElement is called for the elements of a spread collection: see DB.Elements.
type visitElement func(element, value []byte, score float64) error

var types [layout.Stream + 1]DataType

// The rows refer to functions that look rows up, which the initialization of a variable can't.
func init() {
	types = [...]DataType{
		0:             {Name: "none"},
		layout.String: stringType,
		layout.Hash:   hashType,
		layout.List:   listType,
		layout.Set:    setType,
		layout.ZSet:   zsetType,
		layout.Stream: streamType,
	}
}

// TypeOf returns the row of a type. That of a key that doesn't exist, whose type is 0, is named
// "none".
func TypeOf(t layout.Type) *DataType {
	if int(t) >= len(types) {
		t = 0
	}
	return &types[t]
}

// Encoding is what OBJECT ENCODING answers for a key: what Redis 7.2 calls the form that it would
// give the value.
func Encoding(m *layout.Metadata) string {
	switch m.Encoding {
	case layout.Listpack:
		return "listpack"
	case layout.Expiring:
		return "listpackex"
	case layout.Intset:
		return "intset"
	}
	return TypeOf(m.Type).encoding(m)
}

// AddToDigest adds a key's value and that it expires, if it does, to a digest, one element at a
// time.
func (d DB) AddToDigest(v *digest.Value, key []byte, m *layout.Metadata) error {
	if err := TypeOf(m.Type).digest(v, d, key, m); err != nil {
		return err
	}
	if m.ExpireMs != 0 {
		v.Expires()
	}
	return nil
}

// named is an encoding that has one name.
func named(name string) func(*layout.Metadata) string {
	return func(*layout.Metadata) string { return name }
}

// encodeCollection writes a packed collection as the bytes that it is, or a spread one an element
// at a time.
func encodeCollection(packed func(e *rdb.Encoder, pack listpack.Listpack), begin func(e *rdb.Encoder, count uint64),
	element func(e *rdb.Encoder, element, value []byte, score float64)) func(DB, *layout.Metadata, *rdb.Encoder) error {
	return func(d DB, m *layout.Metadata, e *rdb.Encoder) error {
		if m.Encoding == layout.Listpack {
			packed(e, m.Value)
			return nil
		}
		begin(e, m.Length())
		return d.encodeElements(m, e, element)
	}
}

// encodeElements writes the elements of a spread collection that has been begun, and ends it.
func (d DB) encodeElements(m *layout.Metadata, e *rdb.Encoder, write func(e *rdb.Encoder, element, value []byte, score float64)) error {
	err := d.Elements(m, func(element, value []byte, score float64) error {
		write(e, element, value, score)
		return nil
	})
	if err == nil {
		e.End()
	}
	return err
}

// visitValues visits a spread collection's elements and the values that their records have.
func visitValues(d DB, m *layout.Metadata, visit visitElement) error {
	return d.scanAll(m, m.Type.Elements()[0], false, func(element, value []byte) error { return visit(element, value, 0) })
}
