// Package buffer has byte slices of many megabytes grow and be copied in pieces.
//
// A copy of many megabytes, into memory that the kernel has yet to provide, takes tens of
// milliseconds, during which Go can't interrupt the goroutine. When the garbage collector wants all
// goroutines to stand still meanwhile, all others wait as long. Below a megabyte everything here is
// what append and slices.Grow do.
package buffer

import (
	"runtime"
	"slices"
)

const (
	large = 1 << 20
	// piece is copied in one go.
	piece = 256 << 10
)

// Grow makes room for n more bytes, as slices.Grow does.
func Grow(b []byte, n int) []byte {
	if n <= cap(b)-len(b) {
		return b
	}
	return grow(b, n)
}

func grow(b []byte, n int) []byte {
	if len(b)+n < large {
		return slices.Grow(b, n)
	}
	// make clears large memory in pieces, and slices.Grow doesn't.
	return Append(make([]byte, 0, max(len(b)+len(b)/2, len(b)+n)), b)
}

// Append appends tail, as append does.
func Append(b, tail []byte) []byte {
	if len(tail) <= piece {
		return append(Grow(b, len(tail)), tail...)
	}
	return appendLarge(Grow(b, len(tail)), tail)
}

func appendLarge(b, tail []byte) []byte {
	for len(tail) > 0 {
		n := min(len(tail), piece)
		b = append(b, tail[:n]...)
		tail = tail[n:]
		runtime.Gosched()
	}
	return b
}

// Copy copies from into to, which has room for it.
func Copy(to, from []byte) {
	for len(from) > piece {
		copy(to, from[:piece])
		to, from = to[piece:], from[piece:]
		runtime.Gosched()
	}
	copy(to, from)
}

// A Writer gathers what is written to it.
type Writer struct{ Bytes []byte }

// Write appends what is written. It doesn't fail.
func (w *Writer) Write(b []byte) (int, error) {
	w.Bytes = Append(w.Bytes, b)
	return len(b), nil
}
