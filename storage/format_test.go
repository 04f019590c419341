package storage

import (
	"bytes"
	"errors"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// TestOtherFormats opens stores of other formats: the first one becomes this one, with all that it
// has, and others are refused and stay what they are.
func TestOtherFormats(t *testing.T) {
	o := testOptions(t.TempDir(), 1<<20, 1<<20)
	o.Limits.noBlocks = true
	s, log := reopen(t, o, &testLog{})
	elements := listElements(3000, 20)
	push := func(s *Store, key string, atOnce int) {
		in(t, s, 0, func(db DB) error {
			l, err := db.List([]byte(key))
			must(t, err)
			for at := 0; at < len(elements); at += atOnce {
				must(t, l.Push(false, elements[at:at+atOnce]))
			}
			return l.Save(keyevent.Changed)
		})
	}
	push(s, "single", 1)
	must(t, s.Close())
	o.Limits.noBlocks = false

	for _, other := range []byte{0, layout.Format + 1} {
		exchangeFormat(t, o, other)
		if _, err := Open(o); !errors.Is(err, ErrFormat) {
			t.Fatalf("format %d: %v", other, err)
		}
		if was := exchangeFormat(t, o, layout.FirstFormat); was != other {
			t.Fatalf("format %d became %d", other, was)
		}
	}
	s, _ = reopen(t, o, log)
	push(s, "blocks", len(elements))
	if m := checkList(t, s, "single", elements); m.Blocks != (layout.Blocks{}) {
		t.Errorf("a list of single elements has %v", m.Blocks)
	}
	if m := checkList(t, s, "blocks", elements); m.Blocks.Count() == 0 {
		t.Error("a list that came at once has no blocks")
	}
	must(t, s.Close())
	if was := exchangeFormat(t, o, layout.Format); was != layout.Format {
		t.Errorf("what is written now stands in format %d", was)
	}
}

// exchangeFormat writes another format into a store that isn't open, and returns the one it had.
func exchangeFormat(t *testing.T, o Options, format byte) (was byte) {
	t.Helper()
	db, err := rocks.Open(o.Rocks)
	must(t, err)
	value, found, err := db.Get(db.Family(rocks.DefaultFamily), nil, layout.FormatKey, nil)
	must(t, err)
	if !found || len(value) != 4 || !bytes.HasPrefix(value, []byte{0, 0, 0}) {
		t.Fatalf("the format is %x", value)
	}
	batch := new(rocks.Batch)
	batch.Put(db.Family(rocks.DefaultFamily), layout.FormatKey, []byte{0, 0, 0, format})
	was = value[3]
	must(t, db.Write(batch))
	must(t, db.Close())
	return was
}
