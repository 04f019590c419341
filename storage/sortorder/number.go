package sortorder

import (
	"bytes"
	"math"
	"strconv"
)

// smallestNormal is where the precision of a double begins to shrink.
const smallestNormal = 0x1p-1022

// ParseNumber reads what SORT takes for a number: what C's strtod reads to the end, with white
// space before it, hexadecimal and infinite numbers, the empty string as 0, and nothing after a
// zero byte looked at. It refuses NaN, what overflows, and what underflows. Redis refuses that last
// only where it is inexact; here every number between zero and the smallest normal one is refused,
// also the few that somebody writes out in full.
func ParseNumber(text []byte) (float64, bool) {
	if text = cString(text); len(text) == 0 {
		return 0, true
	}
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	if len(text) == 0 || bytes.IndexByte(text, '_') >= 0 { // Go allows _ between digits
		return 0, false
	}
	hexadecimal := isHexadecimal(text)
	if hexadecimal && !bytes.ContainsAny(text, "pP") {
		// What Go demands and C does not.
		text = append(bytes.Clone(text), "p0"...)
	}
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(number) {
		return 0, false
	}
	if math.Abs(number) < smallestNormal && (number != 0 || !isZero(text, hexadecimal)) {
		return 0, false
	}
	return number, true
}

func isHexadecimal(text []byte) bool {
	if text[0] == '+' || text[0] == '-' {
		text = text[1:]
	}
	return len(text) >= 2 && text[0] == '0' && text[1]|0x20 == 'x'
}

// isZero reports whether a number that was read as zero has only zeros before its exponent.
func isZero(text []byte, hexadecimal bool) bool {
	exponent, digits := "eE", "123456789"
	if hexadecimal {
		exponent, digits = "pP", "123456789abcdefABCDEF"
	}
	if end := bytes.IndexAny(text, exponent); end >= 0 {
		text = text[:end]
	}
	return !bytes.ContainsAny(text, digits)
}
