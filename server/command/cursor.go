package command

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"sync"
)

// cursors knows where the walks of SCAN and its kin have come to. A cursor is a number that stands
// for the last key or element that was returned; the walk goes on behind it, so whatever is written
// meanwhile, what was there all the time is returned. A cursor that is not known (any more) begins
// at the beginning, which only repeats.
//
// A walk is remembered by its last two cursors, so that the last request can be repeated. The
// oldest walks are forgotten when there are too many.
type cursors struct {
	mu     sync.Mutex
	steps  map[uint64]walkStep
	oldest uint64 // no cursor before it is known
	next   uint64
	bytes  int
}

// walk is what a cursor goes through: the keys of a database, or the elements with an id.
type walk struct {
	database int
	id       uint64 // 0: keys
}

// walkStep is a step of a walk: what a cursor stands for.
type walkStep struct {
	walk     walk
	behind   []byte
	previous uint64 // the cursor that the step to here began with; 0 if none
}

// The bounds of what is remembered.
const (
	maxCursors     = 1 << 16
	maxCursorBytes = 16 << 20
)

// init begins with some number, so that a cursor from before a restart isn't taken for another one.
// Cursors stay below 2^53: there are clients that keep them as floating-point numbers.
func (c *cursors) init() {
	c.steps = map[uint64]walkStep{}
	c.next = 1 + rand.Uint64N(1<<52)
	c.oldest = c.next
}

// find returns what a cursor stands for; nil for the beginning.
func (c *cursors) find(cursor uint64, w walk) (behind []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, known := c.steps[cursor]; known && p.walk == w {
		return p.behind
	}
	return nil
}

// step returns the cursor for a walk that went on from a previous one and has come to an element;
// nil is its end, whose cursor is 0.
func (c *cursors) step(w walk, previous uint64, behind []byte) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, known := c.steps[previous]; known && p.walk == w {
		c.forget(p.previous)
	}
	if behind == nil {
		return 0
	}
	cursor := c.next
	c.next++
	c.steps[cursor] = walkStep{w, append([]byte{}, behind...), previous}
	c.bytes += len(behind)
	for len(c.steps) > maxCursors || c.bytes > maxCursorBytes && len(c.steps) > 1 {
		c.forget(c.oldest)
		c.oldest++
	}
	return cursor
}

func (c *cursors) forget(cursor uint64) {
	c.bytes -= len(c.steps[cursor].behind)
	delete(c.steps, cursor)
}

const errCursor = Error("ERR invalid cursor")

// parseCursor reads a cursor as C's strtoul does, but without space before it: a sign is taken, and
// what stands behind a zero byte isn't looked at.
func parseCursor(word []byte) (uint64, error) {
	word, _, _ = bytes.Cut(word, []byte{0})
	digits, negative := word, false
	if len(word) > 0 && (word[0] == '-' || word[0] == '+') {
		digits, negative = word[1:], word[0] == '-'
	}
	switch {
	case len(word) == 0:
		return 0, nil
	case len(digits) == 0 || digits[0] < '0' || digits[0] > '9':
		return 0, errCursor
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return 0, errCursor
	}
	if negative {
		n = -n
	}
	return n, nil
}
