package glob

import "bytes"

// A Pattern is a pattern that is matched with many texts. It is in a form that takes the same
// texts, where what was repeated without effect, stars and parts of classes, is left out: no
// element takes more than some hundred steps, however long the pattern was.
type Pattern struct {
	text     []byte
	shortest int // texts with fewer bytes don't match
	starred  bool
	fold     bool
}

// Compile makes a Pattern that matches as Match does. The pattern may change afterwards.
func Compile(pattern []byte) *Pattern { return compile(pattern, false) }

// CompileFold makes a Pattern that matches as MatchFold does.
func CompileFold(pattern []byte) *Pattern { return compile(pattern, true) }

func compile(pattern []byte, fold bool) *Pattern {
	p := &Pattern{fold: fold, text: make([]byte, 0, len(pattern))}
	for len(pattern) > 0 {
		if pattern[0] == '*' {
			pattern = bytes.TrimLeft(pattern, "*")
			p.text, p.starred = append(p.text, '*'), true
			continue
		}
		rest, _ := matchElement(pattern, 0, fold)
		element := pattern[:len(pattern)-len(rest)]
		if element[0] == '[' {
			if shorter := shortClass(element, fold); len(shorter) < len(element) {
				element = shorter
			}
		}
		p.text = append(p.text, element...)
		p.shortest++
		pattern = rest
	}
	return p
}

// shortClass returns a class that takes the same bytes and has no item twice, nor one that adds
// nothing. Items are written so that they mean the same whatever stands before and behind them.
func shortClass(class []byte, fold bool) []byte {
	if len(class) < 2 {
		return class
	}
	items := class[1:]
	short := []byte{'['}
	if items[0] == '^' {
		items, short = items[1:], append(short, '^')
	}
	first := len(short)
	var taken [256]bool
	seen := map[string]bool{}
	for len(items) > 0 && items[0] != ']' {
		item, rest := classItem(items)
		items = rest
		if seen[string(item)] {
			continue
		}
		seen[string(item)] = true
		// The first stays even if it takes nothing: a ^ that took its place would negate the class.
		if addTaken(&taken, item, fold) || len(short) == first {
			short = appendItem(short, item)
		}
	}
	return append(short, ']')
}

// addTaken notes the bytes that an item takes, and reports whether any of them is new.
func addTaken(taken *[256]bool, item []byte, fold bool) (added bool) {
	for c := range taken {
		if !taken[c] && takes(item, byte(c), fold) {
			taken[c], added = true, true
		}
	}
	return added
}

// appendItem writes a single byte as a range: it might begin one with what follows.
func appendItem(dst, item []byte) []byte {
	switch {
	case len(item) > 1:
		return append(dst, item...)
	case item[0] == '\\':
		return append(dst, '\\', '\\')
	}
	return append(dst, item[0], '-', item[0])
}

// Match reports whether the whole text matches.
func (p *Pattern) Match(text []byte) bool {
	return len(text) >= p.shortest && match(p.text, text, p.fold)
}

// Steps is how many bytes Match compares at most with a text of a length.
func (p *Pattern) Steps(length int) int {
	if length < p.shortest || !p.starred {
		return min(length, p.shortest)
	}
	return (length - p.shortest + 1) * (p.shortest + 1)
}

// Prefix returns the bytes that every text that matches begins with.
func (p *Pattern) Prefix() []byte { return Prefix(p.text) }
