package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

// TestColdWalks walks over a set that is in files, and over records in memory between them, by
// commands that don't wait for the disk.
func TestColdWalks(t *testing.T) {
	const members = 20000
	options := testOptions(t.TempDir(), 1<<20, 1<<20)
	log := &testLog{}
	s, _ := reopen(t, options, log)
	member := func(i int) []byte { return fmt.Appendf(nil, "member%08d", i) }
	add := func(from, step int) {
		commitChange(t, s, func(d DB) error {
			set, err := d.Set([]byte("set"))
			for i := from; i < members && err == nil; i += step {
				_, err = set.Add(member(i))
			}
			return errors.Join(err, set.Save(keyevent.Changed))
		})
	}
	add(0, 2)
	must(t, s.Close())
	s, _ = reopen(t, options, log)
	t.Cleanup(func() { must(t, s.Close()) })
	add(1, 40)
	txn, parking := s.NewTxn(), true
	mode := Mode{Parks: func() bool { return parking }}
	read := func(from, count int) (got [][]byte, err error) {
		txn.Begin(mode, 1, 0)
		set, err := txn.DB(0).Set([]byte("set"))
		if err != nil {
			return nil, err
		}
		elements := set.elements()
		index := elements.index(uint64(set.Len()), false)
		err = index.Scan(member(from), nil, false, func(key, _ []byte) bool {
			got = append(got, key)
			return len(got) < count
		})
		return got, err
	}
	loads := 0
	for from := 0; from < members-1000; from += 1000 {
		var want [][]byte
		for i := from; len(want) < 100; i++ {
			if i%2 == 0 || i%40 == 1 {
				want = append(want, member(i))
			}
		}
		got, err := read(from, len(want))
		for before := loads; errors.Is(err, ErrCold); got, err = read(from, len(want)) {
			s.FetchWalk(txn.ColdWalk(), 64)
			if loads++; loads-before > 10 {
				t.Fatalf("%d members from %d on aren't there after %d loads", len(want), from, loads-before)
			}
		}
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("from %d: %q, %v, want %q", from, got, err, want)
		}
	}
	if loads == 0 {
		t.Error("nothing was cold")
	}
	must(t, s.Reopen())
	parking = false
	if got, err := read(5000, 100); err != nil || len(got) != 100 {
		t.Errorf("%d members, %v", len(got), err)
	}
}

// TestColdBlocks reads all of a list from files by commands that don't wait for the disk, or leave
// what is very long to a worker, at last.
func TestColdBlocks(t *testing.T) {
	for _, length := range []int{20000, 200 << layout.MaxShift, (someBlocks*(1+moreBlocks) + 2*manyBlocks) << layout.MaxShift} {
		options := testOptions(t.TempDir(), 1<<20, 1<<20)
		log := &testLog{}
		s, _ := reopen(t, options, log)
		want := listElements(length, 10)
		commitChange(t, s, func(d DB) error {
			l, err := d.List([]byte("list"))
			return errors.Join(err, l.Push(false, want), l.Save(keyevent.Changed))
		})
		must(t, s.Close())
		s, _ = reopen(t, options, log)
		txn, parking := s.NewTxn(), true
		mode := Mode{Parks: func() bool { return parking }}
		read := func() (got [][]byte, err error) {
			txn.Begin(mode, 1, 0)
			l, err := txn.DB(0).List([]byte("list"))
			must(t, err)
			err = l.Range(0, length, false, func(_ int, value []byte) bool {
				got = append(got, slices.Clone(value))
				return true
			})
			return got, err
		}
		got, err := read()
		loads := 0
		for ; errors.Is(err, ErrCold); got, err = read() {
			s.FetchWalk(txn.ColdWalk(), 64)
			if loads++; loads > 200 {
				t.Fatalf("%d elements aren't there after %d loads", length, loads)
			}
		}
		if many := length > manyBlocks<<layout.MaxShift; many != errors.Is(err, ErrBudget) || loads == 0 {
			t.Errorf("%d elements: %v after %d loads", length, err, loads)
		}
		if parking = false; err != nil {
			got, err = read()
		}
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%d elements are %d: %v", length, len(got), err)
		}
		must(t, s.Close())
	}
}
