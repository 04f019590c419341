package resp

import (
	"bytes"
	"math/bits"
	"slices"

	"kedis/internal/quotes"
)

const (
	// largeArgument is the length from which an argument that arrives in pieces is collected in a
	// buffer of its own.
	largeArgument = 32 << 10

	// minBuffer is the smallest buffer a parser takes, and retainedBuffer the largest that Release
	// keeps. A buffer of up to twice that is kept as long as more than half of it is in use, so
	// that a client that fills the server's read buffer every time doesn't cost an allocation each
	// time.
	minBuffer      = 1 << 10
	retainedBuffer = 64 << 10

	// The same for the list of arguments. A slice header takes sliceSize bytes.
	sliceSize         = 24
	retainedArguments = retainedBuffer / sliceSize
)

// Parser takes a connection's bytes as they come and gives out its requests, one at a time. It is
// used by one goroutine at a time.
//
// Nothing that Next has given out is moved or overwritten before Release: when a buffer is full, a
// new one takes its place and the old one lives as long as somebody refers to it. Small requests
// one after another cost no allocation.
type Parser struct {
	// Unauthenticated bounds requests to what AUTH and HELLO need: 10 arguments of 16384 bytes, and
	// 1 MB of them waiting.
	Unauthenticated bool

	limits  *Limits
	failure error // the stream can't be read beyond this

	// buffer holds bytes as they were fed:
	//
	//	| given out or skipped | small arguments of the request in progress | not yet parsed |
	//	                                                                    ^ position
	buffer   []byte
	position int
	scanned  int // so many bytes from position on hold no end of a line

	// arguments holds those that were given out, then those of the request in progress, from first
	// on. Of the latter, one with spare capacity lies in buffer, cap(buffer)-cap(argument) bytes
	// from its start, and moves with the buffer's content; one without has a buffer of its own or
	// lies in an old one. Those before sealed are all of the second kind.
	arguments [][]byte
	first     int
	sealed    int

	missing    int64 // arguments of the request in progress that are still to come; 0 between requests
	bulk       int   // the length of the argument that comes next, -1 before its header
	bulkLimit  int64
	collected  int64  // what the request in progress takes: its arguments and their slice headers
	large      []byte // that argument with its line end, when it has a buffer of its own
	givenOut   bool   // whether Next has returned a request since the last Release
	fed        uint64 // bytes since the start, like the following:
	completed  uint64 // up to the end of the last complete request
	releasedTo uint64 // up to which they are no longer held
}

// NewParser returns a parser under the limits, which may be nil for Redis's defaults.
func NewParser(limits *Limits) *Parser {
	return &Parser{limits: limits, bulk: -1}
}

// Feed takes a copy of b. It returns ErrQueryBuffer when the bytes that aren't an argument yet
// exceed the limit, or the arguments of the unfinished request do, so that a connection holds at
// most twice the limit apart from the requests that Next has given out. After any error the
// connection is to be closed.
func (p *Parser) Feed(b []byte) error {
	if p.failure != nil {
		return p.failure
	}
	limit := p.QueryBuffer()
	if p.unparsedWith(len(b)) > limit || p.collected > limit {
		p.failure = ErrQueryBuffer
		return p.failure
	}
	p.fed += uint64(len(b))
	b = b[p.feedLarge(b):]
	if len(b) > 0 {
		p.reserve(len(b))
		p.buffer = append(p.buffer, b...)
	}
	return nil
}

// QueryBuffer returns the limit that Feed keeps to.
func (p *Parser) QueryBuffer() int64 {
	if p.Unauthenticated {
		return min(p.limits.queryBuffer(), unauthenticatedQueryBuffer)
	}
	return p.limits.queryBuffer()
}

// Next returns the next complete request, or nil when more bytes are needed for it. Empty requests
// are skipped. The arguments and the slice of them are the caller's until Release. A *ProtocolError
// is returned again by every further call.
func (p *Parser) Next() (arguments [][]byte, err error) {
	for p.failure == nil {
		if p.missing == 0 && !p.begin() || !p.collect() {
			break
		}
		if len(p.arguments) > p.first {
			return p.finish(), nil
		}
		p.completed = p.parsedTo()
	}
	if !p.givenOut {
		p.releasedTo = p.completed
	}
	return nil, p.failure
}

// Release says that nothing that Next has returned so far is needed any longer.
func (p *Parser) Release() {
	p.releasedTo = p.completed
	if !p.givenOut {
		return
	}
	p.givenOut = false
	p.releaseArguments()
	p.releaseBuffer()
}

// Idle drops the buffers of a parser that holds nothing, so that a connection that waits costs
// little. Otherwise it does nothing.
func (p *Parser) Idle() {
	if p.Buffered() == 0 && !p.givenOut {
		p.buffer, p.position, p.arguments = nil, 0, nil
	}
}

// Buffered returns how many of the bytes fed are still held: all since the last Release that it
// didn't let go, whether they have become arguments or not.
func (p *Parser) Buffered() int {
	return int(p.fed - p.releasedTo)
}

// retain decides whether a buffer or list is kept.
func retain(capacity, used, retained int) bool {
	return capacity <= retained || capacity <= 2*retained && used > capacity/2
}

// begin reads a request's header, or a whole inline request. It reports false when it can't.
func (p *Parser) begin() bool {
	if p.position == len(p.buffer) {
		return false
	}
	if p.buffer[p.position] != '*' {
		return p.inline()
	}
	header, ok := p.header("too big mbulk count string")
	if !ok {
		return false
	}
	count, ok := parseLength(header[1:])
	if !ok || count > maxArguments {
		return p.fail("invalid multibulk length")
	}
	if p.Unauthenticated && count > maxUnauthenticatedArguments {
		return p.fail("unauthenticated multibulk length")
	}
	p.missing = max(count, 0)
	p.bulkLimit = p.limits.bulkLength()
	return true
}

func (p *Parser) inline() bool {
	line, ok := p.line('\n', "too big inline request")
	if !ok {
		return false
	}
	p.skip(len(line) + 1)
	arguments, ok := quotes.Split(p.arguments, bytes.TrimSuffix(line, []byte{'\r'}))
	if !ok {
		return p.fail("unbalanced quotes in request")
	}
	p.arguments = arguments
	return true
}

// collect reads the arguments that are missing. It reports false when they haven't all come.
func (p *Parser) collect() bool {
	for p.missing > 0 {
		if p.bulk < 0 && !p.bulkHeader() {
			return false
		}
		argument, ok := p.argument()
		if !ok {
			return false
		}
		p.arguments = append(p.arguments, argument)
		p.collected += int64(len(argument)) + sliceSize
		p.bulk = -1
		p.missing--
	}
	return true
}

func (p *Parser) bulkHeader() bool {
	header, ok := p.header("too big bulk count string")
	if !ok {
		return false
	}
	if len(header) == 0 || header[0] != '$' {
		return p.fail("expected '$', got '" + printable(header) + "'")
	}
	length, ok := parseLength(header[1:])
	if !ok || length < 0 || length > p.bulkLimit {
		return p.fail("invalid bulk length")
	}
	if p.Unauthenticated && length > maxUnauthenticatedBulk {
		return p.fail("unauthenticated bulk length")
	}
	p.bulk = int(length)
	return true
}

// argument returns the next argument when it has come as a whole. The two bytes behind it are taken
// for a line end unseen, as Redis does.
func (p *Parser) argument() (argument []byte, ok bool) {
	if p.large != nil {
		if len(p.large) < p.bulk+2 {
			return nil, false
		}
		argument = p.large[:p.bulk:p.bulk]
		p.large = nil
		return argument, true
	}
	if len(p.buffer)-p.position >= p.bulk+2 {
		argument = p.buffer[p.position : p.position+p.bulk]
		p.skip(p.bulk + 2)
		return argument, true
	}
	if p.bulk >= largeArgument {
		p.beginLarge()
	}
	return nil, false
}

// beginLarge moves what has come of the argument to a buffer of its own.
func (p *Parser) beginLarge() {
	unparsed := p.buffer[p.position:]
	p.large = make([]byte, 0, min(p.bulk+2, max(largeArgument, 2*len(unparsed))))
	p.large = append(p.large, unparsed...)
	p.buffer = p.buffer[:p.position]
}

// trustedShare is how much of a large argument has to come before there is a buffer for all of it.
// Until then the buffer grows with what arrives.
const trustedShare = 16

// feedLarge takes from b what belongs to the large argument, and returns how much that is.
func (p *Parser) feedLarge(b []byte) int {
	if p.large == nil {
		return 0
	}
	n := min(len(b), p.bulk+2-len(p.large))
	if need := len(p.large) + n; need > cap(p.large) {
		capacity := p.bulk + 2
		if need < capacity/trustedShare {
			capacity = max(need, 2*cap(p.large))
		}
		p.large = append(make([]byte, 0, capacity), p.large...)
	}
	p.large = append(p.large, b[:n]...)
	return n
}

// unparsedWith returns how many bytes will wait to become one argument, or requests, when n more
// have been fed.
func (p *Parser) unparsedWith(n int) int64 {
	n += len(p.buffer) - p.position
	if p.large == nil {
		return int64(n)
	}
	whole := p.bulk + 2
	if behind := len(p.large) + n - whole; behind >= 0 {
		return int64(max(whole, behind))
	}
	return int64(len(p.large) + n)
}

// finish gives out the request in progress. What it returns has no spare capacity, so that
// appending to an argument can't reach the next one.
func (p *Parser) finish() [][]byte {
	request := p.arguments[p.first:len(p.arguments):len(p.arguments)]
	for i := range request {
		request[i] = slices.Clip(request[i])
	}
	p.first, p.sealed = len(p.arguments), len(p.arguments)
	p.collected = 0
	p.completed = p.parsedTo()
	p.givenOut = true
	return request
}

// fail makes the stream unreadable from here on. It returns false for begin and its kin to return.
func (p *Parser) fail(detail string) bool {
	p.failure = &ProtocolError{detail}
	return false
}

// header returns the line at position and moves behind it. Its end is a \r and any byte.
func (p *Parser) header(tooBig string) (header []byte, ok bool) {
	line, ok := p.line('\r', tooBig)
	if !ok || p.position+len(line)+1 == len(p.buffer) {
		return nil, false
	}
	p.skip(len(line) + 2)
	return line, true
}

// line returns the bytes from position up to the terminator. Like C's strchr, with which Redis
// looks for it, it doesn't see beyond a zero byte: the line then never ends, and is too big one
// day.
//
// Redis refuses a long line only if its end isn't among the bytes that happened to come with it;
// here the same bytes are refused however they come.
func (p *Parser) line(terminator byte, tooBig string) (line []byte, ok bool) {
	unparsed := p.buffer[p.position:]
	inBounds := unparsed[:min(len(unparsed), maxLine+1)]
	for i, c := range inBounds[p.scanned:] {
		if c == terminator {
			return inBounds[:p.scanned+i], true
		}
		if c == 0 {
			p.scanned += i
			return nil, len(unparsed) > maxLine && p.fail(tooBig)
		}
	}
	p.scanned = len(inBounds)
	return nil, len(unparsed) > maxLine && p.fail(tooBig)
}

// skip moves position behind n bytes that have been parsed.
func (p *Parser) skip(n int) {
	p.position += n
	p.scanned = 0
}

// parsedTo returns the position in the stream. Between requests no argument has a buffer of its
// own.
func (p *Parser) parsedTo() uint64 {
	return p.fed - uint64(len(p.buffer)-p.position)
}

// reserve makes room for n bytes behind the buffer's content. While nothing in the buffer is given
// out, that may move what is there; else it goes on in a new buffer with the bytes that aren't
// parsed yet.
func (p *Parser) reserve(n int) {
	free := cap(p.buffer) - len(p.buffer)
	if free >= n {
		return
	}
	if start := p.neededFrom(); !p.givenOut && free+start >= n {
		p.moveTo(p.buffer, start)
		return
	}
	p.seal()
	unparsed := p.buffer[p.position:]
	capacity := max(len(unparsed)+n, min(2*cap(p.buffer), retainedBuffer))
	p.buffer = append(make([]byte, 0, roundUp(capacity)), unparsed...)
	p.position = 0
}

// seal leaves the arguments of the request in progress where they are when the buffer is given up.
func (p *Parser) seal() {
	for i := p.sealed; i < len(p.arguments); i++ {
		p.arguments[i] = slices.Clip(p.arguments[i])
	}
	p.sealed = len(p.arguments)
}

// releaseBuffer moves what isn't given out yet to the front of the buffer once that is no more than
// what was, or to a smaller buffer when this one has grown beyond need.
func (p *Parser) releaseBuffer() {
	start, used := p.neededFrom(), len(p.buffer)
	kept := used - start
	switch {
	case retain(cap(p.buffer), used, retainedBuffer) || kept > cap(p.buffer)/4:
		if start >= kept { // or else a long pipeline would be moved again and again
			p.moveTo(p.buffer, start)
		}
	case kept == 0:
		p.buffer, p.position = nil, 0
	default:
		p.moveTo(make([]byte, roundUp(kept)), start)
	}
}

// neededFrom returns the place in the buffer before which the request in progress needs nothing.
func (p *Parser) neededFrom() int {
	for _, argument := range p.arguments[p.sealed:] {
		if cap(argument) > len(argument) {
			return cap(p.buffer) - cap(argument)
		}
	}
	return p.position
}

// moveTo moves the buffer's content from start on to the front of another buffer, or of itself.
func (p *Parser) moveTo(target []byte, start int) {
	target = target[:cap(target)]
	kept := copy(target, p.buffer[start:])
	for i := p.sealed; i < len(p.arguments); i++ {
		argument := p.arguments[i]
		if cap(argument) > len(argument) {
			at := cap(p.buffer) - cap(argument) - start
			p.arguments[i] = target[at : at+len(argument)]
		}
	}
	p.buffer, p.position = target[:kept], p.position-start
}

// releaseArguments drops the arguments that were given out. What it leaves behind is cleared, or it
// would keep old buffers alive.
func (p *Parser) releaseArguments() {
	used := len(p.arguments)
	kept := copy(p.arguments, p.arguments[p.first:])
	p.sealed -= p.first
	p.first = 0
	if !retain(cap(p.arguments), used, retainedArguments) && kept <= cap(p.arguments)/4 {
		p.arguments = append([][]byte(nil), p.arguments[:kept]...)
		return
	}
	clear(p.arguments[kept:])
	p.arguments = p.arguments[:kept]
}

// printable returns a line's first byte as an error reply can show it; an empty line begins with
// its end.
func printable(line []byte) string {
	if len(line) == 0 || line[0] == '\n' {
		return " "
	}
	return string(line[:1])
}

// roundUp returns the size of a buffer that holds n bytes.
func roundUp(n int) int {
	return max(minBuffer, 1<<bits.Len(uint(n-1)))
}
