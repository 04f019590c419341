package number

// maxExponent is where the exponents of literals are cut off: beyond it every literal of the
// lengths that are read overflows or underflows, whatever its digits.
const maxExponent = 1 << 30

// literal is the text of a floating-point number taken apart, in the forms that C's strtod takes:
//
//	[sign] digits [. digits] [e [sign] digits]            one side of the point may be empty
//	[sign] 0x hexdigits [. hexdigits] [p [sign] digits]
//	[sign] inf | infinity                                 in any case
//
// nan isn't among them, since every caller refuses it, and neither is a space.
type literal struct {
	negative    bool
	infinite    bool
	hexadecimal bool
	integer     []byte // the digits before the point
	fraction    []byte // and those after it
	exponent    int    // of ten, or of two when hexadecimal, within ±maxExponent
	exponential bool   // whether an exponent was written
}

// scan takes a whole text apart.
func scan(text []byte) (l literal, ok bool) {
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		l.negative = text[0] == '-'
		text = text[1:]
	}
	if equalFold(text, "inf") || equalFold(text, "infinity") {
		l.infinite = true
		return l, true
	}
	isDigit, marker := isDecimal, byte('e')
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		l.hexadecimal = true
		isDigit, marker = isHexadecimal, 'p'
		text = text[2:]
	}
	l.integer, text = takeDigits(text, isDigit)
	if len(text) > 0 && text[0] == '.' {
		l.fraction, text = takeDigits(text[1:], isDigit)
	}
	if len(l.integer)+len(l.fraction) == 0 {
		return l, false
	}
	if len(text) == 0 {
		return l, true
	}
	if text[0]|0x20 != marker {
		return l, false
	}
	l.exponential = true
	l.exponent, ok = parseExponent(text[1:])
	return l, ok
}

// isZero reports whether all digits are zeros.
func (l *literal) isZero() bool {
	return len(trimZeros(l.integer)) == 0 && len(trimZeros(l.fraction)) == 0
}

// parseExponent reads what stands behind the e or p.
func parseExponent(text []byte) (exponent int, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		text = text[1:]
	}
	for _, c := range text {
		if !isDecimal(c) {
			return 0, false
		}
		exponent = min(exponent*10+int(c-'0'), maxExponent)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, len(text) > 0
}

func takeDigits(text []byte, isDigit func(byte) bool) (digits, rest []byte) {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return text[:n], text[n:]
}

func trimZeros(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

func isDecimal(c byte) bool {
	return '0' <= c && c <= '9'
}

func isHexadecimal(c byte) bool {
	return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// equalFold compares with a word in lower case.
func equalFold(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i, c := range text {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}
