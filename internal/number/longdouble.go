package number

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
)

// The format of x87 extended precision, which is C's long double on amd64: a mantissa of 64 bits
// and an exponent of 15. Exponents are those of big.Float, whose mantissa is below 1.
const (
	mantissaBits         = 64
	maxBinaryExponent    = 16384
	minSubnormalExponent = -16444 // 2^-16445, the smallest number above zero
)

// maxLongDoubleLength is the longest text that Redis reads as a long double.
const maxLongDoubleLength = 5*1024 - 1

// Decimal literals beyond these powers of ten are out of range without a closer look, which keeps
// the exact arithmetic on the others small.
const (
	maxDecimalExponent = 4940
	minDecimalExponent = -4960
)

// maxUint64Digits is how many decimal digits a uint64 has room for; 10^19 fits too.
const maxUint64Digits = 19

// LongDouble is a number as INCRBYFLOAT and HINCRBYFLOAT compute with it: a C long double on amd64
// that is not NaN. It is immutable, and its zero value is 0.
//
// Numbers below the normal range keep more bits here than in C; nothing that Append writes shows
// it.
type LongDouble struct {
	float *big.Float // nil: 0
}

// ParseLongDouble reads a long double as Redis does: what C's strtold takes as a whole, rounded to
// nearest even, but neither nan, nor spaces around it, nor what overflows or underflows to zero,
// nor more than 5119 bytes. Infinities are numbers.
func ParseLongDouble(text []byte) (value LongDouble, ok bool) {
	if len(text) > maxLongDoubleLength {
		return LongDouble{}, false
	}
	l, ok := scan(text)
	if !ok {
		return LongDouble{}, false
	}
	float := newFloat()
	switch {
	case l.infinite:
		float.SetInf(l.negative)
		return LongDouble{float}, true
	case l.isZero():
		return LongDouble{float}, true
	case l.hexadecimal:
		l.setHexadecimal(float)
	case !l.setDecimal(float):
		return LongDouble{}, false
	}
	if overflows(float) || underflows(float) {
		return LongDouble{}, false
	}
	if l.negative {
		float.Neg(float)
	}
	return LongDouble{float}, true
}

// Add returns x+y rounded to nearest even. It reports false, and no sum, when that isn't finite.
func (x LongDouble) Add(y LongDouble) (sum LongDouble, finite bool) {
	if x.IsInf() || y.IsInf() {
		return LongDouble{}, false
	}
	float := newFloat().Add(x.orZero(), y.orZero())
	if overflows(float) {
		return LongDouble{}, false
	}
	return LongDouble{float}, true
}

// Negative returns -x.
func (x LongDouble) Negative() LongDouble { return LongDouble{newFloat().Neg(x.orZero())} }

// Compare returns a negative number when x is less than y, a positive one when it is greater, and 0
// when they are equal.
func (x LongDouble) Compare(y LongDouble) int { return x.orZero().Cmp(y.orZero()) }

// LargestLongDouble is the greatest number that is finite.
func LargestLongDouble() LongDouble {
	return LongDouble{newFloat().SetMantExp(newFloat().SetUint64(math.MaxUint64), maxBinaryExponent-mantissaBits)}
}

// IsInf reports whether x is an infinity of either sign.
func (x LongDouble) IsInf() bool {
	return x.float != nil && x.float.IsInf()
}

// Append appends a finite x with at most 17 decimals: C's %.17Lf without the zeros at its end, and
// "0" where that would leave "-0".
func (x LongDouble) Append(dst []byte) []byte {
	start := len(dst)
	dst = x.orZero().Append(dst, 'f', 17)
	digits := bytes.TrimRight(dst[start:], "0")
	digits = bytes.TrimSuffix(digits, []byte("."))
	if string(digits) == "-0" {
		return append(dst[:start], '0')
	}
	return dst[:start+len(digits)]
}

func (x LongDouble) orZero() *big.Float {
	if x.float == nil {
		return newFloat()
	}
	return x.float
}

func newFloat() *big.Float {
	return new(big.Float).SetPrec(mantissaBits).SetMode(big.ToNearestEven)
}

// overflows reports whether a number that has been rounded to 64 bits is too large for a long
// double.
func overflows(float *big.Float) bool {
	return !float.IsInf() && float.MantExp(nil) > maxBinaryExponent
}

// underflows reports whether a positive number, rounded to 64 bits, rounds to zero as a long
// double: it is at most half of the smallest number there is (a tie goes to the even zero).
func underflows(float *big.Float) bool {
	switch exponent := float.MantExp(nil); {
	case exponent >= minSubnormalExponent:
		return false
	case exponent < minSubnormalExponent-1:
		return true
	}
	tie := float.MinPrec() == 1
	return tie && float.Acc() != big.Below
}

// setDecimal sets float to the decimal literal, which isn't zero, without its sign. It reports
// false when that is far out of range.
func (l *literal) setDecimal(float *big.Float) bool {
	integer, fraction := trimZeros(l.integer), l.fraction
	magnitude := l.exponent + len(integer) // the number is below 10^magnitude, and not far below
	if len(integer) == 0 {
		fraction = trimZeros(fraction)
		magnitude -= len(l.fraction) - len(fraction)
	}
	if magnitude > maxDecimalExponent || magnitude < minDecimalExponent {
		return false
	}
	digits := make([]byte, 0, len(integer)+len(fraction))
	digits = append(append(digits, integer...), fraction...)
	exponent := l.exponent - len(l.fraction)

	if exponent >= 0 {
		float.Mul(digitsFloat(digits), powerOfTen(exponent))
	} else {
		float.Quo(digitsFloat(digits), powerOfTen(-exponent))
	}
	return true
}

// setHexadecimal sets float to the hexadecimal literal, which isn't zero, without its sign.
func (l *literal) setHexadecimal(float *big.Float) {
	digits := make([]byte, 0, len(l.integer)+len(l.fraction))
	digits = append(append(digits, l.integer...), l.fraction...)
	exact := exactFloat(parseDigits(digits, 16))
	float.Set(exact.SetMantExp(exact, l.exponent-4*len(l.fraction)))
}

// digitsFloat returns the number that decimal digits stand for, unrounded.
func digitsFloat(digits []byte) *big.Float {
	if len(digits) > maxUint64Digits {
		return exactFloat(parseDigits(digits, 10))
	}
	var n uint64
	for _, c := range digits {
		n = n*10 + uint64(c-'0')
	}
	return new(big.Float).SetUint64(n)
}

// powerOfTen returns 10^n, unrounded.
func powerOfTen(n int) *big.Float {
	if n > maxUint64Digits {
		return exactFloat(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
	}
	power := uint64(1)
	for range n {
		power *= 10
	}
	return new(big.Float).SetUint64(power)
}

// exactFloat converts without rounding.
func exactFloat(n *big.Int) *big.Float {
	return new(big.Float).SetInt(n)
}

// parseDigits reads digits that scan has found good.
func parseDigits(digits []byte, base int) *big.Int {
	n, ok := new(big.Int).SetString(string(digits), base)
	if !ok {
		panic("number: scan let digits through that are none: " + strconv.Quote(string(digits)))
	}
	return n
}
