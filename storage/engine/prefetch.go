package engine

import (
	"bytes"

	"kedis/storage/filter"
	"kedis/storage/generation"
	"kedis/storage/layout"
)

// PrefetchBatch is how many requests Prefetch takes at once: enough for the processor to wait for
// all of their records together.
const PrefetchBatch = 16

// Access says which records a request looks for first.
type Access uint8

// The ways in which requests begin.
const (
	AccessNothing Access = iota
	AccessKey            // a key's metadata
	AccessElement        // a key's metadata, and of a spread collection an element
	AccessEach           // the metadata of several keys
	AccessFirst          // a key's metadata, and of a spread sequence the first element, which it pops
	AccessLast           // the last one
)

// Prefetch is what a request that is about to be executed will look for.
type Prefetch struct {
	Database int
	Access   Access
	Key      []byte
	Element  []byte   // with AccessElement
	Others   [][]byte // with AccessEach: the first, and every Step-th from there on, is another key
	Step     int
}

// SameKey reports whether two requests look for the same key.
func (p *Prefetch) SameKey(other *Prefetch) bool {
	return p.Database == other.Database && bytes.Equal(p.Key, other.Key)
}

// Prefetch reads what requests will read first: the slots of the indexes, then the entries, and for
// spread collections the same for an element. One command after another would wait for memory at
// each step; here the processor waits for many at once. It changes nothing, and a wrong guess does
// no harm. The result has a bit for each request that seems to need what only RocksDB has. It takes
// at most PrefetchBatch requests.
func (t *Txn) Prefetch(requests []Prefetch) (missing uint32) {
	now := t.store.tiers.Load()
	keys, elements := prefetcher{tiers: now}, prefetcher{tiers: now}
	var taking taking
	var keyOf [PrefetchBatch]int // index in keys for each request; neighbours with the same key share one
	key := &t.prefetched.key
	for i := range requests {
		if i == 0 || !requests[i].SameKey(&requests[i-1]) {
			*key = layout.AppendMetadataKey((*key)[:0], requests[i].Key)
			space := now.databases[requests[i].Database]
			keys.add(space, *key, &space.presence)
		}
		keyOf[i] = keys.count - 1
	}
	t.prefetched.touched += keys.read()
	var owners [PrefetchBatch]int
	for i := range requests {
		value, hash := keys.values[keyOf[i]], keys.hashes[keyOf[i]]
		space := now.databases[requests[i].Database]
		if keys.slots[keyOf[i]] == 0 {
			if keys.mayBeBelow(keyOf[i]) {
				missing |= 1 << i
			}
		} else if t.takenKey(&taking, value, hash, space.Number, &requests[i]) {
			owners[elements.count] = taken
			elements.add(space, *key, nil)
		} else if t.elementKey(value, &requests[i]) {
			owners[elements.count] = i
			elements.add(space, *key, &space.presence)
		}
	}
	t.prefetched.touched += elements.read()
	for i, slot := range elements.slots[:elements.count] {
		if slot == 0 && owners[i] != taken && elements.mayBeBelow(i) {
			missing |= 1 << owners[i]
		}
	}
	return missing
}

// PrefetchRecords reads the slots and entries of up to PrefetchBatch records in the same way. next
// returns the key of each, and nil behind the last. It does nothing for a transaction that reads
// from a view.
func (t *Txn) PrefetchRecords(ns *Namespace, next func() []byte) {
	if t.view != nil {
		return
	}
	keys := prefetcher{tiers: t.store.tiers.Load()}
	for keys.count < PrefetchBatch {
		key := next()
		if key == nil {
			break
		}
		keys.add(ns, key, &ns.presence)
	}
	t.prefetched.touched += keys.read()
}

// taking is the sequence that requests pop elements from, and how many of them Prefetch has passed.
type taking struct {
	hash        uint64
	first, last uint64
}

// taken owns the elements that are about to be popped. Nobody fetches them.
const taken = -1

// takenKey puts the key of the record with the element that a request will pop into
// t.prefetched.key. It returns false if the request pops none from a spread sequence. The metadata
// is the transaction's own, if it has written some.
func (t *Txn) takenKey(p *taking, metadata []byte, hash uint64, space uint32, request *Prefetch) bool {
	if request.Access != AccessFirst && request.Access != AccessLast {
		return false
	}
	if kind, _, ok := layout.PeekSpread(metadata); !ok || !layout.Kinds[kind].Sequence {
		return false
	}
	t.prefetched.key = layout.AppendMetadataKey(t.prefetched.key[:0], request.Key)
	if own, state := t.journal.get(hash, space, t.prefetched.key); state == generation.Present {
		metadata = own
	}
	if hash != p.hash {
		*p = taking{hash: hash}
	}
	passed, last := &p.first, request.Access == AccessLast
	if last {
		passed = &p.last
	}
	key, ok := layout.PeekElement(t.prefetched.key[:0], metadata, *passed, last)
	t.prefetched.key = key
	*passed++
	return ok
}

// elementKey puts the key of a request's element into t.prefetched.key. It returns false if the
// request has none.
func (t *Txn) elementKey(metadata []byte, request *Prefetch) bool {
	if request.Access != AccessElement {
		return false
	}
	kind, id, ok := layout.PeekSpread(metadata)
	if !ok || layout.Kinds[kind].Sequence {
		return false
	}
	t.prefetched.key = layout.AppendElementKey(t.prefetched.key[:0], kind, id, request.Element)
	return true
}

// prefetcher looks for several records side by side. A slot is valid for the generation that it
// comes from, which another may replace at any time.
type prefetcher struct {
	tiers   *tiers
	count   int
	hashes  [PrefetchBatch]uint64
	holders [PrefetchBatch]*generation.Generation // newest that seems to have it; nil: the cache
	slots   [PrefetchBatch]uint64                 // and its slot there; 0 if it seems to be nowhere
	values  [PrefetchBatch][]byte                 // a guess: it may be another record's with a similar hash
	left    [PrefetchBatch]uint8                  // records that were not found yet
	below   [PrefetchBatch]*presence              // who knows whether RocksDB has the record; nil: nobody
	known   [PrefetchBatch]filter.Hash            // what that one knows it by
}

// add takes up a record.
func (w *prefetcher) add(ns *Namespace, key []byte, below *presence) {
	w.hashes[w.count], w.below[w.count] = recordHash(ns.Number, key), below
	if below != nil {
		w.known[w.count] = filter.HashOf(key)
	}
	w.count++
}

// mayBeBelow reports whether RocksDB may have a record.
func (w *prefetcher) mayBeBelow(i int) bool {
	return w.below[i] == nil || !w.below[i].rulesOut(w.known[i])
}

// read finds the values of all records. It reads slots, then entries, then the ends of values. Each
// loop is so short that the processor, which looks some hundred instructions ahead, has several
// reads under way.
func (w *prefetcher) read() (touched byte) {
	if w.count == 0 {
		return 0
	}
	touched = w.findRecent()
	for i, slot := range w.slots[:w.count] {
		if holder := w.holders[i]; holder != nil {
			touched += holder.Touch(slot)
		} else if slot != 0 {
			touched += w.tiers.cache.Touch(w.hashes[i], slot)
		}
	}
	for i, slot := range w.slots[:w.count] {
		var value []byte
		if holder := w.holders[i]; holder != nil {
			value = holder.Peek(w.hashes[i], slot)
		} else if slot != 0 {
			value = w.tiers.cache.Peek(w.hashes[i], slot)
		}
		if w.values[i] = value; len(value) > 0 {
			touched += value[len(value)/2] + value[len(value)-1] // copying it would wait for them, too
		}
	}
	return touched
}

// findRecent finds the slots of the records in the active generation, and then those of the others.
func (w *prefetcher) findRecent() byte {
	active, hashes := w.tiers.active, w.hashes[:w.count]
	var touched uint64
	for _, hash := range hashes {
		touched += active.Slot(hash)
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
		touched += w.findOlder(w.left[:left])
	}
	return byte(touched)
}

// findOlder finds the slots of records that the active generation lacks.
func (w *prefetcher) findOlder(left []uint8) (touched uint64) {
	for _, g := range w.tiers.recent[1:] {
		touched += w.slotsIn(g.Generation, left)
	}
	if retained := w.tiers.retained; retained != nil {
		touched += w.slotsIn(retained.Generation, left)
	}
	for _, i := range left {
		touched += w.tiers.cache.Slot(w.hashes[i])
	}
	for _, i := range left {
		if below := w.below[i]; below != nil {
			touched += below.touch(w.known[i])
		}
	}
	for _, i := range left {
		w.slots[i], w.holders[i] = w.tiers.probeOlder(w.hashes[i])
	}
	return touched
}

func (w *prefetcher) slotsIn(g *generation.Generation, left []uint8) (touched uint64) {
	for _, i := range left {
		touched += g.Slot(w.hashes[i])
	}
	return touched
}
