package storage

import (
	"errors"
	"math"
	"slices"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage/digest"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// What strings refuse.
var (
	ErrNotInteger = errors.New("storage: the value is not an integer")
	ErrNotFloat   = errors.New("storage: the value is not a number")
	ErrOverflow   = errors.New("storage: the increment would overflow")
	ErrNotFinite  = errors.New("storage: the increment would produce no number")
	ErrTooLong    = errors.New("storage: the string would become too long")
)

// MaxStringBytes is how long a string can be at all: the lengths of values have 32 bits, in memory
// and in RocksDB.
const MaxStringBytes = math.MaxUint32 - 1<<10

// embeddedBytes is up to which length Redis keeps a string together with its object ("embstr").
const embeddedBytes = 44

// stringType is the row of strings.
var stringType = DataType{Name: "string", RDB: rdb.String, Digest: digest.String, encoding: StringEncoding,
	encode: func(d DB, m *layout.Metadata, e *rdb.Encoder) error {
		if m.Encoding == layout.Spread {
			if err := d.txn.SpendBytes(m.StringLength()); err != nil {
				return err
			}
			return e.LongString(m.StringLength(), func(write func(part []byte)) error {
				return d.EachString(m, 0, m.StringLength(), write)
			})
		}
		e.String(m.Value)
		return nil
	},
	restore: (*restoring).text,
	digest: func(v *digest.Value, d DB, _ []byte, m *layout.Metadata) error {
		return v.String(func(write func(part []byte)) error { return d.EachString(m, 0, m.StringLength(), write) })
	},
	pieces: Pieces{command: "SETRANGE", words: appendOffsetWords, parse: parseOffsetWords, begin: beginString, visit: visitStringParts},
}

// StringEncoding is what OBJECT ENCODING answers for a string.
func StringEncoding(m *layout.Metadata) string {
	if m.Encoding != layout.Plain || len(m.Value) > embeddedBytes {
		return "raw"
	}
	if _, ok := number.ParseInt(m.Value); ok {
		return "int"
	}
	return "embstr"
}

// SetString makes a key a string, whatever it was; old is what Lookup found. An expireMs of 0 is
// none.
func (d DB) SetString(key []byte, old *Key, value []byte, expireMs int64) error {
	if len(value) > longestWhole {
		next, err := d.whole(value, expireMs)
		if err != nil {
			return err
		}
		return d.save(key, old, &next)
	}
	return d.saveString(key, old, layout.Plain, value, expireMs)
}

// whole spreads a value that comes as a whole.
func (d DB) whole(value []byte, expireMs int64) (layout.Metadata, error) {
	if err := d.txn.SpendBytes(len(value)); err != nil {
		return layout.Metadata{}, err
	}
	w := d.newString()
	if err := w.write(value); err != nil {
		return layout.Metadata{}, err
	}
	return w.finish(expireMs)
}

// saveRaw stores what a command made of a string, or of a missing one, as Redis does: without
// looking for a shorter form. The expiry stays.
func (d DB) saveRaw(key []byte, old *Key, value []byte) error {
	return d.saveString(key, old, layout.Raw, value, old.ExpireMs)
}

// saveString composes the metadata field by field: a literal would be composed elsewhere, and
// copied before its fields have arrived in memory.
func (d DB) saveString(key []byte, old *Key, encoding layout.Encoding, value []byte, expireMs int64) error {
	var next layout.Metadata
	next.Type, next.Encoding, next.Value, next.ExpireMs = layout.String, encoding, value, expireMs
	return d.save(key, old, &next)
}

// unshare is for a command that turned out to change nothing of a string. Redis has given it its
// raw form by then, which OBJECT ENCODING shows; but nobody who watches the key is told.
func (d DB) unshare(key []byte, k *Key) error {
	if k.Encoding != layout.Plain || len(k.Value) > embeddedBytes {
		return nil
	}
	raw := k.Metadata
	raw.Encoding = layout.Raw
	return d.putMetadata(key, &raw)
}

// compose returns size bytes of scratch memory that begin with a key's value and go on with zeros.
// They are valid until the next string is composed.
func (d DB) compose(value []byte, size int) ([]byte, error) {
	t := d.txn
	if err := t.SpendBytes(size); err != nil {
		return nil, err
	}
	t.scratch.draft = slices.Grow(t.scratch.draft[:0], size)[:size]
	clear(t.scratch.draft[copy(t.scratch.draft, value):])
	return t.scratch.draft, nil
}

// Append puts bytes behind a string, and returns its new length, which is at most limit unless the
// string was missing.
func (d DB) Append(key, suffix []byte, limit int64) (int, error) {
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return 0, err
	}
	if !k.Exists {
		err = d.SetString(key, &k, suffix, 0)
		d.Notify(keyevent.Append, key)
		return len(suffix), err
	}
	length := k.StringLength() + len(suffix)
	if int64(length) > limit {
		return 0, ErrTooLong
	}
	err = d.writePart(key, &k, k.StringLength(), suffix, length)
	d.Notify(keyevent.Append, key)
	return length, err
}

// SetRange writes bytes over a string from an offset on, which isn't negative; what is missing
// before it becomes zeros. It returns the length. Without bytes nothing is written, and no key
// made.
func (d DB) SetRange(key []byte, offset int64, written []byte, limit int64) (int, error) {
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil || len(written) == 0 {
		return k.StringLength(), err
	}
	if offset > limit-int64(len(written)) {
		return 0, ErrTooLong
	}
	length := max(k.StringLength(), int(offset)+len(written))
	err = d.writePart(key, &k, int(offset), written, length)
	d.Notify(keyevent.SetRange, key)
	return length, err
}

// writePart writes bytes over a string, which gets a length by that, from an offset on.
func (d DB) writePart(key []byte, k *Key, offset int, written []byte, length int) error {
	if len(written) > mostOverwritten {
		m, err := d.rewrite(&k.Metadata, offset, written)
		if err != nil {
			return err
		}
		return d.save(key, k, &m)
	}
	m, spread, err := d.spread(k, length)
	switch {
	case err != nil:
		return err
	case spread:
		if err := d.overwrite(&m, offset, written); err != nil {
			return err
		}
		return d.save(key, k, &m)
	}
	value, err := d.compose(k.Value, length)
	if err != nil {
		return err
	}
	copy(value[offset:], written)
	return d.saveRaw(key, k, value)
}

// Increment adds to a string that is an integer; a missing one is 0.
func (d DB) Increment(key []byte, delta int64) (int64, error) {
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return 0, err
	}
	old := int64(0)
	if k.Exists {
		var ok bool
		if old, ok = number.ParseInt(k.Value); !ok {
			return 0, ErrNotInteger
		}
	}
	sum := old + delta
	if (delta > 0) != (sum > old) && delta != 0 {
		return 0, ErrOverflow
	}
	t := d.txn
	t.scratch.draft = number.AppendInt(t.scratch.draft[:0], sum)
	err = d.SetString(key, &k, t.scratch.draft, k.ExpireMs)
	d.Notify(keyevent.IncrBy, key)
	return sum, err
}

// IncrementFloat adds to a string that is a number; a missing one is 0. The sum is returned as it
// is stored, valid until the next string is composed.
func (d DB) IncrementFloat(key, delta []byte) ([]byte, error) {
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return nil, err
	}
	var old number.LongDouble
	oldIsNumber := true
	if k.Exists {
		old, oldIsNumber = number.ParseLongDouble(k.Value)
	}
	increment, ok := number.ParseLongDouble(delta)
	if !ok || !oldIsNumber {
		return nil, ErrNotFloat
	}
	sum, finite := old.Add(increment)
	if !finite {
		return nil, ErrNotFinite
	}
	t := d.txn
	t.scratch.draft = sum.Append(t.scratch.draft[:0])
	err = d.SetString(key, &k, t.scratch.draft, k.ExpireMs)
	d.Notify(keyevent.IncrByFloat, key)
	return t.scratch.draft, err
}
