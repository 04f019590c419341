package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/engine"
	"kedis/storage/rdb"
)

// importCollection takes a collection with elements 0 to n-1 into a database of an import, in the
// order that is given.
func importCollection(t *testing.T, i *Import, database int, key string, kind rdb.Kind, order []int, length int) error {
	t.Helper()
	w, d := rdb.NewPayloadWriter(), rdb.Decoder{MaxString: 1 << 30}
	w.Begin(nil)
	begin, element := (*rdb.Encoder).BeginSet, func(n int) { w.Member(importedElement(n, length)) }
	switch kind {
	case rdb.Hash:
		begin, element = (*rdb.Encoder).BeginHash, func(n int) { w.Field(importedElement(n, length), fmt.Append(nil, n)) }
	case rdb.SortedSet:
		begin, element = (*rdb.Encoder).BeginSortedSet, func(n int) { w.ScoredMember(importedElement(n, length), float64(n%7)) }
	case rdb.List:
		begin, element = (*rdb.Encoder).BeginPlainList, func(n int) { w.ListElement(importedElement(n, length)) }
	}
	begin(&w.Encoder, uint64(len(order)))
	for _, n := range order {
		element(n)
	}
	w.End()
	payload, err := w.Finish()
	must(t, err)
	v, err := d.Payload(payload)
	must(t, err)
	return i.Restore(database, []byte(key), v, 0)
}

// importedElement is an element that is a little longer than length. Many of them begin alike.
func importedElement(n, length int) []byte {
	return append(fmt.Appendf(nil, "element:%d:", n*n%1009), append(fmt.Append(nil, n), bytes.Repeat([]byte("."), length)...)...)
}

type importedCollection struct {
	kind          rdb.Kind
	count, length int
}

// TestImportOfCollections imports collections whose elements come in any order. Some are too large
// to be sorted as a whole. The store is opened anew now and then.
func TestImportOfCollections(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 1))
	s := openStore(t, spreadOptions(t))
	i, err := s.NewImport()
	must(t, err)
	collections := map[string]importedCollection{}
	for n := range 60 {
		c := importedCollection{[]rdb.Kind{rdb.Set, rdb.Hash, rdb.SortedSet, rdb.List}[n%4], 5 + random.IntN(300), random.IntN(20)} // lists of four are packed
		if n >= 52 && n < 56 {
			c.count, c.length = 5*engine.InspectSpillElements/4/(16<<10), 16<<10
		}
		key := fmt.Sprint("key", n)
		collections[key] = c
		must(t, importCollection(t, i, 0, key, c.kind, random.Perm(c.count), c.length))
		if random.IntN(10) == 0 {
			must(t, s.Reopen())
		}
	}
	must(t, i.Finish())
	must(t, i.Swap(inside(s).CommitLog(), 1))
	must(t, s.PersistState())
	inTxn(t, s, func(d DB) {
		for key, c := range collections {
			c.expect(t, d, key)
		}
	})
	expectNothingRuledOut(t, s)
}

// expect compares a collection with what was imported.
func (c *importedCollection) expect(t *testing.T, d DB, key string) {
	t.Helper()
	want, found := map[string]string{}, map[string]string{}
	for n := range c.count {
		value := ""
		switch c.kind {
		case rdb.Hash:
			value = fmt.Sprint(n)
		case rdb.SortedSet:
			value = fmt.Sprint(n % 7)
		}
		want[string(importedElement(n, c.length))] = value
	}
	k, err := d.Lookup([]byte(key))
	must(t, err)
	must(t, d.Elements(&k.Metadata, func(element, value []byte, score float64) error {
		if c.kind == rdb.SortedSet {
			value = fmt.Append(nil, score)
		}
		found[string(element)] = string(value)
		return nil
	}))
	if !maps.Equal(want, found) {
		t.Errorf("%s of kind %s: %d elements, of %d", key, c.kind, len(found), len(want))
	}
}

// TestImportOfSeveralDatabases has no more table files open than kinds of elements come. Of a
// database that comes once more it takes the elements, too.
func TestImportOfSeveralDatabases(t *testing.T) {
	s := openStore(t, spreadOptions(t))
	i, err := s.NewImport()
	must(t, err)
	c := importedCollection{rdb.Set, engine.InspectSpillBytes/(16<<10) + 1, 16 << 10}
	order := rand.New(rand.NewPCG(seed.Of(t), 1)).Perm(c.count)
	databases := s.Databases()
	for n := range databases {
		must(t, importCollection(t, i, n, "key", c.kind, order, c.length))
	}
	if open := openTables(t, s); open != 1 {
		t.Errorf("%d table files are open for the sets of %d databases", open, databases)
	}
	must(t, importCollection(t, i, 0, "another key", c.kind, order, c.length))
	must(t, i.Finish())
	must(t, i.Swap(inside(s).CommitLog(), 1))
	must(t, s.PersistState())
	inTxn(t, s, func(d DB) {
		c.expect(t, d, "another key")
		for n := range databases {
			c.expect(t, d.txn.DB(n), "key")
		}
	})
	expectNothingRuledOut(t, s)
}

// openTables is the number of table files that are written before RocksDB takes them.
func openTables(t *testing.T, s *Store) (count int) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	must(t, err)
	for _, entry := range entries {
		path, err := os.Readlink(filepath.Join(descriptors, entry.Name()))
		if err == nil && filepath.Dir(path) == filepath.Join(s.Rocks().Directory(), "tables") {
			count++
		}
	}
	return count
}

// TestImportOfTheSameElementTwice is refused, whether or not it comes with others that are sorted
// together.
func TestImportOfTheSameElementTwice(t *testing.T) {
	for name, length := range map[string]int{"near": 10, "far": 16 << 10} {
		for _, kind := range []rdb.Kind{rdb.Set, rdb.Hash, rdb.SortedSet} {
			t.Run(name+" "+kind.String(), func(t *testing.T) {
				s := openStore(t, spreadOptions(t))
				i, err := s.NewImport()
				must(t, err)
				order := rand.New(rand.NewPCG(seed.Of(t), 1)).Perm(5 * engine.InspectSpillElements / 4 / (16 << 10))
				err = importCollection(t, i, 0, "key", kind, append(order, order[0]), length)
				if err == nil {
					err = i.Finish()
				}
				if !errors.Is(err, engine.ErrIncomplete) {
					t.Error(err)
				}
				must(t, i.Abandon())
			})
		}
	}
}

// TestImportOfTheSameElementBehindALargeValue is refused, too: such a value makes the import's
// journal tell entries of the same element apart.
func TestImportOfTheSameElementBehindALargeValue(t *testing.T) {
	s := openStore(t, spreadOptions(t))
	i, err := s.NewImport()
	must(t, err)
	w, d := rdb.NewPayloadWriter(), rdb.Decoder{MaxString: 1 << 30}
	w.Begin(nil)
	w.BeginHash(5)
	for _, field := range []string{"first", "large", "field", "other", "field"} {
		value := []byte("value")
		if field == "large" {
			value = make([]byte, 2<<20)
		}
		w.Field([]byte(field), value)
	}
	w.End()
	payload, err := w.Finish()
	must(t, err)
	v, err := d.Payload(payload)
	must(t, err)
	if err = i.Restore(0, []byte("key"), v, 0); err == nil {
		err = i.Finish()
	}
	if !errors.Is(err, engine.ErrIncomplete) {
		t.Error(err)
	}
	must(t, i.Abandon())
}
