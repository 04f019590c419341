// Package xxh3 computes XXH3, the hash of 64 bits that Redis's DIGEST and its conditions IFDEQ and
// IFDNE use: without a seed, with the secret that the algorithm's specification gives.
//
// A short input is mixed in one go. A long one is read in stripes of 64 bytes, each of which is
// added to eight lanes; after every block of sixteen stripes the lanes are scrambled.
//
// The package imports only the standard library.
package xxh3

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

const (
	prime32_1 = 0x9E3779B1
	prime32_2 = 0x85EBCA77
	prime32_3 = 0xC2B2AE3D
	prime64_1 = 0x9E3779B185EBCA87
	prime64_2 = 0xC2B2AE3D27D4EB4F
	prime64_3 = 0x165667B19E3779F9
	prime64_4 = 0x85EBCA77C2B2AE63
	prime64_5 = 0x27D4EB2F165667C5

	avalanchePrime = 0x165667919E3779F9
	shortPrime     = 0x9FB21C651E98DF25
)

// The specification's secret.
var secret = decode("b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f" +
	"cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c" +
	"3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
	"a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364" +
	"eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e" +
	"2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")

const secretSize = 192

func decode(text string) (bytes [secretSize]byte) {
	if n, err := hex.Decode(bytes[:], []byte(text)); err != nil || n != secretSize {
		panic("xxh3: the secret is incomplete")
	}
	return bytes
}

// key is the word of the secret at a place.
func key(at int) uint64 { return binary.LittleEndian.Uint64(secret[at:]) }

// Sum returns the hash of data.
func Sum(data []byte) uint64 {
	switch n := len(data); {
	case n == 0:
		return avalanche64(key(56) ^ key(64))
	case n <= 3:
		return sumTo3(data)
	case n <= 8:
		return sumTo8(data)
	case n <= 16:
		return sumTo16(data)
	case n <= 128:
		return sumTo128(data)
	case n <= 240:
		return sumTo240(data)
	}
	return sumLong(data)
}

func sumTo3(data []byte) uint64 {
	n := len(data)
	combined := uint32(data[0])<<16 | uint32(data[n/2])<<24 | uint32(data[n-1]) | uint32(n)<<8
	flip := binary.LittleEndian.Uint32(secret[0:]) ^ binary.LittleEndian.Uint32(secret[4:])
	return avalanche64(uint64(combined ^ flip))
}

func sumTo8(data []byte) uint64 {
	n := len(data)
	first, last := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[n-4:])
	h := (uint64(last) + uint64(first)<<32) ^ key(8) ^ key(16)
	h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
	h *= shortPrime
	h ^= h>>35 + uint64(n)
	h *= shortPrime
	return h ^ h>>28
}

func sumTo16(data []byte) uint64 {
	n := len(data)
	low := binary.LittleEndian.Uint64(data) ^ key(24) ^ key(32)
	high := binary.LittleEndian.Uint64(data[n-8:]) ^ key(40) ^ key(48)
	return avalanche(uint64(n) + bits.ReverseBytes64(low) + high + fold(low, high))
}

// sumTo128 mixes pairs of 16 bytes from both ends inwards.
func sumTo128(data []byte) uint64 {
	n := len(data)
	h := uint64(n) * prime64_1
	for pair := (n - 1) / 32; pair >= 0; pair-- {
		h += mix(data[16*pair:], 32*pair)
		h += mix(data[n-16*(pair+1):], 32*pair+16)
	}
	return avalanche(h)
}

func sumTo240(data []byte) uint64 {
	const (
		firstRounds = 8
		laterSecret = 3
		lastSecret  = 136 - 17
	)
	n := len(data)
	h := uint64(n) * prime64_1
	for i := range firstRounds {
		h += mix(data[16*i:], 16*i)
	}
	h = avalanche(h)
	for i := firstRounds; i < n/16; i++ {
		h += mix(data[16*i:], 16*(i-firstRounds)+laterSecret)
	}
	return avalanche(h + mix(data[n-16:], lastSecret))
}

const (
	stripe      = 64
	secretStep  = 8 // by which each stripe of a block moves along the secret
	blockStride = (secretSize - stripe) / secretStep
	block       = stripe * blockStride
)

type lanes [8]uint64

func sumLong(data []byte) uint64 {
	const (
		lastSecret  = secretSize - stripe - 7
		mergeSecret = 11
	)
	n := len(data)
	acc := lanes{prime32_3, prime64_1, prime64_2, prime64_3, prime64_4, prime32_2, prime64_5, prime32_1}
	rest := data
	for len(rest) > block {
		for i := range blockStride {
			acc.add(rest[i*stripe:], secretStep*i)
		}
		acc.scramble()
		rest = rest[block:]
	}
	for i := range (len(rest) - 1) / stripe {
		acc.add(rest[i*stripe:], secretStep*i)
	}
	acc.add(data[n-stripe:], lastSecret)
	h := uint64(n) * prime64_1
	for i := 0; i < len(acc); i += 2 {
		h += fold(acc[i]^key(mergeSecret+8*i), acc[i+1]^key(mergeSecret+8*i+8))
	}
	return avalanche(h)
}

// add adds a stripe.
func (acc *lanes) add(data []byte, at int) {
	data = data[:stripe]
	for i := range acc {
		value := binary.LittleEndian.Uint64(data[8*i:])
		keyed := value ^ key(at+8*i)
		acc[i^1] += value
		acc[i] += (keyed & (1<<32 - 1)) * (keyed >> 32)
	}
}

func (acc *lanes) scramble() {
	for i, lane := range acc {
		acc[i] = (lane ^ lane>>47 ^ key(secretSize-stripe+8*i)) * prime32_1
	}
}

// mix mixes 16 bytes with 16 of the secret.
func mix(data []byte, at int) uint64 {
	return fold(binary.LittleEndian.Uint64(data)^key(at), binary.LittleEndian.Uint64(data[8:])^key(at+8))
}

// fold is both halves of a product, combined.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func avalanche(h uint64) uint64 {
	h = (h ^ h>>37) * avalanchePrime
	return h ^ h>>32
}

// avalanche64 is the end of XXH64, of which the shortest inputs make use.
func avalanche64(h uint64) uint64 {
	h = (h ^ h>>33) * prime64_2
	h = (h ^ h>>29) * prime64_3
	return h ^ h>>32
}
