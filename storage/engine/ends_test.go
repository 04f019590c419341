package engine

import (
	"bytes"
	"slices"
	"testing"

	"kedis/storage/layout"
)

func TestIndexEnds(t *testing.T) {
	const id = 7
	var e indexEnds
	key := func(score float64) []byte { return layout.AppendScoreKey(nil, id, score, []byte("m")) }
	behind := func(key []byte) []byte { return append(slices.Clone(key), 0) }
	expect := func(first, behind []byte) {
		t.Helper()
		if f, b := e.bounds(id); string(f) != string(first) || string(b) != string(behind) {
			t.Errorf("%x to %x; want %x to %x", f, b, first, behind)
		}
	}
	expect(nil, nil)
	e.cover(id, key(3))
	expect(nil, nil)
	e.found(id, key(3), false)
	e.found(id, key(9), true)
	expect(key(3), behind(key(9)))
	e.cover(id, key(5))
	e.cover(id, key(9))
	expect(key(3), behind(key(9)))
	e.cover(id, key(1))
	e.cover(id, key(11))
	expect(key(1), behind(key(11)))
	long := layout.AppendScoreKey(nil, id, 2, bytes.Repeat([]byte("long"), 1000))
	e.found(id, long, false)
	e.found(id, long, true)
	first, last := e.bounds(id)
	if bytes.Compare(first, long) > 0 || bytes.Compare(last, long) <= 0 || len(first) > 300 || len(last) > 300 {
		t.Errorf("%x to %x doesn't hold a long key, or is long", first, last)
	}
	e.found(id+uint64(len(e.slots)), key(1), false) // takes the slot
	expect(nil, nil)
}
