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
	copy(dst, sources[0])
	for _, source := range sources[1:] {
		switch operation {
		case And:
			and(dst, source)
		case Or:
			or(dst, source)
		case Xor:
			subtle.XORBytes(dst, dst[:len(source)], source)
		}
	}
	return dst
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
