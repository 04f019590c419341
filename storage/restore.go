package storage

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"kedis/internal/number"
	"kedis/storage/engine"
	"kedis/storage/intset"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// Restore makes a key what a payload or a file says; old is what it held, and an expireMs of 0 is
// no expiry. It decides anew, by the limits in force, whether a collection is packed. A packed one
// is taken as it comes; of a larger one, an element at a time is held beyond what the transaction
// writes, or a block's worth of a list.
//
// Errors: what v.Err returns, ErrDuplicate.
func (d DB) Restore(key []byte, old Key, v *rdb.Value, expireMs int64) error {
	next, err := d.restored(v)
	if err != nil {
		return err
	}
	next.ExpireMs = expireMs
	return d.Save(key, old, next)
}

func (d DB) restored(v *rdb.Value) (layout.Metadata, error) {
	for i := range types {
		if t := &types[i]; t.holds(v.Kind) {
			return t.restore(&restoring{db: d, value: v, kind: layout.Type(i), pairs: t.packedPairs})
		}
	}
	return layout.Metadata{}, fmt.Errorf("storage: no type has values of kind %s", v.Kind)
}

// restoring is a hash, set or sorted set that is being read. Its elements are gathered as long as
// it may turn out to be small; from then on each becomes a record at once.
type restoring struct {
	db    DB
	value *rdb.Value
	kind  layout.Type
	pairs bool // a listpack has two entries for each element

	entries  int64 // limits of what is packed into a listpack
	longest  int64
	integers int64                                  // the same of an intset
	inOrder  bool                                   // a listpack has its elements by score and name
	put      func(e *smallElement) error            // gives an element of a spread collection its records
	second   func(e *smallElement) listpack.Element // the other one of a pair

	small    []smallElement
	bytes    int
	largest  int // length of an element
	onlyInts bool
	spread   *engine.Elements // when it has become large
	next     smallElement     // that is put then
	count    uint64
	expiring uint64 // how many fields of a hash expire
	dueMs    int64  // when the first of them does
}

type smallElement struct {
	name, value []byte
	score       float64
	expireMs    int64 // of a hash's field; 0 is never
}

func (r *restoring) collection() (layout.Metadata, error) {
	if m, ok := r.packed(); ok {
		return m, nil
	}
	if r.value.Listpack != nil || r.value.Intset != nil || r.value.Count > uint64(max(r.entries, r.integers)) {
		r.spread = r.db.newElements(r.kind)
	}
	for r.value.Next() {
		if err := r.add(&r.value.Element); err != nil {
			return layout.Metadata{}, err
		}
	}
	if err := r.value.Err(); err != nil {
		return layout.Metadata{}, err
	}
	return r.finish()
}

// packed takes a packed value as it comes. As in Redis, the length of its elements doesn't matter.
func (r *restoring) packed() (layout.Metadata, bool) {
	pack, set := r.value.Listpack, r.value.Intset
	m := layout.Metadata{Type: r.kind, Encoding: layout.Listpack, Value: pack}
	switch {
	case set != nil:
		m.Encoding, m.Value = layout.Intset, set
		return m, int64(set.Len()) <= r.integers
	case pack == nil:
		return m, false
	case r.inOrder && !ordered(pack):
		return m, false
	case r.pairs:
		return m, int64(pack.Len()/2) <= r.entries
	}
	return m, int64(pack.Len()) <= r.entries
}

// ordered reports whether the members of a packed sorted set stand in their order, which everything
// that searches it relies on.
func ordered(pack listpack.Listpack) bool {
	var last, next smallElement
	for pos := pack.First(); pos != listpack.None; pos = pack.Next(pos) {
		next.name = pack.At(pos).AppendTo(next.name[:0])
		pos = pack.Next(pos)
		var ok bool
		if next.score, ok = packedScore(pack.At(pos)); !ok || last.name != nil && last.compare(&next) >= 0 {
			return false
		}
		last, next = next, smallElement{name: last.name}
	}
	return true
}

func packedScore(e listpack.Element) (float64, bool) {
	if e.IsInt() {
		return float64(e.Int), true
	}
	return number.ParseDouble(e.Bytes)
}

// compare puts members of sorted sets in order.
func (a *smallElement) compare(b *smallElement) int {
	if order := cmp.Compare(a.score, b.score); order != 0 {
		return order
	}
	return bytes.Compare(a.name, b.name)
}

func (r *restoring) add(e *rdb.Element) error {
	r.count++
	if r.expires(e.ExpireMs); r.spread != nil {
		r.next = smallElement{e.Bytes, e.Value, e.Score, e.ExpireMs}
		return r.put(&r.next)
	}
	if _, isInt := listpack.ParseInt(e.Bytes); !isInt {
		r.onlyInts = false
	}
	r.small = append(r.small, smallElement{bytes.Clone(e.Bytes), bytes.Clone(e.Value), e.Score, e.ExpireMs})
	r.bytes += len(e.Bytes) + len(e.Value)
	r.largest = max(r.largest, len(e.Bytes), len(e.Value))
	if r.fits() {
		return nil
	}
	return r.enlarge()
}

func (r *restoring) fits() bool {
	if r.onlyInts {
		return int64(len(r.small)) <= r.integers
	}
	return int64(len(r.small)) <= r.entries && int64(r.largest) <= r.longest && r.bytes <= maxListpackBytes
}

// enlarge gives each element that was gathered its record.
func (r *restoring) enlarge() error {
	r.spread = r.db.newElements(r.kind)
	for i := range r.small {
		if err := r.put(&r.small[i]); err != nil {
			return err
		}
	}
	r.small = nil
	return nil
}

func (r *restoring) finish() (layout.Metadata, error) {
	m := layout.Metadata{Type: r.kind, Encoding: layout.Listpack}
	switch {
	case r.spread != nil:
		m.Encoding, m.ID, m.Count, m.Expiring, m.DueMs = layout.Spread, r.spread.ID(), r.count, r.expiring, r.dueMs
		return m, r.finishSpread()
	case r.duplicate():
		return m, ErrDuplicate
	case r.onlyInts:
		m.Encoding, m.Value = layout.Intset, r.intset()
	case r.expiring > 0:
		m.Encoding, m.Value = layout.Expiring, r.expiringPack()
	default:
		m.Value = r.listpack()
	}
	return m, nil
}

func (r *restoring) finishSpread() error {
	if err := r.spread.Finish(); err != nil {
		return err
	}
	distinct, err := r.spread.Distinct()
	if err == nil && !distinct {
		err = ErrDuplicate
	}
	return err
}

// duplicate reports whether an element that was gathered came twice.
func (r *restoring) duplicate() bool {
	seen := make(map[string]struct{}, len(r.small))
	for _, e := range r.small {
		seen[string(e.name)] = struct{}{}
	}
	return len(seen) != len(r.small)
}

func (r *restoring) intset() []byte {
	set := intset.Empty(8 + 8*len(r.small))
	for _, e := range r.small {
		n, _ := listpack.ParseInt(e.name)
		set, _ = set.Add(set[:0], n)
	}
	return set
}

func (r *restoring) listpack() []byte {
	if r.inOrder {
		slices.SortFunc(r.small, func(a, b smallElement) int { return a.compare(&b) })
	}
	pack := listpack.Empty(r.bytes + 16*len(r.small))
	for i := range r.small {
		pack = pack.Push(listpack.Of(r.small[i].name))
		if r.pairs {
			pack = pack.Push(r.second(&r.small[i]))
		}
	}
	return pack
}
