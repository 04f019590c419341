// Package resp is the client's side of the Redis protocol (RESP2 and RESP3), made for tests: it
// keeps the exact bytes of every reply, so that two servers can be compared byte for byte, and
// renders replies and requests as lines that a person can read and a script can hold.
//
// It imports only the standard library and knows nothing of Kedis.
package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The first byte of a reply says what it is (RESP3 specification,
// github.com/redis/redis-specifications).
const (
	SimpleString   = '+'
	Error          = '-'
	Integer        = ':'
	BulkString     = '$'
	Array          = '*'
	Null           = '_'
	Boolean        = '#'
	Double         = ','
	BigNumber      = '('
	BulkError      = '!'
	VerbatimString = '='
	Map            = '%'
	Set            = '~'
	Attribute      = '|'
	Push           = '>'
)

// Limits on what a server may announce, so that a broken length can't make a test allocate without
// bound.
const (
	maximalBulk     = 1 << 30
	maximalElements = 1 << 26
	maximalDepth    = 64
	maximalLine     = 1 << 20
)

// ErrMalformed is wrapped by every error that says that a server sent something other than RESP.
var ErrMalformed = errors.New("resp: malformed reply")

// Reply is one reply of a server.
type Reply struct {
	Kind     byte
	Null     bool    // "_", "$-1" or "*-1"; Kind tells which
	Text     []byte  // what a scalar says, without framing; for a verbatim string with its "txt:" prefix
	Elements []Reply // of an aggregate; a map holds key, value, key, value
	Raw      []byte  // the reply exactly as it came, nested replies included

	start, end         int // of Raw in the buffer that the whole reply was collected in
	textStart, textEnd int
}

// Is reports whether r is the simple string text.
func (r Reply) Is(text string) bool { return r.Kind == SimpleString && string(r.Text) == text }

// IsError reports whether r is an error reply.
func (r Reply) IsError() bool { return r.Kind == Error || r.Kind == BulkError }

// Integer returns the number in an integer reply, or false when r is something else.
func (r Reply) Integer() (int64, bool) {
	if r.Kind != Integer {
		return 0, false
	}
	n, err := strconv.ParseInt(string(r.Text), 10, 64)
	return n, err == nil
}

// Strings returns the texts of the elements of an aggregate.
func (r Reply) Strings() []string {
	texts := make([]string, len(r.Elements))
	for i, element := range r.Elements {
		texts[i] = string(element.Text)
	}
	return texts
}

// collector reads one reply and keeps every byte of it. Replies refer to the bytes by offset until
// all of them are there, because the buffer moves while it grows.
type collector struct {
	reader *bufio.Reader
	bytes  []byte
}

// ReadReply reads one reply from reader. It returns io.EOF when there is nothing more,
// io.ErrUnexpectedEOF when a reply breaks off, and an error that wraps ErrMalformed when what came
// isn't RESP.
func ReadReply(reader *bufio.Reader) (Reply, error) {
	c := collector{reader: reader}
	reply, err := c.reply(0)
	if err != nil {
		if errors.Is(err, io.EOF) && len(c.bytes) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return Reply{}, err
	}
	reply.bind(c.bytes)
	return reply, nil
}

func (r *Reply) bind(buffer []byte) {
	r.Raw = buffer[r.start:r.end:r.end]
	r.Text = buffer[r.textStart:r.textEnd:r.textEnd]
	for i := range r.Elements {
		r.Elements[i].bind(buffer)
	}
}

func (c *collector) reply(depth int) (Reply, error) {
	if depth > maximalDepth {
		return Reply{}, fmt.Errorf("%w: nested more than %d deep", ErrMalformed, maximalDepth)
	}
	r := Reply{start: len(c.bytes)}
	if err := c.line(); err != nil {
		return Reply{}, err
	}
	r.textStart, r.textEnd = r.start+1, len(c.bytes)-2
	if r.textEnd < r.textStart {
		return Reply{}, fmt.Errorf("%w: an empty line", ErrMalformed)
	}
	r.Kind = c.bytes[r.start]
	if err := c.body(&r, depth); err != nil {
		return Reply{}, err
	}
	r.end = len(c.bytes)
	return r, nil
}

func (c *collector) body(r *Reply, depth int) error {
	switch r.Kind {
	case SimpleString, Error, Integer, Boolean, Double, BigNumber:
		return nil
	case Null:
		r.Null = true
		return nil
	case BulkString, BulkError, VerbatimString:
		return c.bulk(r)
	case Array, Set, Push:
		return c.elements(r, 1, depth)
	case Map, Attribute:
		return c.elements(r, 2, depth)
	}
	return fmt.Errorf("%w: unknown type %q", ErrMalformed, r.Kind)
}

// length reads the number in the reply's first line; -1 makes the reply null.
func (c *collector) length(r *Reply, limit int) (int, error) {
	text := string(c.bytes[r.textStart:r.textEnd])
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > limit {
		return 0, fmt.Errorf("%w: bad length %q", ErrMalformed, text)
	}
	r.Null = n == -1
	r.textStart, r.textEnd = len(c.bytes), len(c.bytes)
	return n, nil
}

func (c *collector) bulk(r *Reply) error {
	n, err := c.length(r, maximalBulk)
	if err != nil || r.Null {
		return err
	}
	if err := c.take(n + 2); err != nil {
		return err
	}
	r.textEnd = r.textStart + n
	if string(c.bytes[r.textEnd:]) != "\r\n" {
		return fmt.Errorf("%w: a string of %d bytes doesn't end where it should", ErrMalformed, n)
	}
	return nil
}

func (c *collector) elements(r *Reply, perEntry, depth int) error {
	n, err := c.length(r, maximalElements)
	if err != nil || r.Null {
		return err
	}
	// Grown by appending: an announced number says nothing about what follows.
	for range n * perEntry {
		element, err := c.reply(depth + 1)
		if err != nil {
			return err
		}
		r.Elements = append(r.Elements, element)
	}
	return nil
}

func (c *collector) line() error {
	start := len(c.bytes)
	for {
		part, err := c.reader.ReadSlice('\n')
		c.bytes = append(c.bytes, part...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if len(c.bytes)-start > maximalLine {
			return fmt.Errorf("%w: a line of more than %d bytes", ErrMalformed, maximalLine)
		}
		if err == nil {
			break
		}
	}
	if len(c.bytes)-start < 2 || c.bytes[len(c.bytes)-2] != '\r' {
		return fmt.Errorf("%w: a line doesn't end in CR LF", ErrMalformed)
	}
	return nil
}

// take appends the next n bytes, in pieces, so that only what really comes is allocated.
func (c *collector) take(n int) error {
	const piece = 1 << 16
	for n > 0 {
		length := min(n, piece)
		start := len(c.bytes)
		c.bytes = append(c.bytes, make([]byte, length)...)
		read, err := io.ReadFull(c.reader, c.bytes[start:])
		if err != nil {
			c.bytes = c.bytes[:start+read]
			return err
		}
		n -= length
	}
	return nil
}
