// Package glob matches byte strings with Redis's glob-style patterns: those of KEYS, SCAN MATCH,
// PSUBSCRIBE, CONFIG GET, ACL rules and others.
//
// It answers as Redis does in the odd cases too, and knows nothing of keys, channels or options. It
// imports only the standard library.
//
// The elements of a pattern, each of which but the star takes exactly one byte:
//
//	?        any byte
//	*        any number of bytes
//	[ab]     one of the bytes a, b
//	[a-c]    a byte in the range, whose ends may stand in either order
//	[^a]     any byte that [a] doesn't take
//	\x       the byte x itself, inside a class too
//	x        the byte x
//
// The odd cases: a class without an end reaches to the pattern's end ("[^" is then any byte); a
// backslash that is the last byte stands for itself; the ends of a range are compared as signed
// bytes, so [a-\xff] is \xff up to a; the empty text is matched by the empty pattern alone, not
// even by "*".
package glob

import "bytes"

// Match reports whether the whole text matches the pattern. It takes at most
// len(pattern)·len(text) steps and no memory.
func Match(pattern, text []byte) bool {
	return match(pattern, text, false)
}

// MatchFold is Match without regard to the case of ASCII letters, except after a backslash in a
// class.
func MatchFold(pattern, text []byte) bool {
	return match(pattern, text, true)
}

// Prefix returns the bytes that every text that the pattern Matches begins with. The result may
// share memory with the pattern.
func Prefix(pattern []byte) []byte {
	end := bytes.IndexAny(pattern, `*?[\`)
	if end < 0 {
		return pattern
	}
	prefix := pattern[:end:end]
	for i := end; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[':
			return prefix
		case c == '\\' && i+1 < len(pattern):
			i++
		}
		prefix = append(prefix, pattern[i])
	}
	return prefix
}

// match goes back to the last star only: every other element takes exactly one byte, so when the
// elements after a star fit nowhere in the rest of the text, giving an earlier star more bytes
// can't help. That is what keeps a*a*a*b from trying every division of the text.
func match(pattern, text []byte, fold bool) bool {
	if len(text) == 0 {
		return len(pattern) == 0
	}
	var afterStar, retry []byte // where to go on when an element doesn't fit
	starred := false
	for len(text) > 0 {
		if len(pattern) > 0 && pattern[0] == '*' {
			pattern = bytes.TrimLeft(pattern, "*")
			if len(pattern) == 0 {
				return true
			}
			afterStar, retry, starred = pattern, text, true
			continue
		}
		if rest, ok := matchElement(pattern, text[0], fold); ok {
			pattern, text = rest, text[1:]
			continue
		}
		if !starred {
			return false
		}
		retry = retry[1:]
		pattern, text = afterStar, retry
	}
	return len(bytes.TrimLeft(pattern, "*")) == 0
}

// matchElement matches the pattern's first element, which is not a star, and returns what follows
// it. An exhausted pattern takes nothing.
func matchElement(pattern []byte, c byte, fold bool) (rest []byte, ok bool) {
	if len(pattern) == 0 {
		return nil, false
	}
	switch pattern[0] {
	case '?':
		return pattern[1:], true
	case '[':
		return matchClass(pattern[1:], c, fold)
	case '\\':
		if len(pattern) > 1 {
			pattern = pattern[1:]
		}
	}
	return pattern[1:], equal(pattern[0], c, fold)
}

// matchClass matches what follows a "[" up to its "]" or to the pattern's end.
func matchClass(pattern []byte, c byte, fold bool) (rest []byte, ok bool) {
	negated := len(pattern) > 0 && pattern[0] == '^'
	if negated {
		pattern = pattern[1:]
	}
	found := false
	for len(pattern) > 0 && pattern[0] != ']' {
		item, rest := classItem(pattern)
		found = found || takes(item, c, fold)
		pattern = rest
	}
	if len(pattern) > 0 {
		pattern = pattern[1:]
	}
	return pattern, found != negated
}

// classItem takes the first item off a class: a byte, a byte behind a backslash, or a range.
func classItem(class []byte) (item, rest []byte) {
	switch {
	case class[0] == '\\' && len(class) >= 2:
		return class[:2], class[2:]
	case len(class) >= 3 && class[1] == '-':
		return class[:3], class[3:]
	}
	return class[:1], class[1:]
}

// takes reports whether an item of a class takes a byte.
func takes(item []byte, c byte, fold bool) bool {
	switch len(item) {
	case 2:
		return item[1] == c
	case 3:
		return inRange(item[0], item[2], c, fold)
	}
	return equal(item[0], c, fold)
}

// inRange orders the ends before it folds them, as Redis does: [Z-a] is then z to a, which is
// empty.
func inRange(first, last, c byte, fold bool) bool {
	low, high := int8(first), int8(last)
	if low > high {
		low, high = high, low
	}
	if fold {
		low, high, c = int8(lower(byte(low))), int8(lower(byte(high))), lower(c)
	}
	return low <= int8(c) && int8(c) <= high
}

func equal(a, b byte, fold bool) bool {
	return a == b || fold && lower(a) == lower(b)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
