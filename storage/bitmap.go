package storage

import (
	"kedis/internal/keyevent"
	"kedis/storage/bits"
	"kedis/storage/layout"
)

// SetBit sets a bit of a string, and returns what it was. The caller has checked the offset.
func (d DB) SetBit(key []byte, offset uint64, bit int) (old int, err error) {
	k, err := d.LookupType(key, layout.String)
	if err != nil {
		return 0, err
	}
	old = bits.Get(k.Value, offset)
	size := bytesFor(offset + 1)
	if k.Exists && size <= len(k.Value) && old == bit {
		return old, d.unshare(key, k)
	}
	value, err := d.compose(key, k.Value, max(size, len(k.Value)))
	if err != nil {
		return 0, err
	}
	value, _ = bits.Set(value, offset, bit)
	err = d.saveRaw(key, &k, value)
	d.Notify(keyevent.SetBit, key)
	return old, err
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
	k, err := d.LookupType(key, layout.String)
	if err != nil {
		return err
	}
	if end == 0 {
		for i := range operations {
			result(operations[i].Type.Get(k.Value, operations[i].Offset), true)
		}
		return nil
	}
	value, err := d.compose(key, k.Value, max(bytesFor(end), len(k.Value)))
	if err != nil {
		return err
	}
	longer := len(value) > len(k.Value)
	changed, told := longer, false
	for i := range operations {
		number, ok, wrote := operations[i].apply(value)
		changed = changed || wrote
		told = told || ok && operations[i].Action != FieldGet && (longer || wrote)
		result(number, ok)
	}
	if !changed {
		return d.unshare(key, k)
	}
	err = d.saveRaw(key, &k, value)
	if told { // a string that has only become longer isn't told of
		d.Notify(keyevent.SetBit, key)
	}
	return err
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
// its length. Missing sources are empty; an empty result removes the key.
func (d DB) CombineBits(target []byte, operation bits.Operation, keys [][]byte) (int, error) {
	sources := make([][]byte, len(keys))
	total, longest := 0, 0
	for i, key := range keys {
		k, err := d.Reading().LookupType(key, layout.String)
		if err != nil {
			return 0, err
		}
		sources[i] = k.Value
		total, longest = total+len(k.Value), max(longest, len(k.Value))
	}
	if err := d.txn.SpendBytes(total); err != nil {
		return 0, err
	}
	room, err := d.compose(target, nil, longest)
	if err != nil {
		return 0, err
	}
	result := bits.Combine(room, operation, sources...)
	old, err := d.Lookup(target)
	switch {
	case err != nil:
		return 0, err
	case len(result) > 0:
		err = d.Save(target, old, layout.Metadata{Type: layout.String, Encoding: layout.Raw, Value: result})
		d.Notify(keyevent.StringSet, target)
	case old.Exists:
		err = d.Remove(target, old)
		d.Notify(keyevent.Del, target)
	}
	return len(result), err
}
