package layout

import (
	"encoding/binary"
	"math"
)

// Kind is what a store has to know about a kind of record. The zero Kind is that of a byte that begins no record.
type Kind struct {
	// Element: the key goes on with the id of the collection that the record belongs to.
	Element bool
	// Sequence: behind the id stands an index. The collection has one element for each index between two bounds, which
	// its metadata names. Elements outside of the bounds are not read, and no record says that they are gone.
	Sequence bool
	// Grouped: generations link the records of a collection, so that those of a small one are found without a scan.
	Grouped bool
	// Counted: the entries of large collections are counted by ranges of keys.
	Counted bool
	// Read: records are read one by one, so copies of them are worth their memory. Others are only scanned.
	Read bool
	// ReadAgain: one request after another reads or writes the same record.
	ReadAgain bool
	// Scanned: what short scans have found is kept until a record of the collection is written.
	Scanned bool

	// lowest and highest are what may stand behind the id at the ends of a collection; without them anything may.
	lowest, highest []byte
}

// Kinds are the kinds of record by their first byte.
var Kinds = [256]Kind{
	KindMetadata:    {Read: true, ReadAgain: true},
	KindHashField:   {Element: true, Read: true, Scanned: true, Grouped: true},
	KindSetMember:   {Element: true, Read: true, Scanned: true, Grouped: true, Counted: true},
	KindListElement: {Element: true, Read: true, Scanned: true, Sequence: true},
	KindZSetMember:  {Element: true, Read: true},
	KindZSetScore: {Element: true, Scanned: true, Grouped: true, Counted: true,
		lowest: sortable(math.Inf(-1)), highest: sortable(math.Inf(1))},
	KindFieldExpiry: {Element: true, Read: true},
	KindFieldDue:    {Element: true},
	KindExpiry:      {},
	KindHashDue:     {},
	KindDeleted:     {},
}

func sortable(score float64) []byte { return binary.BigEndian.AppendUint64(nil, SortableScore(score)) }

// First is where the records of a kind that a collection has can begin.
func First(kind byte, id uint64) []byte {
	return AppendElementKey(nil, kind, id, Kinds[kind].lowest)
}

// Behind is the first key behind all records of a kind that a collection can have.
func Behind(kind byte, id uint64) []byte {
	last := AppendElementKey(nil, kind, id, Kinds[kind].highest)
	return Successor(last[:0], last)
}

// Elements is a kind of record that spread collections of a type have.
type Elements struct {
	Kind  byte
	Count func(m *Metadata) uint64 // how many of them a collection has
}

// elements are those of each type. The first kind is the one that an element is looked up by.
var elements = [...][]Elements{
	Hash: {{KindHashField, (*Metadata).Length}, {KindFieldExpiry, (*Metadata).expiring}, {KindFieldDue, (*Metadata).expiring}},
	List: {{KindListElement, (*Metadata).Length}},
	Set:  {{KindSetMember, (*Metadata).Length}},
	ZSet: {{KindZSetMember, (*Metadata).Length}, {KindZSetScore, (*Metadata).Length}},
}

// Elements returns the kinds of record that spread collections of the type have; none for a type that has no such collections.
func (t Type) Elements() []Elements {
	if int(t) >= len(elements) {
		return nil
	}
	return elements[t]
}

// Expiring reports whether elements of the type may expire by themselves.
func (t Type) Expiring() bool { return t == Hash }

// Sequence reports whether the elements of the type form a sequence.
func (t Type) Sequence() bool {
	elements := t.Elements()
	return len(elements) > 0 && Kinds[elements[0].Kind].Sequence
}
