package rocks

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"kedis/internal/buffer"
	"kedis/internal/hugepage"
)

// Batch collects writes that are applied as one step. It is built in Go, in RocksDB's own format
// for batches (db/write_batch.cc), so that Write crosses into C once and RocksDB takes the bytes as
// they are:
//
//	sequence (8, RocksDB fills it in) | number of records (4) | records
//	record: tag (1) | family (varint32, absent in the default family's tags) | key | value, or the range's end
//	key, value: length (varint32) | bytes
//
// Fixed numbers are little endian. The zero value is an empty batch, ready for use. Not for
// concurrent use.
type Batch struct {
	data     []byte
	records  uint64
	families []*Family // each family once
	tooLarge bool
}

// Tags of records, part of RocksDB's file format (db/dbformat.h).
const (
	tagDelete            = 0x0
	tagPut               = 0x1
	tagFamilyDelete      = 0x4
	tagFamilyPut         = 0x5
	tagFamilyDeleteRange = 0xE
	tagDeleteRange       = 0xF
)

const batchHeader = 12

// Put adds the writing of a value.
func (b *Batch) Put(f *Family, key, value []byte) {
	b.begin(f, tagPut, tagFamilyPut)
	b.appendBytes(key)
	b.appendBytes(value)
}

// Delete adds the removal of a key, which need not exist.
func (b *Batch) Delete(f *Family, key []byte) {
	b.begin(f, tagDelete, tagFamilyDelete)
	b.appendBytes(key)
}

// DeleteRange adds the removal of all keys from from up to and without to. An Iterator still shows
// them until they are compacted away. Every range that is not yet compacted away costs each later
// reader of the family, so it is for many keys and rare occasions.
func (b *Batch) DeleteRange(f *Family, from, to []byte) {
	b.begin(f, tagDeleteRange, tagFamilyDeleteRange)
	b.appendBytes(from)
	b.appendBytes(to)
}

// Len returns the number of records.
func (b *Batch) Len() int { return int(b.records) }

// Size returns the number of bytes that the batch takes.
func (b *Batch) Size() int { return len(b.data) }

// Bytes returns the batch in RocksDB's format; nil when it is empty. They are valid until the next
// change.
func (b *Batch) Bytes() []byte {
	if len(b.data) > 0 {
		binary.LittleEndian.PutUint32(b.data[8:], uint32(b.records))
	}
	return b.data
}

// Grow makes room for about so many bytes. (slices.Grow would clear them all without a pause,
// however many they are, and the garbage collector would wait for that and signal its impatience to
// this thread all the time.)
func (b *Batch) Grow(bytes int) {
	if cap(b.data)-len(b.data) >= bytes {
		return
	}
	grown := make([]byte, len(b.data), len(b.data)+bytes)
	hugepage.Advise(grown)
	buffer.Copy(grown, b.data)
	b.data = grown
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	clear(b.families)
	*b = Batch{data: b.data[:0], families: b.families[:0]}
}

func (b *Batch) begin(f *Family, tag, familyTag byte) {
	if len(b.data) == 0 {
		b.data = append(b.data, make([]byte, batchHeader)...)
	}
	b.records++
	b.note(f)
	if f.id == 0 {
		b.data = append(b.data, tag)
		return
	}
	b.data = append(b.data, familyTag)
	b.data = binary.AppendUvarint(b.data, uint64(f.id))
}

func (b *Batch) note(f *Family) {
	for i := len(b.families) - 1; i >= 0; i-- {
		if b.families[i] == f {
			return
		}
	}
	b.families = append(b.families, f)
}

func (b *Batch) appendBytes(p []byte) {
	if len(p) > math.MaxUint32 {
		b.tooLarge = true
		return
	}
	b.data = binary.AppendUvarint(b.data, uint64(len(p)))
	b.data = buffer.Append(b.data, p)
}

// Write applies a batch, all of it or nothing, and makes it visible as one step. It is not durable
// before a flush. A batch that names a dropped family is refused before any of it is applied. The
// batch may be used again. When the error satisfies IsNoSpace, what was in it may still be applied
// later, and the batch is empty.
func (d *DB) Write(b *Batch) error {
	if b.records == 0 {
		return nil
	}
	if b.tooLarge || b.records > math.MaxUint32 {
		return ErrTooLarge
	}
	if d.writing.TryRLock() {
		err := d.write(b.families, b.Bytes(), false)
		d.writing.RUnlock()
		if err == nil || !IsIncomplete(err) {
			return err
		}
	}
	err := d.writePatiently(d.full, b.families, b.Bytes())
	if IsNoSpace(err) {
		*b = Batch{} // its memory may be in use still
	}
	return err
}

// writePatiently waits for flushes and compactions that RocksDB has writers wait for, unless these
// wait for room on the disk. What hasn't begun when it returns doesn't: it might come behind what
// is written next.
func (d *DB) writePatiently(full func(operation string) error, families []*Family, data []byte) error {
	var decided atomic.Bool // whether it begins
	defer decided.Store(true)
	return d.unless(full, "write", func() error {
		d.writing.RLock()
		defer d.writing.RUnlock()
		if decided.Swap(true) {
			return nil // too late
		}
		return d.write(families, data, true)
	})
}

// write needs d.writing to be held.
func (d *DB) write(families []*Family, data []byte, mayStall bool) error {
	if err := d.checkFamilies(families); err != nil {
		return err
	}
	return fromStatus("write", C.rocks_write(d.c, first(data), C.size_t(len(data)), cBool(mayStall)))
}

// checkFamilies fails when one of the families is gone.
func (d *DB) checkFamilies(families []*Family) error {
	d.families.RLock()
	defer d.families.RUnlock()
	for _, f := range families {
		if _, err := f.in(d); err != nil {
			return err
		}
	}
	return nil
}
