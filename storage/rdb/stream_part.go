package rdb

import (
	"encoding/binary"
	"errors"
)

// Parts of a stream by themselves, as two Kedis exchange them:
//
//	| part:1 | numbers | name | fields:1-10 | field | value … |
//
// Numbers are of variable length, in the order of numbers and signed below; texts stand behind
// their lengths.

var errPart = errors.New("rdb: a bad part of a stream")

// numbers are those that are never negative, in their order.
func (p *StreamElement) numbers() [14]*uint64 {
	return [...]*uint64{&p.ID.Ms, &p.ID.Seq, &p.Node.Ms, &p.Node.Seq, &p.Length, &p.FirstID.Ms, &p.FirstID.Seq, &p.MaxDeletedID.Ms, &p.MaxDeletedID.Seq,
		&p.EntriesAdded, &p.Groups, &p.Consumers, &p.Pending, &p.Deliveries}
}

// signed are those that may be negative.
func (p *StreamElement) signed() [4]*int64 {
	return [...]*int64{&p.EntriesRead, &p.DeliveredMs, &p.SeenMs, &p.ActiveMs}
}

// Append appends the part.
func (p *StreamElement) Append(dst []byte) []byte {
	dst = append(dst, byte(p.Part))
	for _, n := range p.numbers() {
		dst = binary.AppendUvarint(dst, *n)
	}
	for _, n := range p.signed() {
		dst = binary.AppendVarint(dst, *n)
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(p.Name))), p.Name...)
	dst = binary.AppendUvarint(dst, uint64(len(p.Fields)))
	for _, text := range p.Fields {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	return dst
}

// Decode reads such a part. Its texts refer to b.
func (p *StreamElement) Decode(b []byte) error {
	if len(b) == 0 || StreamPart(b[0]) < StreamEntry || StreamPart(b[0]) > StreamOwned {
		return errPart
	}
	*p = StreamElement{Part: StreamPart(b[0]), Fields: p.Fields[:0]}
	r := partReader{b[1:], true}
	for _, n := range p.numbers() {
		*n = r.number()
	}
	for _, n := range p.signed() {
		*n = r.signed()
	}
	p.Name = r.text()
	for n := r.number(); n > 0 && r.ok; n-- {
		p.Fields = append(p.Fields, r.text())
	}
	if !r.ok || len(r.left) > 0 || len(p.Fields)%2 != 0 {
		return errPart
	}
	return nil
}

type partReader struct {
	left []byte
	ok   bool
}

func (r *partReader) number() uint64 {
	n, size := binary.Uvarint(r.left)
	r.pass(size)
	return n
}

func (r *partReader) signed() int64 {
	n, size := binary.Varint(r.left)
	r.pass(size)
	return n
}

func (r *partReader) pass(size int) {
	if size <= 0 {
		r.left, r.ok = nil, false
		return
	}
	r.left = r.left[size:]
}

func (r *partReader) text() []byte {
	n := r.number()
	if !r.ok || n > uint64(len(r.left)) {
		r.ok = false
		return nil
	}
	text := r.left[:n:n]
	r.left = r.left[n:]
	return text
}
