package migrate

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"kedis/storage/rdb"
)

// PayloadBuilder turns values into the commands that make them. It reuses its memory, and is for one goroutine.
type PayloadBuilder struct{ writer *rdb.PayloadWriter }

// Pieces of a collection that isn't packed: at most so much goes into one command.
const (
	pieceBytes    = 64 << 10
	pieceElements = 500
)

// write takes the words of a command on a key.
type write func(words ...[]byte) error

// writeValue writes a value in place of what a key had. Small collections go as they are packed, in a
// RESTORE, if the target takes payloads of RDB version 10; others go in pieces.
func (p *PayloadBuilder) writeValue(key Key, value *rdb.Value, payloads bool, to write) error {
	packed := value.Listpack != nil || value.Intset != nil
	switch {
	case value.Kind == rdb.String:
		if err := to([]byte("SET"), key.Name, bytes.Clone(value.Bytes)); err != nil {
			return err
		}
	case packed && payloads && value.Kind != rdb.Stream:
		payload, err := p.payload(value)
		if err != nil {
			return err
		}
		expiry := strconv.AppendInt(nil, key.ExpireMs, 10)
		words := [][]byte{[]byte("RESTORE"), key.Name, expiry, payload, []byte("REPLACE")}
		if key.ExpireMs != 0 {
			words = append(words, []byte("ABSTTL"))
		}
		return to(words...)
	default:
		if err := writePieces(key.Name, value, to); err != nil {
			return err
		}
	}
	if key.ExpireMs == 0 {
		return nil
	}
	return to([]byte("PEXPIREAT"), key.Name, strconv.AppendInt(nil, key.ExpireMs, 10))
}

// payload is a packed collection as RESTORE takes it.
func (p *PayloadBuilder) payload(value *rdb.Value) ([]byte, error) {
	if p.writer == nil {
		p.writer = rdb.NewPayloadWriter()
	}
	w := p.writer
	w.Begin(nil)
	switch {
	case value.Intset != nil:
		w.SetIntset(value.Intset)
	case value.Kind == rdb.List:
		w.ListListpack(value.Listpack)
	case value.Kind == rdb.Set:
		w.SetListpack(value.Listpack)
	case value.Kind == rdb.Hash:
		w.HashListpack(value.Listpack)
	case value.Kind == rdb.SortedSet:
		w.SortedSetListpack(value.Listpack)
	}
	return w.Finish()
}

// writePieces writes a collection element by element, so that none has to be in memory.
func writePieces(key []byte, value *rdb.Value, to write) error {
	if err := to([]byte("DEL"), key); err != nil {
		return err
	}
	if value.Kind == rdb.Stream {
		return writeStream(key, value, to)
	}
	name := map[rdb.Kind]string{rdb.List: "RPUSH", rdb.Set: "SADD", rdb.Hash: "HSET", rdb.SortedSet: "ZADD"}[value.Kind]
	if name == "" {
		return failure(ExitUnsupported, "a value of this type can't be moved")
	}
	piece := newPiece(key, name)
	for value.Next() {
		e := &value.Element
		switch value.Kind {
		case rdb.Hash:
			piece.add(e.Bytes, e.Value)
		case rdb.SortedSet:
			piece.add([]byte(formatScore(e.Score)), e.Bytes)
		default:
			piece.add(e.Bytes)
		}
		if piece.full() {
			if err := to(piece.words...); err != nil {
				return err
			}
			piece = newPiece(key, name)
		}
		if e.ExpireMs != 0 {
			if err := expireField(key, e, piece, to); err != nil {
				return err
			}
			piece = newPiece(key, name)
		}
	}
	if err := value.Err(); err != nil || len(piece.words) == 2 {
		return err
	}
	return to(piece.words...)
}

// expireField writes what has gathered and then when its last field expires.
func expireField(key []byte, e *rdb.Element, gathered *piece, to write) error {
	if len(gathered.words) > 2 {
		if err := to(gathered.words...); err != nil {
			return err
		}
	}
	return to([]byte("HPEXPIREAT"), key, strconv.AppendInt(nil, e.ExpireMs, 10), []byte("FIELDS"), []byte("1"), bytes.Clone(e.Bytes))
}

// piece is a command that adds some elements.
type piece struct {
	words    [][]byte
	bytes    int
	elements int
}

func newPiece(key []byte, name string) *piece { return &piece{words: [][]byte{[]byte(name), key}} }

func (p *piece) add(words ...[]byte) {
	for _, word := range words {
		p.words = append(p.words, bytes.Clone(word))
		p.bytes += len(word)
	}
	p.elements++
}

func (p *piece) full() bool { return p.bytes >= pieceBytes || p.elements >= pieceElements }

func formatScore(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'g', -1, 64)
}

// writeStream writes a stream the way a rewritten AOF does: its entries, its totals, its groups, their
// consumers, and who owns which pending entry.
func writeStream(key []byte, value *rdb.Value, to write) error {
	s := streamWriter{key: key, to: to, pending: map[rdb.StreamID]rdb.StreamElement{}}
	for value.Next() {
		if err := s.part(value.Element.Stream); err != nil {
			return err
		}
	}
	return value.Err()
}

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
		return s.to(word("XCLAIM"), s.key, s.group, s.consumer, word("0"), streamID(e.ID), word("TIME"), strconv.AppendInt(nil, p.DeliveredMs, 10),
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
