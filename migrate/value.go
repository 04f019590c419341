package migrate

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"kedis/storage/fieldtimes"
	"kedis/storage/rdb"
)

// PayloadBuilder turns values into the commands that make them. It reuses its memory, and is for
// one goroutine.
type PayloadBuilder struct {
	writer *rdb.PayloadWriter
	memory []byte   // of the payload
	words  [][]byte // of the command
	number []byte
	piece  piece

	refuseTimes func() error // why the target doesn't take times of fields; nil: it does
}

// Pieces of a collection that isn't packed: at most so much goes into one command.
const (
	pieceBytes    = 64 << 10
	pieceElements = 500
)

// write takes the words of a command on a key, which may change behind it.
type write func(words ...[]byte) error

// writeValue writes a value in place of what a key had. Small collections go as they are packed, in
// a RESTORE, if the target takes payloads of RDB version 10; others go in pieces.
func (p *PayloadBuilder) writeValue(key Key, value *rdb.Value, payloads bool, to write) error {
	packed := value.Listpack != nil || value.Intset != nil
	switch {
	case value.Kind == rdb.String:
		p.words = append(p.words[:0], setWord, key.Name, value.Bytes)
		if err := to(p.words...); err != nil {
			return err
		}
	case packed && payloads && value.Kind != rdb.Stream:
		payload, err := p.payload(value)
		if err != nil {
			return err
		}
		p.number = strconv.AppendInt(p.number[:0], key.ExpireMs, 10)
		p.words = append(p.words[:0], restoreWord, key.Name, p.number, payload, replaceWord)
		if key.ExpireMs != 0 {
			p.words = append(p.words, absoluteWord)
		}
		return to(p.words...)
	default:
		if err := p.writePieces(key.Name, value, to); err != nil {
			return err
		}
	}
	if key.ExpireMs == 0 {
		return nil
	}
	p.number = strconv.AppendInt(p.number[:0], key.ExpireMs, 10)
	return to(expireWord, key.Name, p.number)
}

var (
	setWord      = []byte("SET")
	restoreWord  = []byte("RESTORE")
	replaceWord  = []byte("REPLACE")
	absoluteWord = []byte("ABSTTL")
	expireWord   = []byte("PEXPIREAT")
	deleteWord   = []byte("DEL")
)

// known returns commands that do the same at a target of any version: a RESTORE is taken apart when its payload is of a form that only some
// have.
func (c *Command) known() ([]Command, error) {
	if !fieldtimes.IsNewerRestore(c.Args) {
		return []Command{*c}, nil
	}
	commands, err := fieldtimes.Apart(c.Args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", brief(c.Args), err)
	}
	parts := make([]Command, len(commands))
	for i := range commands {
		parts[i] = *c
		parts[i].Args = commands[i]
	}
	return parts, nil
}

// payload is a packed collection as RESTORE takes it.
func (p *PayloadBuilder) payload(value *rdb.Value) ([]byte, error) {
	if p.writer == nil {
		p.writer = rdb.NewPayloadWriter()
	}
	w := p.writer
	w.Begin(p.memory)
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
	payload, err := w.Finish()
	p.memory = retained(payload)
	return payload, err
}

// writePieces writes a collection element by element, so that none has to be in memory.
func (p *PayloadBuilder) writePieces(key []byte, value *rdb.Value, to write) error {
	if err := to(deleteWord, key); err != nil {
		return err
	}
	if value.Kind == rdb.Stream {
		return writeStream(key, value, to)
	}
	name := map[rdb.Kind]string{rdb.List: "RPUSH", rdb.Set: "SADD", rdb.Hash: "HSET", rdb.SortedSet: "ZADD"}[value.Kind]
	if name == "" {
		return failure(ExitUnsupported, "a value of this type can't be moved")
	}
	piece := &p.piece
	piece.begin([]byte(name), key)
	for value.Next() {
		e := &value.Element
		switch value.Kind {
		case rdb.Hash:
			if err := p.addField(e); err != nil {
				return err
			}
		case rdb.SortedSet:
			p.number = appendScoreWord(p.number[:0], e.Score)
			piece.add(p.number, e.Bytes)
		default:
			piece.add(e.Bytes)
		}
		if !piece.full() {
			continue
		}
		if err := piece.end(to); err != nil {
			return err
		}
		piece.begin([]byte(name), key)
	}
	if err := value.Err(); err != nil || len(piece.words) == 2 {
		return err
	}
	return piece.end(to)
}

func (p *PayloadBuilder) addField(e *rdb.Element) error {
	if e.ExpireMs != 0 && p.refuseTimes != nil {
		if err := p.refuseTimes(); err != nil {
			return err
		}
	}
	p.piece.add(e.Bytes, e.Value)
	if e.ExpireMs != 0 {
		p.piece.times = append(p.piece.times, fieldTime{len(p.piece.words) - 2, e.ExpireMs})
	}
	return nil
}

// piece is a command that adds some elements.
type piece struct {
	words    [][]byte
	memory   []byte // of the elements; words that came before it had to grow are elsewhere
	elements int
	times    []fieldTime
}

// fieldTime is when a field expires that is one of a piece's words.
type fieldTime struct {
	word     int
	expireMs int64
}

func (p *piece) begin(name, key []byte) {
	p.words, p.memory, p.elements, p.times = append(p.words[:0], name, key), retained(p.memory), 0, p.times[:0]
}

// end writes the piece, and the times of its fields: those that follow each other and are the same with
// one command.
func (p *piece) end(to write) error {
	if err := to(p.words...); err != nil {
		return err
	}
	for times := p.times; len(times) > 0; {
		n := 1
		for n < len(times) && times[n].expireMs == times[0].expireMs {
			n++
		}
		words := [][]byte{[]byte("HPEXPIREAT"), p.words[1], strconv.AppendInt(nil, times[0].expireMs, 10), []byte("FIELDS"), strconv.AppendInt(nil, int64(n), 10)}
		for _, t := range times[:n] {
			words = append(words, p.words[t.word])
		}
		if err := to(words...); err != nil {
			return err
		}
		times = times[n:]
	}
	return nil
}

// retained is memory to be used again, unless it is a lot.
func retained(b []byte) []byte {
	if cap(b) > 1<<20 {
		return nil
	}
	return b[:0]
}

func (p *piece) add(words ...[]byte) {
	for _, word := range words {
		from := len(p.memory)
		p.memory = append(p.memory, word...)
		p.words = append(p.words, p.memory[from:len(p.memory):len(p.memory)])
	}
	p.elements++
}

func (p *piece) full() bool { return len(p.memory) >= pieceBytes || p.elements >= pieceElements }

func appendScoreWord(dst []byte, score float64) []byte {
	switch {
	case math.IsInf(score, 1):
		return append(dst, "+inf"...)
	case math.IsInf(score, -1):
		return append(dst, "-inf"...)
	}
	return strconv.AppendFloat(dst, score, 'g', -1, 64)
}

// writeStream writes a stream the way a rewritten AOF does: its entries, its totals, its groups,
// their consumers, and who owns which pending entry.
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
