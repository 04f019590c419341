package engine

import (
	"bytes"

	"kedis/storage/generation"
	"kedis/storage/rocks"
)

// Iterator walks records in the order of their keys, or backwards, as its transaction sees them:
// its own writes so far, the generations, RocksDB. It has to be closed.
//
// Key and Value are valid until the next call of Next, unless said otherwise.
type Iterator struct {
	txn     *Txn
	reverse bool
	once    bool     // RocksDB's cache keeps nothing of it
	sources []source // the newest first
	journal journalSource
	few     []generation.Record // what findFew has found, to be given back
	points  *sequencePoints     // elements that are looked up before others are walked over
	below   *rocks.Iterator
	belowOK bool  // below stands on an entry
	ended   error // what has ended below, for the next call of Next
	space   *Namespace
	bounds  rocks.IteratorOptions // of below
	key     []byte
	value   []byte
	passing *passing // memory for the entry; nil: each entry has its own, a part of what the transaction keeps
	err     error
}

// passing is memory that one entry after another is copied to.
type passing struct{ key, value []byte }

// source is one of the memories that lie over RocksDB. It stands on an entry, or is at its end.
type source interface {
	// head returns the entry that it stands on; ok is false at the end.
	head() (key []byte, ok bool)
	content() (value []byte, state generation.State)
	advance()
}

// IteratorOptions say how an iterator walks.
type IteratorOptions struct {
	Reverse  bool // from the last key to the first
	KeysOnly bool // the values that RocksDB has are left unread
	Expected int  // how many records are likely to be read; 0: nobody knows
}

// Iterate iterates over the records of a namespace from lower on, before upper; a nil upper is
// none.
func (t *Txn) Iterate(ns *Namespace, lower, upper []byte, o IteratorOptions) *Iterator {
	it := &Iterator{txn: t, reverse: o.Reverse}
	it.begin(ns, lower, upper, o)
	return it
}

// IterateOnce is Iterate over many records, and Passing: what is read from files displaces nothing
// in RocksDB's cache. Who mustn't wait for the disk gets ErrBudget where he would.
func (t *Txn) IterateOnce(ns *Namespace, lower, upper []byte, reverse bool) *Iterator {
	it := &Iterator{txn: t, reverse: reverse, once: true}
	it.begin(ns, lower, upper, IteratorOptions{Reverse: reverse})
	return it.Passing()
}

func (it *Iterator) begin(ns *Namespace, lower, upper []byte, o IteratorOptions) {
	t, reverse := it.txn, o.Reverse
	r := generation.Range{Space: ns.Number, Lower: bytes.Clone(lower), Upper: bytes.Clone(upper)}
	if len(upper) == 0 {
		r.Upper = nil
	}
	options := rocks.IteratorOptions{LowerBound: r.Lower, UpperBound: r.Upper, Reverse: reverse, KeysOnly: o.KeysOnly, Expected: o.Expected,
		NoFillCache: it.once}
	if t.view != nil {
		it.add(t.view.recent, r)
		it.open(ns, t.view.snapshot, options)
		return
	}
	if found := t.journal.within(r, reverse); len(found) > 0 {
		it.journal = journalSource{&t.journal, found}
		it.sources = append(it.sources, &it.journal)
	}
	it.add(t.store.tiers.Load().recent, r)
	it.open(ns, nil, options)
}

// add adds generations. RocksDB has the records of the retained one and of the cache, too.
func (it *Iterator) add(generations recent, r generation.Range) {
	for _, g := range generations {
		s := &generationSource{records: g.Iterate(g.mark, r, it.reverse)}
		if s.advance(); s.ok {
			it.sources = append(it.sources, s)
		}
	}
}

func (it *Iterator) open(ns *Namespace, snapshot *rocks.Snapshot, o rocks.IteratorOptions) {
	family := ns.family.Load()
	if family == nil {
		return
	}
	o.CachedOnly = it.txn.parks()
	it.space, it.bounds = ns, o
	it.below = it.txn.store.db().NewIterator(family, snapshot, o)
	it.advanceBelow()
}

func (it *Iterator) advanceBelow() {
	if it.belowOK = it.below.Next(); !it.belowOK {
		it.ended = it.below.Err()
	}
}

// fail ends the walk with what has ended RocksDB's.
func (it *Iterator) fail() {
	switch it.err = it.ended; {
	case !rocks.IsIncomplete(it.err):
	case it.once:
		it.err = ErrBudget
	default:
		it.txn.order.cold.goOn(it)
		it.err = ErrCold
	}
}

// Passing has Key and Value be valid until the next call of Next only, so that a long walk leaves
// no garbage. It returns the iterator.
func (it *Iterator) Passing() *Iterator {
	it.passing = &passing{}
	return it
}

// Next moves on to the next record.
func (it *Iterator) Next() bool {
	if !it.next() {
		return false
	}
	if it.txn.order.countAtMost == 0 { // who counts in steps comes on with each, however long a key is
		it.err = it.txn.SpendLong(len(it.key) + len(it.value))
	}
	return it.err == nil
}

func (it *Iterator) next() bool {
	if it.points != nil && it.err == nil {
		return it.nextPoint()
	}
	for it.err == nil {
		if it.ended != nil {
			it.fail()
			return false
		}
		if it.err = it.txn.Spend(1); it.err != nil {
			return false
		}
		first := it.first()
		if first == nil {
			return it.nextBelow()
		}
		key, _ := first.head()
		if it.belowOK && it.order(it.below.Key(), key) < 0 {
			return it.nextBelow()
		}
		value, state := first.content()
		it.pass(key)
		if state == generation.Present {
			it.key, it.value = key, value
			return true
		}
	}
	return false
}

// first returns the source whose entry comes next; of the same key, the newest.
func (it *Iterator) first() source {
	var first source
	var firstKey []byte
	for _, s := range it.sources {
		if key, ok := s.head(); ok && (first == nil || it.order(key, firstKey) < 0) {
			first, firstKey = s, key
		}
	}
	return first
}

// pass leaves a key behind in all that stand on it.
func (it *Iterator) pass(key []byte) {
	for _, s := range it.sources {
		if k, ok := s.head(); ok && bytes.Equal(k, key) {
			s.advance()
		}
	}
	if it.belowOK && bytes.Equal(it.below.Key(), key) {
		it.advanceBelow()
	}
}

func (it *Iterator) nextBelow() bool {
	if !it.belowOK {
		return false
	}
	// The entry is copied, because moving on may fetch the next block into its place.
	if p := it.passing; p != nil {
		p.key, p.value = append(p.key[:0], it.below.Key()...), append(p.value[:0], it.below.Value()...)
		it.key, it.value = p.key, p.value
	} else {
		kept := &it.txn.kept
		it.key, it.value = kept.keep(it.below.Key()), kept.keep(it.below.Value())
	}
	it.advanceBelow()
	return true
}

func (it *Iterator) order(a, b []byte) int {
	if it.reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// Key is the whole key of the record that Next moved to. It stays valid until the transaction is
// reset, unless Passing was called.
func (it *Iterator) Key() []byte { return it.key }

// Value is its value, likewise.
func (it *Iterator) Value() []byte { return it.value }

// Err is what ended the walk before its end; ErrBudget when the running command has touched too
// much.
func (it *Iterator) Err() error { return it.err }

// Fail ends the iteration with an error, and reports whether there is one.
func (it *Iterator) Fail(err error) bool {
	if err != nil {
		it.err = err
	}
	return err != nil
}

// Close frees what the iterator holds, and returns Err.
func (it *Iterator) Close() error {
	it.endPoints()
	if it.below != nil {
		it.below.Close()
		it.below = nil
	}
	if it.few != nil {
		it.txn.order.few.newest = it.few
		it.txn.order.few.forget(0)
		it.few = nil
	}
	return it.err
}

type generationSource struct {
	records *generation.Iterator
	ok      bool
}

func (s *generationSource) advance()                            { s.ok = s.records.Next() }
func (s *generationSource) content() ([]byte, generation.State) { return s.records.Value() }

func (s *generationSource) head() ([]byte, bool) {
	if !s.ok {
		return nil, false
	}
	return s.records.Key(), true
}

// journalSource walks the transaction's own writes: those that were there when the walk began.
type journalSource struct {
	journal *journal
	found   []int32
}

func (s *journalSource) advance() { s.found = s.found[1:] }

func (s *journalSource) head() ([]byte, bool) {
	if len(s.found) == 0 {
		return nil, false
	}
	return s.journal.key(&s.journal.entries[s.found[0]]), true
}

func (s *journalSource) content() ([]byte, generation.State) {
	c := &s.journal.entries[s.found[0]]
	if c.length < 0 {
		return nil, generation.Deleted
	}
	return s.journal.value(c), generation.Present
}
