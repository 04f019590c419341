package migrate

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strconv"

	"kedis/storage/rdb"
)

// groupsBytes is how large the groups of a stream may be: servers take no word of 512 MB. That is
// some 12,000,000 pending entries.
const groupsBytes = 512<<20 - 1<<10

// largeStream is a stream that doesn't go whole. Its entries, which come first, wait in a file for
// its groups.
type largeStream struct {
	key    []byte
	to     write
	groups *rdb.PayloadWriter
	size   int // of the groups, at most
	totals rdb.StreamElement
}

// writeLargeStream writes a stream that is too large to go whole. Its first parts were gathered;
// the value has the next one.
func (p *PayloadBuilder) writeLargeStream(key Key, value *rdb.Value, counts *rdb.StreamCounts, to write) error {
	spool, err := newSpool()
	if err != nil {
		return err
	}
	defer spool.close()
	s := &largeStream{key: key.Name, to: to, groups: p.begin(nil)}
	s.groups.BeginStream(0)
	take := func(e *rdb.StreamElement) error {
		if e.Part == rdb.StreamEntry {
			return spool.add(e)
		}
		return s.addGroupPart(e)
	}
	if err := p.parts.visit(take); err != nil {
		return err
	}
	p.parts.reset()
	for more := true; more; {
		e := value.Element.Stream
		if err := take(e); err != nil {
			return err
		}
		if more = value.Next(); more {
			counts.Complete(e)
		}
	}
	if err := value.Err(); err != nil {
		return err
	}
	return s.write(p, spool)
}

// addGroupPart adds a part behind the entries to the stream without entries.
func (s *largeStream) addGroupPart(e *rdb.StreamElement) error {
	const numbers = 40 // bytes of the numbers of a part
	if s.size += numbers + len(e.Name); s.size > groupsBytes {
		return failure(ExitUnsupported, "the groups of a stream take more than %d MB; leave it out with --exclude", groupsBytes>>20)
	}
	if e.Part != rdb.StreamTotals {
		s.groups.StreamPart(e)
		return nil
	}
	s.totals = *e
	s.groups.StreamPart(&rdb.StreamElement{Part: e.Part, Groups: e.Groups})
	return nil
}

// write writes the groups, then the entries, then the totals: XADD counts entries anew, and goes
// behind the last one only.
func (s *largeStream) write(p *PayloadBuilder, spool *spool) error {
	s.groups.EndStream()
	payload, err := s.groups.Finish()
	if err != nil {
		return err
	}
	if err := p.restore(Key{Name: s.key}, payload, s.to); err != nil {
		return err
	}
	var words [][]byte
	err = spool.visit(func(e *rdb.StreamElement) error {
		words = append(append(words[:0], []byte("XADD"), s.key, streamID(e.ID)), e.Fields...)
		return s.to(words...)
	})
	if err != nil {
		return err
	}
	t := &s.totals
	return s.to([]byte("XSETID"), s.key, streamID(t.ID), []byte("ENTRIESADDED"), strconv.AppendUint(nil, t.EntriesAdded, 10),
		[]byte("MAXDELETEDID"), streamID(t.MaxDeletedID))
}

// spool keeps parts of a stream in a file that has no name, each as rdb.StreamElement.Append has it
// behind its length.
type spool struct {
	file   *os.File
	w      *bufio.Writer
	memory []byte
}

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "kedis-stream-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	return &spool{file: file, w: bufio.NewWriterSize(file, 1<<16)}, nil
}

// close gives the file up; nobody reads it any more.
func (s *spool) close() { _ = s.file.Close() }

func (s *spool) add(e *rdb.StreamElement) error {
	const head = 4
	s.memory = e.Append(append(s.memory[:0], make([]byte, head)...))
	binary.LittleEndian.PutUint32(s.memory, uint32(len(s.memory)-head))
	_, err := s.w.Write(s.memory)
	return err
}

// visit visits the parts that were added, in their order.
func (s *spool) visit(take func(e *rdb.StreamElement) error) error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(s.file, 1<<16)
	var e rdb.StreamElement
	var head [4]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		size := int(binary.LittleEndian.Uint32(head[:]))
		s.memory = slices.Grow(s.memory[:0], size)[:size]
		if _, err := io.ReadFull(r, s.memory); err != nil {
			return err
		}
		if err := e.Decode(s.memory); err != nil {
			return err
		}
		if err := take(&e); err != nil {
			return err
		}
	}
}
