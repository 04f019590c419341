package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"kedis/storage/intset"
	"kedis/storage/listpack"
)

// errCount says that a collection got another number of elements than it was begun with.
var errCount = errors.New("rdb: elements were announced and not written, or the other way round")

// Encoder writes values. It is part of a PayloadWriter and of a Writer; code that knows how to
// write a value takes a *Encoder and needn't know which of the two it is.
//
// A value is written by one of String, LongString, ListListpack, SetListpack, SetIntset,
// HashListpack and SortedSetListpack; or by one of the Begin methods, a method for each element,
// and End.
type Encoder struct {
	buf    []byte
	w      io.Writer // nil: buf holds all of a payload
	hashed int       // buf[:hashed] is in crc
	crc    uint64
	err    error

	key    []byte // of a file's key, whose type is to be written before it
	keySet bool

	left    uint64            // elements announced and not yet written
	firstMs int64             // no field of the hash that was begun expires before
	nodes   bool              // elements are gathered into nodes, which is what left counts
	held    int               // where their number belongs, which isn't known yet: left counts those that were written; 0: it is
	list    listpack.Builder  // a list's node that is being gathered
	node    listpack.Listpack // a stream's
	largest int               // an element of this size or more is a node by itself
	stream  streamEncoder

	largestStreamNode int // bytes

	format  Format
	version uint16 // that a payload's reader has to know; Valkey has its own

	text []byte
	lzf  lzfCompressor
	long lzfStream
}

// PayloadWriter writes payloads, as DUMP returns and RESTORE takes them: Begin, one value, Finish.
// It reuses its memory, a quarter of a MiB and more, from one payload to the next: keep it. It is
// used by one goroutine at a time.
type PayloadWriter struct {
	Encoder
}

// NewPayloadWriter returns a PayloadWriter.
func NewPayloadWriter() *PayloadWriter {
	return &PayloadWriter{Encoder{largest: largePlain, largestStreamNode: LargestStreamNode}}
}

// Begin begins a payload in the memory of dst.
func (p *PayloadWriter) Begin(dst []byte) { p.reset(dst[:0], nil) }

// BeginTo begins a payload that goes to w in blocks, and is completed with FinishTo.
func (p *PayloadWriter) BeginTo(w io.Writer) { p.reset(p.buf[:0], w) }

func (p *PayloadWriter) reset(dst []byte, w io.Writer) {
	p.buf, p.w, p.hashed, p.crc, p.err, p.left, p.nodes, p.held, p.version = dst, w, 0, 0, nil, 0, false, 0, Version
}

// Finish completes the payload and returns it. The error tells of misuse: that another number of
// elements was written than had been announced.
func (p *PayloadWriter) Finish() ([]byte, error) {
	p.checkComplete()
	if p.err != nil {
		return nil, p.err
	}
	p.buf = binary.LittleEndian.AppendUint16(p.buf, p.payloadVersion())
	payload := binary.LittleEndian.AppendUint64(p.buf, CRC64(0, p.buf))
	p.buf = nil // it is the caller's
	return payload, nil
}

// FinishTo completes a payload that was begun with BeginTo. It returns the first error of the
// writer, or what Finish returns.
func (p *PayloadWriter) FinishTo() error {
	p.checkComplete()
	p.buf = binary.LittleEndian.AppendUint16(p.buf, p.payloadVersion())
	p.hash()
	p.buf = binary.LittleEndian.AppendUint64(p.buf, p.crc)
	p.flush()
	p.w = nil
	return p.err
}

// String writes a string.
func (e *Encoder) String(value []byte) {
	e.begin(typeString)
	e.string(value)
}

// LongString writes a string of size bytes, more than longestUnpacked. parts hands them out, in
// parts and as often as it is asked to: none of them is held.
func (e *Encoder) LongString(size int, parts func(write func(part []byte)) error) error {
	e.begin(typeString)
	compressed, kept, err := e.compressedLength(size, parts)
	switch {
	case err != nil:
		return err
	case compressed == 0:
		e.length(uint64(size))
		e.expect(size)
		return parts(e.raw)
	}
	e.buf = append(e.buf, lengthEncoding|encodingLZF)
	e.length(uint64(compressed))
	e.length(uint64(size))
	if kept != nil {
		e.raw(kept)
		return nil
	}
	e.expect(compressed)
	e.long.begin(&e.lzf, size, size-lzfWorthSaving, e.raw)
	if err := parts(e.long.write); err != nil {
		e.long.forget()
		return err
	}
	e.long.end()
	return nil
}

// compressedLength returns how long a string is when it is compressed, and its compressed form
// unless that is long; 0 when it isn't worth it.
func (e *Encoder) compressedLength(size int, parts func(write func(part []byte)) error) (n int, kept []byte, err error) {
	if size > lzfMaxInput {
		return 0, nil, nil
	}
	e.long.begin(&e.lzf, size, size-lzfWorthSaving, func(output []byte) {
		if n += len(output); n <= largeScratch {
			kept = append(kept, output...)
		} else {
			kept = nil
		}
	})
	if err := parts(e.long.write); err != nil {
		e.long.forget()
		return 0, nil, err
	}
	if !e.long.end() {
		return 0, nil, nil
	}
	return n, kept, nil
}

// expect tells a writer that keeps what is written how much will come, with the footer of a
// payload.
func (e *Encoder) expect(size int) {
	if to, ok := e.w.(interface{ Grow(n int) }); ok {
		to.Grow(len(e.buf) + size + payloadFooter)
	}
}

// raw writes bytes as they are, and, in a file, whatever is in the buffer if it is enough.
func (e *Encoder) raw(b []byte) {
	e.buf = append(e.buf, b...)
	e.flushFull()
}

// ListListpack writes a list that is one listpack.
func (e *Encoder) ListListpack(l listpack.Listpack) {
	e.begin(typeListQuicklist2)
	e.length(1)
	e.packedNode(l)
}

// SetListpack writes a set that is a listpack, element by element: version 10 has no packed form
// for it.
func (e *Encoder) SetListpack(l listpack.Listpack) {
	e.BeginSet(uint64(l.Len()))
	for _, member := range l.All() {
		e.text = member.AppendTo(e.text[:0])
		e.Member(e.text)
	}
	e.End()
}

// SetIntset writes a set that is an intset.
func (e *Encoder) SetIntset(s intset.Intset) {
	e.begin(typeSetIntset)
	e.string(s)
}

// HashListpack writes a hash that is a listpack of fields and values.
func (e *Encoder) HashListpack(l listpack.Listpack) {
	e.begin(typeHashListpack)
	e.string(l)
}

// SortedSetListpack writes a sorted set that is a listpack of members and scores, in order.
func (e *Encoder) SortedSetListpack(l listpack.Listpack) {
	e.begin(typeZSetListpack)
	e.string(l)
}

// BeginList begins a list in the form that Redis 7.0 gives it, a number of nodes that hold about
// 8 KiB each. How many it will be, ListNodes tells. The elements follow as calls of ListElement.
func (e *Encoder) BeginList(nodes uint64) {
	e.begin(typeListQuicklist2)
	e.length(nodes)
	e.left, e.nodes = nodes, true
	e.list.Reset()
}

// BeginHeldList is BeginList for who doesn't know how many nodes it will be. All of them are held
// until End, so it is for small lists.
func (e *Encoder) BeginHeldList() {
	e.BeginList(0)
	e.held = len(e.buf)
}

// Held is how many bytes of a list are held.
func (e *Encoder) Held() int { return len(e.buf) - e.held }

// BeginAgain takes back the elements of a list that is held, and makes it one of so many nodes.
func (e *Encoder) BeginAgain(nodes uint64) {
	e.buf = appendLength(e.buf[:e.held-1], nodes)
	e.left, e.held = nodes, 0
	e.list.Reset()
}

// endHeld writes how many nodes a list has that is held.
func (e *Encoder) endHeld() {
	var length [9]byte
	e.buf = slices.Replace(e.buf, e.held-1, e.held, appendLength(length[:0], e.left)...)
	e.left, e.held = 0, 0
	e.flushFull()
}

// BeginPlainList begins a list in the form of Redis before 2.0, which Redis 7.0 reads, too: it
// needs to know only the number of elements, and so a single walk. ListElement for each follows.
func (e *Encoder) BeginPlainList(elements uint64) { e.beginCounted(typeList, elements) }

// BeginSet begins a set. Member for each follows.
func (e *Encoder) BeginSet(members uint64) { e.beginCounted(typeSet, members) }

// BeginHash begins a hash. Field for each follows.
func (e *Encoder) BeginHash(fields uint64) { e.beginCounted(typeHash, fields) }

// BeginSortedSet begins a sorted set. ScoredMember for each follows; Redis writes them from the
// highest score down, which makes it fastest for Redis to read them.
func (e *Encoder) BeginSortedSet(members uint64) { e.beginCounted(typeZSet2, members) }

func (e *Encoder) beginCounted(t Type, n uint64) {
	e.begin(t)
	e.length(n)
	e.left, e.nodes = n, false
}

// ListElement writes the next element of a list.
func (e *Encoder) ListElement(element []byte) {
	if !e.nodes {
		e.Member(element)
		return
	}
	if len(element) >= e.largest {
		e.endNode()
		e.takeOne()
		e.length(nodePlain)
		e.string(element)
		return
	}
	if !fitsNode(e.list.Size(), len(element)) {
		e.endNode()
	}
	e.list.Add(element)
}

// ListRun writes the next elements of a list. It makes the nodes that ListElement would.
func (e *Encoder) ListRun(r listpack.Run) {
	switch {
	case e.nodes && fitsNodeWhole(e.list.Size(), r):
		e.list.AddRun(r)
	case r.Len() > leastRun:
		first, second := r.Split()
		e.ListRun(first)
		e.ListRun(second)
	default:
		for element := range r.All() {
			e.text = element.AppendTo(e.text[:0])
			e.ListElement(e.text)
		}
	}
}

// Member writes the next member of a set.
func (e *Encoder) Member(member []byte) {
	e.takeOne()
	e.string(member)
}

// Field writes the next field of a hash.
func (e *Encoder) Field(field, value []byte) {
	e.takeOne()
	e.string(field)
	e.string(value)
}

// ScoredMember writes the next member of a sorted set.
func (e *Encoder) ScoredMember(member []byte, score float64) {
	e.takeOne()
	e.string(member)
	e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(score))
}

// End ends a value that was begun with one of the Begin methods.
func (e *Encoder) End() {
	if e.nodes {
		e.endNode()
	}
	if e.held > 0 {
		e.endHeld()
	}
	e.checkComplete()
	e.nodes = false
}

// endNode writes the node that has been gathered, if it has elements.
func (e *Encoder) endNode() {
	if e.list.Len() == 0 {
		return
	}
	e.takeOne()
	e.packedNode(e.list.Listpack())
	e.list.Reset()
}

func (e *Encoder) packedNode(l listpack.Listpack) {
	e.length(nodePacked)
	e.string(l)
}

// takeOne counts an element against those that were announced.
func (e *Encoder) takeOne() {
	switch {
	case e.held > 0:
		e.left++
	case e.left == 0:
		e.fail(errCount)
	default:
		e.left--
	}
}

func (e *Encoder) checkComplete() {
	if e.left != 0 {
		e.fail(errCount)
	}
}

// Err returns the first error so far. Writing may go on after it, but nothing comes of it.
func (e *Encoder) Err() error { return e.err }

// fail keeps the first error.
func (e *Encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// begin writes a value's type, and, in a file, the key that comes between that and the value.
func (e *Encoder) begin(t Type) {
	e.checkComplete()
	e.buf = append(e.buf, byte(t))
	if e.keySet {
		e.string(e.key)
		e.keySet = false
	}
}

func (e *Encoder) length(n uint64) { e.buf = appendLength(e.buf, n) }

// string writes a string, as an integer or compressed if Redis would, and, in a file, whatever is
// in the buffer if it is enough.
func (e *Encoder) string(s []byte) {
	e.buf = e.appendString(e.buf, s)
	e.flushFull()
}

// flushFull writes the buffer to the file if it is enough, and nothing in it waits to be counted.
func (e *Encoder) flushFull() {
	if e.w != nil && len(e.buf) >= bufferSize && e.held == 0 {
		e.flush()
	}
}

// flush writes the buffer to the file.
func (e *Encoder) flush() {
	e.hash()
	if e.err == nil {
		if _, err := e.w.Write(e.buf); err != nil {
			e.fail(fmt.Errorf("rdb: write: %w", err))
		}
	}
	e.buf, e.hashed = e.buf[:0], 0
	if cap(e.buf) > largeScratch {
		e.buf = make([]byte, 0, 2*bufferSize)
	}
}

func (e *Encoder) hash() {
	e.crc = CRC64(e.crc, e.buf[e.hashed:])
	e.hashed = len(e.buf)
}

// The limits at which Redis encodes strings.
const (
	longestInteger  = 11 // bytes of text that could be an integer of 32 bits
	longestUnpacked = 20 // a string this short isn't compressed
)

// appendString appends a string in the encoding that Redis chooses.
func (e *Encoder) appendString(dst, s []byte) []byte {
	if len(s) <= longestInteger {
		if n, ok := listpack.ParseInt(s); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
			return appendInteger(dst, n)
		}
	}
	if len(s) > longestUnpacked {
		var ok bool
		if dst, ok = e.appendCompressed(dst, s); ok {
			return dst
		}
	}
	return append(appendLength(dst, uint64(len(s))), s...)
}

func appendInteger(dst []byte, n int64) []byte {
	switch {
	case n >= math.MinInt8 && n <= math.MaxInt8:
		return append(dst, lengthEncoding|encodingInt8, byte(n))
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return binary.LittleEndian.AppendUint16(append(dst, lengthEncoding|encodingInt16), uint16(n))
	default:
		return binary.LittleEndian.AppendUint32(append(dst, lengthEncoding|encodingInt32), uint32(n))
	}
}

// appendCompressed appends | encoding | compressed length | length | compressed bytes |.
func (e *Encoder) appendCompressed(dst, s []byte) ([]byte, bool) {
	// The compressed bytes go to where they will lie if their length takes five bytes, the most it
	// can take here, and then next to the length that they have.
	const gap = 1 + 5 + 5
	start := len(dst)
	out := append(dst, make([]byte, gap)...)
	out, ok := e.lzf.compress(out, s, len(s)-lzfWorthSaving)
	if !ok {
		return out[:start], false
	}
	compressed := out[start+gap:]
	out = append(out[:start], lengthEncoding|encodingLZF)
	out = appendLength(out, uint64(len(compressed)))
	out = appendLength(out, uint64(len(s)))
	return append(out, compressed...), true
}

func appendLength(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n < 1<<14:
		return append(dst, length14|byte(n>>8), byte(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, length32), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, length64), n)
	}
}

// How Redis 7.0 divides a list into nodes, under its default list-max-listpack-size of -2.
const (
	nodeLimit     = 8 << 10
	nodeOverhead  = 8       // what an element is taken to need besides its bytes
	emptyNodeSize = 7       // bytes of an empty listpack
	largePlain    = 1 << 30 // an element of this size isn't packed
)

// fitsNode reports whether an element may be added to a node of that many bytes. Any may be added
// to an empty one.
func fitsNode(node, element int) bool {
	return node <= emptyNodeSize || node+element+nodeOverhead <= nodeLimit
}

// leastRun is up to how many elements a run is written element by element.
const leastRun = 4

// fitsNodeWhole reports whether each element of a run may be added to a node of that many bytes.
// (The text of an integer takes up to ten bytes more than it does in a listpack, which is less than
// what two elements are taken to need besides.)
func fitsNodeWhole(node int, r listpack.Run) bool {
	return r.Len() > leastRun && node+r.Size()+nodeOverhead*r.Len() <= nodeLimit
}

// ListNodes counts the nodes that a list will have, for BeginList. The zero value is ready.
type ListNodes struct {
	full uint64 // nodes before the current one
	size int    // bytes of the current one
}

// Add takes the list's next element into account.
func (n *ListNodes) Add(element []byte) {
	if len(element) >= largePlain {
		n.addPlain()
		return
	}
	n.addSized(len(element), listpack.Of(element).Size())
}

// AddRun takes the list's next elements into account.
func (n *ListNodes) AddRun(r listpack.Run) {
	switch {
	case fitsNodeWhole(max(n.size, emptyNodeSize), r):
		n.size = max(n.size, emptyNodeSize) + r.Size()
	case r.Len() > leastRun:
		first, second := r.Split()
		n.AddRun(first)
		n.AddRun(second)
	default:
		for element := range r.All() {
			n.addSized(element.Len(), element.Size())
		}
	}
}

func (n *ListNodes) addPlain() {
	if n.size > emptyNodeSize {
		n.full++
	}
	n.full++
	n.size = 0
}

func (n *ListNodes) addSized(length, packed int) {
	if n.size == 0 {
		n.size = emptyNodeSize
	}
	if !fitsNode(n.size, length) {
		n.full++
		n.size = emptyNodeSize
	}
	n.size += packed
}

// Count is the number of nodes so far.
func (n *ListNodes) Count() uint64 {
	if n.size > emptyNodeSize {
		return n.full + 1
	}
	return n.full
}
