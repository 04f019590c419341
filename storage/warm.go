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
	t.warmed += keys.read()
	var owners [WarmRequests]int
	for i := range requests {
		value := keys.values[keyOf[i]]
		if keys.slots[keyOf[i]] == 0 {
			missing |= 1 << i
		} else if space := now.databases[requests[i].Database].number; t.warmPoppedKey(&popping, value, keys.hashes[keyOf[i]], space, requests[i].Args) {
			owners[elements.count] = popped
			elements.add(recordHash(space, t.key))
		} else if args := requests[i].Args; t.warmElementKey(value, args) {
			owners[elements.count] = i
			elements.add(recordHash(space, t.key))
		}
	}
	t.warmed += elements.read()
	for i, slot := range elements.slots[:elements.count] {
		if slot == 0 && owners[i] != popped {
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
	d.txn.warmed += keys.read()
}

// WarmDue does the same for keys that are about to be removed, up to WarmRequests of them.
func (d DB) WarmDue(due []ttl.Due) {
	keys := warming{current: d.txn.store.current.Load(), cache: d.txn.store.cache}
	for i := range due[:min(len(due), WarmRequests)] {
		keys.add(recordHash(d.space.number, d.metadataKey(due[i].Key)))
	}
	d.txn.warmed += keys.read()
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
	current *current
	cache   *cache.Cache
	count   int
	hashes  [WarmRequests]uint64
	holders [WarmRequests]*generation.Generation // the newest that seems to have the record; nil is the cache
	slots   [WarmRequests]uint64                 // and its slot there; 0 if it seems to be nowhere
	values  [WarmRequests][]byte                 // what stands there, a guess: the entry may be another record's whose hash is similar
	left    [WarmRequests]uint8                  // records that were not found yet
}

// add takes up a record.
func (w *warming) add(hash uint64) {
	w.hashes[w.count] = hash
	w.count++
}

// read finds the values of all records. It reads slots, then entries, then the ends of values, each in a loop so short that the processor
// is well ahead of what it waits for: it looks some hundred instructions ahead.
func (w *warming) read() (warmed byte) {
	if w.count == 0 {
		return 0
	}
	warmed = w.findRecent()
	for i, slot := range w.slots[:w.count] {
		if holder := w.holders[i]; holder != nil {
			warmed += holder.Touch(slot)
		} else if slot != 0 {
			warmed += w.cache.Touch(w.hashes[i], slot)
		}
	}
	for i, slot := range w.slots[:w.count] {
		var value []byte
		if holder := w.holders[i]; holder != nil {
			value = holder.Peek(w.hashes[i], slot)
		} else if slot != 0 {
			value = w.cache.Peek(w.hashes[i], slot)
		}
		if w.values[i] = value; len(value) > 0 {
			warmed += value[len(value)/2] + value[len(value)-1] // the processor would wait for them, too, when it is copied
		}
	}
	return warmed
}

// findRecent finds the slots of what the active generation has, and then of the others.
func (w *warming) findRecent() byte {
	active, hashes := w.current.active, w.hashes[:w.count]
	var warmed uint64
	for _, hash := range hashes {
		warmed += active.Slot(hash)
	}
	left := 0
	for i, hash := range hashes {
		if w.slots[i] = active.Probe(hash); w.slots[i] != 0 {
			w.holders[i] = active
		} else {
			w.left[left] = uint8(i)
			left++
		}
	}
	if left > 0 {
		warmed += w.findOlder(w.left[:left])
	}
	return byte(warmed)
}

// findOlder finds the slots of records that the active generation hasn't got.
func (w *warming) findOlder(left []uint8) (warmed uint64) {
	for _, f := range w.current.frozen {
		warmed += w.slotsIn(f, left)
	}
	if kept := w.current.kept; kept != nil {
		warmed += w.slotsIn(kept, left)
	}
	for _, i := range left {
		warmed += w.cache.Slot(w.hashes[i])
	}
	for _, i := range left {
		w.slots[i], w.holders[i] = w.probe(w.hashes[i])
	}
	return warmed
}

func (w *warming) slotsIn(f *frozen, left []uint8) (warmed uint64) {
	for _, i := range left {
		warmed += f.Slot(w.hashes[i])
	}
	return warmed
}

// probe looks where a record is that the active generation hasn't got.
func (w *warming) probe(hash uint64) (slot uint64, holder *generation.Generation) {
	for _, f := range w.current.frozen {
		if slot := f.Probe(hash); slot != 0 {
			return slot, f.Generation
		}
	}
	if kept := w.current.kept; kept != nil {
		if slot := kept.Probe(hash); slot != 0 {
			return slot, kept.Generation
		}
	}
	return w.cache.Probe(hash), nil
}
