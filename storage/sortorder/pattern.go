package sortorder

import "bytes"

// A Pattern names another value for each element, as BY and GET do: a key in which the element
// takes the place of the first asterisk, or a field of a hash of that name.
type Pattern struct {
	// Self says that the pattern is #, which means the element itself.
	Self bool
	// Constant says that there is no asterisk. BY then means not to sort at all; GET finds nothing,
	// unless Self.
	Constant bool
	// Field is the field of the hash, and nil where the key is a string's.
	Field          []byte
	prefix, suffix []byte
}

// ParsePattern takes a pattern apart. Like Redis it looks for the asterisk and the arrow only
// before the first zero byte. The result keeps pointing into text.
func ParsePattern(text []byte) Pattern {
	visible := cString(text)
	star := bytes.IndexByte(visible, '*')
	if star < 0 {
		return Pattern{Self: string(visible) == "#", Constant: true}
	}
	p := Pattern{prefix: text[:star], suffix: text[star+1:]}
	if arrow := bytes.Index(visible[star+1:], []byte("->")); arrow >= 0 && star+1+arrow+2 < len(visible) {
		p.Field = p.suffix[arrow+2:]
		p.suffix = p.suffix[:arrow]
	}
	return p
}

// AppendKey appends the key for an element. It is of no use where Constant.
func (p Pattern) AppendKey(dst, element []byte) []byte {
	dst = append(dst, p.prefix...)
	dst = append(dst, element...)
	return append(dst, p.suffix...)
}
