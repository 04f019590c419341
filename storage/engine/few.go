package engine

import (
	"bytes"
	"slices"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// The elements of a small collection are found in generations by their group, wherever they lie
// there, and brought into order, which takes a few microseconds. A walk over the chunks would look
// for the place of the first one, by halves, in each of a hundred and more.
//
// The number of elements tells when all are found: whoever walks has the key's lock, so it is
// right, and the newest version of an element is found first. RocksDB is asked only when some are
// missing.

const (
	MostFew     = 512 // elements of a collection that is small
	fewVersions = 8   // for each of them so many may be looked at, and some more, before the walk takes the other way
)

// few are the elements of a collection that are found in memory.
type few struct {
	newest []generation.Record // one for each element, deleted or not
	newer  int                 // so many of them stand in generations that RocksDB hasn't got; the others, which it has, stand behind
	live   int
	left   int     // versions that may still be looked at
	slots  []int32 // open addressing, by key: index into newest plus 1
}

// findFew finds the entries of a small index. ok is false if it isn't small, or if the transaction
// sees it in another state than memory has it.
func (x *Index) findFew() (f *few, ok bool) {
	t, count := x.txn, x.entries
	if count > MostFew || t.view != nil || t.staging.spill != nil || !layout.Kinds[x.kind].Grouped {
		return nil, false
	}
	var bytes [layout.ElementPrefix]byte
	prefix := layout.AppendElementKey(bytes[:0], x.kind, x.id, nil)
	if t.wrote(x.space.Number, prefix, layout.Successor(nil, prefix)) {
		return nil, false // the number is that of its own elements, too
	}
	f = &t.order.few
	f.reset(count)
	hash := groupHash(x.space.Number, x.kind, x.id)
	now := t.store.tiers.Load()
	ok = true
	for i := 0; ok && f.live < count && i < len(now.recent); i++ {
		ok = f.add(now.recent[i].Group(hash, x.space.Number, prefix), count)
	}
	f.newer = len(f.newest)
	if ok && f.live < count && now.retained != nil && !now.retained.Superseded() {
		// With some of what it has, nothing is won.
		if !f.add(now.retained.Group(hash, x.space.Number, prefix), count) || f.live < count {
			f.forget(f.newer)
		}
	}
	if !ok {
		f.forget(0)
	}
	return f, ok
}

// wrote tells whether the transaction itself has written records from lower on, before upper.
func (t *Txn) wrote(space uint32, lower, upper []byte) bool {
	return t.journal.any(generation.Range{Space: space, Lower: lower, Upper: upper})
}

func (f *few) reset(count int) {
	slots := 64
	for slots < 4*count {
		slots *= 2
	}
	if cap(f.slots) < slots {
		f.slots = make([]int32, slots)
	}
	f.slots = f.slots[:slots]
	clear(f.slots)
	f.newest, f.newer, f.live, f.left = f.newest[:0], 0, 0, fewVersions*(count+8)
}

// add takes what a generation has of the group, until all elements are there. It returns false when
// there are too many versions.
func (f *few) add(group generation.Group, count int) bool {
	for f.live < count {
		record, ok := group.Next()
		if !ok {
			break
		}
		if f.left--; f.left < 0 || 2*len(f.newest) >= len(f.slots) {
			return false
		}
		if f.isNew(record.Key()) {
			f.newest = append(f.newest, record)
			if _, state := record.Value(); state == generation.Present {
				f.live++
			}
		}
	}
	return true
}

// isNew tells that no version of an element was found before, and takes the slot for this one.
func (f *few) isNew(key []byte) bool {
	mask := uint64(len(f.slots) - 1)
	for i := generation.Hash(0, key) & mask; ; i = (i + 1) & mask {
		switch at := f.slots[i]; {
		case at == 0:
			f.slots[i] = int32(len(f.newest) + 1)
			return true
		case bytes.Equal(f.newest[at-1].Key(), key):
			return false
		}
	}
}

// forget drops all but the first elements. What was found would keep chunks in memory.
func (f *few) forget(first int) {
	clear(f.newest[first:])
	f.newest = f.newest[:first]
}

// iterateFew is Iterate for the records of a small index; nil if they have to be walked otherwise.
func (x *Index) iterateFew(within generation.Range, reverse, keysOnly bool) *Iterator {
	f, ok := x.findFew()
	if !ok {
		return nil
	}
	complete := f.live == x.entries
	records := slices.DeleteFunc(f.newest, func(r generation.Record) bool {
		return bytes.Compare(r.Key(), within.Lower) < 0 || bytes.Compare(r.Key(), within.Upper) >= 0
	})
	slices.SortFunc(records, func(a, b generation.Record) int { return bytes.Compare(a.Key(), b.Key()) })
	if reverse {
		slices.Reverse(records)
	}
	f.newest = nil // another walk may begin meanwhile
	it := &Iterator{txn: x.txn, reverse: reverse, few: records, sources: []source{&fewSource{records}}}
	if !complete {
		it.open(x.space, nil, rocks.IteratorOptions{LowerBound: within.Lower, UpperBound: within.Upper, Reverse: reverse, KeysOnly: keysOnly,
			Expected: x.entries})
	}
	return it
}

// fewSource walks elements in order.
type fewSource struct{ left []generation.Record }

func (s *fewSource) advance()                            { s.left = s.left[1:] }
func (s *fewSource) content() ([]byte, generation.State) { return s.left[0].Value() }

func (s *fewSource) head() ([]byte, bool) {
	if len(s.left) == 0 {
		return nil, false
	}
	return s.left[0].Key(), true
}
