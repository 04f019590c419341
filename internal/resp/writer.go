package resp

import (
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"

	"kedis/internal/number"
)

const (
	// retainedReply is the capacity that a Writer keeps when it is reset. What is longer goes on in
	// another piece.
	retainedReply = 128 << 10
	// longPiece is how long pieces become, unless a text in them is longer.
	longPiece = 1 << 20
	// shortPiece is what is rather copied to another piece than sent by itself.
	shortPiece = 4 << 10
	// copiedAtOnce is what is copied in one go: meanwhile Go can't interrupt the goroutine.
	copiedAtOnce = 256 << 10
)

// aroundText is room for what stands around a text, and for a number behind it.
const aroundText = 64

// deferredHeader is the room that BeginArray leaves: a header with one digit.
const deferredHeader = len("*0\r\n")

// Writer composes replies, one behind the other, in the protocol that the client speaks. What can't
// be said in RESP2 is said there as Redis says it. It is used by one goroutine at a time.
//
// A reply of many megabytes stands in pieces of about one: so it doesn't have to be copied to grow,
// and the memory of what was sent can go before the rest is.
type Writer struct {
	protocol int
	reply    []byte  // the last piece
	pieces   []piece // those before it
	begin    int     // where the last piece begins
	grown    func(length int)
}

// piece is a part of a reply that nothing is appended to any more.
type piece struct {
	begin int // its distance from the reply's beginning
	bytes []byte
}

// NewWriter returns a writer for protocol 2 or 3.
func NewWriter(protocol int) *Writer {
	w := &Writer{}
	w.SetProtocol(protocol)
	return w
}

// SetProtocol sets the protocol of what is written from now on: 2 or 3.
func (w *Writer) SetProtocol(protocol int) {
	if protocol != 2 && protocol != 3 {
		panic("resp: no such protocol: " + strconv.Itoa(protocol))
	}
	w.protocol = protocol
}

// Protocol returns 2 or 3.
func (w *Writer) Protocol() int { return w.protocol }

// OnGrowth has a function called, with the length so far, each time that a long reply goes on in
// another piece.
func (w *Writer) OnGrowth(grown func(length int)) { w.grown = grown }

// Mark returns the place that Rewind goes back to.
func (w *Writer) Mark() int { return w.begin + len(w.reply) }

// Rewind takes back everything written since the mark.
func (w *Writer) Rewind(mark int) {
	for mark < w.begin {
		last := w.pieces[len(w.pieces)-1]
		w.pieces[len(w.pieces)-1] = piece{}
		w.pieces = w.pieces[:len(w.pieces)-1]
		w.reply, w.begin = last.bytes, last.begin
	}
	w.reply = w.reply[:mark-w.begin]
}

// Len returns the length of what has been written, in bytes.
func (w *Writer) Len() int { return w.Mark() }

// Bytes returns what has been written: of a long reply, a copy. It is valid until the next call of
// a method that writes, rewinds or resets.
func (w *Writer) Bytes() []byte {
	if len(w.pieces) == 0 {
		return w.reply
	}
	whole := make([]byte, 0, w.Len())
	for from := 0; from < w.Len(); {
		part := w.From(from)
		whole = appendInParts(whole, part)
		from += len(part)
	}
	return whole
}

// From returns what stands behind so many bytes of the reply, as far as it is in one piece.
func (w *Writer) From(offset int) []byte {
	if offset >= w.begin {
		return w.reply[offset-w.begin:]
	}
	p := &w.pieces[w.pieceOf(offset)]
	return p.bytes[offset-p.begin:]
}

// Sent lets go of the memory of pieces that end at an offset or before. What is in them can't be
// read any more.
func (w *Writer) Sent(offset int) {
	for i := 0; i < len(w.pieces) && w.endOf(i) <= offset; i++ {
		w.pieces[i].bytes = nil
	}
}

// Reset takes back everything. It keeps at most 128 KB of memory.
func (w *Writer) Reset() {
	if len(w.pieces) > 0 || cap(w.reply) > retainedReply {
		w.pieces, w.reply, w.begin = nil, nil, 0
	}
	w.reply = w.reply[:0]
}

// Release is Reset that keeps no memory.
func (w *Writer) Release() { w.pieces, w.reply, w.begin = nil, nil, 0 }

// pieceOf returns the number of the piece, of those before the last one, that an offset is in.
func (w *Writer) pieceOf(offset int) int {
	return sort.Search(len(w.pieces), func(i int) bool { return w.pieces[i].begin > offset }) - 1
}

// endOf returns where a piece ends.
func (w *Writer) endOf(i int) int {
	if i+1 < len(w.pieces) {
		return w.pieces[i+1].begin
	}
	return w.begin
}

// room returns the last piece, which has room for n more bytes: of a long reply a new one.
func (w *Writer) room(n int) []byte {
	if cap(w.reply)-len(w.reply) < n {
		w.grow(n)
	}
	return w.reply
}

func (w *Writer) grow(n int) {
	switch length := len(w.reply); {
	case length+n <= retainedReply:
		w.reply = slices.Grow(w.reply, n)
	case length <= shortPiece:
		w.reply = append(make([]byte, 0, length+n+aroundText), w.reply...)
	default:
		w.pieces = append(w.pieces, piece{w.begin, w.reply})
		w.begin += length
		w.reply = make([]byte, 0, w.sizeOfNext(n))
		if w.grown != nil {
			w.grown(w.begin)
		}
	}
}

// sizeOfNext is the size of a new piece whose first text has n bytes: as much as there is already.
// Long texts have pieces of their own, so that they leave no gaps.
func (w *Writer) sizeOfNext(n int) int {
	if n >= longPiece/4 {
		return n + aroundText
	}
	return max(min(w.begin, longPiece), n+aroundText)
}

// Raw writes what is already encoded.
func (w *Writer) Raw(b []byte) {
	if len(b) <= copiedAtOnce {
		w.reply = append(w.room(len(b)), b...)
		return
	}
	for len(b) > 0 {
		n := min(len(b), longPiece)
		w.reply = appendInParts(w.room(n), b[:n])
		b = b[n:]
	}
}

// appendInParts is append of what may be long, to what has room for it.
func appendInParts(b, tail []byte) []byte {
	for len(tail) > copiedAtOnce {
		b = append(b, tail[:copiedAtOnce]...)
		tail = tail[copiedAtOnce:]
		runtime.Gosched()
	}
	return append(b, tail...)
}

// SimpleString writes a short text. Line ends in it become spaces.
func (w *Writer) SimpleString(s string) {
	w.line('+', replaceLineEnds(s))
}

// OK writes the simple string OK.
func (w *Writer) OK() { w.reply = append(w.room(aroundText), "+OK\r\n"...) }

// Error writes an error reply. The text begins with its code, such as ERR. As in Redis, line ends
// behind it are cut off, and those in it become spaces.
func (w *Writer) Error(text string) {
	w.line('-', replaceLineEnds(strings.TrimRight(text, "\r\n")))
}

// WholeError writes an error reply of which line ends become spaces, those behind it too.
func (w *Writer) WholeError(text string) { w.line('-', replaceLineEnds(text)) }

// Integer writes an integer.
func (w *Writer) Integer(n int64) { w.header(':', n) }

// Bulk writes a bulk string.
func (w *Writer) Bulk(b []byte) {
	if len(b) <= copiedAtOnce {
		w.reply = appendShort(w.room(len(b)+aroundText), b)
		return
	}
	w.reply = appendHeader(w.room(min(len(b), longPiece)+aroundText), '$', int64(len(b)))
	w.Raw(b)
	w.BulkEnd()
}

// BulkHeader begins a bulk string of n bytes, which follow as calls of Raw; BulkEnd ends it.
func (w *Writer) BulkHeader(n int) { w.header('$', int64(n)) }

// BulkEnd ends a bulk string that BulkHeader has begun.
func (w *Writer) BulkEnd() { w.reply = append(w.room(len("\r\n")), "\r\n"...) }

// BeginBulk begins a bulk string whose length is only known when its bytes have been written, by
// Raw: EndBulk tells it.
func (w *Writer) BeginBulk() (handle int) { return w.Mark() }

// EndBulk ends the bulk string that the handle stands for.
func (w *Writer) EndBulk(handle int) {
	var header [32]byte
	w.replace(handle, 0, appendHeader(header[:0], '$', int64(w.Mark()-handle)))
	w.BulkEnd()
}

// InsertBulk writes a bulk string where a mark is. What was written since comes behind it.
func (w *Writer) InsertBulk(mark int, b []byte) {
	var room [2 * aroundText]byte
	text := appendHeader(room[:0], '$', int64(len(b)))
	w.replace(mark, 0, append(append(text, b...), "\r\n"...))
}

// BulkString writes a bulk string.
func (w *Writer) BulkString(s string) {
	w.header('$', int64(len(s)))
	w.reply = append(w.room(len(s)+aroundText), s...)
	w.BulkEnd()
}

// Null writes the absence of a value: in RESP2 of a bulk string.
func (w *Writer) Null() { w.choose("$-1\r\n", "_\r\n") }

// NullArray writes the absence of an array, which only RESP2 tells from that of a string.
func (w *Writer) NullArray() { w.choose("*-1\r\n", "_\r\n") }

// Array writes the header of an array whose n elements follow.
func (w *Writer) Array(n int) { w.header('*', int64(n)) }

// Map writes the header of a map whose n keys and values follow in turns: in RESP2 an array of 2n.
func (w *Writer) Map(n int) { w.reply = w.appendMap(w.room(aroundText), n) }

// Set writes the header of a set whose n members follow: in RESP2 an array.
func (w *Writer) Set(n int) { w.reply = w.appendSet(w.room(aroundText), n) }

// Push writes the header of a message of n elements that no request asked for: in RESP2 an array.
func (w *Writer) Push(n int) {
	if w.protocol == 2 {
		w.Array(n)
		return
	}
	w.header('>', int64(n))
}

// Attribute writes the header of n keys and values that describe the reply behind them. RESP2 has
// no such thing: there the caller leaves them out, header included.
func (w *Writer) Attribute(n int) {
	if w.protocol == 2 {
		panic("resp: an attribute in RESP2")
	}
	w.header('|', int64(n))
}

// Double writes a floating-point number, in RESP2 as a bulk string, in the format of Redis 7.0: C's
// %.17g, or inf, -inf or nan.
func (w *Writer) Double(f float64) {
	var buffer [32]byte
	w.DoubleText(number.AppendDouble(buffer[:0], f))
}

// DoubleText writes a floating-point number that is a text already.
func (w *Writer) DoubleText(text []byte) {
	if w.protocol == 2 {
		w.Bulk(text)
		return
	}
	w.reply = append(w.room(len(text)+aroundText), ',')
	w.reply = append(w.reply, text...)
	w.reply = append(w.reply, "\r\n"...)
}

// Bool writes true or false: in RESP2 the integers 1 and 0.
func (w *Writer) Bool(v bool) {
	if v {
		w.choose(":1\r\n", "#t\r\n")
		return
	}
	w.choose(":0\r\n", "#f\r\n")
}

// BigNumber writes an integer of any size, which is given in decimal: in RESP2 a bulk string.
func (w *Writer) BigNumber(s string) {
	if w.protocol == 2 {
		w.BulkString(s)
		return
	}
	w.line('(', s)
}

// Verbatim writes a text for people, in a format of three letters such as txt: in RESP2 a bulk
// string without the format.
func (w *Writer) Verbatim(format, text string) {
	if len(format) != 3 {
		panic("resp: a format has three letters: " + format)
	}
	if w.protocol == 2 {
		w.BulkString(text)
		return
	}
	w.reply = appendHeader(w.room(len(text)+aroundText), '=', int64(len(format)+len(":")+len(text)))
	w.reply = append(w.reply, format...)
	w.reply = append(w.reply, ':')
	w.reply = append(w.reply, text...)
	w.reply = append(w.reply, "\r\n"...)
}

// BeginArray begins an array whose length is only known when its elements have been written:
// EndArray tells it. Such arrays, maps and sets nest; the one that was begun last is ended first.
func (w *Writer) BeginArray() (handle int) { return w.deferred() }

// EndArray ends the array of n elements that the handle stands for.
func (w *Writer) EndArray(handle, n int) {
	var header [32]byte
	w.replace(handle, deferredHeader, appendHeader(header[:0], '*', int64(n)))
}

// BeginMap begins a map whose length EndMap tells.
func (w *Writer) BeginMap() (handle int) { return w.deferred() }

// EndMap ends the map of n keys and values that the handle stands for.
func (w *Writer) EndMap(handle, n int) {
	var header [32]byte
	w.replace(handle, deferredHeader, w.appendMap(header[:0], n))
}

// BeginSet begins a set whose length EndSet tells.
func (w *Writer) BeginSet() (handle int) { return w.deferred() }

// EndSet ends the set of n members that the handle stands for.
func (w *Writer) EndSet(handle, n int) {
	var header [32]byte
	w.replace(handle, deferredHeader, w.appendSet(header[:0], n))
}

func (w *Writer) deferred() (handle int) {
	handle = w.Mark()
	w.reply = append(w.room(aroundText), "*0\r\n"...)
	return handle
}

// replace puts a text where a mark is, instead of so many bytes, which moves what is behind them in
// the same piece. They were written in one go: so they are in one piece.
func (w *Writer) replace(mark, n int, text []byte) {
	longer := len(text) - n
	if mark >= w.begin {
		at := mark - w.begin
		w.reply = slices.Replace(w.reply, at, at+n, text...)
		return
	}
	i := w.pieceOf(mark)
	p := &w.pieces[i]
	p.bytes = slices.Replace(p.bytes, mark-p.begin, mark-p.begin+n, text...)
	for i++; i < len(w.pieces); i++ {
		w.pieces[i].begin += longer
	}
	w.begin += longer
}

// header writes a line of a number behind the byte that tells its kind.
func (w *Writer) header(kind byte, n int64) { w.reply = appendHeader(w.room(aroundText), kind, n) }

func (w *Writer) appendMap(dst []byte, n int) []byte {
	if w.protocol == 2 {
		return appendHeader(dst, '*', 2*int64(n))
	}
	return appendHeader(dst, '%', int64(n))
}

func (w *Writer) appendSet(dst []byte, n int) []byte {
	if w.protocol == 2 {
		return appendHeader(dst, '*', int64(n))
	}
	return appendHeader(dst, '~', int64(n))
}

func (w *Writer) line(kind byte, text string) {
	w.reply = append(w.room(len(text)+aroundText), kind)
	w.reply = append(w.reply, text...)
	w.reply = append(w.reply, "\r\n"...)
}

func (w *Writer) choose(resp2, resp3 string) {
	if w.protocol == 2 {
		w.reply = append(w.room(aroundText), resp2...)
		return
	}
	w.reply = append(w.room(aroundText), resp3...)
}

// lineEnds replaces bytes, not characters: a text may be in any encoding.
var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

func replaceLineEnds(s string) string { return lineEnds.Replace(s) }
