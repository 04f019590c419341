package storage

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"kedis/internal/number"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// Pieces is how a large collection goes to another Kedis: the beginning as a payload, the rest as
// the words of commands. A type that has no such collections has none.
type Pieces struct {
	command string // adds elements
	// begin writes a collection of the first elements, and returns those that are not in it.
	begin func(e *rdb.Encoder, first []rdb.Element) (rest []rdb.Element)
	words func(words [][]byte, element *rdb.Element) [][]byte
	parse func(words [][]byte, element *rdb.Element) (rest [][]byte, err error)
	// visit visits what pieces consist of; nil: the collection's elements.
	visit func(d DB, m *layout.Metadata, visit func(*rdb.Element) error) error
}

// PiecesOf returns how a collection that is spread goes to another Kedis.
func PiecesOf(m *layout.Metadata) *Pieces {
	if m.Expiring > 0 {
		return &expiringPieces
	}
	return &TypeOf(m.Type).pieces
}

// PiecesNamed returns the pieces of a type that come as a command; nil if there are none.
func (t *DataType) PiecesNamed(command string) *Pieces {
	switch {
	case command == "":
		return nil
	case t.pieces.command == command:
		return &t.pieces
	case t.RDB == rdb.Hash && expiringPieces.command == command:
		return &expiringPieces
	}
	return nil
}

// Command is the command that adds a piece.
func (p *Pieces) Command() string { return p.command }

// Visit visits the elements that the pieces of a collection consist of. Their bytes live until
// visit returns.
func (p *Pieces) Visit(d DB, m *layout.Metadata, visit func(*rdb.Element) error) error {
	if p.visit != nil {
		return p.visit(d, m, visit)
	}
	var e rdb.Element
	return TypeOf(m.Type).elements(d, m, func(element, value []byte, score float64) error {
		e = rdb.Element{Bytes: element, Value: value, Score: score}
		return visit(&e)
	})
}

// Begin writes a collection that has some of its first elements, and returns the others.
func (p *Pieces) Begin(e *rdb.Encoder, first []rdb.Element) (rest []rdb.Element) {
	return p.begin(e, first)
}

// Append appends the words of elements as Command takes them.
func (p *Pieces) Append(words [][]byte, elements []rdb.Element) [][]byte {
	for i := range elements {
		words = p.words(words, &elements[i])
	}
	return words
}

// Parse takes the first element from the words of a piece, and returns those behind it.
func (p *Pieces) Parse(words [][]byte, element *rdb.Element) (rest [][]byte, err error) {
	return p.parse(words, element)
}

// beginWhole returns a Pieces.begin that writes all of the first elements.
func beginWhole(begin func(*rdb.Encoder, uint64), encode func(*rdb.Encoder, *rdb.Element)) func(*rdb.Encoder, []rdb.Element) []rdb.Element {
	return func(e *rdb.Encoder, first []rdb.Element) []rdb.Element {
		begin(e, uint64(len(first)))
		for i := range first {
			encode(e, &first[i])
		}
		e.End()
		return nil
	}
}

// TypeOfPayload returns the type of a value in a payload or a file; nil if Kedis doesn't have it.
func TypeOfPayload(kind rdb.Kind) *DataType {
	for i := range types {
		if t := &types[i]; t.holds(kind) {
			return t
		}
	}
	return nil
}

// holds reports whether values of a kind in payloads and files are of the type.
func (t *DataType) holds(kind rdb.Kind) bool { return t.restore != nil && t.RDB == kind }

// ErrPiece is returned for words that are no elements.
var ErrPiece = errors.New("storage: a piece of a collection is damaged")

// The words of a spread string are offsets and what stands there. Zeros between the parts are left
// out; those at its end come as the last one of them.

func beginString(e *rdb.Encoder, first []rdb.Element) (rest []rdb.Element) {
	if first[0].Offset > 0 {
		e.String(nil)
		return first
	}
	e.String(first[0].Bytes)
	return first[1:]
}

func visitStringParts(d DB, m *layout.Metadata, visit func(*rdb.Element) error) error {
	var e rdb.Element
	var failed error
	length := m.StringLength()
	err := d.StringParts(m, 0, length, func(offset int, part []byte) bool {
		e = rdb.Element{Offset: int64(offset), Bytes: part}
		failed = visit(&e)
		return failed == nil
	})
	if err = cmp.Or(failed, err); err == nil && int(e.Offset)+len(e.Bytes) < length {
		err = visit(&rdb.Element{Offset: int64(length - 1), Bytes: zeros[:1]})
	}
	return err
}

func appendOffsetWords(words [][]byte, e *rdb.Element) [][]byte {
	return append(words, strconv.AppendInt(nil, e.Offset, 10), e.Bytes)
}

func parseOffsetWords(words [][]byte, e *rdb.Element) (rest [][]byte, err error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("%w: nothing stands at offset %.40q", ErrPiece, words[0])
	}
	var ok bool
	if e.Offset, ok = number.ParseInt(words[0]); !ok {
		return nil, fmt.Errorf("%w: the offset %.40q", ErrPiece, words[0])
	}
	e.Bytes = words[1]
	return words[2:], nil
}

func appendElementWord(words [][]byte, e *rdb.Element) [][]byte { return append(words, e.Bytes) }

func parseElementWord(words [][]byte, e *rdb.Element) ([][]byte, error) {
	e.Bytes = words[0]
	return words[1:], nil
}

func appendFieldWords(words [][]byte, e *rdb.Element) [][]byte {
	return append(words, e.Bytes, e.Value)
}

func parseFieldWords(words [][]byte, e *rdb.Element) ([][]byte, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("%w: field %.40q has no value", ErrPiece, words[0])
	}
	e.Bytes, e.Value, e.ExpireMs = words[0], words[1], 0
	return words[2:], nil
}

// expiringPieces are those of hashes with fields that expire: their words are fields, values and
// times.
var expiringPieces = Pieces{command: "HSETEX", words: appendExpiringWords, parse: parseExpiringWords, begin: beginExpiring, visit: visitExpiring}

func beginExpiring(e *rdb.Encoder, first []rdb.Element) []rdb.Element {
	const earliest = 1 // times are relative to it
	e.BeginExpiringHash(earliest, uint64(len(first)))
	for i := range first {
		e.ExpiringField(first[i].Bytes, first[i].Value, first[i].ExpireMs)
	}
	e.End()
	return nil
}

func visitExpiring(d DB, m *layout.Metadata, visit func(*rdb.Element) error) error {
	var e rdb.Element
	h := Hash{db: d, next: *m}
	return h.each(func(field, value []byte, expireMs int64) error {
		e = rdb.Element{Bytes: field, Value: value, ExpireMs: expireMs}
		return visit(&e)
	})
}

func appendExpiringWords(words [][]byte, e *rdb.Element) [][]byte {
	return append(words, e.Bytes, e.Value, strconv.AppendInt(nil, e.ExpireMs, 10))
}

func parseExpiringWords(words [][]byte, e *rdb.Element) (rest [][]byte, err error) {
	if len(words) < 3 {
		return nil, fmt.Errorf("%w: field %.40q has no time", ErrPiece, words[0])
	}
	expireMs, ok := number.ParseInt(words[2])
	if !ok || expireMs < 0 {
		return nil, fmt.Errorf("%w: field %.40q expires at %.40q", ErrPiece, words[0], words[2])
	}
	e.Bytes, e.Value, e.ExpireMs = words[0], words[1], expireMs
	return words[3:], nil
}

func appendScoreWords(words [][]byte, e *rdb.Element) [][]byte {
	return append(words, strconv.AppendFloat(nil, e.Score, 'g', 17, 64), e.Bytes)
}

func parseScoreWords(words [][]byte, e *rdb.Element) (rest [][]byte, err error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("%w: score %.40q has no member", ErrPiece, words[0])
	}
	score, ok := number.ParseDouble(words[0])
	if !ok {
		return nil, fmt.Errorf("%w: a member has the score %.40q", ErrPiece, words[0])
	}
	e.Bytes, e.Score = words[1], score
	return words[2:], nil
}
