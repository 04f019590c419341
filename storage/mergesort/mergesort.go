// Package mergesort sorts more records than fit into memory: sorted runs go to temporary files,
// which are merged in the end. It imports the standard library only.
package mergesort

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Sorter takes records in any order and gives them back by space and key. Of records with the same
// space and key, all come back. It takes about twice the memory that it is made with, and what the
// largest record needs. It belongs to one goroutine.
type Sorter struct {
	directory string
	limit     int // bytes of a run
	most      int // runs of a level that are left unmerged
	open      *block
	free      *block
	spilling  chan spilled // holds one while a run is being written
	runs      []run
}

// block is a run in memory.
type block struct {
	bytes   []byte
	entries []entry
}

// entry is a record: its key stands in the block's bytes, and its value behind that.
type entry struct {
	at         int
	key, value uint32
	space      uint32
}

const entrySize = 24

// run is a sorted file. It was merged from runs of the level below.
type run struct {
	name  string
	level int
}

type spilled struct {
	run   run
	err   error
	block *block
}

const (
	mostRuns   = 64
	fileBuffer = 256 << 10
)

// New makes a sorter with temporary files in a directory, which has to exist, and runs of so many
// bytes.
func New(directory string, runBytes int) *Sorter {
	return &Sorter{directory: directory, limit: runBytes, most: mostRuns, open: new(block), free: new(block)}
}

// Add takes a record, and copies it.
func (s *Sorter) Add(space uint32, key, value []byte) error {
	b := s.open
	if b.bytes == nil {
		b.bytes = make([]byte, 0, s.limit) // at once: growing bit by bit would take twice as much
	}
	b.entries = append(b.entries, entry{len(b.bytes), uint32(len(key)), uint32(len(value)), space})
	b.bytes = append(append(b.bytes, key...), value...)
	if len(b.bytes)+entrySize*len(b.entries) < s.limit {
		return nil
	}
	return s.spill()
}

// spill has the open block written while the next one fills.
func (s *Sorter) spill() error {
	if err := s.await(); err != nil {
		return err
	}
	full := s.open
	s.open, s.free = s.free, nil
	s.spilling = make(chan spilled, 1)
	go func(done chan<- spilled) {
		r, err := s.write(full)
		done <- spilled{r, err, full}
	}(s.spilling)
	return nil
}

// await waits for the run that is being written.
func (s *Sorter) await() error {
	if s.spilling == nil {
		return nil
	}
	done := <-s.spilling
	s.spilling = nil
	if done.run.name != "" {
		s.runs = append(s.runs, done.run)
	}
	s.free = done.block
	s.free.reset(s.limit)
	if done.err != nil {
		return done.err
	}
	return s.mergeLevel(0)
}

func (b *block) reset(limit int) {
	if cap(b.bytes) > 2*limit { // of one large record
		b.bytes = nil
	}
	b.bytes, b.entries = b.bytes[:0], b.entries[:0]
}

func (b *block) key(e *entry) []byte { return b.bytes[e.at : e.at+int(e.key)] }

func (b *block) value(e *entry) []byte {
	from := e.at + int(e.key)
	return b.bytes[from : from+int(e.value)]
}

func (b *block) sort() {
	slices.SortFunc(b.entries, func(x, y entry) int {
		return cmp.Or(cmp.Compare(x.space, y.space), bytes.Compare(b.key(&x), b.key(&y)))
	})
}

// write makes a run of a block.
func (s *Sorter) write(b *block) (run, error) {
	b.sort()
	w, err := s.create(0)
	if err != nil {
		return run{}, err
	}
	for i := range b.entries {
		e := &b.entries[i]
		if err = w.begin(e.space, b.key(e), int(e.value)); err == nil {
			_, err = w.buffer.Write(b.value(e))
		}
		if err != nil {
			break
		}
	}
	return w.run, w.close(err)
}

// mergeLevel makes one run of the next level of a level's runs when there are many.
func (s *Sorter) mergeLevel(level int) error {
	var merged, rest []run
	for _, r := range s.runs {
		if r.level == level {
			merged = append(merged, r)
		} else {
			rest = append(rest, r)
		}
	}
	if len(merged) < s.most {
		return nil
	}
	w, err := s.create(level + 1)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, w.run)
	err = merge(merged, func(space uint32, key []byte, length int, value io.Reader) error {
		if err := w.begin(space, key, length); err != nil {
			return err
		}
		_, err := io.Copy(w.buffer, value)
		return err
	})
	if err := w.close(err); err != nil {
		return err
	}
	for _, r := range merged {
		err = errors.Join(err, os.Remove(r.name))
	}
	s.runs = append(rest, w.run)
	return cmp.Or(err, s.mergeLevel(level+1))
}

// Merge visits all records in order; what it hands out lives until visit returns. Nothing may be
// added any more.
func (s *Sorter) Merge(visit func(space uint32, key, value []byte) error) error {
	if len(s.open.entries) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if err := s.await(); err != nil {
		return err
	}
	s.open, s.free = new(block), nil // their memory isn't needed any more
	var content []byte
	return merge(s.runs, func(space uint32, key []byte, length int, value io.Reader) error {
		content = slices.Grow(content[:0], length)[:length]
		if _, err := io.ReadFull(value, content); err != nil {
			return err
		}
		return visit(space, key, content)
	})
}

// Close removes the temporary files.
func (s *Sorter) Close() error {
	err := s.await()
	for _, r := range s.runs {
		err = errors.Join(err, os.Remove(r.name))
	}
	s.runs = nil
	return err
}

// runWriter writes | space | key length | value length | key | value | for each record, the numbers
// as varints.
type runWriter struct {
	run    run
	file   *os.File
	buffer *bufio.Writer
	header []byte
}

func (s *Sorter) create(level int) (*runWriter, error) {
	file, err := os.CreateTemp(s.directory, "run.*")
	if err != nil {
		return nil, fmt.Errorf("mergesort: %w", err)
	}
	return &runWriter{run: run{file.Name(), level}, file: file, buffer: bufio.NewWriterSize(file, fileBuffer)}, nil
}

// begin writes a record up to its value.
func (w *runWriter) begin(space uint32, key []byte, length int) error {
	w.header = binary.AppendUvarint(w.header[:0], uint64(space))
	w.header = binary.AppendUvarint(w.header, uint64(len(key)))
	w.header = binary.AppendUvarint(w.header, uint64(length))
	if _, err := w.buffer.Write(w.header); err != nil {
		return err
	}
	_, err := w.buffer.Write(key)
	return err
}

// close completes the file, unless there was an error before.
func (w *runWriter) close(err error) error {
	if err == nil {
		err = w.buffer.Flush()
	}
	if err = errors.Join(err, w.file.Close()); err != nil {
		return fmt.Errorf("mergesort: %w", err)
	}
	return nil
}

// runReader is at a record, whose value is still in the file.
type runReader struct {
	file   *os.File
	buffer *bufio.Reader
	space  uint32
	key    []byte
	value  int
}

// next goes to the next record; io.EOF behind the last.
func (r *runReader) next() error {
	space, err := binary.ReadUvarint(r.buffer)
	if err != nil {
		return err
	}
	key, err := binary.ReadUvarint(r.buffer)
	if err == nil {
		var value uint64
		value, err = binary.ReadUvarint(r.buffer)
		r.space, r.value = uint32(space), int(value)
		r.key = slices.Grow(r.key[:0], int(key))[:key]
	}
	if err == nil {
		_, err = io.ReadFull(r.buffer, r.key)
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readers are a heap: the least record first.
type readers []*runReader

func (r readers) Len() int      { return len(r) }
func (r readers) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *readers) Push(x any)   { *r = append(*r, x.(*runReader)) }
func (r readers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(r[i].space, r[j].space), bytes.Compare(r[i].key, r[j].key)) < 0
}

func (r *readers) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}

// merge visits the records of some runs in order. visit reads the value, all of it.
func merge(runs []run, visit func(space uint32, key []byte, length int, value io.Reader) error) (err error) {
	var waiting readers
	for _, each := range runs {
		file, err := os.Open(each.name)
		if err != nil {
			return fmt.Errorf("mergesort: %w", err)
		}
		defer file.Close()
		r := &runReader{file: file, buffer: bufio.NewReaderSize(file, fileBuffer)}
		switch err := r.next(); err {
		case nil:
			waiting = append(waiting, r)
		case io.EOF:
		default:
			return fmt.Errorf("mergesort: %w", err)
		}
	}
	heap.Init(&waiting)
	for len(waiting) > 0 {
		r := waiting[0]
		if err := visit(r.space, r.key, r.value, io.LimitReader(r.buffer, int64(r.value))); err != nil {
			return err
		}
		switch err := r.next(); err {
		case nil:
			heap.Fix(&waiting, 0)
		case io.EOF:
			heap.Pop(&waiting)
		default:
			return fmt.Errorf("mergesort: %w", err)
		}
	}
	return nil
}
