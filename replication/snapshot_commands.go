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
//	FUNCTION LOAD source                            a library of functions
//	…
//	SELECT database
//	RESTORE key expire-ms payload ABSTTL            a key, or the beginning of a large collection
//	HSET | SADD | RPUSH | ZADD key element …        the rest of that, in pieces
//	HSETEX key field value expire-ms …              the same of a hash with fields that expire
//	SETRANGE key offset bytes …                     the same of a long string: parts of it, between which there are zeros
//	XPARTS key part …                               the same of a stream, of which RESTORE makes an empty one; see rdb.StreamElement.Append
//	…
//	REPL_SNAPSHOT_COMPLETE id database position keys checksum
//
// expire-ms is 0 for a key, or a field, that doesn't expire. database is the one that is selected
// in the stream at the position, keys the number of keys, and checksum the CRC-64 of all bytes
// before, in hexadecimal.
const snapshotComplete = "REPL_SNAPSHOT_COMPLETE"

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
	kind     *storage.Pieces
	elements []rdb.Element
	words    [][]byte // scratch
	text     []byte   // what elements refer to
}

// writeCommands writes the snapshot as commands.
func (s *snapshot) writeCommands(w io.Writer) error {
	c := &commandWriter{to: bufio.NewWriterSize(w, coalesce), payload: rdb.NewPayloadWriter()}
	err := s.store.LibrariesOf(s.view, func(_ string, source []byte) error {
		return c.say([]byte("FUNCTION"), []byte("LOAD"), source)
	})
	if err != nil {
		return err
	}
	for database := range s.store.Databases() {
		keys, _ := s.view.Size(database)
		if keys == 0 {
			continue
		}
		if err := c.sayTexts("SELECT", strconv.Itoa(database)); err != nil {
			return err
		}
		if err := s.scan(database, keys, c.key); err != nil {
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

// pieces writes a large collection: the beginning as a payload, the rest as what adds to it.
func (c *commandWriter) pieces(db storage.DB, key []byte, m *layout.Metadata) error {
	p := &c.piece
	p.kind = storage.PiecesOf(m)
	p.reset()
	first := true
	send := func() error {
		defer p.reset()
		rest := p.elements
		if first {
			first = false
			c.payload.Begin(c.memory)
			rest = p.kind.Begin(&c.payload.Encoder, p.elements)
			if err := c.restore(key, m.ExpireMs); err != nil {
				return err
			}
		}
		if len(rest) == 0 {
			return nil
		}
		p.words = p.kind.Append(append(p.words, []byte(p.kind.Command()), key), rest)
		return c.say(p.words...)
	}
	err := p.kind.Visit(db, m, func(e *rdb.Element) error {
		p.add(e)
		if len(p.text) >= pieceBytes || len(p.elements) >= pieceElements {
			return send()
		}
		return nil
	})
	if err == nil && len(p.elements) > 0 {
		err = send()
	}
	return err
}

func (p *piece) reset() {
	clear(p.elements)
	clear(p.words)
	p.elements, p.words, p.text = p.elements[:0], p.words[:0], p.text[:0]
	if cap(p.text) > largestKept {
		p.text = nil
	}
}

func (p *piece) add(e *rdb.Element) {
	kept := *e
	kept.Bytes, kept.Value = p.keep(e.Bytes), p.keep(e.Value)
	p.elements = append(p.elements, kept)
}

// keep copies bytes, which belong to whoever visits elements. When the text moves while it grows,
// those before go on referring to the old one.
func (p *piece) keep(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(p.text)
	p.text = append(p.text, b...)
	return p.text[from:len(p.text):len(p.text)]
}
