package rdb

import (
	"math"
	"strconv"

	"kedis/storage/intset"
	"kedis/storage/listpack"
)

// Value is a value that is being read. It and all that it hands out live until its decoder goes
// on to the next payload or the next record of a file.
//
// A small collection comes packed, as a listpack or an intset that has been checked to the last
// byte: keep the bytes. Any collection, packed or not, can be read element by element:
//
//	for v.Next() {
//		… v.Element …
//	}
//	if err := v.Err(); err != nil {
//		… whatever was read is not to be kept
//	}
//
// No packed hash, set or sorted set has an element twice. One that isn't packed might, if somebody
// made it up: finding out takes memory for all of it, so that is left to whoever stores it.
type Value struct {
	Kind Kind
	Type Type

	Bytes    []byte            // a String's; its first part, if it comes in parts (Reader.InParts), until Next is called
	Listpack listpack.Listpack // a packed List, Hash, Set or SortedSet: as Redis 7 packs it
	Intset   intset.Intset     // a packed Set of integers

	// Count is the number of elements that a Hash, Set or SortedSet, or a List that isn't a
	// quicklist of several nodes, claims to have. Nothing should be allocated on its word.
	Count uint64

	Element Element // the one that Next read

	d       *Decoder
	advance func(*Value) (more bool, err error) // reads the next element
	left    uint64                              // elements, or nodes, still to be read
	err     error
	done    bool

	// A packed collection that all of has been read, or one node of a list.
	node     listpack.Listpack
	position int    // of the next element in node
	plain    []byte // a node that is one element, instead
	isPlain  bool

	untimed bool // no field expires, or is said to

	rest func(*Element) (more bool, err error) // what comes behind the last element, from elsewhere

	firstExpiry uint64 // of a hash: its fields' expiries are relative to it
	stream      streamState
}

// Element is one element of a collection. Its bytes live until the next one is read.
type Element struct {
	Bytes []byte  // of a list or set; a hash's field; a sorted set's member; a part of a string
	Value []byte  // a hash's
	Score float64 // a sorted set's, never NaN

	// ExpireMs is when a hash's field expires, in ms since 1970; 0 is never.
	ExpireMs int64

	// Offset is where a part of a string stands. The parts come by Continue.
	Offset int64

	// Stream is what a stream consists of instead.
	Stream *StreamElement
}

// Next reads the next element. It returns false after the last one, or when something is wrong.
func (v *Value) Next() bool {
	if v.done || v.err != nil {
		return false
	}
	more, err := false, error(nil)
	if v.advance != nil {
		more, err = v.advance(v)
	}
	if !more && err == nil && v.rest != nil {
		more, err = v.rest(&v.Element)
	}
	v.err, v.done = err, !more
	if v.untimed {
		v.Element.ExpireMs = 0
	}
	return more && err == nil
}

// Continue has Next go on with elements from elsewhere, behind the value's own (of a string: behind
// Bytes): each call of next fills in one, until it returns false. A packed collection that is taken
// as it is has none.
func (v *Value) Continue(next func(*Element) (more bool, err error)) { v.rest = next }

// Continued reports whether more may come from elsewhere, or of a string in parts.
func (v *Value) Continued() bool { return v.rest != nil || v.Kind == String && v.advance != nil }

// LeaveOutFieldTimes has the fields of a hash not expire.
func (v *Value) LeaveOutFieldTimes() { v.untimed = true }

// FieldsMayExpire reports whether the value is a hash in a form that has times of fields. It may be
// asked before anything of the value is read.
func (v *Value) FieldsMayExpire() bool {
	if v.untimed {
		return false
	}
	switch v.Type {
	case typeHashMetadata, typeHashMetadataPreGA, typeHashListpackExpiry, typeHashListpackPreGA:
		return true
	}
	return false
}

// Err returns what was wrong, nil if nothing was.
func (v *Value) Err() error { return v.err }

// skip reads whatever of the value hasn't been.
func (v *Value) skip() error {
	for v.Next() {
	}
	return v.err
}

// take counts an element, and reports whether there is one.
func (v *Value) take() bool {
	if v.left == 0 {
		return false
	}
	v.left--
	return true
}

func (v *Value) nextString() (more bool, err error) {
	if !v.take() {
		return false, nil
	}
	v.Element.Bytes, err = v.d.string(&v.d.first)
	return true, err
}

func (v *Value) nextField() (more bool, err error) {
	if !v.take() {
		return false, nil
	}
	if v.Element.Bytes, err = v.d.string(&v.d.first); err != nil {
		return false, err
	}
	v.Element.Value, err = v.d.string(&v.d.second)
	return true, err
}

// nextExpiringField reads | expiry | field | value |. The expiry is a length: 0 for none, else one
// more than the difference to the hash's first one. Release candidates of 7.4 stored it as it is.
func (v *Value) nextExpiringField() (more bool, err error) {
	if v.left == 0 {
		return false, nil
	}
	expiry, err := v.d.src.length()
	if err != nil {
		return false, err
	}
	if expiry > maxFieldExpiry {
		return false, v.d.src.corrupt("a field with a bad expiry")
	}
	if expiry != 0 && v.Type == typeHashMetadata {
		expiry += v.firstExpiry - 1
	}
	if expiry > maxFieldExpiry {
		return false, v.d.src.corrupt("a field with a bad expiry")
	}
	v.Element.ExpireMs = int64(expiry)
	return v.nextField()
}

// nextValkeyField reads | field | value | expiry:8 |, where -1 is none, and any time that isn't
// negative may be.
func (v *Value) nextValkeyField() (more bool, err error) {
	if more, err = v.nextField(); !more || err != nil {
		return more, err
	}
	expiry, err := v.d.src.uint64()
	switch ms := int64(expiry); {
	case err != nil:
		return false, err
	case ms == -1:
		v.Element.ExpireMs = 0
	case ms < 0:
		return false, v.d.src.corrupt("a field with a bad expiry")
	default:
		v.Element.ExpireMs = min(max(ms, 1), maxFieldExpiry)
	}
	return true, nil
}

func (v *Value) nextBinaryScore() (more bool, err error) {
	if more, err = v.nextString(); !more || err != nil {
		return more, err
	}
	v.Element.Score, err = v.d.src.float64()
	if err == nil && math.IsNaN(v.Element.Score) {
		err = v.d.src.corrupt("a score that is not a number")
	}
	return true, err
}

// nextTextScore reads | member | length:1 | text |, where three lengths stand for numbers that
// have no digits.
func (v *Value) nextTextScore() (more bool, err error) {
	if more, err = v.nextString(); !more || err != nil {
		return more, err
	}
	n, err := v.d.src.byte()
	if err != nil {
		return false, err
	}
	switch n {
	case 253:
		return false, v.d.src.corrupt("a score that is not a number")
	case 254:
		v.Element.Score = math.Inf(1)
		return true, nil
	case 255:
		v.Element.Score = math.Inf(-1)
		return true, nil
	}
	text, err := v.d.src.bytes(uint64(n), &v.d.second)
	if err != nil {
		return false, err
	}
	if v.Element.Score, err = parseScore(text); err != nil {
		return false, v.d.src.corrupt("%w", err)
	}
	return true, nil
}

func (v *Value) nextInteger() (more bool, err error) {
	if !v.take() {
		return false, nil
	}
	i := v.Intset.Len() - int(v.left) - 1
	v.d.first = strconv.AppendInt(v.d.first[:0], v.Intset.Get(i), 10)
	v.Element.Bytes = v.d.first
	return true, nil
}

// fromNode returns the next element of the listpack: a view, or in *scratch if it is an integer.
func (v *Value) fromNode(scratch *[]byte) []byte {
	e := v.node.At(v.position)
	v.position = v.node.Next(v.position)
	if !e.IsInt() {
		return e.Bytes
	}
	*scratch = e.AppendTo((*scratch)[:0])
	return *scratch
}

func (v *Value) nextPacked() (more bool, err error) {
	if v.position == listpack.None {
		return false, nil
	}
	v.Element.Bytes = v.fromNode(&v.d.first)
	return true, nil
}

func (v *Value) nextPackedField() (more bool, err error) {
	if v.position == listpack.None {
		return false, nil
	}
	v.Element.Bytes = v.fromNode(&v.d.first)
	v.Element.Value = v.fromNode(&v.d.second)
	return true, nil
}

func (v *Value) nextPackedExpiringField() (more bool, err error) {
	if more, err = v.nextPackedField(); !more {
		return false, err
	}
	v.Element.ExpireMs = v.node.At(v.position).Int
	v.position = v.node.Next(v.position)
	return true, nil
}

func (v *Value) nextPackedScore() (more bool, err error) {
	if more, err = v.nextPacked(); !more {
		return false, err
	}
	v.Element.Score, err = packedScore(v.node.At(v.position))
	v.position = v.node.Next(v.position)
	return true, err
}

// nextNodeElement reads the next element of a list of nodes.
func (v *Value) nextNodeElement() (more bool, err error) {
	if !v.isPlain && v.position == listpack.None {
		if err := v.fillNode(); err != nil {
			return false, err
		}
	}
	if v.isPlain {
		v.Element.Bytes, v.isPlain = v.plain, false
		return true, nil
	}
	return v.nextPacked()
}

// Run reads up to most elements that come next and stand side by side in a listpack, as Next
// would; they are a view, which lives until the next ones are read. It is empty where Next has to
// be asked.
func (v *Value) Run(most int) (r listpack.Run) {
	if v.Kind != List || v.node == nil || v.done || v.err != nil || v.isPlain {
		return r
	}
	r, v.position = v.node.Run(v.position, most)
	return r
}

// fillNode reads the next node that isn't empty. If there is none, node and plain have no element.
func (v *Value) fillNode() error {
	v.position = listpack.None
	convert := convertZiplist
	if v.Type == typeListQuicklist2 {
		convert = nil
	}
	for v.take() {
		if v.Type == typeListQuicklist2 {
			container, err := v.d.src.length()
			if err != nil {
				return err
			}
			if container == nodePlain {
				return v.fillPlain()
			}
			if container != nodePacked {
				return v.d.src.corrupt("a list node of form %d", container)
			}
		}
		node, err := v.d.packedBytes(convert)
		if err != nil {
			return err
		}
		if v.node, v.position = node, node.First(); v.position != listpack.None {
			return nil
		}
	}
	return nil
}

func (v *Value) fillPlain() error {
	plain, err := v.d.string(&v.d.blob)
	if err != nil {
		return err
	}
	if len(plain) == 0 {
		return v.d.src.corrupt("an empty list node")
	}
	v.plain, v.isPlain = plain, true
	return nil
}
