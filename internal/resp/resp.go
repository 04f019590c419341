// Package resp speaks Redis's serialization protocol, RESP2 and RESP3: an incremental parser of
// requests for the server, a writer of replies, and a blocking reader of both for links to other
// servers, for tools and for tests.
//
// It knows no command, connection or configuration, and imports the standard library,
// internal/buffer, internal/number and internal/quotes.
//
// Requests are arrays of bulk strings, or lines of words (inline requests):
//
//	*2\r\n $3\r\nGET\r\n $5\r\nmykey\r\n
//	GET mykey\r\n
//
// Specification: https://redis.io/docs/reference/protocol-spec. Where it is silent, or servers are
// laxer or stricter, this is what redis-server 7.0 does.
package resp

import (
	"errors"
	"math"
)

// ErrQueryBuffer says that a client has sent more than client-query-buffer-limit without completing
// a request. Redis closes such a connection without a reply.
var ErrQueryBuffer = errors.New("resp: query buffer limit exceeded")

// Error is an error reply: the code and the text, as the client sees it.
type Error string

func (e Error) Error() string { return string(e) }

// ProtocolError says that a request is malformed. Its text is the error reply that Redis sends
// before it closes the connection, code included: it goes into Writer.Error as it is.
type ProtocolError struct {
	detail string
}

func (e *ProtocolError) Error() string {
	return "ERR Protocol error: " + e.detail
}

// Limits bound what a client may make the server hold. They are read on every request, so that a
// change takes effect at once. A missing function stands for Redis's default.
type Limits struct {
	BulkLength  func() int64 // proto-max-bulk-len in bytes: the longest argument
	QueryBuffer func() int64 // client-query-buffer-limit in bytes
}

const (
	defaultBulkLength  = 512 << 20
	defaultQueryBuffer = 1 << 30

	// maxLine is the length beyond which a line without an end is refused.
	maxLine = 64 << 10

	// maxArguments is the largest number of arguments that a request may announce.
	maxArguments = math.MaxInt32

	// What a client may send before it has authenticated.
	maxUnauthenticatedArguments = 10
	maxUnauthenticatedBulk      = 16384
	unauthenticatedQueryBuffer  = 1 << 20
)

func (l *Limits) bulkLength() int64 {
	if l == nil || l.BulkLength == nil {
		return defaultBulkLength
	}
	return min(l.BulkLength(), math.MaxInt64/4) // room for the line end, and for doubling
}

func (l *Limits) queryBuffer() int64 {
	if l == nil || l.QueryBuffer == nil {
		return defaultQueryBuffer
	}
	return l.QueryBuffer()
}

// parseLength reads the number of a header line: as strict as Redis's string2ll, so an integer has
// one form only.
func parseLength(text []byte) (n int64, ok bool) {
	negative := len(text) > 0 && text[0] == '-'
	digits := text
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(text) > 1 {
		return 0, false
	}
	var magnitude uint64 // at most 19 digits: no overflow
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	switch {
	case magnitude <= math.MaxInt64 && negative:
		return -int64(magnitude), true
	case magnitude <= math.MaxInt64:
		return int64(magnitude), true
	}
	return math.MinInt64, negative && magnitude == 1<<63
}
