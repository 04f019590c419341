package hyperloglog

import (
	"encoding/binary"
	"math/bits"
)

const (
	hashSeed = 0xadc83b19
	// maxRank bounds the rank of an element: 50 bits of the hash are left beside the index.
	maxRank = 64 - indexBits + 1
)

// locate returns an element's register, and the rank that the element has there: the number of
// trailing zeros of the hash's remaining bits, plus one.
func locate(element []byte) (register int, rank uint8) {
	hash := murmur64A(element, hashSeed)
	register = int(hash % RegisterCount)
	remaining := hash>>indexBits | 1<<(maxRank-1)
	return register, uint8(bits.TrailingZeros64(remaining) + 1)
}

// murmur64A is Austin Appleby's MurmurHash2 in its 64-bit variant A.
func murmur64A(data []byte, seed uint64) uint64 {
	const multiplier, shift = 0xc6a4a7935bd1e995, 47
	hash := seed ^ uint64(len(data))*multiplier
	for ; len(data) >= 8; data = data[8:] {
		word := binary.LittleEndian.Uint64(data) * multiplier
		word ^= word >> shift
		hash = (hash ^ word*multiplier) * multiplier
	}
	if len(data) > 0 {
		var last [8]byte
		copy(last[:], data)
		hash = (hash ^ binary.LittleEndian.Uint64(last[:])) * multiplier
	}
	hash = (hash ^ hash>>shift) * multiplier
	return hash ^ hash>>shift
}
