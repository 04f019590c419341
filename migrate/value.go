package migrate

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

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
	parts  streamParts

	refuseTimes func() error // why the target doesn't take times of fields; nil: it does
}

// firstOfPayloads is the version of Redis from which on servers take the payloads that are written
// here.
const firstOfPayloads = 7

// Pieces of a collection that isn't packed: at most so much goes into one command.
const (
	pieceBytes    = 64 << 10
	pieceElements = 500
)

// write takes the words of a command on a key, which may change behind it.
type write func(words ...[]byte) error

// writeValue writes a value in place of what a key had. Small collections go as they are packed, in
// a RESTORE, if the target takes payloads of RDB version 10; others go in pieces. Streams go as
// writeStream says: in whatever form, only Redis 7.0 and later take them with their totals.
func (p *PayloadBuilder) writeValue(key Key, value *rdb.Value, payloads bool, to write) error {
	packed := value.Listpack != nil || value.Intset != nil
	switch {
	case value.Kind == rdb.String:
		if err := p.writeString(key.Name, value, to); err != nil {
			return err
		}
	case value.Kind == rdb.Stream:
		if restored, err := p.writeStream(key, value, to); restored || err != nil {
			return err
		}
	case packed && payloads:
		payload, err := p.payload(value)
		if err != nil {
			return err
		}
		return p.restore(key, payload, to)
	default:
		if err := p.writePieces(key, value, to); err != nil {
			return err
		}
	}
	if key.ExpireMs == 0 {
		return nil
	}
	p.number = strconv.AppendInt(p.number[:0], key.ExpireMs, 10)
	return to(expireWord, key.Name, p.number)
}

// writeString writes a string, a long one in the parts that it comes in.
func (p *PayloadBuilder) writeString(key []byte, value *rdb.Value, to write) error {
	p.words = append(p.words[:0], setWord, key, value.Bytes)
	for {
		if err := to(p.words...); err != nil || !value.Next() {
			return cmp.Or(err, value.Err())
		}
		p.number = strconv.AppendInt(p.number[:0], value.Element.Offset, 10)
		p.words = append(p.words[:0], setRangeWord, key, p.number, value.Element.Bytes)
	}
}

var (
	setWord      = []byte("SET")
	setRangeWord = []byte("SETRANGE")
	restoreWord  = []byte("RESTORE")
	replaceWord  = []byte("REPLACE")
	absoluteWord = []byte("ABSTTL")
	expireWord   = []byte("PEXPIREAT")
	deleteWord   = []byte("DEL")
	fieldsWord   = []byte("FIELDS")
)

// known returns commands that do the same at a target of any version: a RESTORE is taken apart when
// its payload is of a form that only some have.
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

// known is Command.known, and for a target before Redis 7.0 has the value of a RESTORE written as
// Load writes one, for one before 6.2 the time of a SET by a command of its own.
func (t *Target) known(c *Command) (commands []Command, err error) {
	parts, err := c.known()
	if t.facts.major() >= firstOfPayloads || err != nil {
		return parts, err
	}
	for i := range parts {
		elements, err := t.payloads.apart(&parts[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", brief(c.Args), err)
		}
		for _, element := range elements {
			if t.facts.before(6, 2) {
				commands = append(commands, element.withoutTime()...)
			} else {
				commands = append(commands, element)
			}
		}
	}
	return commands, nil
}

// withoutTime returns a SET without its expiry, and the command that gives the key the expiry; any
// other command stays as it is.
func (c *Command) withoutTime() []Command {
	if bytes.EqualFold(c.Args[0], setWord) {
		for at := 3; at+1 < len(c.Args); at++ { // behind the value
			name := strings.ToUpper(string(c.Args[at]))
			if name != "PXAT" && name != "EXAT" {
				continue
			}
			set, expire := *c, *c
			set.Args = slices.Concat(c.Args[:at], c.Args[at+2:])
			expire.Args = [][]byte{expireWord, c.Args[1], c.Args[at+1]}
			if name == "EXAT" {
				expire.Args[0] = []byte("EXPIREAT")
			}
			return []Command{set, expire}
		}
	}
	return []Command{*c}
}

// apart is a RESTORE as the commands that make its value; any other command, and a stream that an
// older Redis has packed, stay as they are.
func (p *PayloadBuilder) apart(c *Command) (commands []Command, err error) {
	if len(c.Args) < 4 || !bytes.EqualFold(c.Args[0], restoreWord) {
		return []Command{*c}, nil
	}
	value, err := (&rdb.Decoder{Trusted: true}).Payload(c.Args[3])
	if err != nil {
		return nil, failure(ExitUnsupported, "its payload: %w", err)
	}
	if value.Kind == rdb.Stream {
		if rdb.PayloadVersion(c.Args[3]) >= rdb.Version {
			return nil, failure(ExitUnsupported, "the target is a Redis before 7.0, which takes no such stream")
		}
		return []Command{*c}, nil
	}
	key := Key{Database: c.Database, Name: c.Args[1]}
	if key.ExpireMs, err = strconv.ParseInt(string(c.Args[2]), 10, 64); err != nil {
		return nil, err
	}
	isAbsolute := func(word []byte) bool { return bytes.EqualFold(word, absoluteWord) }
	if key.ExpireMs != 0 && !slices.ContainsFunc(c.Args[4:], isAbsolute) {
		key.ExpireMs += time.Now().UnixMilli()
	}
	err = p.writeValue(key, value, false, func(words ...[]byte) error {
		commands = append(commands, Command{Database: c.Database, Args: cloneWords(words), Keys: []KeyPosition{{Index: 1}}})
		return nil
	})
	return commands, err
}

// restore writes a value that is a payload.
func (p *PayloadBuilder) restore(key Key, payload []byte, to write) error {
	p.number = strconv.AppendInt(p.number[:0], key.ExpireMs, 10)
	p.words = append(p.words[:0], restoreWord, key.Name, p.number, payload, replaceWord)
	if key.ExpireMs != 0 {
		p.words = append(p.words, absoluteWord)
	}
	return to(p.words...)
}

// begin begins a payload in some memory.
func (p *PayloadBuilder) begin(memory []byte) *rdb.PayloadWriter {
	if p.writer == nil {
		p.writer = rdb.NewPayloadWriter()
	}
	p.writer.Begin(memory)
	return p.writer
}

// payload is a packed collection as RESTORE takes it.
func (p *PayloadBuilder) payload(value *rdb.Value) ([]byte, error) {
	w := p.begin(p.memory)
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
func (p *PayloadBuilder) writePieces(key Key, value *rdb.Value, to write) error {
	// Before the first word of it: a value that is refused may be passed over, as a whole.
	if value.FieldsMayExpire() && p.refuseTimes != nil {
		if err := p.refuseTimes(); err != nil {
			return err
		}
	}
	if err := to(deleteWord, key.Name); err != nil {
		return err
	}
	name := map[rdb.Kind]string{rdb.List: "RPUSH", rdb.Set: "SADD", rdb.Hash: "HSET", rdb.SortedSet: "ZADD"}[value.Kind]
	if name == "" {
		return failure(ExitUnsupported, "a value of this type can't be moved")
	}
	piece := &p.piece
	piece.begin([]byte(name), key.Name)
	for value.Next() {
		e := &value.Element
		switch value.Kind {
		case rdb.Hash:
			p.addField(e, key.Held)
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
		piece.begin([]byte(name), key.Name)
	}
	if err := value.Err(); err != nil || len(piece.words) == 2 {
		return err
	}
	return piece.end(to)
}

func (p *PayloadBuilder) addField(e *rdb.Element, held bool) {
	p.piece.add(e.Bytes, e.Value)
	if e.ExpireMs == 0 {
		return
	}
	at := min(e.ExpireMs, latestOfField)
	if held {
		at = ofFields.hold(at)
	}
	p.piece.times = append(p.piece.times, fieldTime{len(p.piece.words) - 2, at})
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

// end writes the piece, and the times of its fields: those that follow each other and are the same
// with one command.
func (p *piece) end(to write) error {
	if err := to(p.words...); err != nil {
		return err
	}
	for times := p.times; len(times) > 0; {
		n := 1
		for n < len(times) && times[n].expireMs == times[0].expireMs {
			n++
		}
		words := [][]byte{[]byte("HPEXPIREAT"), p.words[1], strconv.AppendInt(nil, times[0].expireMs, 10), fieldsWord, strconv.AppendInt(nil, int64(n), 10)}
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
