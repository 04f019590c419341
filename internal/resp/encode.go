package resp

import (
	"strconv"

	"kedis/internal/buffer"
)

// smallLines holds "0\r\n", "1\r\n" and so on: what most headers and integers consist of behind
// their first byte.
var smallLines = func() (lines [1024]string) {
	for n := range lines {
		lines[n] = strconv.Itoa(n) + "\r\n"
	}
	return lines
}()

// AppendRequest appends a request: an array of its arguments as bulk strings, which is how requests
// stand in replication streams.
func AppendRequest(dst []byte, arguments ...[]byte) []byte {
	dst = AppendArrayHeader(dst, len(arguments))
	for _, argument := range arguments {
		dst = AppendBulk(dst, argument)
	}
	return dst
}

// AppendArrayHeader begins an array of n elements: for a request that AppendRequest would have to
// hold as a whole.
func AppendArrayHeader(dst []byte, n int) []byte { return appendHeader(dst, '*', int64(n)) }

// AppendBulkHeader begins a bulk string of n bytes, behind which "\r\n" has to follow.
func AppendBulkHeader(dst []byte, n int64) []byte { return appendHeader(dst, '$', n) }

// AppendBulk appends a bulk string.
func AppendBulk(dst, b []byte) []byte {
	dst = buffer.Grow(dst, len(b)+aroundText)
	dst = appendHeader(dst, '$', int64(len(b)))
	dst = buffer.Append(dst, b)
	return append(dst, "\r\n"...)
}

// appendShort is AppendBulk for what is copied in one go.
func appendShort(dst, b []byte) []byte {
	dst = appendHeader(dst, '$', int64(len(b)))
	dst = append(dst, b...)
	return append(dst, "\r\n"...)
}

// appendHeader appends a line of a number behind the byte that tells its kind.
func appendHeader(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	if uint64(n) < uint64(len(smallLines)) {
		return append(dst, smallLines[n]...)
	}
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}
