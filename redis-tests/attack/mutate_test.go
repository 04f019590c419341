package attack

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
)

// claims are numbers that a header may have.
var claims = []string{"-1", "-2", "0", "1", "3", "64", "65536", "1048577", "2147483647", "2147483648", "4294967296", "9223372036854775807",
	"9223372036854775808", "-9223372036854775808", "99999999999999999999999", "+1", " 1", "1e3", "", "01"}

// mutate changes bytes in one of some ways, a few times.
func mutate(random *rand.Rand, original []byte) []byte {
	b := slices.Clone(original)
	for range 1 + random.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := random.IntN(len(b))
		to := min(len(b), at+1+random.IntN(8))
		switch random.IntN(9) {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b[at] = byte(random.Uint32())
		case 2:
			b = slices.Delete(b, at, to)
		case 3:
			b = slices.Insert(b, at, b[at:to]...)
		case 4:
			b = b[:at]
		case 5:
			b = claim(random, b, at)
		case 6:
			for i := range b[at:to] {
				b[at+i] = 0xff
			}
		case 7:
			from := random.IntN(len(b))
			b = slices.Insert(b, at, slices.Clone(b[from:min(len(b), from+random.IntN(64))])...)
		case 8:
			if at+8 <= len(b) {
				binary.LittleEndian.PutUint32(b[at:], random.Uint32())
			}
		}
	}
	return b
}

// claim puts another number into the header that comes behind a place.
func claim(random *rand.Rand, b []byte, at int) []byte {
	header := bytes.IndexAny(b[at:], "*$")
	if header < 0 {
		return b
	}
	from := at + header + 1
	end := bytes.IndexByte(b[from:], '\r')
	if end < 0 {
		return b
	}
	number := claims[random.IntN(len(claims))]
	if random.IntN(3) == 0 {
		number = strconv.FormatInt(random.Int64(), 10)
	}
	return slices.Concat(b[:from], []byte(number), b[from+end:])
}
