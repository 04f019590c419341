package storage

import (
	"errors"
	"fmt"
	"strconv"

	"kedis/internal/number"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// pieces is how a large collection of a type goes to another Kedis: the beginning as a payload, the
// rest as the words of commands. A type that has no such collections has none.
type pieces struct {
	command string // adds elements
	// begin writes a collection of the first elements, and returns those that are not in it.
	begin func(e *rdb.Encoder, first []rdb.Element) (rest []rdb.Element)
	words func(words [][]byte, element *rdb.Element) [][]byte
	parse func(words [][]byte, element *rdb.Element) (rest [][]byte, err error)
	// elements visits what pieces consist of; nil: the collection's elements.
	elements func(d DB, m *layout.Metadata, visit visitElement) error
}

// PieceCommand is the command that adds a piece to a large collection; "" if the type has none.
func (t *DataType) PieceCommand() string { return t.pieces.command }

// PieceElements visits the elements that a large collection's pieces consist of, as Elements does.
func (d DB) PieceElements(m *layout.Metadata, visit func(element, value []byte, score float64) error) error {
	t := TypeOf(m.Type)
	if t.pieces.elements != nil {
		return t.pieces.elements(d, m, visit)
	}
	return t.elements(d, m, visit)
}

// BeginPieces writes a collection that has some of its first elements, and returns the others.
func (t *DataType) BeginPieces(e *rdb.Encoder, first []rdb.Element) (rest []rdb.Element) {
	return t.pieces.begin(e, first)
}

// beginWhole returns a pieces.begin that writes all of the first elements.
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

// AppendPiece appends the words of elements as PieceCommand takes them.
func (t *DataType) AppendPiece(words [][]byte, elements []rdb.Element) [][]byte {
	for i := range elements {
		words = t.pieces.words(words, &elements[i])
	}
	return words
}

// ParsePiece takes the first element from the words of a piece, and returns those behind it.
func (t *DataType) ParsePiece(words [][]byte, element *rdb.Element) (rest [][]byte, err error) {
	return t.pieces.parse(words, element)
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
	e.Bytes, e.Value = words[0], words[1]
	return words[2:], nil
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
