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

// Combine returns the bitwise combination of the sources, as long as the longest of them. Shorter
// ones go on with zeros; a key that doesn't exist is an empty source. Not takes the first source
// alone. The result uses the memory of dst where that is large enough; dst may be nil and must not
// overlap a source.
func Combine(dst []byte, operation Operation, sources ...[]byte) []byte {
	if len(sources) == 0 {
		return dst[:0]
	}
	if operation == Not {
		return not(dst, sources[0])
	}
	size := 0
	for _, source := range sources {
		size = max(size, len(source))
	}
	dst = Grow(dst[:0], uint64(size)*8)
	switch operation {
	case Diff1, AndOr:
		combineOthers(dst, operation, sources)
		return dst
	case One:
		one(dst, sources)
		return dst
	}
	copy(dst, sources[0])
	for _, source := range sources[1:] {
		switch operation {
		case And:
			and(dst, source)
		case Or:
			or(dst, source)
		case Xor:
			subtle.XORBytes(dst, dst[:len(source)], source)
		case Diff:
			without(dst, source)
		}
	}
	return dst
}

// combineOthers combines the first source with what any of the others has.
func combineOthers(dst []byte, operation Operation, sources [][]byte) {
	for _, source := range sources[1:] {
		or(dst, source)
	}
	if operation == AndOr {
		and(dst, sources[0])
	} else {
		without(dst, sources[0])
	}
}

// one combines the sources to the bits that exactly one of them has.
func one(dst []byte, sources [][]byte) {
	several, again := make([]byte, len(dst)), make([]byte, len(dst))
	for _, source := range sources {
		copy(again, dst)
		and(again, source)
		or(several, again)
		or(dst, source)
	}
	without(dst, several)
}

func not(dst, source []byte) []byte {
	dst = append(dst[:0], source...)
	i := 0
	for ; len(dst)-i >= 8; i += 8 {
		binary.NativeEndian.PutUint64(dst[i:], ^binary.NativeEndian.Uint64(dst[i:]))
	}
	for ; i < len(dst); i++ {
		dst[i] = ^dst[i]
	}
	return dst
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
