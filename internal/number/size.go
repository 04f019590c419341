package number

import (
	"math"
	"strconv"
	"strings"
)

// units are Redis's: with a b they are powers of 1024, without one powers of 1000.
var units = map[string]uint64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1 << 10,
	"m": 1e6, "mb": 1 << 20,
	"g": 1e9, "gb": 1 << 30,
}

// ParseSize reads digits and a unit. As in Redis, no digits are 0. Sizes past 64 bits are the
// largest one, so that they fail every limit instead of wrapping around to a small size.
func ParseSize(text string) (uint64, bool) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	unit, ok := units[strings.ToLower(text[len(digits):])]
	if !ok {
		return 0, false
	}
	if digits == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > math.MaxUint64/unit {
		return math.MaxUint64, true
	}
	return n * unit, true
}
