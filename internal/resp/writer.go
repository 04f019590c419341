package resp

import (
	"strconv"
	"strings"

	"kedis/internal/buffer"
	"kedis/internal/number"
)

// retainedReply is the capacity that a Writer keeps when it is reset.
const retainedReply = 128 << 10

// deferredHeader is the room that BeginArray leaves: a header with one digit.
const deferredHeader = len("*0\r\n")

// Writer composes replies, one behind the other, in the protocol that the client speaks. What can't
// be said in RESP2 is said there as Redis says it. It is used by one goroutine at a time.
type Writer struct {
	protocol int
	reply    []byte
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

// Mark returns the place that Rewind goes back to.
func (w *Writer) Mark() int { return len(w.reply) }

// Rewind takes back everything written since the mark.
func (w *Writer) Rewind(mark int) { w.reply = w.reply[:mark] }

// Len returns the length of what has been written, in bytes.
func (w *Writer) Len() int { return len(w.reply) }

// Bytes returns what has been written. It is valid until the next call of a method that writes,
// rewinds or resets.
func (w *Writer) Bytes() []byte { return w.reply }

// Reset takes back everything. It keeps at most 128 KB of memory.
func (w *Writer) Reset() {
	if cap(w.reply) > retainedReply {
		w.reply = nil
	}
	w.reply = w.reply[:0]
}

// Raw writes what is already encoded.
func (w *Writer) Raw(b []byte) { w.reply = buffer.Append(w.reply, b) }

// SimpleString writes a short text. Line ends in it become spaces.
func (w *Writer) SimpleString(s string) {
	w.line('+', replaceLineEnds(s))
}

// OK writes the simple string OK.
func (w *Writer) OK() { w.reply = append(w.reply, "+OK\r\n"...) }

// Error writes an error reply. The text begins with its code, such as ERR. As in Redis, line ends
// behind it are cut off, and those in it become spaces.
func (w *Writer) Error(text string) {
	w.line('-', replaceLineEnds(strings.TrimRight(text, "\r\n")))
}

// WholeError writes an error reply of which line ends become spaces, those behind it too.
func (w *Writer) WholeError(text string) { w.line('-', replaceLineEnds(text)) }

// Integer writes an integer.
func (w *Writer) Integer(n int64) { w.reply = appendHeader(w.reply, ':', n) }

// Bulk writes a bulk string.
func (w *Writer) Bulk(b []byte) { w.reply = AppendBulk(w.reply, b) }

// BulkHeader begins a bulk string of n bytes, which follow as calls of Raw; BulkEnd ends it.
func (w *Writer) BulkHeader(n int) {
	w.reply = buffer.Grow(w.reply, n+aroundText)
	w.reply = appendHeader(w.reply, '$', int64(n))
}

// BulkEnd ends a bulk string that BulkHeader has begun.
func (w *Writer) BulkEnd() { w.reply = append(w.reply, "\r\n"...) }

// BeginBulk begins a bulk string whose length is only known when its bytes have been written, by
// Raw: EndBulk tells it, and moves them to where the header ends.
func (w *Writer) BeginBulk() (handle int) {
	handle = len(w.reply)
	w.reply = append(w.reply, make([]byte, longestBulkHeader)...)
	return handle
}

// EndBulk ends the bulk string that the handle stands for.
func (w *Writer) EndBulk(handle int) {
	body := w.reply[handle+longestBulkHeader:]
	header := appendHeader(w.reply[:handle], '$', int64(len(body)))
	w.reply = w.reply[:len(header)+len(body)]
	buffer.Copy(w.reply[len(header):], body)
	w.BulkEnd()
}

const longestBulkHeader = len("$9223372036854775807\r\n")

// Grow makes room for n more bytes, and for what ends a text of them.
func (w *Writer) Grow(n int) { w.reply = buffer.Grow(w.reply, n+aroundText) }

// BulkString writes a bulk string.
func (w *Writer) BulkString(s string) {
	w.reply = buffer.Grow(w.reply, len(s)+aroundText)
	w.reply = appendHeader(w.reply, '$', int64(len(s)))
	w.reply = append(w.reply, s...)
	w.reply = append(w.reply, "\r\n"...)
}

// Null writes the absence of a value: in RESP2 of a bulk string.
func (w *Writer) Null() { w.choose("$-1\r\n", "_\r\n") }

// NullArray writes the absence of an array, which only RESP2 tells from that of a string.
func (w *Writer) NullArray() { w.choose("*-1\r\n", "_\r\n") }

// Array writes the header of an array whose n elements follow.
func (w *Writer) Array(n int) { w.reply = appendHeader(w.reply, '*', int64(n)) }

// Map writes the header of a map whose n keys and values follow in turns: in RESP2 an array of 2n.
func (w *Writer) Map(n int) { w.reply = w.appendMap(w.reply, n) }

// Set writes the header of a set whose n members follow: in RESP2 an array.
func (w *Writer) Set(n int) { w.reply = w.appendSet(w.reply, n) }

// Push writes the header of a message of n elements that no request asked for: in RESP2 an array.
func (w *Writer) Push(n int) {
	if w.protocol == 2 {
		w.Array(n)
		return
	}
	w.reply = appendHeader(w.reply, '>', int64(n))
}

// Attribute writes the header of n keys and values that describe the reply behind them. RESP2 has
// no such thing: there the caller leaves them out, header included.
func (w *Writer) Attribute(n int) {
	if w.protocol == 2 {
		panic("resp: an attribute in RESP2")
	}
	w.reply = appendHeader(w.reply, '|', int64(n))
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
	w.reply = append(w.reply, ',')
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
	w.reply = appendHeader(w.reply, '=', int64(len(format)+len(":")+len(text)))
	w.reply = append(w.reply, format...)
	w.reply = append(w.reply, ':')
	w.reply = append(w.reply, text...)
	w.reply = append(w.reply, "\r\n"...)
}

// BeginArray begins an array whose length is only known when its elements have been written:
// EndArray tells it. Such arrays, maps and sets nest; the one that was begun last is ended first.
func (w *Writer) BeginArray() (handle int) { return w.begin() }

// EndArray ends the array of n elements that the handle stands for.
func (w *Writer) EndArray(handle, n int) {
	var header [32]byte
	w.end(handle, appendHeader(header[:0], '*', int64(n)))
}

// BeginMap begins a map whose length EndMap tells.
func (w *Writer) BeginMap() (handle int) { return w.begin() }

// EndMap ends the map of n keys and values that the handle stands for.
func (w *Writer) EndMap(handle, n int) {
	var header [32]byte
	w.end(handle, w.appendMap(header[:0], n))
}

// BeginSet begins a set whose length EndSet tells.
func (w *Writer) BeginSet() (handle int) { return w.begin() }

// EndSet ends the set of n members that the handle stands for.
func (w *Writer) EndSet(handle, n int) {
	var header [32]byte
	w.end(handle, w.appendSet(header[:0], n))
}

func (w *Writer) begin() (handle int) {
	handle = len(w.reply)
	w.reply = append(w.reply, "*0\r\n"...)
	return handle
}

// end replaces the header that begin left, which moves what is behind it when the new one is
// longer.
func (w *Writer) end(handle int, header []byte) {
	if longer := len(header) - deferredHeader; longer > 0 {
		size := len(w.reply)
		w.reply = append(w.reply, header[:longer]...)
		copy(w.reply[handle+len(header):], w.reply[handle+deferredHeader:size])
	}
	copy(w.reply[handle:], header)
}

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
	w.reply = append(w.reply, kind)
	w.reply = append(w.reply, text...)
	w.reply = append(w.reply, "\r\n"...)
}

func (w *Writer) choose(resp2, resp3 string) {
	if w.protocol == 2 {
		w.reply = append(w.reply, resp2...)
		return
	}
	w.reply = append(w.reply, resp3...)
}

// lineEnds replaces bytes, not characters: a text may be in any encoding.
var lineEnds = strings.NewReplacer("\r", " ", "\n", " ")

func replaceLineEnds(s string) string { return lineEnds.Replace(s) }
