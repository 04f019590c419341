package storage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"kedis/storage/layout"
	"kedis/storage/mergesort"
	"kedis/storage/rocks"
)

// NewSortedImport is NewImport for a store that nobody uses yet. What comes is sorted in temporary files in a
// directory, with runs of so many bytes, of which two are in memory; Finish makes table files of it, which
// RocksDB takes as they are: nothing is written to a memtable, and nothing has to be compacted. The directory
// has to exist, on RocksDB's file system, and is the import's own.
func (s *Store) NewSortedImport(directory string, runBytes int) (*Import, error) {
	i, err := s.NewImport()
	if err == nil {
		i.tables = &sortedTables{sorter: mergesort.New(directory, runBytes), directory: directory}
	}
	return i, err
}

// sortedTables makes RocksDB's table files of records that come in any order.
type sortedTables struct {
	sorter    *mergesort.Sorter
	directory string

	space  uint32 // of the table that is being written
	table  *rocks.TableFile
	paths  map[uint32][]string // of the tables of each namespace
	number int
	last   []byte // the key before
}

// tableBytes is about how large a table file gets.
const tableBytes = 64 << 20

// take sorts a journal's records in.
func (t *sortedTables) take(j *journal) error {
	for n := range j.entries {
		c := &j.entries[n]
		if c.superseded {
			continue
		}
		if c.length < 0 {
			return errors.New("storage: a sorted import deletes something")
		}
		if err := t.sorter.Add(c.space, j.key(c), j.value(c)); err != nil {
			return fmt.Errorf("storage: importing: %w", err)
		}
	}
	return nil
}

// load brings all records to RocksDB, one step for each namespace.
func (t *sortedTables) load(i *Import) error {
	t.paths = map[uint32][]string{}
	err := t.sorter.Merge(func(space uint32, key, value []byte) error { return t.put(i, space, key, value) })
	if err == nil {
		err = t.finishTable()
	} else if t.table != nil {
		t.table.Discard()
	}
	if err := errors.Join(err, t.sorter.Close()); err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	for space, paths := range t.paths {
		if err := i.store.db().Ingest(i.familyOf(space), paths); err != nil {
			return fmt.Errorf("storage: importing: %w", err)
		}
	}
	return nil
}

func (t *sortedTables) put(i *Import, space uint32, key, value []byte) error {
	if t.table != nil && space == t.space && bytes.Equal(key, t.last) {
		return repeated(key)
	}
	if t.table != nil && (space != t.space || t.table.Size() >= tableBytes) {
		if err := t.finishTable(); err != nil {
			return err
		}
	}
	if t.table == nil {
		path := filepath.Join(t.directory, strconv.Itoa(t.number)+".sst")
		table, err := i.store.db().NewTableFile(path)
		if err != nil {
			return err
		}
		t.number++
		t.table, t.space = table, space
		t.paths[space] = append(t.paths[space], path)
	}
	t.last = append(t.last[:0], key...)
	return t.table.Put(key, value)
}

func (t *sortedTables) finishTable() error {
	if t.table == nil {
		return nil
	}
	err := t.table.Finish()
	t.table = nil
	return err
}

// repeated says that a record came twice.
func repeated(key []byte) error {
	if key[0] == layout.KindMetadata {
		return fmt.Errorf("%w: key %q", ErrIncomplete, key[1:])
	}
	return fmt.Errorf("%w: an element of a collection", ErrIncomplete)
}
