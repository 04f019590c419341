package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cespare/xxhash/v2"

	"kedis/internal/durable"
	"kedis/storage/filter"
	"kedis/storage/layout"
)

// A store that is closed keeps its filters in a file, so that the next start need not read all keys
// to know which there are. It says what RocksDB has only as long as nothing else comes there: who
// opens the store removes the file before anything is written. So there is none after a crash.
//
//	| magic:8 | length:4 | state | spaces:4 | Space … | checksum:8 |, numbers little-endian
//
//	Space      namespace:4 | gone:8 | filter, as storage/filter/keep.go says
//	checksum   xxhash64 of all before it
const (
	filtersFile  = "FILTERS"
	filtersMagic = "KEDISFL\x01"
)

var errFilters = errors.New("storage: the file is damaged")

// keepFilters writes the file. Nothing else is written any more. Without it the filters are built
// anew.
func (s *Store) keepFilters() {
	if err := s.writeFilters(); err != nil {
		s.logger.Warn("what is known of the records can't be kept, and will be found out anew", "error", err)
	}
}

func (s *Store) writeFilters() error {
	state, found, err := s.db().Get(s.metaFamily(), nil, layout.StateKey, nil)
	if err != nil || !found {
		return err
	}
	var kept []*Namespace
	for _, ns := range s.tiers.Load().databases {
		if ns.family.Load() != nil && ns.presence.complete.Load() != nil {
			kept = append(kept, ns)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return durable.ReplaceWith(filepath.Join(s.options.Rocks.Directory, filtersFile), func(w io.Writer) error {
		sum := xxhash.New()
		if err := writeFilters(io.MultiWriter(w, sum), state, kept); err != nil {
			return err
		}
		_, err := w.Write(binary.LittleEndian.AppendUint64(nil, sum.Sum64()))
		return err
	})
}

func writeFilters(w io.Writer, state []byte, kept []*Namespace) error {
	b := binary.LittleEndian.AppendUint32([]byte(filtersMagic), uint32(len(state)))
	b = binary.LittleEndian.AppendUint32(append(b, state...), uint32(len(kept)))
	for _, ns := range kept {
		b = binary.LittleEndian.AppendUint32(b, ns.Number)
		b = binary.LittleEndian.AppendUint64(b, uint64(ns.presence.gone.Load()))
		if _, err := w.Write(b); err != nil {
			return err
		}
		if err := ns.presence.complete.Load().Write(w); err != nil {
			return err
		}
		b = b[:0]
	}
	return nil
}

// takeFilters takes up the filters that were kept, if they are those of the state that the store
// has, and removes the file. Nothing else has begun.
func (s *Store) takeFilters() error {
	path := filepath.Join(s.options.Rocks.Directory, filtersFile)
	if err := s.readFilters(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.logger.Warn("what was known of the records can't be read, and is found out anew", "file", path, "error", err)
	}
	return s.removeFilters()
}

// removeFilters removes the file, and what is left of one that was being written.
func (s *Store) removeFilters() error {
	directory := s.options.Rocks.Directory
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	removed := false
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), filtersFile) {
			removed, err = true, errors.Join(err, os.Remove(filepath.Join(directory, entry.Name())))
		}
	}
	if !removed {
		return nil
	}
	if err = errors.Join(err, durable.SyncDirectory(directory)); err != nil {
		return fmt.Errorf("storage: a file that is true for this start only: %w", err)
	}
	return nil
}

func (s *Store) readFilters(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	state, found, err := s.db().Get(s.metaFamily(), nil, layout.StateKey, nil)
	if err != nil || !found {
		return err
	}
	from := bufio.NewReaderSize(file, 1<<20)
	r := filtersReader{sum: xxhash.New(), most: s.presences.memory.most.Load(), room: s.presences.memory.take}
	r.from = io.TeeReader(from, r.sum)
	if string(r.take(len(filtersMagic))) != filtersMagic {
		return errFilters
	}
	if of := r.take(len(state) + 4)[4:]; !bytes.Equal(of, state) {
		return nil
	}
	kept := r.spaces()
	want := r.sum.Sum64()
	r.from = from
	if got := r.number(8); r.err != nil || got != want {
		return errors.Join(errFilters, r.err)
	}
	for _, ns := range s.tiers.Load().databases {
		if known, ok := kept[ns.Number]; ok && ns.family.Load() != nil {
			ns.presence.complete.Store(known.filter)
			ns.presence.gone.Store(known.gone)
		}
	}
	return nil
}

// filtersReader reads such a file.
type filtersReader struct {
	from io.Reader
	sum  *xxhash.Digest
	most int64 // bytes that the filters may take
	room filter.Room
	err  error
}

// keptFilter is the filter of a namespace.
type keptFilter struct {
	filter *filter.Filter
	gone   int64
}

func (r *filtersReader) take(n int) []byte {
	b := make([]byte, n)
	if r.err == nil {
		_, r.err = io.ReadFull(r.from, b)
	}
	return b
}

func (r *filtersReader) number(size int) uint64 {
	return binary.LittleEndian.Uint64(append(r.take(size), make([]byte, 8-size)...))
}

// spaces reads the filters of all namespaces.
func (r *filtersReader) spaces() map[uint32]keptFilter {
	kept := map[uint32]keptFilter{}
	for left := r.number(4); left > 0 && r.err == nil; left-- {
		number, gone := uint32(r.number(4)), int64(r.number(8))
		if r.err != nil {
			break
		}
		var f *filter.Filter
		if f, r.err = filter.Read(r.from, r.most, r.room); r.err == nil {
			r.most -= f.Bytes()
			kept[number] = keptFilter{f, gone}
		}
	}
	return kept
}
