package number

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// ParseDouble reads a double as Redis reads scores and other floating-point arguments: what C's
// strtod takes as a whole, but neither nan, nor spaces around it, nor what overflows or underflows
// to zero. Infinities, hexadecimal floats, ".5" and "5." are numbers.
func ParseDouble(text []byte) (value float64, ok bool) {
	l, ok := scan(text)
	if !ok {
		return 0, false
	}
	value = l.double(text)
	overflow := math.IsInf(value, 0) && !l.infinite
	underflow := value == 0 && !l.isZero()
	return value, !overflow && !underflow
}

// RoundDouble reads what ParseDouble reads, and what is out of range, too: as an infinity, or as
// zero.
func RoundDouble(text []byte) (value float64, ok bool) {
	l, ok := scan(text)
	if !ok {
		return 0, false
	}
	return l.double(text), true
}

// ParseScoreBound reads one end of a range of scores, as ZRANGEBYSCORE and its kin take it: a
// number that is excluded from the range when a "(" stands before it. Redis reads it more loosely
// than a score: spaces may stand before the number, the text ends at its first zero byte, no text
// at all is 0, overflow is infinity and underflow is 0.
func ParseScoreBound(text []byte) (score float64, exclusive, ok bool) {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	if len(text) > 0 && text[0] == '(' {
		exclusive, text = true, text[1:]
	}
	if len(text) == 0 {
		return 0, exclusive, true
	}
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	l, ok := scan(text)
	if !ok {
		return 0, false, false
	}
	return l.double(text), exclusive, true
}

// AppendDouble appends a double as Redis 7.2 writes scores: the shortest digits that are read as
// the same double again, and "inf", "-inf" or "nan". (Redis 7.0 writes C's %.17g, of the same
// value.)
func AppendDouble(dst []byte, value float64) []byte {
	switch {
	case math.IsInf(value, 1):
		return append(dst, "inf"...)
	case math.IsInf(value, -1):
		return append(dst, "-inf"...)
	case math.IsNaN(value):
		return append(dst, "nan"...)
	case value == 0 && math.Signbit(value):
		return append(dst, "-0"...)
	case value >= -math.MaxInt64/2 && value <= math.MaxInt64/2 && float64(int64(value)) == value:
		return strconv.AppendInt(dst, int64(value), 10)
	}
	return appendShortest(dst, value)
}

// appendShortest lays the digits out as Redis 7.2's fpconv does: plain while that needs few zeros,
// else with an exponent without leading zeros.
func appendShortest(dst []byte, value float64) []byte {
	if value < 0 {
		dst = append(dst, '-')
	}
	var buffer [32]byte
	text := strconv.AppendFloat(buffer[:0], math.Abs(value), 'e', -1, 64)
	mantissa, power, _ := bytes.Cut(text, []byte("e"))
	exponent, err := strconv.Atoi(string(power)) // of the first digit
	if err != nil {
		panic("number: strconv writes no exponent in " + string(text))
	}
	digits := append(mantissa[:1], mantissa[min(2, len(mantissa)):]...)
	zeros, distance := exponent-len(digits)+1, max(exponent, -exponent)
	switch {
	case zeros >= 0 && distance < len(digits)+7:
		dst = append(dst, digits...)
		return append(dst, bytes.Repeat([]byte{'0'}, zeros)...)
	case zeros < 0 && (zeros > -7 || distance < 4):
		return appendPoint(dst, digits, len(digits)+zeros)
	}
	dst = append(dst, digits[0])
	if len(digits) > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	dst = append(dst, 'e', '+')
	if exponent < 0 {
		dst[len(dst)-1] = '-'
	}
	return strconv.AppendInt(dst, int64(distance), 10)
}

// appendPoint appends digits with a decimal point behind so many of them, which may be none or
// fewer.
func appendPoint(dst, digits []byte, point int) []byte {
	if point > 0 {
		dst = append(append(dst, digits[:point]...), '.')
		return append(dst, digits[point:]...)
	}
	dst = append(dst, "0."...)
	for range -point {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// AppendDecimal appends a finite double without an exponent, rounded to 17 places behind the point,
// of which zeros at the end are left out: as Redis writes coordinates.
func AppendDecimal(dst []byte, value float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, value, 'f', 17, 64)
	dst = bytes.TrimSuffix(bytes.TrimRight(dst, "0"), []byte("."))
	if string(dst[start:]) == "-0" {
		return append(dst[:start], '0')
	}
	return dst
}

// FormatDouble is AppendDouble to a string.
func FormatDouble(value float64) string {
	var buffer [32]byte
	return string(AppendDouble(buffer[:0], value))
}

// double rounds the literal, whose text is given, to the nearest double; what is out of range
// becomes an infinity or a zero.
func (l *literal) double(text []byte) float64 {
	if l.infinite {
		if l.negative {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}
	if l.hexadecimal && !l.exponential {
		var buffer [64]byte // Go, unlike C, demands an exponent
		text = append(append(buffer[:0], text...), "p0"...)
	}
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		panic("number: scan took what is no number: " + err.Error())
	}
	return value
}
