package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"kedis/internal/buffer"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// A long string is spread: it stands in pieces, each of which has a record of its own. So what
// reads or changes a part of it costs that part. What was never written, or written as zeros where
// nothing was, has no record.
//
// Strings become spread when they are written as a whole and are longer than longestWhole, and when
// a part of them is changed and they are longer than longestChanged: a change of a whole string
// writes all of it. They stay spread until they are written as a whole.
const (
	longestWhole   = 256 << 10
	longestChanged = 16 << 10
)

const pieceBytes = layout.StringPiece

// stringWriter makes a spread string from its beginning to its end. Nothing refers to it before its
// key is saved.
type stringWriter struct {
	elements *engine.Elements
	size     int    // of the string so far
	piece    []byte // what has come of the last piece; zeros at its end may be missing
	key      [4]byte
}

func (d DB) newString() *stringWriter {
	return &stringWriter{elements: d.newElements(layout.String)}
}

// write appends bytes. Whole pieces are not copied on their way to the transaction.
func (w *stringWriter) write(b []byte) error {
	for len(b) > 0 {
		at := w.size % pieceBytes
		n := min(pieceBytes-at, len(b))
		part := b[:n]
		if n < pieceBytes {
			w.piece = append(lengthen(w.piece, at), part...)
			part = w.piece
		}
		if at+n == pieceBytes {
			if err := w.put(w.size/pieceBytes, part); err != nil {
				return err
			}
			w.piece = w.piece[:0]
		}
		w.size += n
		b = b[n:]
	}
	return nil
}

// skip appends n zeros.
func (w *stringWriter) skip(n int) error {
	if w.size%pieceBytes+n >= pieceBytes {
		if err := w.put(w.size/pieceBytes, w.piece); err != nil {
			return err
		}
		w.piece = w.piece[:0]
	}
	w.size += n
	return nil
}

func (w *stringWriter) put(piece int, content []byte) error {
	if isZero(content) {
		return nil
	}
	return w.elements.Put(layout.KindStringPiece, layout.AppendPiece(w.key[:0], uint32(piece)), content)
}

// finish completes the string.
func (w *stringWriter) finish(expireMs int64) (layout.Metadata, error) {
	m := layout.Metadata{Type: layout.String, Encoding: layout.Spread, ExpireMs: expireMs, ID: w.elements.ID(), Tail: uint64(w.size)}
	if err := w.put(w.size/pieceBytes, w.piece); err != nil {
		return m, err
	}
	m.Count = w.elements.Records()
	return m, w.elements.Finish()
}

// copyPart appends what lies between two offsets of a string.
func (w *stringWriter) copyPart(d DB, m *layout.Metadata, from, to int) (err error) {
	parts := d.StringParts(m, from, to, func(offset int, part []byte) bool {
		if err = w.skip(offset - from); err == nil {
			err = w.write(part)
		}
		from = offset + len(part)
		return err == nil
	})
	if err == nil {
		err = parts
	}
	if err != nil {
		return err
	}
	return w.skip(to - from)
}

// lengthen appends zeros up to a length.
func lengthen(b []byte, length int) []byte {
	for len(b) < length {
		b = append(b, zeros[:min(len(zeros), length-len(b))]...)
	}
	return b
}

var zeros [pieceBytes]byte

func isZero(b []byte) bool {
	for ; len(b) >= 8; b = b[8:] {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// text restores a string, whose beginning may be followed by further parts.
func (r *restoring) text() (layout.Metadata, error) {
	d, v := r.db, r.value
	var w *stringWriter
	whole := v.Bytes
	if len(whole) > longestWhole {
		w = d.newString()
		if err := w.write(whole); err != nil {
			return layout.Metadata{}, err
		}
	} else if v.Continued() {
		d.txn.scratch.draft = append(d.txn.scratch.draft[:0], whole...) // it dies when the next part is read
		whole = d.txn.scratch.draft
	}
	for v.Next() {
		if w == nil {
			w = d.newString()
			if err := w.write(whole); err != nil {
				return layout.Metadata{}, err
			}
		}
		if err := w.part(&v.Element); err != nil {
			return layout.Metadata{}, err
		}
	}
	switch err := v.Err(); {
	case err != nil:
		return layout.Metadata{}, err
	case w != nil:
		return w.finish(0)
	}
	return layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: whole}, nil
}

// part appends a part of a string that comes with its offset.
func (w *stringWriter) part(e *rdb.Element) error {
	if e.Offset < int64(w.size) || e.Offset > MaxStringBytes {
		return fmt.Errorf("%w: behind %d bytes of a string come those at %d", ErrPiece, w.size, e.Offset)
	}
	if err := w.skip(int(e.Offset) - w.size); err != nil {
		return err
	}
	return w.write(e.Bytes)
}

// spread returns the metadata of a string of which a part is about to be changed, and that will
// have size bytes, spread. It returns false for one that is written as a whole.
func (d DB) spread(k *Key, size int) (layout.Metadata, bool, error) {
	if k.Encoding == layout.Spread {
		return k.Metadata, true, nil
	}
	if size <= longestChanged {
		return layout.Metadata{}, false, nil
	}
	m, err := d.whole(k.Value, k.ExpireMs)
	return m, err == nil, err
}

// mostOverwritten is how many bytes of a spread string are overwritten in place. All of them become
// visible in one commit, for which others wait; more than that are staged, with the rest of the
// string, under another id (rewrite).
const mostOverwritten = 16 << 20

// overwrite writes bytes over a spread string from an offset on, and notes in m what that makes of
// it.
func (d DB) overwrite(m *layout.Metadata, offset int, written []byte) error {
	for len(written) > 0 {
		at := offset % pieceBytes
		n := min(pieceBytes-at, len(written))
		if err := d.overwritePiece(m, offset/pieceBytes, at, written[:n]); err != nil {
			return err
		}
		offset, written = offset+n, written[n:]
		m.Tail = max(m.Tail, uint64(offset))
	}
	return nil
}

func (d DB) overwritePiece(m *layout.Metadata, piece, at int, written []byte) error {
	old, found, err := d.piece(m, piece)
	if err != nil {
		return err
	}
	draft := append(d.txn.scratch.draft[:0], old...)
	draft = lengthen(draft, at)
	draft = append(draft[:at], written...)
	if len(old) > len(draft) {
		draft = append(draft, old[len(draft):]...)
	}
	d.txn.scratch.draft = draft
	return d.putPiece(m, piece, draft, found)
}

// rewrite makes another string of one, spread or not, over which bytes are written from an offset
// on.
func (d DB) rewrite(m *layout.Metadata, offset int, written []byte) (layout.Metadata, error) {
	length, end := m.StringLength(), offset+len(written)
	if err := d.txn.SpendBytes(max(length, end)); err != nil {
		return layout.Metadata{}, err
	}
	w := d.newString()
	if err := w.copyPart(d, m, 0, min(offset, length)); err != nil {
		return layout.Metadata{}, err
	}
	if err := w.skip(max(offset-length, 0)); err != nil {
		return layout.Metadata{}, err
	}
	if err := w.write(written); err != nil {
		return layout.Metadata{}, err
	}
	if err := w.copyPart(d, m, min(end, length), length); err != nil {
		return layout.Metadata{}, err
	}
	return w.finish(m.ExpireMs)
}

// piece returns the record of a piece; without one it is all zeros.
func (d DB) piece(m *layout.Metadata, piece int) (content []byte, found bool, err error) {
	return d.txn.Get(d.space, d.pieceKey(m, piece))
}

// putPiece writes the record of a piece, and counts it if it wasn't there.
func (d DB) putPiece(m *layout.Metadata, piece int, content []byte, found bool) error {
	if !found {
		if isZero(content) {
			return nil
		}
		m.Count++
	}
	return d.txn.Put(d.space, d.pieceKey(m, piece), content)
}

func (d DB) pieceKey(m *layout.Metadata, piece int) []byte {
	d.txn.scratch.key2 = layout.AppendPieceKey(d.txn.scratch.key2[:0], m.ID, uint32(piece))
	return d.txn.scratch.key2
}

// fewPieces are looked up one by one, so that copies of them are kept. Of some more those are that
// memory has; the others, and all of many but the first, are walked over.
const (
	firstPieces = 4
	fewPieces   = 64
	somePieces  = 4096
	walkPieces  = 256
)

// StringParts visits what stands between two offsets of a string, in order, and stops when visit
// returns false. What lies between the parts is zeros. A part is valid during the call.
func (d DB) StringParts(m *layout.Metadata, from, to int, visit func(offset int, part []byte) bool) error {
	switch {
	case from >= to:
		return nil
	case m.Encoding != layout.Spread:
		visit(from, m.Value[from:to])
		return nil
	}
	r := partsReader{db: d, m: *m, from: from, to: to, visit: visit}
	err := r.read(from/pieceBytes, (to-1)/pieceBytes)
	if all := from == 0 && to == m.StringLength(); err == nil && (r.seen > m.Count || all && !r.stopped && r.seen < m.Count) {
		err = fmt.Errorf("%w: a string in %d pieces has %d of them", layout.ErrCorrupt, m.Count, r.seen)
	}
	return err
}

// partsReader visits what the pieces of a string have between two offsets.
type partsReader struct {
	db       DB
	m        layout.Metadata // a copy: that of a command isn't allocated
	from, to int
	visit    func(offset int, part []byte) bool
	seen     uint64 // pieces with a record
	stopped  bool   // visit has returned false
}

func (r *partsReader) read(first, last int) error {
	switch pieces := last - first + 1; {
	case pieces <= fewPieces:
		return r.lookUp(first, last)
	case pieces <= somePieces:
		return r.lookUpResident(first, last)
	}
	// A search may end soon, and a walk takes a while to begin.
	if err := r.lookUp(first, first+firstPieces-1); err != nil || r.stopped {
		return err
	}
	return r.walk(first+firstPieces, last)
}

func (r *partsReader) lookUp(first, last int) error {
	for piece := first; piece <= last && !r.stopped; piece++ {
		content, found, err := r.db.piece(&r.m, piece)
		if err != nil {
			return err
		}
		if found {
			r.take(piece, content)
		}
	}
	return nil
}

func (r *partsReader) lookUpResident(first, last int) error {
	for piece := first; piece <= last && !r.stopped; piece++ {
		if (piece-first)%engine.PrefetchBatch == 0 {
			r.prefetch(piece, last)
		}
		content, found, known := r.db.txn.Resident(r.db.space, r.db.pieceKey(&r.m, piece))
		if err := r.db.txn.Spend(1); err != nil {
			return err
		}
		switch {
		case found:
			r.take(piece, content)
		case !known:
			end := min(piece+walkPieces-1, last)
			if err := r.walk(piece, end); err != nil {
				return err
			}
			piece = end
		}
	}
	return nil
}

// prefetch has the processor read a few pieces from one on together.
func (r *partsReader) prefetch(piece, last int) {
	r.db.txn.PrefetchRecords(r.db.space, func() []byte {
		if piece > last {
			return nil
		}
		piece++
		return r.db.pieceKey(&r.m, piece-1)
	})
}

func (r *partsReader) walk(first, last int) error {
	lower, upper := layout.AppendPieceKey(nil, r.m.ID, uint32(first)), append(layout.AppendPieceKey(nil, r.m.ID, uint32(last)), 0)
	it := r.iterate(lower, upper, last-first)
	for !r.stopped && it.Next() {
		piece, err := layout.DecodePiece(it.Key()[layout.ElementPrefix:])
		if it.Fail(err) {
			break
		}
		r.take(int(piece), it.Value())
	}
	return it.Close()
}

// iterate walks over pieces. Many of them would displace most of what is in RocksDB's cache.
func (r *partsReader) iterate(lower, upper []byte, pieces int) *Iterator {
	if pieces > somePieces {
		return r.db.txn.IterateOnce(r.db.space, lower, upper, false)
	}
	return r.db.txn.Iterate(r.db.space, lower, upper, IteratorOptions{}).Passing()
}

// take visits as much of a piece as lies between the offsets.
func (r *partsReader) take(piece int, content []byte) {
	r.seen++
	offset := piece * pieceBytes
	skipped, end := max(r.from-offset, 0), min(r.to-offset, len(content))
	r.stopped = skipped < end && !r.visit(offset+skipped, content[skipped:end])
}

// EachString visits all bytes between two offsets of a string, zeros too, in order.
func (d DB) EachString(m *layout.Metadata, from, to int, visit func(part []byte)) error {
	var failure error
	err := d.StringParts(m, from, to, func(offset int, part []byte) bool {
		if failure = d.visitZeros(offset-from, visit); failure != nil {
			return false
		}
		visit(part)
		from = offset + len(part)
		return true
	})
	if err != nil || failure != nil {
		return cmp.Or(err, failure)
	}
	return d.visitZeros(to-from, visit)
}

// visitZeros visits n zeros, which cost as much as other bytes do.
func (d DB) visitZeros(n int, visit func(part []byte)) error {
	for n > 0 {
		some := min(n, len(zeros))
		if err := d.txn.SpendBytes(some); err != nil {
			return err
		}
		visit(zeros[:some])
		n -= some
	}
	return nil
}

// LookupString looks up a key that holds a string, or doesn't exist, for a command that needs all
// of it in memory: Value has it, of a spread string too.
func (d DB) LookupString(key []byte) (Key, error) {
	k, err := d.LookupType(key, layout.String)
	if err == nil && k.Encoding == layout.Spread {
		k.Value, err = d.StringBytes(&k.Metadata)
	}
	return k, err
}

// StringBytes returns a whole string: of one that is spread, a copy. It is valid until the
// transaction is reset.
func (d DB) StringBytes(m *layout.Metadata) ([]byte, error) {
	if m.Encoding != layout.Spread {
		return m.Value, nil
	}
	if err := d.txn.SpendBytes(m.StringLength()); err != nil {
		return nil, err
	}
	return d.appendString(make([]byte, 0, m.StringLength()), m, 0, m.StringLength())
}

// StringEquals reports whether a string has some bytes.
func (d DB) StringEquals(k *Key, value []byte) (bool, error) {
	if k.StringLength() != len(value) {
		return false, nil
	}
	same := true
	err := d.EachString(&k.Metadata, 0, len(value), func(part []byte) {
		same = same && bytes.Equal(part, value[:len(part)])
		value = value[len(part):]
	})
	return same, err
}

// appendString appends what lies between two offsets of a string.
func (d DB) appendString(dst []byte, m *layout.Metadata, from, to int) ([]byte, error) {
	err := d.EachString(m, from, to, func(part []byte) { dst = buffer.Append(dst, part) })
	return dst, err
}
