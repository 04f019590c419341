package migrate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"kedis/storage/rdb"
)

// streamBytes is how large a stream's parts may be together for it to go whole. They are in memory,
// and so is the payload that they become: a Target has one large one at a time.
const streamBytes = 4 << 20

// writeStream writes a stream of up to streamBytes whole, in a RESTORE, and reports true. It writes a
// larger one in commands; these lack the pending entries whose stream entries are gone.
func (p *PayloadBuilder) writeStream(key Key, value *rdb.Value, to write) (restored bool, err error) {
	s := streamWriter{key: key.Name, to: to, pending: map[rdb.StreamID]rdb.StreamElement{}}
	parts, whole := &p.parts, true
	parts.reset()
	var counts rdb.StreamCounts
	for value.Next() {
		e := value.Element.Stream
		counts.Complete(e)
		if whole && parts.add(e) {
			continue
		}
		if whole {
			whole = false
			if err := to(deleteWord, key.Name); err != nil {
				return false, err
			}
			if err := parts.visit(s.part); err != nil {
				return false, err
			}
			parts.reset()
		}
		if err := s.part(e); err != nil {
			return false, err
		}
	}
	if err := value.Err(); err != nil || !whole {
		return false, err
	}
	payload, err := p.streamPayload()
	if err != nil {
		return false, err
	}
	return true, p.restore(key, payload, to)
}

// streamPayload is the stream whose parts were gathered, as RESTORE takes it.
func (p *PayloadBuilder) streamPayload() ([]byte, error) {
	parts := &p.parts
	parts.payload = slices.Grow(parts.payload[:0], len(parts.memory)*9/8)
	w := p.begin(parts.payload)
	w.BeginStream(parts.nodes)
	err := parts.visit(func(e *rdb.StreamElement) error {
		w.StreamPart(e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.EndStream()
	payload, err := w.Finish()
	parts.payload = payload
	return payload, err
}

// streamParts are the first parts of a stream, each as rdb.StreamElement.Append has it behind its
// length in four bytes. Their memory, which streamBytes bounds, is used again.
type streamParts struct {
	memory  []byte
	payload []byte // that they became
	nodes   uint64
	node    rdb.StreamID // of the last entry
}

func (s *streamParts) reset() { *s = streamParts{memory: s.memory[:0], payload: s.payload} }

// add takes in a part, or reports that it would be too much.
func (s *streamParts) add(e *rdb.StreamElement) bool {
	size := len(s.memory) + len(e.Name)
	for _, text := range e.Fields {
		size += len(text)
	}
	if size > streamBytes {
		return false
	}
	if e.Part == rdb.StreamEntry && (s.nodes == 0 || e.Node != s.node) {
		s.node = e.Node
		s.nodes++
	}
	from := len(s.memory)
	s.memory = e.Append(append(s.memory, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(s.memory[from:], uint32(len(s.memory)-from-4))
	return true
}

// visit visits the parts in their order.
func (s *streamParts) visit(take func(e *rdb.StreamElement) error) error {
	var e rdb.StreamElement
	for left := s.memory; len(left) > 0; {
		end := 4 + int(binary.LittleEndian.Uint32(left))
		if err := e.Decode(left[4:end]); err != nil {
			return err
		}
		if err := take(&e); err != nil {
			return err
		}
		left = left[end:]
	}
	return nil
}

// streamWriter writes a stream the way a rewritten AOF does: its entries, its totals, its groups,
// their consumers, and who owns which pending entry.
type streamWriter struct {
	key             []byte
	to              write
	group, consumer []byte
	written         bool
	pending         map[rdb.StreamID]rdb.StreamElement // of the group: in memory, which their number bounds
}

func streamID(id rdb.StreamID) []byte { return fmt.Appendf(nil, "%d-%d", id.Ms, id.Seq) }

func (s *streamWriter) part(e *rdb.StreamElement) error {
	word := func(text string) []byte { return []byte(text) }
	switch e.Part {
	case rdb.StreamEntry:
		s.written = true
		words := [][]byte{word("XADD"), s.key, streamID(e.ID)}
		for _, field := range e.Fields {
			words = append(words, bytes.Clone(field))
		}
		return s.to(words...)
	case rdb.StreamTotals:
		return s.totals(e)
	case rdb.StreamGroup:
		s.group = bytes.Clone(e.Name)
		clear(s.pending)
		return s.to(word("XGROUP"), word("CREATE"), s.key, s.group, streamID(e.ID), word("ENTRIESREAD"), strconv.AppendInt(nil, e.EntriesRead, 10))
	case rdb.StreamPending:
		s.pending[e.ID] = *e
	case rdb.StreamConsumer:
		s.consumer = bytes.Clone(e.Name)
		return s.to(word("XGROUP"), word("CREATECONSUMER"), s.key, s.group, s.consumer)
	case rdb.StreamOwned:
		p := s.pending[e.ID]
		return s.to(claimWord, s.key, s.group, s.consumer, word("0"), streamID(e.ID), word("TIME"), strconv.AppendInt(nil, p.DeliveredMs, 10),
			word("RETRYCOUNT"), strconv.AppendUint(nil, p.Deliveries, 10), word("FORCE"), word("JUSTID"))
	}
	return nil
}

// totals ends the entries. A stream without any is made by adding one that is trimmed at once.
func (s *streamWriter) totals(e *rdb.StreamElement) error {
	word := func(text string) []byte { return []byte(text) }
	if !s.written {
		id := e.ID
		if id == (rdb.StreamID{}) {
			id.Seq = 1
		}
		if err := s.to(word("XADD"), s.key, word("MAXLEN"), word("0"), streamID(id), word("x"), word("y")); err != nil {
			return err
		}
	}
	return s.to(word("XSETID"), s.key, streamID(e.ID), word("ENTRIESADDED"), strconv.AppendUint(nil, e.EntriesAdded, 10),
		word("MAXDELETEDID"), streamID(e.MaxDeletedID))
}
