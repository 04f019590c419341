package rdb

import (
	"bytes"
	"slices"
)

// partBytes is about how long the parts are that a long string of a file comes in.
const partBytes = 256 << 10

// InParts has the file's long strings come in parts, if they are values of keys: Bytes is the first
// part, and Next reads the others. No string is held as a whole.
func (r *Reader) InParts() { r.decoder.inParts = true }

// Whole returns a string that a file has: one that comes in parts is put together.
func (v *Value) Whole() ([]byte, error) {
	whole := v.Bytes
	if v.Continued() {
		whole = bytes.Clone(whole)
	}
	for v.Next() {
		whole = append(whole, v.Element.Bytes...)
	}
	return whole, v.err
}

// inflating is a compressed string that is read in parts.
type inflating struct {
	unread uint64 // compressed bytes that the file still has
	in     []byte // those that were read, within memory
	memory []byte
}

// beginString reads a string, or its first part.
func (d *Decoder) beginString(v *Value) error {
	n, encoded, err := d.src.lengthOrEncoding()
	switch {
	case err != nil:
		return err
	case d.inParts && !encoded && n > partBytes:
		v.advance = (*Value).nextPart
	case d.inParts && encoded && n == encodingLZF:
		compressed, size, err := d.compressedSizes()
		if err != nil {
			return err
		}
		if size <= partBytes {
			v.Bytes, err = d.decompressed(compressed, size, &d.first)
			return err
		}
		d.inflating, n = inflating{unread: compressed}, size
		v.advance = (*Value).nextInflated
	default:
		v.Bytes, err = d.stringOf(n, encoded, &d.first)
		return err
	}
	if err := d.checkSize(n); err != nil {
		return err
	}
	v.left, d.first = n, d.first[:0]
	_, err = v.advance(v)
	v.Bytes = v.Element.Bytes
	return err
}

// nextPart reads the next part of a string.
func (v *Value) nextPart() (more bool, err error) {
	if v.left == 0 {
		return false, nil
	}
	n := min(v.left, partBytes)
	v.left -= n
	v.Element.Offset += int64(len(v.Element.Bytes))
	v.Element.Bytes, err = v.d.src.bytes(n, &v.d.first)
	return err == nil, err
}

// nextInflated reads the next part of a compressed string. Behind what references may refer to of
// the one before it stands in the same memory.
func (v *Value) nextInflated() (more bool, err error) {
	if v.left == 0 {
		return false, nil
	}
	d, z := v.d, &v.d.inflating
	history := min(len(d.first), lzfMaxOffset)
	at := copy(d.first, d.first[len(d.first)-history:])
	end, limit := history+min(partBytes, int(v.left)), history+min(partBytes+lzfMaxMatch, int(v.left))
	out := slices.Grow(d.first[:at], limit-at+lzfStep)[:limit+lzfStep]
	for at < end {
		if err := d.readCompressed(); err != nil {
			return false, err
		}
		made, read := inflate(out, 0, at, limit, z.in)
		if read == 0 {
			return false, d.src.corrupt("%w: bad compressed string", ErrCorrupt)
		}
		at, z.in = at+made, z.in[read:]
	}
	v.Element.Offset += int64(len(v.Element.Bytes))
	v.Element.Bytes, d.first = out[history:at], out[:at]
	if v.left -= uint64(at - history); v.left == 0 && z.unread+uint64(len(z.in)) > 0 {
		return false, d.src.corrupt("%w: a compressed string goes on behind its end", ErrCorrupt)
	}
	return true, nil
}

// readCompressed has enough of a compressed string in memory for one step, unless it ends before.
func (d *Decoder) readCompressed() error {
	z := &d.inflating
	if len(z.in) > lzfMaxLiteral || z.unread == 0 {
		return nil
	}
	n := min(z.unread, bufferSize)
	b, err := d.src.bytes(n, &d.second)
	z.unread -= n
	z.memory = append(append(z.memory[:0], z.in...), b...)
	z.in = z.memory
	return err
}
