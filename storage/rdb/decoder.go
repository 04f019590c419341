package rdb

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"

	"kedis/internal/number"
	"kedis/storage/intset"
	"kedis/storage/listpack"
)

// Decoder reads payloads, one after another, and reuses its memory from one to the next. It is
// used by one goroutine at a time. The zero value is ready for use.
type Decoder struct {
	// MaxString is how long a string may be, be it an element, a value or a whole packed
	// collection, in bytes. 0 means DefaultMaxString, or TrustedMaxString.
	MaxString int

	// Trusted says that a server wrote what is read, or has taken it once. Otherwise it may have
	// been made up to take very much memory or disk, and there are bounds for what a stream
	// becomes.
	Trusted bool

	src       source
	value     Value
	valkey    bool // what is read has Valkey's types
	inParts   bool
	inflating inflating

	blob, compressed []byte // a packed collection, and its compressed form
	first, second    []byte // the two strings of an element
	converted        listpack.Listpack
	duplicates       duplicateFinder
}

// Payload checks the version and the checksum of a payload as DUMP returns it, and begins to read
// its value. What it returns lives until the next call; parts of it are views into payload, which
// therefore has to stay as it is.
//
// Errors: ErrPayloadVersion, ErrPayloadChecksum, ErrEmpty, *UnsupportedError, ErrCorrupt.
func (d *Decoder) Payload(payload []byte) (*Value, error) {
	if err := checkPayload(payload); err != nil {
		return nil, err
	}
	// The footer too: Redis takes a value that ends within it, and its replicas have to do the
	// same.
	d.valkey = PayloadVersion(payload) >= ValkeyVersion
	return d.body(payload)
}

// Forget lets go of the payload that was read last, and of much memory that it has taken.
func (d *Decoder) Forget() {
	d.src.reset(nil)
	d.value = Value{}
	d.shrink()
}

// body begins to read a value that its type precedes.
func (d *Decoder) body(b []byte) (*Value, error) {
	d.src.reset(b)
	first, err := d.src.byte()
	if err != nil {
		return nil, err
	}
	return d.begin(Type(first))
}

// payloadFooter is | version:2 | checksum of all that is before it:8 |.
const payloadFooter = 10

// PayloadVersion is the RDB version of a payload that Decoder.Payload takes.
func PayloadVersion(payload []byte) uint16 {
	return binary.LittleEndian.Uint16(payload[len(payload)-payloadFooter:])
}

// PayloadSize is how many bytes a payload takes by its own word when it is decompressed, if it is
// one string, as a packed collection is, too; nothing of it is checked but that it keeps to
// maxString, which is as in Decoder. Of others it is the length of the payload.
func PayloadSize(payload []byte, maxString int) int {
	if len(payload) < payloadFooter {
		return len(payload)
	}
	s := source{buf: payload, pos: 1, end: len(payload)}
	switch t := Type(payload[0]); {
	case t == typeHashListpackExpiry:
		s.pos += 8 // when the first field expires
	case t != typeString && t != typeSetIntset && packedFormOf(t).kind == 0:
		return len(payload)
	}
	encoding, encoded, err := s.lengthOrEncoding()
	if err != nil || !encoded || encoding != encodingLZF {
		return len(payload)
	}
	d := Decoder{src: s, MaxString: maxString}
	_, size, err := d.compressedSizes()
	if err != nil {
		return len(payload) // it is refused
	}
	return max(len(payload), int(size))
}

func checkPayload(payload []byte) error {
	if len(payload) < payloadFooter {
		return ErrPayloadChecksum
	}
	if version := PayloadVersion(payload); version != 0 && !known(uint64(version)) { // Redis takes 0
		return ErrPayloadVersion
	}
	if CRC64(0, payload[:len(payload)-8]) != binary.LittleEndian.Uint64(payload[len(payload)-8:]) {
		return ErrPayloadChecksum
	}
	return nil
}

// begin reads as much of a value as precedes its elements.
func (d *Decoder) begin(t Type) (*Value, error) {
	d.shrink()
	d.value = Value{Type: t, d: d}
	v := &d.value
	if d.valkey && t >= typeHashValkey {
		return d.beginValkey(v)
	}
	var err error
	switch t {
	case typeString:
		v.Kind = String
		err = d.beginString(v)
	case typeList:
		err = v.count(List, (*Value).nextString)
	case typeSet:
		err = v.count(Set, (*Value).nextString)
	case typeHash:
		err = v.count(Hash, (*Value).nextField)
	case typeZSet:
		err = v.count(SortedSet, (*Value).nextTextScore)
	case typeZSet2:
		err = v.count(SortedSet, (*Value).nextBinaryScore)
	case typeHashMetadata, typeHashMetadataPreGA:
		err = d.beginExpiringHash(v)
	case typeListQuicklist, typeListQuicklist2:
		err = d.beginQuicklist(v)
	case typeStreamListpacks, typeStreamListpacks2, typeStreamListpacks3:
		err = d.beginStream(v)
	case typeModule2:
		err = d.refuseModule(v)
	default:
		err = d.beginPacked(v)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// largeScratch is how much memory is kept for the next value.
const largeScratch = 1 << 20

func (d *Decoder) shrink() {
	for _, b := range []*[]byte{&d.blob, &d.compressed, &d.first, &d.second, (*[]byte)(&d.converted)} {
		if cap(*b) > largeScratch {
			*b = nil
		}
	}
	if cap(d.duplicates.table) > mostSlots {
		d.duplicates.table = nil
	}
}

// count begins a value that consists of a number of elements.
func (v *Value) count(kind Kind, advance func(*Value) (bool, error)) error {
	n, err := v.d.src.length()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrEmpty
	}
	v.Kind, v.Count, v.left, v.advance = kind, n, n, advance
	return nil
}

func (d *Decoder) beginExpiringHash(v *Value) error {
	if v.Type == typeHashMetadata {
		first, err := d.src.uint64()
		if err != nil {
			return err
		}
		if first > maxFieldExpiry+1 { // one more says that there is none
			return d.src.corrupt("a hash whose first field expires at %d", first)
		}
		v.firstExpiry = first
	}
	return v.count(Hash, (*Value).nextExpiringField)
}

// beginValkey reads types that Valkey has numbered itself.
func (d *Decoder) beginValkey(v *Value) (*Value, error) {
	if v.Type != typeHashValkey {
		return nil, &UnsupportedError{Type: v.Type}
	}
	if err := v.count(Hash, (*Value).nextValkeyField); err != nil {
		return nil, err
	}
	return v, nil
}

func (d *Decoder) beginQuicklist(v *Value) error {
	v.Kind = List
	nodes, err := d.src.length()
	if err != nil {
		return err
	}
	v.left, v.advance = nodes, (*Value).nextNodeElement
	// Empty nodes are passed over, as Redis does.
	if err := v.fillNode(); err != nil {
		return err
	}
	if v.isPlain {
		return nil
	}
	if v.position == listpack.None {
		return ErrEmpty
	}
	if v.left == 0 {
		v.Listpack, v.Count = v.node, uint64(v.node.Len())
	}
	return nil
}

// packedForm is a way in which a small collection is packed.
type packedForm struct {
	kind    Kind
	stride  int // elements of the listpack for each element of the value
	convert func(listpack.Listpack, []byte) (listpack.Listpack, error)
}

// packedFormOf returns the form of a type that has one; others have no kind.
func packedFormOf(t Type) packedForm {
	switch t {
	case typeListZiplist:
		return packedForm{List, 1, convertZiplist}
	case typeHashZipmap:
		return packedForm{Hash, 2, convertZipmap}
	case typeHashZiplist:
		return packedForm{Hash, 2, convertZiplist}
	case typeZSetZiplist:
		return packedForm{SortedSet, 2, convertZiplist}
	case typeHashListpack:
		return packedForm{Hash, 2, nil}
	case typeZSetListpack:
		return packedForm{SortedSet, 2, nil}
	case typeSetListpack:
		return packedForm{Set, 1, nil}
	case typeHashListpackExpiry, typeHashListpackPreGA:
		return packedForm{Hash, 3, nil}
	}
	return packedForm{}
}

func (d *Decoder) beginPacked(v *Value) error {
	if v.Type == typeSetIntset {
		return d.beginIntset(v)
	}
	form := packedFormOf(v.Type)
	if form.kind == 0 {
		return &UnsupportedError{Type: v.Type}
	}
	if v.Type == typeHashListpackExpiry {
		// When the first field expires; the fields themselves say it, too.
		if _, err := d.src.uint64(); err != nil {
			return err
		}
	}
	l, err := d.packedBytes(form.convert)
	if err != nil {
		return err
	}
	v.Kind, v.node, v.position = form.kind, l, l.First()
	n := l.Len()
	if n == 0 {
		return ErrEmpty
	}
	if n%form.stride != 0 {
		return d.src.corrupt("a %s with %d elements", v.Type, n)
	}
	v.Count = uint64(n / form.stride)
	return d.checkPacked(v, form.stride)
}

// packedBytes reads a listpack, or what convert turns into one, and checks it to the last byte.
func (d *Decoder) packedBytes(convert func(listpack.Listpack, []byte) (listpack.Listpack, error)) (l listpack.Listpack, err error) {
	b, err := d.string(&d.blob)
	if err != nil {
		return nil, err
	}
	if convert == nil {
		l = listpack.Listpack(b)
		if err := l.Validate(true); err != nil {
			return nil, d.src.corrupt("%w", err)
		}
		return l, nil
	}
	d.converted, err = convert(emptyListpack(d.converted), b)
	return d.converted, err
}

// emptyListpack returns a listpack without elements in the memory of l.
func emptyListpack(l listpack.Listpack) listpack.Listpack {
	return listpack.Empty(0).Clone(l)
}

func (d *Decoder) beginIntset(v *Value) error {
	b, err := d.string(&d.blob)
	if err != nil {
		return err
	}
	s := intset.Intset(b)
	if err := s.Validate(true); err != nil {
		return d.src.corrupt("%w", err)
	}
	if s.Len() == 0 {
		return ErrEmpty
	}
	v.Kind, v.Intset, v.Count, v.advance = Set, s, uint64(s.Len()), (*Value).nextInteger
	v.left = v.Count
	return nil
}

// checkPacked looks at the elements of a valid listpack: whether they are what the kind of value
// wants, and, but for a list, that none is there twice. Then it decides how they are handed out.
func (d *Decoder) checkPacked(v *Value, stride int) error {
	if v.Kind != List && d.duplicates.find(v.node, stride) {
		return d.src.corrupt("a %s that has an element twice", v.Type)
	}
	switch {
	case v.Kind == SortedSet:
		v.advance = (*Value).nextPackedScore
		return d.checkScores(v)
	case stride == 3:
		v.advance = (*Value).nextPackedExpiringField
		return d.checkFieldExpiries(v)
	case v.Kind == Hash:
		v.advance = (*Value).nextPackedField
	default:
		v.advance = (*Value).nextPacked
	}
	v.Listpack = v.node
	return nil
}

// checkScores makes the value a packed one if it is sorted as a packed sorted set has to be.
// Redis takes it for granted; here one that isn't still can be read element by element.
func (d *Decoder) checkScores(v *Value) error {
	sorted := true
	lastScore, lastMember := math.Inf(-1), []byte(nil)
	for pos := v.node.First(); pos != listpack.None; {
		member := v.node.At(pos)
		pos = v.node.Next(pos)
		score, err := packedScore(v.node.At(pos))
		if err != nil {
			return d.src.corrupt("%w", err)
		}
		pos = v.node.Next(pos)
		d.first = member.AppendTo(d.first[:0])
		if score < lastScore || score == lastScore && string(d.first) < string(lastMember) {
			sorted = false
		}
		d.second = append(d.second[:0], d.first...)
		lastScore, lastMember = score, d.second
	}
	if sorted {
		v.Listpack = v.node
	}
	return nil
}

func packedScore(e listpack.Element) (float64, error) {
	if e.IsInt() {
		return float64(e.Int), nil
	}
	return parseScore(e.Bytes)
}

// parseScore reads a score as text, as Redis 1.2 to 3.2 wrote it into files, and as it is in a
// listpack if it isn't an integer. Redis takes what such a text begins with, and no server has
// written one that goes on.
func parseScore(text []byte) (float64, error) {
	score, ok := number.RoundDouble(text)
	if !ok {
		return 0, fmt.Errorf("%.40q is not a score", text)
	}
	return score, nil
}

// maxFieldExpiry is Redis's limit for when a field expires, in ms since 1970: 48 bits, less two
// values.
const maxFieldExpiry = 1<<48 - 2

// checkFieldExpiries checks the triples field, value, expiry (0 for none), and notes when no field
// has one: Redis 7.4 keeps this form when the last time goes.
func (d *Decoder) checkFieldExpiries(v *Value) error {
	v.untimed = true
	i := 0
	for _, e := range v.node.All() {
		if i++; i%3 != 0 {
			continue
		}
		if !e.IsInt() || e.Int < 0 || e.Int > maxFieldExpiry {
			return d.src.corrupt("a field with a bad expiry")
		}
		v.untimed = v.untimed && e.Int == 0
	}
	return nil
}

// string reads a string. It is a view into a payload, or in *scratch; both as long as those live.
func (d *Decoder) string(scratch *[]byte) ([]byte, error) {
	n, encoded, err := d.src.lengthOrEncoding()
	if err != nil {
		return nil, err
	}
	return d.stringOf(n, encoded, scratch)
}

// stringOf reads a string whose length or encoding was read.
func (d *Decoder) stringOf(n uint64, encoded bool, scratch *[]byte) ([]byte, error) {
	if encoded {
		return d.encodedString(n, scratch)
	}
	if err := d.checkSize(n); err != nil {
		return nil, err
	}
	return d.src.bytes(n, scratch)
}

func (d *Decoder) encodedString(encoding uint64, scratch *[]byte) ([]byte, error) {
	var n int64
	switch encoding {
	case encodingInt8:
		b, err := d.src.fixed(1)
		if err != nil {
			return nil, err
		}
		n = int64(int8(b[0]))
	case encodingInt16:
		b, err := d.src.fixed(2)
		if err != nil {
			return nil, err
		}
		n = int64(int16(binary.LittleEndian.Uint16(b)))
	case encodingInt32:
		b, err := d.src.fixed(4)
		if err != nil {
			return nil, err
		}
		n = int64(int32(binary.LittleEndian.Uint32(b)))
	case encodingLZF:
		return d.compressedString(scratch)
	default:
		return nil, d.src.corrupt("unknown string encoding %d", encoding)
	}
	*scratch = strconv.AppendInt((*scratch)[:0], n, 10)
	return *scratch, nil
}

// compressedString reads | compressed length | length | compressed bytes |.
func (d *Decoder) compressedString(scratch *[]byte) ([]byte, error) {
	compressed, size, err := d.compressedSizes()
	if err != nil {
		return nil, err
	}
	return d.decompressed(compressed, size, scratch)
}

func (d *Decoder) decompressed(compressed, size uint64, scratch *[]byte) ([]byte, error) {
	b, err := d.src.bytes(compressed, &d.compressed)
	if err != nil {
		return nil, err
	}
	*scratch, err = decompressLZF((*scratch)[:0], b, size)
	if err != nil {
		return nil, d.src.corrupt("%w", err)
	}
	return *scratch, nil
}

func (d *Decoder) compressedSizes() (compressed, size uint64, err error) {
	if compressed, err = d.src.length(); err != nil {
		return 0, 0, err
	}
	if size, err = d.src.length(); err != nil {
		return 0, 0, err
	}
	return compressed, size, d.checkSize(max(compressed, size))
}

func (d *Decoder) maxString() uint64 {
	switch {
	case d.MaxString != 0:
		return uint64(d.MaxString)
	case d.Trusted:
		return TrustedMaxString
	}
	return DefaultMaxString
}

func (d *Decoder) checkSize(n uint64) error {
	if limit := d.maxString(); n > limit {
		return d.src.corrupt("a string of %d bytes, more than the limit of %d", n, limit)
	}
	return nil
}

// duplicateFinder finds out whether an element is in a listpack twice, in a hash table. Elements
// are the same if they are as strings.
type duplicateFinder struct {
	table   []uint64 // | lower half of the hash:4 | position:4 |; 0: no element lies there
	entered int
	integer []byte
}

// mostSlots is how large a table is made at once: elements are many on the word of a payload of a
// hundredth of their size, and the second may be the first.
const mostSlots = largeScratch / 8

// find looks at every stride-th element.
func (f *duplicateFinder) find(l listpack.Listpack, stride int) bool {
	slots := 4
	for n := l.Len() / stride; slots < 2*n && slots < mostSlots; {
		slots *= 2
	}
	if cap(f.table) < slots {
		f.table = make([]uint64, slots)
	}
	f.table, f.entered = f.table[:slots], 0
	clear(f.table)
	seed := maphash.MakeSeed() // a fresh one: nobody can prepare collisions
	i := 0
	for pos, e := range l.All() {
		if i++; (i-1)%stride != 0 {
			continue
		}
		text := e.Bytes
		if e.IsInt() {
			f.integer = e.AppendTo(f.integer[:0])
			text = f.integer
		}
		if f.enter(l, pos, text, uint32(maphash.Bytes(seed, text))) {
			return true
		}
	}
	return false
}

// enter adds the element at pos, and reports whether it is there already.
func (f *duplicateFinder) enter(l listpack.Listpack, pos int, text []byte, hash uint32) bool {
	if f.entered >= len(f.table)/4*3 {
		f.grow()
	}
	slot := f.slot(hash)
	for ; f.table[slot] != 0; slot = f.slot(slot + 1) {
		if entry := f.table[slot]; uint32(entry>>32) == hash && l.At(int(uint32(entry))).Equal(text) {
			return true
		}
	}
	f.table[slot] = uint64(hash)<<32 | uint64(pos)
	f.entered++
	return false
}

func (f *duplicateFinder) slot(hash uint32) uint32 { return hash & uint32(len(f.table)-1) }

// grow doubles the table.
func (f *duplicateFinder) grow() {
	former := f.table
	f.table = make([]uint64, 2*len(former))
	for _, entry := range former {
		if entry == 0 {
			continue
		}
		slot := f.slot(uint32(entry >> 32))
		for f.table[slot] != 0 {
			slot = f.slot(slot + 1)
		}
		f.table[slot] = entry
	}
}
