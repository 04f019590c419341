package storage

import (
	"kedis/internal/keyevent"
	"kedis/storage/bits"
	"kedis/storage/layout"
)

// GetBit returns a bit of a string. The caller has checked the offset.
func (d DB) GetBit(key []byte, offset uint64) (int, error) {
	var k Key
	if err := d.LookupTypeInto(key, layout.String, &k); err != nil {
		return 0, err
	}
	b, err := d.byteAt(&k.Metadata, int(offset/8))
	return int(b>>(7-offset%8)) & 1, err
}

// SetBit sets a bit of a string, and returns what it was. The caller has checked the offset.
func (d DB) SetBit(key []byte, offset uint64, bit int) (old int, err error) {
	var k Key
	err = d.LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return 0, err
	}
	size := max(bytesFor(offset+1), k.StringLength())
	at := int(offset / 8)
	b, err := d.byteAt(&k.Metadata, at)
	if err != nil {
		return 0, err
	}
	changed, old := bits.Set(append(d.txn.scratch.element[:0], b), offset%8, bit)
	d.txn.scratch.element = changed
	if k.Exists && size == k.StringLength() && old == bit {
		return old, d.unshare(key, &k)
	}
	err = d.writePart(key, &k, at, changed, size)
	d.Notify(keyevent.SetBit, key)
	return old, err
}

// byteAt returns a byte of a string, which goes on with zeros beyond its end.
func (d DB) byteAt(m *layout.Metadata, offset int) (byte, error) {
	content, err := m.Value, error(nil)
	if m.Encoding == layout.Spread {
		content, _, err = d.piece(m, offset/pieceBytes)
		offset %= pieceBytes
	}
	if err != nil || offset >= len(content) {
		return 0, err
	}
	return content[offset], nil
}

// CountBits counts the bits of a range of a string that are 1.
func (d DB) CountBits(key []byte, r bits.Range) (int64, error) {
	var k Key
	if err := d.LookupTypeInto(key, layout.String, &k); err != nil {
		return 0, err
	}
	first, limit := r.CountSpan(k.StringLength())
	if first >= limit {
		return 0, nil
	}
	if err := d.txn.SpendSteps(int(limit-first) / 8); err != nil {
		return 0, err
	}
	if k.Encoding != layout.Spread {
		return bits.CountBetween(k.Value, first, limit), nil
	}
	return d.countPieces(&k.Metadata, first, limit)
}

func (d DB) countPieces(m *layout.Metadata, first, limit int64) (count int64, err error) {
	err = d.StringParts(m, int(first/8), bytesFor(uint64(limit)), func(offset int, part []byte) bool {
		before := int64(offset) * 8
		count += bits.CountBetween(part, max(first-before, 0), min(limit-before, int64(len(part))*8))
		return true
	})
	return count, err
}

// BitPosition is the offset of the first bit of a range of a string that is bit, 0 or 1, and -1
// when there is none. In an open range the first 0 may be the one after the last bit. An empty
// range has no bits at all, so that every search in an empty string answers -1; a key that doesn't
// exist is an endless row of zeros.
func (d DB) BitPosition(key []byte, bit int, r bits.Range) (int64, error) {
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil || !k.Exists {
		return -int64(bit), err
	}
	first, limit := r.Span(k.StringLength())
	if first >= limit {
		return -1, nil
	}
	at, err := d.findBit(&k.Metadata, bit, first, limit)
	if at >= limit {
		at = r.NotFound(bit, limit)
	}
	return at, err
}

// findBit returns the offset of the first bit from first up to, but not including, limit that is
// bit; limit when there is none.
func (d DB) findBit(m *layout.Metadata, bit int, first, limit int64) (int64, error) {
	if m.Encoding != layout.Spread {
		return bits.Find(m.Value, bit, first, limit), nil
	}
	return d.findInPieces(m, bit, first, limit)
}

func (d DB) findInPieces(m *layout.Metadata, bit int, first, limit int64) (int64, error) {
	at, found := first, false // no bit before at is the one
	err := d.StringParts(m, int(first/8), bytesFor(uint64(limit)), func(offset int, part []byte) bool {
		before := int64(offset) * 8
		if bit == 0 && at < before {
			return false // there are zeros before the part
		}
		end := min(limit-before, int64(len(part))*8)
		at = before + bits.Find(part, bit, max(first-before, 0), end)
		found = at < before+end
		return !found
	})
	if bit == 1 && !found {
		at = limit
	}
	return at, err
}

// bytesFor is how many bytes hold a number of bits.
func bytesFor(count uint64) int { return int((count + 7) / 8) }

// FieldAction is what a FieldOperation does.
type FieldAction int

// The actions of BITFIELD.
const (
	FieldGet FieldAction = iota
	FieldSet
	FieldIncrement
)

// FieldOperation is one operation of BITFIELD on an integer within a string.
type FieldOperation struct {
	Action   FieldAction
	Type     bits.Type
	Offset   uint64 // in bits; the caller has checked it
	Number   int64
	Overflow bits.Overflow
}

// BitField carries out operations one after another, and calls result with what each of them
// returns; ok is false where the number didn't fit and nothing was stored.
func (d DB) BitField(key []byte, operations []FieldOperation, result func(number int64, ok bool)) error {
	end := uint64(0) // of the last bit that is written
	for i := range operations {
		if o := &operations[i]; o.Action != FieldGet {
			end = max(end, o.Offset+uint64(o.Type.Bits))
		}
	}
	if end == 0 {
		d = d.Reading()
	}
	var k Key
	err := d.LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return err
	}
	if end == 0 {
		return d.readFields(&k.Metadata, operations, result)
	}
	size := max(bytesFor(end), k.StringLength())
	m, spread, err := d.spread(&k, size)
	if err == nil && !spread {
		m = layout.Metadata{Type: layout.String, Encoding: layout.Raw, ExpireMs: k.ExpireMs}
		m.Value, err = d.compose(k.Value, size)
	}
	if err != nil {
		return err
	}
	longer := size > k.StringLength()
	changed, told := longer, false
	for i := range operations {
		number, ok, wrote, err := d.applyField(&m, operations[i])
		if err != nil {
			return err
		}
		changed = changed || wrote
		told = told || ok && operations[i].Action != FieldGet && (longer || wrote)
		result(number, ok)
	}
	switch {
	case changed && spread:
		m.Tail = uint64(size)
		err = d.save(key, &k, &m)
	case changed:
		err = d.save(key, &k, &m)
	case spread: // nobody who watches the key is told
		m.IndexedMs = k.IndexedMs
		return d.putMetadata(key, &m)
	default:
		return d.unshare(key, &k)
	}
	if told { // a string that has only become longer isn't told of
		d.Notify(keyevent.SetBit, key)
	}
	return err
}

func (d DB) readFields(m *layout.Metadata, operations []FieldOperation, result func(number int64, ok bool)) error {
	for i := range operations {
		number, ok, _, err := d.applyField(m, operations[i])
		if err != nil {
			return err
		}
		result(number, ok)
	}
	return nil
}

// applyField carries out an operation on a string: on the whole of it, which is long enough for
// what is written, or on its pieces.
func (d DB) applyField(m *layout.Metadata, o FieldOperation) (number int64, ok, changed bool, err error) {
	if m.Encoding != layout.Spread {
		number, ok, changed = o.apply(m.Value)
		return number, ok, changed, nil
	}
	first, end := int(o.Offset/8), bytesFor(o.Offset+uint64(o.Type.Bits))
	field, err := d.appendString(d.txn.scratch.element[:0], m, first, min(end, m.StringLength()))
	if err != nil {
		return 0, false, false, err
	}
	field = lengthen(field, end-first)
	d.txn.scratch.element = field
	o.Offset %= 8
	if number, ok, changed = o.apply(field); changed {
		err = d.overwrite(m, first, field)
	}
	return number, ok, changed, err
}

// apply carries out the operation on a value that is long enough for it.
func (o *FieldOperation) apply(value []byte) (number int64, ok, changed bool) {
	before := o.Type.Get(value, o.Offset)
	switch o.Action {
	case FieldSet:
		_, number, ok = o.Type.Set(value, o.Offset, o.Number, o.Overflow)
	case FieldIncrement:
		_, number, ok = o.Type.Increment(value, o.Offset, o.Number, o.Overflow)
	default:
		return before, true, false
	}
	return number, ok, o.Type.Get(value, o.Offset) != before
}

// CombineBits stores the bitwise combination of strings under a key, whatever it held, and returns
// its length. Missing sources are empty; an empty result removes the key. show is called for one
// part of the result after another; it may be nil.
func (d DB) CombineBits(target []byte, operation bits.Operation, keys [][]byte, show func(part []byte)) (int, error) {
	sources := make([]layout.Metadata, len(keys))
	total, longest := 0, 0
	for i, key := range keys {
		k, err := d.Reading().LookupType(key, layout.String)
		if err != nil {
			return 0, err
		}
		sources[i] = k.Metadata
		total, longest = total+k.StringLength(), max(longest, k.StringLength())
	}
	if err := d.txn.SpendBytes(total); err != nil {
		return 0, err
	}
	result, err := d.combine(operation, sources, longest, show)
	if err != nil {
		return 0, err
	}
	old, err := d.Lookup(target)
	switch {
	case err != nil:
		return 0, err
	case longest > 0:
		err = d.Save(target, old, result)
		d.Notify(keyevent.StringSet, target)
	case old.Exists:
		err = d.Remove(target, old)
		d.Notify(keyevent.Del, target)
	}
	return longest, err
}

// combinedAtOnce is how much of a source of BITOP, and of the result, is in memory at a time when
// the result is spread.
const combinedAtOnce = fewPieces * pieceBytes

func (d DB) combine(operation bits.Operation, sources []layout.Metadata, longest int, show func(part []byte)) (layout.Metadata, error) {
	if show == nil || longest == 0 {
		show = func([]byte) {}
	}
	c := combination{db: d, sources: sources, combiner: bits.Combiner{Operation: operation}}
	if longest <= longestWhole {
		room, err := d.compose(nil, longest)
		if err != nil {
			return layout.Metadata{}, err
		}
		if room, err = c.between(0, longest, room); err != nil {
			return layout.Metadata{}, err
		}
		show(room)
		return layout.Metadata{Type: layout.String, Encoding: layout.Raw, Value: room}, nil
	}
	w := d.newString()
	var room []byte
	for from := 0; from < longest; from += combinedAtOnce {
		var err error
		if room, err = c.between(from, min(from+combinedAtOnce, longest), room); err != nil {
			return layout.Metadata{}, err
		}
		show(room)
		if err := w.write(room); err != nil {
			return layout.Metadata{}, err
		}
	}
	return w.finish(0)
}

// combination combines parts of strings, of which there may be very many.
type combination struct {
	db       DB
	sources  []layout.Metadata
	combiner bits.Combiner
	copied   []byte // a part of a spread source
}

// between returns the combination of what lies between two offsets, in room if that is large
// enough.
func (c *combination) between(from, to int, room []byte) ([]byte, error) {
	c.combiner.Begin(room, to-from)
	for i := range c.sources {
		part, err := c.part(&c.sources[i], from, to)
		if err != nil {
			return nil, err
		}
		c.combiner.Add(part)
	}
	return c.combiner.Result(), nil
}

// part is what a string has between two offsets: of a spread one a copy, valid until the next part.
func (c *combination) part(m *layout.Metadata, from, to int) (part []byte, err error) {
	to = min(to, m.StringLength())
	switch {
	case from >= to:
		return nil, nil
	case m.Encoding != layout.Spread:
		return m.Value[from:to], nil
	}
	c.copied, err = c.db.appendString(c.copied[:0], m, from, to)
	return c.copied, err
}
