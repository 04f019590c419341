package storage

import (
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/touches"
)

// Txn is a transaction, in which databases are looked at as keys and values. It belongs to one
// goroutine at a time; whoever uses it holds the locks of the keys that its commands touch.
type Txn struct {
	engine.Txn
	limits  *Limits
	touches *touches.Notes
	scratch scratch
	pool    keyPool

	departures *departures

	streams   recycled[Stream]
	groups    recycled[Group]
	consumers recycled[Consumer]
}

// scratch is memory for one use after another.
type scratch struct {
	key, key2   []byte // of records
	record      []byte // values
	pack, pack2 []byte // packed collections
	element     []byte // one element of them
	member      []byte // and another
	draft       []byte // a string that is being composed
	places      *placeWalk
}

func (s *scratch) slim() {
	if cap(s.record) > largeBuffer {
		s.record = nil
	}
	if cap(s.draft) > largeBuffer {
		s.draft = nil
	}
}

// largeBuffer is how much scratch memory is kept from one transaction to the next.
const largeBuffer = 1 << 20

// NewTxn makes a transaction. It can be used again and again, after Reset.
func (s *Store) NewTxn() *Txn {
	t := &Txn{limits: &s.limits, touches: &s.Touches, departures: &s.departures}
	t.Init(s.Store)
	return t
}

// Begin starts a command, see engine.Txn.Begin. Streams and groups that were opened before are no
// longer valid.
func (t *Txn) Begin(mode Mode, nowMs int64, budget int) {
	t.streams.used, t.groups.used, t.consumers.used = 0, 0, 0
	t.Txn.Begin(mode, nowMs, budget)
}

// Reset makes the transaction ready for use again. What it had not committed is gone, and so is
// what it returned.
func (t *Txn) Reset() {
	t.Txn.Reset()
	t.scratch.slim()
	t.streams.forget((*Stream).empty)
	t.groups.forget((*Group).empty)
	t.consumers.forget((*Consumer).empty)
}

// DB is a database as a transaction sees it.
type DB struct {
	txn    *Txn
	number int
	space  *engine.Namespace
	miss   missing
}

// DB returns a database. The number is below Store.Databases.
func (t *Txn) DB(number int) DB { return DB{txn: t, number: number, space: t.Namespace(number)} }

// Txn is the transaction that the database is seen by.
func (d DB) Txn() *Txn { return d.txn }

// Number is the database's number.
func (d DB) Number() int { return d.number }

// metadataKey returns the key of a key's metadata, in scratch memory.
func (d DB) metadataKey(key []byte) []byte {
	d.txn.scratch.key = layout.AppendMetadataKey(d.txn.scratch.key[:0], key)
	return d.txn.scratch.key
}
