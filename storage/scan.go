package storage

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"

	"kedis/internal/number"
	"kedis/storage/intset"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// Size is the number of keys in the database, those included that have expired and were not removed
// yet.
func (d DB) Size() int64 { return d.txn.Keys(d.space) }

// ScanStep is one step of a walk that goes on in other transactions.
type ScanStep struct {
	Behind []byte // where the walk has come to; nil at its beginning
	Prefix []byte // what begins with something else is passed over
	Count  int    // how many records are looked at
}

// ScanKeys makes a step through the keys of the database, in their order. Those that have expired
// count, but aren't visited. It returns the key that the next step begins behind, valid until the
// transaction is reset, or nil when there is no further key. The metadata is valid during the call
// of visit. No locks are needed.
func (d DB) ScanKeys(step ScanStep, visit func(key []byte, m *layout.Metadata)) (last []byte, err error) {
	var m layout.Metadata // of one key after another
	return d.scan([]byte{layout.KindMetadata}, step, false, func(key, value []byte) (err error) {
		m = layout.Metadata{}
		if err = m.Decode(value); err == nil && !d.expired(&m) {
			visit(key, &m)
		}
		return err
	})
}

// ScanElements makes a step through the elements of a hash, set or sorted set. A packed one is
// visited as a whole, whatever the step. value is a field's value or a member's score, nil in a
// set; both are valid during the call. It returns the element that the next step begins behind,
// valid until the transaction is reset, or nil when there is none.
func (d DB) ScanElements(k Key, step ScanStep, visit func(element, value []byte)) (last []byte, err error) {
	switch {
	case k.Encoding == layout.Intset:
		d.visitIntset(k.Value, visit)
		return nil, nil
	case k.Encoding == layout.Expiring:
		d.visitTriples(k.Value, visit)
		return nil, nil
	case k.Encoding == layout.Listpack:
		return nil, d.visitListpack(k.Value, TypeOf(k.Type).packedPairs, visit)
	}
	row, first := TypeOf(k.Type), k.Type.Elements()[0]
	x := d.txn.NewIndex(d.space, first.Kind, k.ID, int(first.Count(&k.Metadata)), row.packedPairs, nil)
	h := Hash{db: d, next: k.Metadata}
	lower, upper := step.bounds()
	seen, more := 0, false
	var failed error
	err = x.Scan(lower, upper, false, func(element, value []byte) bool {
		if more = seen == step.Count; more {
			return false
		}
		last, seen = element, seen+1
		if h.mayBeDue() {
			var expireMs int64
			if expireMs, failed = h.spreadExpiry(element); failed != nil || h.due(expireMs) {
				return failed == nil
			}
		}
		if row.scanned != nil {
			value, failed = row.scanned(d.txn, value)
		}
		if failed == nil {
			visit(element, value)
		}
		return failed == nil
	})
	if !more {
		last = nil
	}
	return last, cmp.Or(err, failed)
}

// bounds are where the step begins, and behind what it is for; nil is behind all.
func (s *ScanStep) bounds() (lower, upper []byte) {
	lower = s.Prefix
	if s.Behind != nil && bytes.Compare(s.Behind, lower) >= 0 {
		lower = append(bytes.Clone(s.Behind), 0)
	}
	if len(s.Prefix) > 0 {
		upper = layout.Successor(nil, s.Prefix)
	}
	return lower, upper
}

// appendScannedScore appends a score as ZSCAN shows it of a spread set: C's %.17g, in Redis 7.2
// too, where all other commands write fewer digits.
func appendScannedScore(dst []byte, score float64) []byte {
	if math.IsInf(score, 0) {
		return number.AppendDouble(dst, score)
	}
	return strconv.AppendFloat(dst, score, 'g', 17, 64)
}

func (d DB) visitIntset(set intset.Intset, visit func(element, value []byte)) {
	scratch := d.txn.scratch.element
	for _, n := range set.All() {
		scratch = number.AppendInt(scratch[:0], n)
		visit(scratch, nil)
	}
	d.txn.scratch.element = scratch
}

// visitTriples visits the fields of a packed hash that have not expired.
func (d DB) visitTriples(pack listpack.Listpack, visit func(element, value []byte)) {
	var fieldScratch, valueScratch []byte
	triples(pack, &fieldScratch, &valueScratch, func(field, value []byte, expireMs int64) bool {
		if !d.fieldDue(expireMs) {
			visit(field, value)
		}
		return true
	})
}

func (d DB) visitListpack(pack listpack.Listpack, pairs bool, visit func(element, value []byte)) error {
	var element, value []byte
	for pos := pack.First(); pos != listpack.None; pos = pack.Next(pos) {
		element = pack.At(pos).AppendTo(element[:0])
		if !pairs {
			visit(element, nil)
			continue
		}
		if pos = pack.Next(pos); pos == listpack.None {
			return fmt.Errorf("%w: a listpack of pairs has %d elements", layout.ErrCorrupt, pack.Len())
		}
		value = pack.At(pos).AppendTo(value[:0])
		visit(element, value)
	}
	return nil
}

// scan walks the records whose keys begin with head, and visits what follows it.
func (d DB) scan(head []byte, step ScanStep, keysOnly bool, visit func(name, value []byte) error) (last []byte, err error) {
	upper := layout.Successor(nil, append(bytes.Clone(head), step.Prefix...))
	from, _ := step.bounds()
	it := d.txn.Iterate(d.space, append(bytes.Clone(head), from...), upper, IteratorOptions{KeysOnly: keysOnly, Expected: step.Count + 1})
	for seen := 0; it.Next(); seen++ {
		if seen == step.Count {
			return last, it.Close()
		}
		last = it.Key()[len(head):]
		if it.Fail(visit(last, it.Value())) {
			break
		}
	}
	return nil, it.Close()
}
