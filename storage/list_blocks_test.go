package storage

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

// listElements are so many elements of about a size.
func listElements(n, size int) (elements [][]byte) {
	for i := range n {
		elements = append(elements, append(fmt.Appendf(nil, "%d:", i), make([]byte, max(size-4, 0))...))
	}
	return elements
}

// TestListsHaveBlocks pushes elements in different ways, and asks which of them stand in blocks:
// those that a list has when it becomes spread.
func TestListsHaveBlocks(t *testing.T) {
	for _, test := range []struct {
		size, first, atOnce int
		left                bool
		shift               uint8
		blocks              uint64
	}{
		{size: 10, first: 1000, atOnce: 1, shift: 7, blocks: 7}, {size: 10, first: 1000, atOnce: 1, left: true, shift: 7, blocks: 7},
		{size: 10, first: 1000, atOnce: 700, shift: 7, blocks: 7}, {size: 10, first: 3000, atOnce: 3000, left: true, shift: 7, blocks: 23},
		{size: 80, first: 400, atOnce: 1, shift: 4, blocks: 25}, {size: 80, first: 400, atOnce: 1, left: true, shift: 4, blocks: 25},
		{size: 80, first: 3000, atOnce: 3000, shift: 4, blocks: 187},
		{size: 200, first: 400, atOnce: 100, shift: 3, blocks: 50}, {size: 300, first: 400, atOnce: 100}, {size: 10_000, first: 400, atOnce: 100},
		{size: 10, first: 1, atOnce: 1, shift: 7, blocks: 5}, {size: 10, first: 300, atOnce: 300, shift: 7, blocks: 7}, {size: 30, first: 200, atOnce: 1000, shift: 6, blocks: 18},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
			elements := listElements(3000, test.size)
			want := slices.Clone(elements)
			if test.left {
				slices.Reverse(want)
			}
			chunks := slices.Collect(slices.Chunk(elements[test.first:], test.atOnce))
			for _, values := range append([][][]byte{elements[:test.first]}, chunks...) {
				in(t, s, 0, func(db DB) error {
					l, err := db.List([]byte("list"))
					must(t, err)
					must(t, l.Push(test.left, values))
					return l.Save(keyevent.Changed)
				})
			}
			m := checkList(t, s, "list", want)
			if m.Blocks.Shift != test.shift || m.Blocks.Count() != test.blocks {
				t.Errorf("%d blocks of 1<<%d", m.Blocks.Count(), m.Blocks.Shift)
			}
		})
	}
}

// checkList asserts what a list has, by all ways to read it.
func checkList(t *testing.T, s *Store, key string, want [][]byte) (m layout.Metadata) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		l, err := db.List([]byte(key))
		must(t, err)
		m = l.old.Metadata
		var ranged, all [][]byte
		must(t, l.Range(0, l.Len(), false, func(_ int, v []byte) bool { ranged = append(ranged, bytes.Clone(v)); return true }))
		must(t, db.Elements(&m, func(e, _ []byte, _ float64) error { all = append(all, bytes.Clone(e)); return nil }))
		for name, got := range map[string][][]byte{"Range": ranged, "Elements": all} {
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%s shows %d elements, not the %d that there are", name, len(got), len(want))
			}
		}
		return nil
	})
	return m
}

// TestLongListIsReadInBlocks has more elements than are read by caches.
func TestLongListIsReadInBlocks(t *testing.T) {
	s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	want := listElements(manyRecords+5000, 10)
	change := func(f func(l *List)) {
		t.Helper()
		in(t, s, 0, func(db DB) error {
			l, err := db.List([]byte("list"))
			must(t, err)
			f(&l)
			return l.Save(keyevent.Changed)
		})
	}
	change(func(l *List) { must(t, l.Push(false, want[:manyRecords])) })
	for _, e := range want[manyRecords:] {
		change(func(l *List) { must(t, l.Push(false, [][]byte{e})) })
	}
	checkList(t, s, "list", want)
	change(func(l *List) { must(t, l.Pop(true, 1000, func([]byte) {})) })
	settle(t, s)
	m := checkList(t, s, "list", want[1000:])
	change(func(l *List) { must(t, l.db.txn.Delete(l.db.space, l.blockKey(m.Blocks.First+m.Blocks.Size()))) })
	in(t, s, 0, func(db DB) error {
		if err := db.Elements(&m, func(_, _ []byte, _ float64) error { return nil }); err == nil {
			t.Error("a missing block isn't noticed")
		}
		return nil
	})
}

// TestLargeElementsLeaveBlocks puts elements into a block that don't fit into one: near an end of
// the list the blocks up to there are left, and further inside the block grows first.
func TestLargeElementsLeaveBlocks(t *testing.T) {
	for _, at := range []int{900, 1500, 2200} {
		s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
		want := listElements(3000, 10)
		set := func(index, size int) {
			t.Helper()
			in(t, s, 0, func(db DB) error {
				l, err := db.List([]byte("list"))
				must(t, err)
				if !l.Exists() {
					must(t, l.Push(false, want))
				}
				want[index] = bytes.Repeat([]byte("x"), size)
				must(t, l.Set(index, want[index]))
				return l.Save(keyevent.Changed)
			})
		}
		most := mostEdited
		if at == 1500 {
			most = mostEditedInside // each time in a transaction of its own
		}
		set(at, 10)
		before := checkList(t, s, "list", want).Blocks
		set(at, most*6/10)
		if now := checkList(t, s, "list", want).Blocks; now != before {
			t.Errorf("blocks are %v, and were %v", now, before)
		}
		set(at+1, most*6/10)
		m := checkList(t, s, "list", want)
		if m.Blocks.Count() >= before.Count() || m.Blocks.Count() == 0 || m.Blocks.Has(m.Head+uint64(at)) {
			t.Errorf("%d blocks, of %d before", m.Blocks.Count(), before.Count())
		}
	}
}

// TestManySetsInATransaction replaces elements far inside of a list by long ones, all in one
// transaction: it doesn't keep a version of a large block for each.
func TestManySetsInATransaction(t *testing.T) {
	const size, sets = 4 << 10, 500
	s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	want := listElements(4000, 10)
	in(t, s, 0, func(db DB) error {
		for i := range sets + 1 {
			l, err := db.List([]byte("list"))
			must(t, err)
			if i == 0 {
				must(t, l.Push(false, want))
			} else {
				want[1500+i] = bytes.Repeat([]byte("x"), size)
				must(t, l.Set(1500+i, want[1500+i]))
			}
			must(t, l.Save(keyevent.Changed))
		}
		if copied, _ := insideTxn(db.txn).JournalBytes(); copied > 12*size*sets {
			t.Errorf("the journal has %d bytes", copied)
		}
		return nil
	})
	checkList(t, s, "list", want)
}

// TestNumbersMoveIntoFullBlocks removes and inserts elements beside a block that nothing fits into
// any more: the number that is moved there makes it be left.
func TestNumbersMoveIntoFullBlocks(t *testing.T) {
	const full = 450
	for name, change := range map[string]func(l *List, elements [][]byte) ([][]byte, error){
		"removed": func(l *List, elements [][]byte) ([][]byte, error) {
			_, err := l.RemoveEqual(elements[full-10], 0, false)
			return slices.Delete(elements, full-10, full-9), err
		},
		"two removed": func(l *List, elements [][]byte) ([][]byte, error) {
			return slices.Delete(slices.Delete(elements, full-10, full-9), full-11, full-10), l.removeIndexes([]int{full - 11, full - 10})
		},
		"inserted": func(l *List, elements [][]byte) ([][]byte, error) {
			return slices.Insert(elements, full+55, []byte("new")), l.Insert(full+55, []byte("new"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
			var want [][]byte
			for i := range 3000 {
				want = append(want, strconv.AppendInt(nil, int64(1_000_000+i), 10))
			}
			for step := range 3 {
				in(t, s, 0, func(db DB) error {
					l, err := db.List([]byte("list"))
					must(t, err)
					switch step {
					case 0:
						must(t, l.Push(false, want))
					case 1:
						pack, err := l.block(l.next.Blocks.At(l.next.Head + full))
						must(t, err)
						want[full] = bytes.Repeat([]byte("x"), mostEdited-len(pack))
						must(t, l.Set(full, want[full]))
					default:
						want, err = change(&l, want)
						must(t, err)
					}
					return l.Save(keyevent.Changed)
				})
			}
			checkList(t, s, "list", want)
		})
	}
}

// TestBuilderHoldsLittle gives small elements to a list that is made, and then large ones: not as
// many of them as a block has are held.
func TestBuilderHoldsLittle(t *testing.T) {
	s, _ := openHeld(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	want := append(listElements(500, 10), listElements(100, maxBlockBytes/4)...)
	in(t, s, 0, func(db DB) error {
		m := layout.Metadata{Type: layout.List, Encoding: layout.Spread}
		made := db.newListBuilder(db.txn.NewID())
		for _, e := range want {
			must(t, made.add(e))
			if made.pack.Size() > 2*maxBlockBytes {
				t.Fatalf("%d bytes are held", made.pack.Size())
			}
		}
		must(t, made.finish(&m))
		return db.save([]byte("list"), &Key{}, &m)
	})
	if m := checkList(t, s, "list", want); m.Blocks.Count() != 3 {
		t.Errorf("%d blocks", m.Blocks.Count())
	}
}
