package rocks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func newTables(t testing.TB, d *DB, o TableOptions) *Tables {
	t.Helper()
	tables, err := d.NewTables(o)
	must(t, err)
	return tables
}

// wantNoTables checks that nothing is left of tables that were ingested or failed.
func wantNoTables(t *testing.T, d *DB) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(d.Directory(), tableDirectory))
	must(t, err)
	for _, file := range left {
		t.Errorf("%s is left", file.Name())
	}
}

// TestIngest changes two families at once, beside what a batch has written and what a snapshot
// sees.
func TestIngest(t *testing.T) {
	d := openNew(t)
	f, g := create(t, d, "f"), create(t, d, "g")
	put(t, d, f, "a", "1", "b", "1", "c1", "1", "c2", "1", "d", "1")
	must(t, d.Flush())
	put(t, d, f, "d", "2", "e", "2") // in a memtable
	put(t, d, g, "x", "2")
	before := d.Snapshot()
	defer before.Release()

	tables := newTables(t, d, TableOptions{Bytes: 1 << 10})
	tables.Put(f, []byte("a"), []byte("3"))
	tables.Delete(f, []byte("b"))
	tables.DeleteRange(f, []byte("c"), []byte("d"))
	tables.Put(f, []byte("d"), []byte("3"))
	tables.Put(f, []byte("e0"), nil)
	tables.Put(g, []byte("y"), []byte("3"))
	if n := tables.Len(); n != 6 {
		t.Errorf("%d records, want 6", n)
	}
	wantValue(t, d, f, nil, "a", "1")
	must(t, d.Ingest(tables))
	wantNoTables(t, d)

	for key, values := range map[string][2]string{"a": {"1", "3"}, "b": {"1", "-"}, "c1": {"1", "-"}, "c2": {"1", "-"},
		"d": {"2", "3"}, "e": {"2", "2"}, "e0": {"-", ""}} {
		wantValue(t, d, f, before, key, values[0])
		wantValue(t, d, f, nil, key, values[1])
		value, found, err := d.GetPersisted(f, []byte(key))
		must(t, err)
		if want := values[1]; found != (want != "-") || found && string(value) != want {
			t.Errorf("%s: the files have %q, %v, want %q", key, value, found, want)
		}
	}
	wantValue(t, d, g, before, "y", "-")
	wantValue(t, d, g, nil, "y", "3")
	put(t, d, f, "a", "4") // behind it
	wantValue(t, d, f, nil, "a", "4")
	must(t, d.Compact(t.Context(), f))
	wantValue(t, d, f, nil, "a", "4")
	wantValue(t, d, f, nil, "c1", "-")
}

// TestIngestSeveralFiles cuts what comes into files of a few kilobytes.
func TestIngestSeveralFiles(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	tables := newTables(t, d, TableOptions{FileBytes: 4 << 10, Bottommost: true})
	const records = 30_000
	for i := range records {
		tables.Put(f, fmt.Appendf(nil, "key%06d", i), fmt.Append(nil, i))
	}
	if len(tables.files) < 3 {
		t.Errorf("%d files", len(tables.files))
	}
	must(t, d.Ingest(tables))
	for _, i := range []int{0, 567, records / 2, records - 1} {
		wantValue(t, d, f, nil, fmt.Sprintf("key%06d", i), fmt.Sprint(i))
	}
	size, err := d.ApproximateSize(f, []byte("key"), []byte("kez"))
	if err != nil || size == 0 {
		t.Errorf("approximate size %d, %v", size, err)
	}
}

func TestIngestOutOfOrder(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	tables := newTables(t, d, TableOptions{})
	tables.Put(f, []byte("b"), []byte("1"))
	tables.Put(f, []byte("a"), []byte("1"))
	if err := d.Ingest(tables); err == nil {
		t.Error("keys out of order were taken")
	}
	wantNoTables(t, d)
	wantValue(t, d, f, nil, "b", "-")
}

func TestIngestNothing(t *testing.T) {
	d := openNew(t)
	must(t, d.Ingest(newTables(t, d, TableOptions{})))
	must(t, newTables(t, d, TableOptions{}).Discard())
}

// TestIngestOfADroppedFamily loses its family before it begins, and on the way.
func TestIngestOfADroppedFamily(t *testing.T) {
	d := openNew(t)
	f, g := create(t, d, "f"), create(t, d, "g")
	late := newTables(t, d, TableOptions{})
	late.Put(f, []byte("a"), []byte("1"))
	late.Put(g, []byte("a"), []byte("1"))
	must(t, d.Drop(g))
	if err := d.Ingest(late); !errors.Is(err, ErrDropped) {
		t.Errorf("on the way: %v", err)
	}
	wantValue(t, d, f, nil, "a", "-")
	early := newTables(t, d, TableOptions{})
	early.Put(g, []byte("a"), []byte("1"))
	if err := early.Err(); !errors.Is(err, ErrDropped) {
		t.Errorf("before it begins: %v", err)
	}
	if err := d.Ingest(early); !errors.Is(err, ErrDropped) {
		t.Errorf("in the end: %v", err)
	}
	wantNoTables(t, d)
}

// TestTablesNeedRoom asks for more than any disk has.
func TestTablesNeedRoom(t *testing.T) {
	d := openNew(t)
	if _, err := d.NewTables(TableOptions{Bytes: 1 << 60}); !IsNoSpace(err) {
		t.Errorf("got %v", err)
	}
}

// TestUnfinishedTablesAreRemoved begins a table, and opens the database anew.
func TestUnfinishedTablesAreRemoved(t *testing.T) {
	directory := t.TempDir()
	d := openAt(t, directory)
	left := filepath.Join(directory, tableDirectory, "7.sst")
	must(t, os.WriteFile(left, []byte("half a table"), 0o600))
	must(t, d.Close())
	wantNoTables(t, openAt(t, directory))
}

// TestIngestFresh ingests keys beside others that stand on the last level, in ranges that are said
// to be fresh: they go there too, unless a range that is removed reaches into them.
func TestIngestFresh(t *testing.T) {
	for _, removed := range []string{"c2", "d5"} {
		t.Run("removed up to "+removed, func(t *testing.T) {
			d := openNew(t)
			f, g := create(t, d, "f"), create(t, d, "g")
			for range 2 {
				put(t, d, f, "a1", "1", "c1", "1")
				must(t, d.Flush())
			}
			must(t, d.Compact(t.Context(), f))
			wantKindsApart(t, d)

			tables := newTables(t, d, TableOptions{Fresh: []Fresh{
				{Family: f, First: []byte("b000"), Last: []byte("b999")},
				{Family: f, First: []byte("d000"), Last: []byte("d998")},
				{Family: g, First: []byte("b000"), Last: []byte("b999")},
			}})
			fill := func(to *Family, kind string) {
				for i := range 1000 {
					tables.Put(to, fmt.Appendf(nil, "%s%03d", kind, i), []byte(kind))
				}
			}
			tables.Put(f, []byte("a1"), []byte("2"))
			fill(f, "b")
			tables.Delete(f, []byte("b9980")) // it isn't there
			if n := tables.Len(); n != 1001 {
				t.Errorf("%d records, want 1001", n)
			}
			tables.DeleteRange(f, []byte("c"), []byte(removed))
			tables.Put(f, []byte("c2"), []byte("2"))
			fill(f, "d")
			fill(g, "b")
			if n := len(tables.files); n != 6 {
				t.Errorf("%d files, want 6: a1, b, c, d, the last of d, and the other family's", n)
			}
			must(t, d.Ingest(tables))
			check := func() {
				t.Helper()
				for key, want := range map[string]string{"a1": "2", "b000": "b", "b999": "b", "c1": "-", "c2": "2", "d000": "d", "d998": "d", "d999": "d"} {
					wantValue(t, d, f, nil, key, want)
				}
				wantValue(t, d, g, nil, "b000", "b")
			}
			check()
			if removed < "d" {
				wantOnLastLevel(t, d, "d000")
			}
			must(t, d.Compact(t.Context(), f))
			check()
			wantKindsApart(t, d)
		})
	}
}

// TestFreshTablesAreCut changes the size of files while the database is in use. They are looked at
// every 64 KB (tableBlock).
func TestFreshTablesAreCut(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ size, files int }{{1 << 20, 1}, {100 << 10, 4}} {
		must(t, d.SetFamilyOptions(map[string]string{"target_file_size_base": strconv.Itoa(c.size)}))
		tables := newTables(t, d, TableOptions{Fresh: []Fresh{{Family: f, First: []byte("key"), Last: []byte("kez")}}})
		for i := range 400 {
			value := make([]byte, 1<<10)
			for j := range value {
				value[j] = byte(random.Uint32())
			}
			tables.Put(f, fmt.Appendf(nil, "key%03d", i), value)
		}
		if n := len(tables.files); n != c.files {
			t.Errorf("400 KB in files of %d bytes: %d of them, want %d", c.size, n, c.files)
		}
		must(t, tables.Discard())
	}
}

// wantOnLastLevel checks that the file that begins with a key needn't be compacted.
func wantOnLastLevel(t *testing.T, d *DB, first string) {
	t.Helper()
	for _, file := range d.inner.GetLiveFilesMetaData() {
		if string(file.SmallestKey) == first && file.Level == lastLevel {
			return
		}
	}
	t.Errorf("no file on the last level begins with %s: %+v", first, d.inner.GetLiveFilesMetaData())
}

const lastLevel = 6

// wantKindsApart checks that no file on the last level has keys that differ in their first byte.
func wantKindsApart(t *testing.T, d *DB) {
	t.Helper()
	for _, file := range d.inner.GetLiveFilesMetaData() {
		if file.Level == lastLevel && file.SmallestKey[0] != file.LargestKey[0] {
			t.Errorf("a file has %s to %s", file.SmallestKey, file.LargestKey)
		}
	}
}
