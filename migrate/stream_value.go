package migrate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"kedis/storage/rdb"
)

// streamBytes is how large a stream's parts may be together for it to go whole. They are in memory,
// and so is the payload that they become: a Target has one large one at a time.
const streamBytes = 4 << 20

// writeStream writes a stream of up to streamBytes whole, in a RESTORE, and reports true. Of a
// larger one it writes the groups so, with all that is pending, in a stream without entries, and
// the entries and totals behind them, in commands: no command makes an entry pending that is gone.
func (p *PayloadBuilder) writeStream(key Key, value *rdb.Value, to write) (restored bool, err error) {
	parts := &p.parts
	parts.reset()
	var counts rdb.StreamCounts
	for value.Next() {
		e := value.Element.Stream
		counts.Complete(e)
		if !parts.add(e) {
			return false, p.writeLargeStream(key, value, &counts, to)
		}
	}
	if err := value.Err(); err != nil {
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

func streamID(id rdb.StreamID) []byte { return fmt.Appendf(nil, "%d-%d", id.Ms, id.Seq) }
