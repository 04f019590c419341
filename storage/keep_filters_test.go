package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filtersFile is where a store that is closed keeps its filters.
func filtersFile(o Options) string { return filepath.Join(o.Rocks.Directory, "FILTERS") }

// putGone writes strings that are deleted again: filters that are built don't know them, those that
// have grown do.
func putGone(t *testing.T, s *Store) {
	t.Helper()
	for _, value := range [][]byte{[]byte("value"), nil} {
		for i := range 100 {
			key := []byte{'g', byte(i)}
			inTxn(t, s, func(d DB) {
				if value != nil {
					must(t, setString(d, key, value))
					return
				}
				k, err := d.Lookup(key)
				must(t, err)
				must(t, d.Remove(key, k))
			})
		}
		settle(t, s)
	}
}

// written is a store that has records, and some that are gone.
func written(t *testing.T, o Options) (s *Store, records int64) {
	t.Helper()
	s, err := Open(o)
	must(t, err)
	s.Attach(&testLog{}, 1)
	must(t, inside(s).BuildFilters())
	putAll(t, s)
	putGone(t, s)
	return s, s.Filters().Records
}

// reopened opens a store, and returns how many records its filters know once they are complete.
func reopened(t *testing.T, o Options) (s *Store, records int64) {
	t.Helper()
	s, err := Open(o)
	must(t, err)
	if files, err := filepath.Glob(filtersFile(o) + "*"); err != nil || len(files) > 0 {
		t.Fatalf("an open store has %q, %v", files, err)
	}
	s.Attach(&testLog{}, 1)
	must(t, inside(s).BuildFilters())
	expectNothingRuledOut(t, s)
	askAll(t, s)
	return s, s.Filters().Records
}

func TestFiltersAreKeptOverAStop(t *testing.T) {
	o := spreadOptions(t)
	s, records := written(t, o)
	for range 2 {
		must(t, s.Close())
		var after int64
		if s, after = reopened(t, o); after != records {
			t.Errorf("the filters know %d records, and knew %d", after, records)
		}
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
		if after := s.Filters(); after.Building || after.Records != records {
			t.Errorf("when it was opened again: %+v, of %d", after, records)
		}
	}
	inTxn(t, s, func(d DB) { must(t, setString(d, []byte("another"), []byte("value"))) })
	must(t, s.Close())
	s, after := reopened(t, o)
	if after != records+1 {
		t.Errorf("the filters know %d records, and one more than %d were written", after, records)
	}
	must(t, s.Close())
}

// TestFiltersOfAnyDirectory: the file is removed, too, where the directory's name would be a
// pattern.
func TestFiltersOfAnyDirectory(t *testing.T) {
	o := spreadOptions(t)
	o.Rocks.Directory = filepath.Join(t.TempDir(), "[data]")
	s, _ := written(t, o)
	must(t, s.Close())
	if _, err := os.Stat(filtersFile(o)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(o)
	must(t, err)
	if _, err := os.Stat(filtersFile(o)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an open store has the file: %v", err)
	}
	must(t, s.Close())
}

// filesIn are the names and sizes of a directory's files.
func filesIn(t *testing.T, directory string) string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	must(t, err)
	var files strings.Builder
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil { // it may have gone
			fmt.Fprintln(&files, entry.Name(), info.Size())
		}
	}
	return files.String()
}

// TestFiltersThatAreNotTrue are not used: after a crash, of another state, damaged, or too large.
func TestFiltersThatAreNotTrue(t *testing.T) {
	o := spreadOptions(t)
	s, records := written(t, o)
	must(t, s.Close())
	kept, err := os.ReadFile(filtersFile(o))
	must(t, err)
	stopped := t.TempDir()
	must(t, os.CopyFS(stopped, os.DirFS(o.Rocks.Directory)))
	expectBuilt := func(t *testing.T, o Options) {
		t.Helper()
		s, after := reopened(t, o)
		defer func() { must(t, s.Close()) }()
		if after > records-90 {
			t.Errorf("the filters know %d records of %d, of which a hundred are gone", after, records)
		}
	}
	copied := func(t *testing.T, content []byte) Options {
		t.Helper()
		o := o
		o.Rocks.Directory = t.TempDir()
		must(t, os.CopyFS(o.Rocks.Directory, os.DirFS(stopped)))
		must(t, os.WriteFile(filtersFile(o), content, 0o600))
		return o
	}
	t.Run("crash", func(t *testing.T) {
		o := copied(t, kept)
		s, _ := reopened(t, o)
		inTxn(t, s, func(d DB) { must(t, setString(d, []byte("another"), []byte("value"))) })
		settle(t, s)
		crashed := o
		for copied := false; !copied; { // until RocksDB has neither made nor removed a file meanwhile
			crashed.Rocks.Directory = t.TempDir()
			before := filesIn(t, o.Rocks.Directory)
			err := os.CopyFS(crashed.Rocks.Directory, os.DirFS(o.Rocks.Directory))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			copied = err == nil && before == filesIn(t, o.Rocks.Directory)
		}
		must(t, s.Close())
		expectBuilt(t, crashed)
	})
	t.Run("another state", func(t *testing.T) {
		o := copied(t, nil)
		s, _ := reopened(t, o)
		inTxn(t, s, func(d DB) { must(t, setString(d, []byte("another"), []byte("value"))) })
		must(t, s.Close())
		must(t, os.WriteFile(filtersFile(o), kept, 0o600))
		expectBuilt(t, o)
	})
	t.Run("damaged", func(t *testing.T) {
		flipped := func(at int) []byte {
			content := bytes.Clone(kept)
			content[at] ^= 0x40
			return content
		}
		for at := 0; at < len(kept); at += max(1, len(kept)/20) {
			expectBuilt(t, copied(t, flipped(at)))
			expectBuilt(t, copied(t, kept[:at]))
		}
		expectBuilt(t, copied(t, flipped(len(kept)-1)))
	})
	t.Run("half written", func(t *testing.T) {
		o := copied(t, nil)
		must(t, os.Rename(filtersFile(o), filtersFile(o)+".1234"))
		expectBuilt(t, o)
	})
}
