package resp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"kedis/internal/quotes"
)

var (
	// ErrTooLarge says that a reply or a request takes more memory than the reader's limit allows.
	ErrTooLarge = errors.New("resp: larger than the limit")

	// ErrMalformed says that what came is no reply or no request.
	ErrMalformed = errors.New("resp: malformed")
)

const (
	// minRead is how much room the source is given at least, and retainedRead the largest buffer
	// that a Reader keeps when it has nothing left to take from it.
	minRead      = 16 << 10
	retainedRead = 64 << 10

	// maxEmptyReads is how often in a row a source may return neither bytes nor an error.
	maxEmptyReads = 100

	// maxDepth is how deep replies may nest.
	maxDepth = 128

	// replySize is what a Reply takes in memory besides its text and elements.
	replySize = int64(unsafe.Sizeof(Reply{}))

	spanSize = int64(unsafe.Sizeof(span{}))
)

// Reader reads replies and requests from another server. It waits for them as its source does. It
// is used by one goroutine at a time. After ErrTooLarge or ErrMalformed the stream can't be read
// on.
type Reader struct {
	source io.Reader
	limit  int64
	buffer []byte // buffer[start:] has come from the source but wasn't taken yet
	start  int

	budget int64 // what is left of the limit for the reply in progress

	// Of the request in progress, in bytes from start, because the buffer moves as more comes. Once
	// it is complete they become arguments.
	spans     []span
	arguments [][]byte
	raw       []byte
}

// span is where an argument lies.
type span struct {
	from, to int
}

// NewReader returns a reader each of whose replies and requests may take limit bytes of memory.
func NewReader(source io.Reader, limit int64) *Reader {
	return &Reader{source: source, limit: min(limit, math.MaxInt64/4)} // sums and doubles don't overflow
}

// ReadRequest reads one request, and returns how many bytes of the stream it took, which is what
// replication offsets count. Empty requests before it, which a primary sends to show that it lives,
// are skipped, and their bytes counted as its own. The arguments are valid until the next read.
//
// When the source fails, for example because it timed out, nothing is lost: the next call begins
// with the same request. io.EOF means that the source ended between requests.
func (r *Reader) ReadRequest() (arguments [][]byte, n int, err error) {
	r.forgetRequest()
	for len(r.spans)+len(r.arguments) == 0 {
		if err := r.need(n + 1); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) { // the n bytes are empty requests
				err = io.EOF
			}
			return nil, 0, err
		}
		if r.unread()[n] == '*' {
			n, err = r.scanMultibulk(n)
		} else {
			n, err = r.scanInline(n)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	r.raw = r.take(n)
	for _, s := range r.spans {
		r.arguments = append(r.arguments, r.raw[s.from:s.to:s.to])
	}
	return r.arguments, n, nil
}

// Raw returns the bytes of the stream that the last ReadRequest took. They are valid until the next
// read.
func (r *Reader) Raw() []byte { return r.raw }

// ReadReply reads one reply of RESP2 or RESP3, whose memory is its own. Line ends before it, which
// a primary sends while it prepares a snapshot, are skipped. io.EOF means that the source ended
// between replies. When the source fails within a reply, that reply is lost.
func (r *Reader) ReadReply() (Reply, error) {
	r.budget = r.limit
	for {
		if err := r.need(1); err != nil {
			return Reply{}, err
		}
		if c := r.unread()[0]; c != '\r' && c != '\n' {
			return r.readReply(maxDepth)
		}
		r.take(1)
	}
}

// ReadLine reads a line of at most 64 KB, which ends with \n or \r\n and is returned without that.
// It is valid until the next read.
func (r *Reader) ReadLine() ([]byte, error) {
	line, end, err := r.scanLine(0)
	if err != nil {
		return nil, err
	}
	r.take(end)
	return bytes.TrimSuffix(line, []byte{'\r'}), nil
}

// Read reads bytes as they come: what follows the header of a snapshot.
func (r *Reader) Read(p []byte) (int, error) {
	if unread := r.unread(); len(unread) > 0 {
		n := copy(p, unread)
		r.take(n)
		return n, nil
	}
	return r.source.Read(p)
}

// forgetRequest takes the memory of the last request for the next.
func (r *Reader) forgetRequest() {
	if cap(r.spans) > retainedArguments {
		r.spans, r.arguments = nil, nil
	}
	r.spans, r.arguments, r.raw = r.spans[:0], r.arguments[:0], nil
}

// scanMultibulk finds the arguments of the request n bytes from start, and returns where it ends.
func (r *Reader) scanMultibulk(n int) (end int, err error) {
	count, n, err := r.scanLength(n)
	if err != nil {
		return 0, err
	}
	if count > maxArguments {
		return 0, fmt.Errorf("%w: a request of %d arguments", ErrMalformed, count)
	}
	for ; count > 0; count-- {
		if err := r.need(n + 1); err != nil {
			return 0, err
		}
		if kind := r.unread()[n]; kind != '$' {
			return 0, fmt.Errorf("%w: %q instead of an argument's length", ErrMalformed, kind)
		}
		var length int64
		if length, n, err = r.scanLength(n); err != nil {
			return 0, err
		}
		if length < 0 {
			return 0, fmt.Errorf("%w: an argument of %d bytes", ErrMalformed, length)
		}
		if taken := int64(n) + int64(len(r.spans))*(spanSize+sliceSize); length > r.limit-taken {
			return 0, fmt.Errorf("%w: a request of %d bytes at least", ErrTooLarge, taken+length)
		}
		from, to := n, n+int(length)
		if n, err = r.scanLineEnd(to); err != nil {
			return 0, err
		}
		r.spans = append(r.spans, span{from, to})
	}
	return n, nil
}

// scanInline splits a copy of the line n bytes from start, because that overwrites it.
func (r *Reader) scanInline(n int) (end int, err error) {
	line, end, err := r.scanLine(n)
	if err != nil {
		return 0, err
	}
	arguments, ok := quotes.Split(r.arguments, bytes.Clone(line))
	if !ok {
		return 0, fmt.Errorf("%w: unbalanced quotes in request", ErrMalformed)
	}
	r.arguments = arguments
	return end, nil
}

// scanLength reads the number in the header line n bytes from start.
func (r *Reader) scanLength(n int) (length int64, end int, err error) {
	line, end, err := r.scanLine(n)
	if err != nil {
		return 0, 0, err
	}
	length, ok := parseLength(bytes.TrimSuffix(line[1:], []byte{'\r'}))
	if !ok {
		return 0, 0, fmt.Errorf("%w: header %.40q", ErrMalformed, line)
	}
	return length, end, nil
}

// scanLine returns the line n bytes from start without its \n, and where the next one begins.
func (r *Reader) scanLine(n int) (line []byte, end int, err error) {
	for scanned := n; ; {
		unread := r.unread()
		unread = unread[:min(len(unread), n+maxLine+1)]
		if at := bytes.IndexByte(unread[scanned:], '\n'); at >= 0 {
			return unread[n : scanned+at], scanned + at + 1, nil
		}
		if scanned = len(unread); scanned-n > maxLine {
			return nil, 0, fmt.Errorf("%w: a line of more than %d bytes", ErrMalformed, maxLine)
		}
		if err := r.need(scanned + 1); err != nil {
			return nil, 0, err
		}
	}
}

// scanLineEnd checks that a line end stands n bytes from start, and returns what is behind it.
func (r *Reader) scanLineEnd(n int) (end int, err error) {
	if err := r.need(n + 2); err != nil {
		return 0, err
	}
	if lineEnd := r.unread()[n : n+2]; string(lineEnd) != "\r\n" {
		return 0, fmt.Errorf("%w: %q instead of a line end", ErrMalformed, lineEnd)
	}
	return n + 2, nil
}

// readReply reads a reply within which others may nest so deep.
func (r *Reader) readReply(depth int) (Reply, error) {
	if r.budget -= replySize; r.budget < 0 {
		return Reply{}, ErrTooLarge
	}
	line, err := r.ReadLine()
	if err != nil {
		return Reply{}, unexpectedEnd(err)
	}
	if len(line) == 0 {
		return Reply{}, fmt.Errorf("%w: an empty line instead of a reply", ErrMalformed)
	}
	reply, text := Reply{Kind: Kind(line[0])}, line[1:]
	switch reply.Kind {
	case KindSimple, KindError, KindBigNumber, KindDouble, KindBool, KindInteger, KindNull:
		return r.parseScalar(reply, text)
	case KindBulk, KindBulkError, KindVerbatim:
		return r.readBulk(reply, text)
	case KindArray, KindSet, KindPush, KindMap, kindAttribute:
		if depth == 0 {
			return Reply{}, fmt.Errorf("%w: replies nest deeper than %d", ErrTooLarge, maxDepth)
		}
		return r.readAggregate(reply, text, depth-1)
	}
	return Reply{}, fmt.Errorf("%w: %.40q is no reply", ErrMalformed, line)
}

// parseScalar takes a reply of one line apart.
func (r *Reader) parseScalar(reply Reply, text []byte) (Reply, error) {
	ok := true
	switch reply.Kind {
	case KindNull:
		reply.Null, ok = true, len(text) == 0
	case KindInteger:
		reply.Integer, ok = parseLength(text)
	case KindBool:
		reply.Integer, ok = parseBool(text)
	case KindDouble:
		reply.Double, ok = parseDouble(text)
		fallthrough
	default:
		reply.Text = bytes.Clone(text)
		r.budget -= int64(len(text))
	}
	if !ok {
		return Reply{}, fmt.Errorf("%w: %.40q behind %q", ErrMalformed, text, reply.Kind)
	}
	return reply, nil
}

// readBulk reads a reply whose length stands before it.
func (r *Reader) readBulk(reply Reply, text []byte) (Reply, error) {
	length, ok := parseLength(text)
	if !ok || length < -1 {
		return Reply{}, fmt.Errorf("%w: length %.40q", ErrMalformed, text)
	}
	if length < 0 {
		reply.Null = true
		return reply, nil
	}
	if r.budget -= length; r.budget < 0 {
		return Reply{}, fmt.Errorf("%w: a reply of %d bytes", ErrTooLarge, length)
	}
	content, err := r.readContent(int(length))
	if err != nil {
		return Reply{}, err
	}
	reply.Text = content
	if reply.Kind == KindVerbatim {
		if len(content) < 4 || content[3] != ':' {
			return Reply{}, fmt.Errorf("%w: a verbatim text without its format", ErrMalformed)
		}
		reply.Format, reply.Text = string(content[:3]), content[4:]
	}
	return reply, nil
}

// readContent reads length bytes and the line end behind them. Memory is taken as they arrive.
func (r *Reader) readContent(length int) ([]byte, error) {
	content := make([]byte, 0, min(length, max(minRead, len(r.unread()))))
	for len(content) < length {
		if len(content) == cap(content) {
			content = slices.Grow(content, min(len(content), length-len(content)))
		}
		n, err := r.readSome(content[len(content):min(cap(content), length)])
		if err != nil {
			return nil, err
		}
		content = content[:len(content)+n]
	}
	end, err := r.scanLineEnd(0)
	if err != nil {
		return nil, unexpectedEnd(err)
	}
	r.take(end)
	return content, nil
}

// readSome reads at least one byte.
func (r *Reader) readSome(p []byte) (int, error) {
	for range maxEmptyReads {
		n, err := r.Read(p)
		if n > 0 {
			return n, nil
		}
		if err != nil {
			return 0, unexpectedEnd(err)
		}
	}
	return 0, io.ErrNoProgress
}

// readAggregate reads a reply that consists of others, whose number is given.
func (r *Reader) readAggregate(reply Reply, text []byte, depth int) (Reply, error) {
	count, ok := parseLength(text)
	if !ok || count < -1 {
		return Reply{}, fmt.Errorf("%w: length %.40q", ErrMalformed, text)
	}
	if count < 0 {
		reply.Null = true
		return reply, nil
	}
	if count > math.MaxInt64/2 {
		return Reply{}, ErrTooLarge
	}
	if reply.Kind == KindMap || reply.Kind == kindAttribute {
		count *= 2
	}
	elements, err := r.readElements(count, depth)
	if err != nil {
		return Reply{}, err
	}
	if reply.Kind == kindAttribute {
		if reply, err = r.readReply(depth); err != nil {
			return Reply{}, err
		}
		reply.Attributes = append(elements, reply.Attributes...)
		return reply, nil
	}
	reply.Elements = elements
	return reply, nil
}

func (r *Reader) readElements(count int64, depth int) ([]Reply, error) {
	if count > r.budget/replySize {
		return nil, fmt.Errorf("%w: a reply of %d elements", ErrTooLarge, count)
	}
	elements := make([]Reply, 0, min(count, minRead/replySize))
	for range count {
		element, err := r.readReply(depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// unread returns what has come but wasn't taken yet.
func (r *Reader) unread() []byte {
	return r.buffer[r.start:]
}

// take returns the next n bytes, which have come, and moves behind them.
func (r *Reader) take(n int) []byte {
	taken := r.buffer[r.start : r.start+n : r.start+n]
	r.start += n
	return taken
}

// need waits until n bytes from start on have come.
func (r *Reader) need(n int) error {
	if n <= len(r.unread()) {
		return nil
	}
	if int64(n) > r.limit {
		return ErrTooLarge
	}
	for empty := 0; len(r.unread()) < n; {
		r.makeRoom()
		got, err := r.source.Read(r.buffer[len(r.buffer):cap(r.buffer)])
		r.buffer = r.buffer[:len(r.buffer)+got]
		if err != nil && len(r.unread()) < n {
			if len(r.unread()) > 0 {
				err = unexpectedEnd(err)
			}
			return err
		}
		if empty++; got > 0 {
			empty = 0
		}
		if empty == maxEmptyReads {
			return io.ErrNoProgress
		}
	}
	return nil
}

// makeRoom makes room behind the buffer's content: at its front, where taken bytes lie, or in one
// that is twice as large, or in a small one when a large one has served its purpose.
func (r *Reader) makeRoom() {
	if cap(r.buffer)-len(r.buffer) >= minRead {
		return
	}
	unread := r.unread()
	needed := 2 * max(len(unread), minRead)
	if needed <= cap(r.buffer) && (cap(r.buffer) <= retainedRead || needed > retainedRead) {
		r.buffer = r.buffer[:copy(r.buffer, unread)]
	} else {
		r.buffer = append(make([]byte, 0, needed), unread...)
	}
	r.start = 0
}

// unexpectedEnd is the error for a source that ends where it mustn't.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func parseBool(text []byte) (value int64, ok bool) {
	switch string(text) {
	case "t":
		return 1, true
	case "f":
		return 0, true
	}
	return 0, false
}

func parseDouble(text []byte) (float64, bool) {
	if string(text) == "-nan" { // so Redis 7.0 on amd64
		return math.NaN(), true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return f, err == nil
}
