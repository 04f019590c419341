package storage

import (
	"bytes"
	"encoding/binary"

	"kedis/storage/cache"
	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/ttl"
)

// WarmRequests is how many requests Warm takes at once: enough for the processor to wait for all of
// their records together.
const WarmRequests = 16

// Upcoming is a request that is about to be executed: a command with at least one argument.
type Upcoming struct {
	Database int
	Args     [][]byte
	Element  bool // it names an element of a collection, where Warm looks for one
	Step     int  // not 0: after so many arguments comes another key, and so on to the end
}

// SameKey tells that a request is about the same key as another one.
func (u *Upcoming) SameKey(other *Upcoming) bool {
	return u.Database == other.Database && bytes.Equal(u.Args[1], other.Args[1])
}

// Warm reads what commands that are about to be executed will look at first: the slots of the indexes,
// then the entries, and of spread collections the same for an element. One command after another would
// wait for memory at each step; here the processor waits for many at once. It changes nothing, and what
// isn't there does no harm. It returns a bit for each request that seems to be about what only RocksDB has.
//
// It takes at most WarmRequests. Their first argument is taken for a key, and the second, or the last when
// the key is a sorted set's, for an element.
func (t *Txn) Warm(requests []Upcoming) (missing uint32) {
	now := t.store.current.Load()
	keys, elements := warming{current: now, cache: t.store.cache}, warming{current: now, cache: t.store.cache}
	var popping popping
	var keyOf [WarmRequests]int // the place in keys of each request's; those that follow each other share one
	for i := range requests {
		if i == 0 || !requests[i].SameKey(&requests[i-1]) {
			t.key = layout.AppendMetadataKey(t.key[:0], requests[i].Args[1])
			keys.add(recordHash(now.databases[requests[i].Database].number, t.key))
		}
		keyOf[i] = keys.count - 1
	}
	keys.slots()
	var owners [WarmRequests]int
	var value []byte
	for i := range requests {
		if i == 0 || keyOf[i] != keyOf[i-1] {
			value = keys.value(keyOf[i])
			t.warmed += end(value)
		}
		if value == nil {
			missing |= 1 << i
		} else if space := now.databases[requests[i].Database].number; t.warmPoppedKey(&popping, value, keys.hashes[keyOf[i]], space, requests[i].Args) {
			owners[elements.count] = popped
			elements.add(recordHash(space, t.key))
		} else if args := requests[i].Args; t.warmElementKey(value, args) {
			owners[elements.count] = i
			elements.add(recordHash(space, t.key))
		}
	}
	elements.slots()
	for i := range elements.count {
		value := elements.value(i)
		t.warmed += end(value)
		if value == nil && owners[i] != popped {
			missing |= 1 << owners[i]
		}
	}
	return missing
}

// WarmKeys does the same for the keys of one command: the first of the arguments and every step-th from there
// on, up to WarmRequests of them. A transaction that reads from a view, or writes another map of
// databases, gains nothing by it.
func (d DB) WarmKeys(args [][]byte, step int) {
	if len(args) <= step || d.txn.view != nil {
		return
	}
	keys := warming{current: d.txn.store.current.Load(), cache: d.txn.store.cache}
	for i := 0; i < len(args) && keys.count < WarmRequests; i += step {
		keys.add(recordHash(d.space.number, d.metadataKey(args[i])))
	}
	keys.slots()
	for i := range keys.count {
		d.txn.warmed += byte(len(keys.value(i)))
	}
}

// WarmDue does the same for keys that are about to be removed, up to WarmRequests of them.
func (d DB) WarmDue(due []ttl.Due) {
	keys := warming{current: d.txn.store.current.Load(), cache: d.txn.store.cache}
	for i := range due[:min(len(due), WarmRequests)] {
		keys.add(recordHash(d.space.number, d.metadataKey(due[i].Key)))
	}
	keys.slots()
	for i := range keys.count {
		d.txn.warmed += byte(len(keys.value(i)))
	}
}

// end reads the end of a value: the processor would wait for it, too, when it is copied.
func end(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	return value[len(value)-1]
}

// popping is the list that requests pop from, and how many elements those have taken that Warm has passed.
type popping struct {
	hash        uint64
	left, right uint64
}

// popped owns the elements of lists that are about to be popped. Nobody fetches them.
const popped = -1

// warmPoppedKey puts the key of the element that a request will pop into t.key; false if it pops none from a spread list. The list is as
// the transaction itself has left it.
func (t *Txn) warmPoppedKey(p *popping, metadata []byte, hash uint64, space uint32, args [][]byte) bool {
	if len(args) != 2 || len(args[0]) != 4 || args[0][1]|0x20 != 'p' || len(metadata) != listMetadata || layout.Type(metadata[0]) != layout.List ||
		layout.Encoding(metadata[1]) != layout.Spread {
		return false
	}
	t.key = layout.AppendMetadataKey(t.key[:0], args[1])
	if own, state := t.journal.get(hash, space, t.key); state == generation.Present && len(own) == listMetadata {
		metadata = own
	}
	if hash != p.hash {
		*p = popping{hash: hash}
	}
	var index uint64
	if args[0][0]|0x20 == 'l' {
		index = binary.BigEndian.Uint64(metadata[spreadHeader:]) + p.left
		p.left++
	} else {
		p.right++
		index = binary.BigEndian.Uint64(metadata[spreadHeader+8:]) - p.right
	}
	t.key = layout.AppendListKey(t.key[:0], binary.BigEndian.Uint64(metadata[spreadHeader-8:]), index)
	return true
}

// listMetadata is the size of a spread list's metadata.
const listMetadata = spreadHeader + 16

// spreadHeader is the size of a spread collection's metadata up to its id's end; see layout.Metadata.
const spreadHeader = 18

// warmElementKey puts the key of the element that a request seems to be about into t.key; false if it can't be about one.
func (t *Txn) warmElementKey(metadata []byte, args [][]byte) bool {
	if len(args) < 3 || len(metadata) < spreadHeader || layout.Encoding(metadata[1]) != layout.Spread {
		return false
	}
	kind, element := byte(layout.KindHashField), args[2]
	switch layout.Type(metadata[0]) {
	case layout.List:
		return false
	case layout.Set:
		kind = layout.KindSetMember
	case layout.ZSet:
		kind, element = layout.KindZSetMember, args[len(args)-1]
	}
	t.key = layout.AppendElementKey(t.key[:0], kind, binary.BigEndian.Uint64(metadata[10:]), element)
	return true
}

// warming are records that are being looked for side by side. What a slot says holds for the generation
// that it is from, which another may take the place of at any time.
type warming struct {
	current                *current
	cache                  *cache.Cache
	count                  int
	hashes, recent, copies [WarmRequests]uint64
	holders                [WarmRequests]*frozen // the newest that seems to have the record
	held                   [WarmRequests]uint64  // and its slot there
}

// add takes up a record.
func (w *warming) add(hash uint64) {
	w.hashes[w.count] = hash
	w.count++
}

// slots reads the slots of all records, in loops so short that the processor is well ahead of what it waits for.
func (w *warming) slots() {
	for i, hash := range w.hashes[:w.count] {
		w.recent[i] = w.current.active.Slot(hash)
	}
	for i, hash := range w.hashes[:w.count] {
		w.copies[i] = w.cache.Slot(hash)
	}
	for _, f := range w.current.frozen {
		w.slotsIn(f)
	}
	if kept := w.current.kept; kept != nil {
		w.slotsIn(kept)
	}
}

// slotsIn reads the slots of a generation behind newer ones.
func (w *warming) slotsIn(f *frozen) {
	for i, hash := range w.hashes[:w.count] {
		if slot := f.Slot(hash); w.holders[i] == nil && generation.Matches(hash, slot) {
			w.holders[i], w.held[i] = f, slot
		}
	}
}

// value reads the entry that a record's slots name, and returns its value. It is a guess: the entry may be
// another record's whose hash is similar.
func (w *warming) value(i int) []byte {
	if value := w.current.active.Peek(w.hashes[i], w.recent[i]); value != nil {
		return value
	}
	if f := w.holders[i]; f != nil {
		if value := f.Peek(w.hashes[i], w.held[i]); value != nil {
			return value
		}
	}
	return w.cache.Peek(w.hashes[i], w.copies[i])
}
