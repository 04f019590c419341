package bits

import (
	"crypto/subtle"
	"encoding/binary"
)

// Operation is how BITOP combines strings.
type Operation int

const (
	And Operation = iota
	Or
	Xor
	Not
	Diff  // the first without the others
	Diff1 // the others without the first
	AndOr // what the first and any of the others have
	One   // what exactly one of all has
)

// Combiner combines strings bit by bit, one after another: it has no more than two in memory. They
// go on with zeros; a key that doesn't exist is an empty string. Not takes the first one alone.
type Combiner struct {
	Operation Operation
	result    []byte
	aside     []byte // the first string for Diff1 and AndOr; what several have for One
	begun     bool   // the first string was added
}

// Begin begins a result of size bytes, in the memory of room where that is large enough; room may
// be nil and must not overlap a string.
func (c *Combiner) Begin(room []byte, size int) {
	c.result, c.begun = Grow(room[:0], uint64(size)*8), false
	switch c.Operation {
	case Diff1, AndOr, One:
		c.aside = Grow(c.aside[:0], uint64(size)*8)
	}
}

// Add adds a string, which is at most as long as the result.
func (c *Combiner) Add(source []byte) {
	if !c.begun {
		c.begun = true
		c.addFirst(source)
		return
	}
	switch c.Operation {
	case And:
		and(c.result, source)
	case Or, Diff1, AndOr:
		or(c.result, source)
	case Xor:
		subtle.XORBytes(c.result, c.result[:len(source)], source)
	case Diff:
		without(c.result, source)
	case One:
		orBoth(c.aside, c.result, source)
		or(c.result, source)
	}
}

func (c *Combiner) addFirst(source []byte) {
	switch c.Operation {
	case Not:
		copy(c.result, source)
		not(c.result)
	case Diff1, AndOr:
		copy(c.aside, source)
	default:
		copy(c.result, source)
	}
}

// Result returns what the strings were combined to. It is asked for once.
func (c *Combiner) Result() []byte {
	switch c.Operation {
	case AndOr:
		and(c.result, c.aside)
	case Diff1, One:
		without(c.result, c.aside)
	}
	return c.result
}

func not(dst []byte) {
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], ^binary.NativeEndian.Uint64(dst[i:]))
	}
	for ; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
}

func and(dst, source []byte) {
	clear(dst[len(source):])
	dst = dst[:len(source)]
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		word := binary.NativeEndian.Uint64(dst[i:]) & binary.NativeEndian.Uint64(source[i:])
		binary.NativeEndian.PutUint64(dst[i:], word)
	}
	for ; i < len(dst); i++ {
		dst[i] &= source[i]
	}
}

func or(dst, source []byte) {
	dst = dst[:len(source)]
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		word := binary.NativeEndian.Uint64(dst[i:]) | binary.NativeEndian.Uint64(source[i:])
		binary.NativeEndian.PutUint64(dst[i:], word)
	}
	for ; i < len(dst); i++ {
		dst[i] |= source[i]
	}
}

// orBoth adds to dst what both a and b have; b may be shorter.
func orBoth(dst, a, b []byte) {
	dst, a = dst[:len(b)], a[:len(b)]
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		both := binary.NativeEndian.Uint64(a[i:]) & binary.NativeEndian.Uint64(b[i:])
		binary.NativeEndian.PutUint64(dst[i:], binary.NativeEndian.Uint64(dst[i:])|both)
	}
	for ; i < len(dst); i++ {
		dst[i] |= a[i] & b[i]
	}
}

func without(dst, source []byte) {
	dst = dst[:len(source)]
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		word := binary.NativeEndian.Uint64(dst[i:]) &^ binary.NativeEndian.Uint64(source[i:])
		binary.NativeEndian.PutUint64(dst[i:], word)
	}
	for ; i < len(dst); i++ {
		dst[i] &^= source[i]
	}
}
