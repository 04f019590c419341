// Package quotes splits lines into words as Redis does: inline requests, lines of configuration
// files, and the rules of a selector.
package quotes

// Split appends the words of a line to others. A word may be quoted, in whole or from some byte to
// its end:
//
//	"a\x41\n\"b"   with escapes: \xHH, \n \r \t \b \a, and any other byte for itself
//	'a\'b'         as it stands but for \'
//
// It reports false when a quote isn't closed, or is followed by something else than space. The
// words overwrite the line, which is never shorter than they are, and share its memory.
func Split(others [][]byte, line []byte) (words [][]byte, ok bool) {
	words = others
	read, write := 0, 0
	for {
		for read < len(line) && isSpace(line[read]) {
			read++
		}
		if read == len(line) {
			return words, true
		}
		start := write
		if read, write, ok = unquoteWord(line, read, write); !ok {
			return nil, false
		}
		words = append(words, line[start:write])
	}
}

// unquoteWord moves the word at read to write, and returns both positions behind it. Unlike between
// words, \v and \f don't end one.
func unquoteWord(line []byte, read, write int) (afterRead, afterWrite int, ok bool) {
	for ; read < len(line); read++ {
		switch c := line[read]; c {
		case ' ', '\n', '\r', '\t':
			return read, write, true
		case '"':
			return unquoteDouble(line, read+1, write)
		case '\'':
			return unquoteSingle(line, read+1, write)
		default:
			line[write] = c
			write++
		}
	}
	return read, write, true
}

func unquoteDouble(line []byte, read, write int) (afterRead, afterWrite int, ok bool) {
	for ; read < len(line); read++ {
		c := line[read]
		switch {
		case c == '"':
			return read + 1, write, endsWord(line, read+1)
		case c == '\\' && read+3 < len(line) && line[read+1] == 'x' && isHex(line[read+2]) && isHex(line[read+3]):
			c = hexValue(line[read+2])<<4 | hexValue(line[read+3])
			read += 3
		case c == '\\' && read+1 < len(line):
			read++
			c = unescape(line[read])
		}
		line[write] = c
		write++
	}
	return read, write, false
}

func unquoteSingle(line []byte, read, write int) (afterRead, afterWrite int, ok bool) {
	for ; read < len(line); read++ {
		c := line[read]
		switch {
		case c == '\'':
			return read + 1, write, endsWord(line, read+1)
		case c == '\\' && read+1 < len(line) && line[read+1] == '\'':
			read++
			c = '\''
		}
		line[write] = c
		write++
	}
	return read, write, false
}

// endsWord reports whether a closing quote may stand before the position.
func endsWord(line []byte, position int) bool {
	return position == len(line) || isSpace(line[position])
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
