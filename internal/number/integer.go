// Package number reads and writes numbers in exactly the forms that Redis takes and gives:
// integers, doubles (scores) and long doubles (INCRBYFLOAT and HINCRBYFLOAT).
//
// It knows nothing of commands, replies or storage, and imports only the standard library.
package number

import (
	"math"
	"strconv"
)

// maxIntLength is the length of the longest integer, the smallest one with its sign.
const maxIntLength = len("-9223372036854775808")

// ParseInt reads a decimal integer of 64 bits as Redis does: digits with at most a minus before
// them; no plus, no space, no leading zero and no "-0", so that an integer has one form only.
func ParseInt(text []byte) (n int64, ok bool) {
	if len(text) == 1 && text[0] == '0' {
		return 0, true
	}
	if len(text) == 0 || len(text) > maxIntLength {
		return 0, false
	}
	digits, limit := text, uint64(math.MaxInt64)
	negative := text[0] == '-'
	if negative {
		digits, limit = text[1:], limit+1
	}
	if len(digits) == 0 || len(digits) == maxIntLength || digits[0] == '0' {
		return 0, false
	}
	var magnitude uint64 // at most 19 digits: no overflow
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		magnitude = magnitude*10 + uint64(c-'0')
	}
	if magnitude > limit {
		return 0, false
	}
	if negative {
		return -int64(magnitude), true
	}
	return int64(magnitude), true
}

// AppendInt appends n in decimal.
func AppendInt(dst []byte, n int64) []byte {
	return strconv.AppendInt(dst, n, 10)
}
