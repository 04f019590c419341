package replication

import (
	"bufio"
	"fmt"
	"io"
	"strconv"

	"kedis/internal/resp"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// Between two Kedis a snapshot is a stream of commands, behind  +FULLRESYNC id position keys :
//
//	SELECT database
//	RESTORE key expire-ms payload ABSTTL            a key, or the beginning of a large collection
//	HSET | SADD | RPUSH | ZADD key element …        the rest of that, in pieces
//	HSETEX key field value expire-ms …              the same of a hash of which fields expire
//	…
//	REPL_SNAPSHOT_COMPLETE id database position keys checksum
//
// expire-ms is 0 for a key, or a field, that doesn't expire. database is the one that is selected in the stream at the
// position, keys the number of keys, and checksum the CRC-64 of all bytes before, in hexadecimal.
const snapshotComplete = "REPL_SNAPSHOT_COMPLETE"

// pieceCommands are what adds a piece to a large collection.
var pieceCommands = map[rdb.Kind]string{rdb.Hash: "HSET", rdb.Set: "SADD", rdb.List: "RPUSH", rdb.SortedSet: "ZADD"}

// expiringPiece is what adds a piece to a hash of which fields expire.
const expiringPiece = "HSETEX"

const (
	pieceBytes    = 64 << 10 // of the elements of a large collection, about as many as are sent at a time
	pieceElements = 1000
)

// commandWriter writes a snapshot as commands.
type commandWriter struct {
	to       *bufio.Writer
	checksum uint64
	request  []byte
	payload  *rdb.PayloadWriter
	memory   []byte // of payloads
	piece    piece
}

// piece is a part of a large collection.
type piece struct {
	kind     rdb.Kind
	words    [][]byte // elements with what belongs to them, as pieceCommands take them
	scores   []float64
	expiring bool // words are fields, values and times
	times    []int64
	elements uint64
	bytes    int
}

// writeCommands writes the snapshot as commands.
func (s *snapshot) writeCommands(w io.Writer) error {
	c := &commandWriter{to: bufio.NewWriterSize(w, coalesce), payload: rdb.NewPayloadWriter()}
	for database := range s.store.Databases() {
		keys, _ := s.view.Size(database)
		if keys == 0 {
			continue
		}
		if err := c.sayTexts("SELECT", strconv.Itoa(database)); err != nil {
			return err
		}
		if err := s.walk(database, keys, c.key); err != nil {
			return err
		}
	}
	checksum := fmt.Sprintf("%016x", c.checksum)
	position, keys := strconv.FormatInt(s.view.Position(), 10), strconv.FormatInt(s.keys.Load(), 10)
	if err := c.sayTexts(snapshotComplete, s.id, strconv.Itoa(s.view.Selected()), position, keys, checksum); err != nil {
		return err
	}
	return c.to.Flush()
}

func (c *commandWriter) say(words ...[]byte) error {
	c.request = resp.AppendRequest(c.request[:0], words...)
	c.checksum = rdb.CRC64(c.checksum, c.request)
	_, err := c.to.Write(c.request)
	return err
}

func (c *commandWriter) sayTexts(words ...string) error {
	all := make([][]byte, len(words))
	for i, word := range words {
		all[i] = []byte(word)
	}
	return c.say(all...)
}

// key writes one key.
func (c *commandWriter) key(db storage.DB, key []byte, m *layout.Metadata) error {
	if m.Encoding == layout.Spread {
		return c.pieces(db, key, m)
	}
	c.payload.Begin(c.memory)
	if err := db.Encode(storage.Key{Metadata: *m, Exists: true}, &c.payload.Encoder); err != nil {
		return err
	}
	return c.restore(key, m.ExpireMs)
}

// restore writes the payload that was encoded.
func (c *commandWriter) restore(key []byte, expireMs int64) error {
	payload, err := c.payload.Finish()
	if err != nil {
		return err
	}
	if cap(payload) <= largestKept {
		c.memory = payload[:0]
	}
	return c.say([]byte("RESTORE"), key, strconv.AppendInt(nil, expireMs, 10), payload, []byte("ABSTTL"))
}

// largestKept is how much memory is kept from one payload to the next.
const largestKept = 1 << 20

// pieces writes a large collection: the first piece as a payload, the others as what adds to it.
func (c *commandWriter) pieces(db storage.DB, key []byte, m *layout.Metadata) error {
	p := &c.piece
	p.kind, p.expiring = storage.TypeOf(m.Type).RDB, m.Expiring > 0
	p.reset()
	name := pieceCommands[p.kind]
	if p.expiring {
		name = expiringPiece
	}
	first := true
	send := func() (err error) {
		if first {
			first = false
			c.payload.Begin(c.memory)
			p.encode(&c.payload.Encoder)
			err = c.restore(key, m.ExpireMs)
		} else {
			err = c.say(append([][]byte{[]byte(name), key}, p.words...)...)
		}
		p.reset()
		return err
	}
	sendFull := func() error {
		if p.bytes >= pieceBytes || p.elements >= pieceElements {
			return send()
		}
		return nil
	}
	var err error
	if p.expiring {
		err = db.HashFields(m, func(field, value []byte, expireMs int64) error {
			p.addExpiring(field, value, expireMs)
			return sendFull()
		})
	} else {
		err = db.Elements(m, func(element, value []byte, score float64) error {
			p.add(element, value, score)
			return sendFull()
		})
	}
	if err == nil && p.elements > 0 {
		err = send()
	}
	return err
}

func (p *piece) reset() {
	clear(p.words)
	p.words, p.scores, p.times, p.elements, p.bytes = p.words[:0], p.scores[:0], p.times[:0], 0, 0
}

func (p *piece) addExpiring(field, value []byte, expireMs int64) {
	p.times = append(p.times, expireMs)
	p.words = append(p.words, append([]byte(nil), field...), append([]byte(nil), value...), strconv.AppendInt(nil, expireMs, 10))
	p.elements++
	p.bytes += len(field) + len(value)
}

func (p *piece) add(element, value []byte, score float64) {
	switch p.kind {
	case rdb.Hash:
		p.words = append(p.words, append([]byte(nil), element...), append([]byte(nil), value...))
	case rdb.SortedSet:
		p.scores = append(p.scores, score)
		p.words = append(p.words, strconv.AppendFloat(nil, score, 'g', 17, 64), append([]byte(nil), element...))
	default:
		p.words = append(p.words, append([]byte(nil), element...))
	}
	p.elements++
	p.bytes += len(element) + len(value)
}

// encode writes the piece as a collection of its own.
func (p *piece) encode(e *rdb.Encoder) {
	switch p.kind {
	case rdb.Hash:
		if p.expiring {
			p.encodeExpiring(e)
			break
		}
		e.BeginHash(p.elements)
		for i := 0; i < len(p.words); i += 2 {
			e.Field(p.words[i], p.words[i+1])
		}
	case rdb.SortedSet:
		e.BeginSortedSet(p.elements)
		for i, score := range p.scores {
			e.ScoredMember(p.words[2*i+1], score)
		}
	case rdb.Set:
		e.BeginSet(p.elements)
		for _, member := range p.words {
			e.Member(member)
		}
	case rdb.List:
		e.BeginPlainList(p.elements)
		for _, element := range p.words {
			e.ListElement(element)
		}
	}
	e.End()
}

func (p *piece) encodeExpiring(e *rdb.Encoder) {
	const first = 1 // times are relative to it
	e.BeginExpiringHash(first, p.elements)
	for i, expireMs := range p.times {
		e.ExpiringField(p.words[3*i], p.words[3*i+1], expireMs)
	}
}
