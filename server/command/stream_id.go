package command

import (
	"bytes"
	"math"
	"strconv"

	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

// Ids of a stream's entries, as words have them.

const (
	errStreamID      = Error("ERR Invalid stream ID specified as stream command argument")
	errIntervalStart = Error("ERR invalid start ID for the interval")
	errIntervalEnd   = Error("ERR invalid end ID for the interval")
)

// longestStreamID is longer than any id that Redis reads.
const longestStreamID = 128

// parseStreamID reads an id; one without a sequence number gets the one given.
func parseStreamID(word []byte, missing uint64) (storage.StreamID, error) {
	id, _, err := readStreamID(word, missing, false)
	return id, err
}

// readStreamID is parseStreamID, also for  ms-*  where that is allowed: open is true then.
func readStreamID(word []byte, missing uint64, mayBeOpen bool) (id storage.StreamID, open bool, err error) {
	if len(word) >= longestStreamID {
		return id, false, errStreamID
	}
	ms, sequence, both := bytes.Cut(execute.UntilZero(word), []byte("-"))
	var ok bool
	if id.Ms, ok = parseUnsigned(ms); !ok {
		return id, false, errStreamID
	}
	id.Seq = missing
	if both {
		if mayBeOpen && string(sequence) == "*" {
			id.Seq = 0
			return id, true, nil
		}
		id.Seq, ok = parseUnsigned(sequence)
	}
	if !ok {
		err = errStreamID
	}
	return id, false, err
}

// parseUnsigned reads a number of 64 bits as Redis does: in the end by C's strtoull, which passes
// over white space and takes a sign.
func parseUnsigned(word []byte) (uint64, bool) {
	if n, err := strconv.ParseUint(string(word), 10, 64); err == nil {
		return n, true
	}
	if n, err := strconv.ParseInt(string(word), 10, 64); err == nil && n < 0 && word[0] == '-' && word[1] != '0' {
		return 0, false
	}
	digits := bytes.TrimLeft(word, " \t\n\v\f\r")
	negative := len(digits) > 0 && digits[0] == '-'
	if len(digits) > 0 && (digits[0] == '-' || digits[0] == '+') {
		digits = digits[1:]
	}
	n, err := strconv.ParseUint(string(digits), 10, 64)
	if negative {
		n = -n
	}
	return n, err == nil
}

// parseRangeID reads an id, or one of the words for the first and the last one that there can be.
func parseRangeID(word []byte, missing uint64) (storage.StreamID, error) {
	switch string(word) {
	case "-":
		return storage.StreamID{}, nil
	case "+":
		return layout.LastStreamID, nil
	}
	return parseStreamID(word, missing)
}

// parseInterval reads the ids between which entries stand. A parenthesis before one leaves it out.
func parseInterval(start, end []byte) (from, to storage.StreamID, err error) {
	if from, err = parseIntervalStart(start); err != nil {
		return from, to, err
	}
	to, excluded, err := parseBound(end, math.MaxUint64)
	if err == nil && excluded {
		var ok bool
		if to, ok = to.Previous(); !ok {
			err = errIntervalEnd
		}
	}
	return from, to, err
}

func parseIntervalStart(word []byte) (storage.StreamID, error) {
	from, excluded, err := parseBound(word, 0)
	if err == nil && excluded {
		var ok bool
		if from, ok = from.Next(); !ok {
			err = errIntervalStart
		}
	}
	return from, err
}

func parseBound(word []byte, missing uint64) (id storage.StreamID, excluded bool, err error) {
	if len(word) > 1 && word[0] == '(' {
		id, err = parseStreamID(word[1:], missing)
		return id, true, err
	}
	id, err = parseRangeID(word, missing)
	return id, false, err
}

// parseStreamIDs reads ids.
func parseStreamIDs(words [][]byte) ([]storage.StreamID, error) {
	ids := make([]storage.StreamID, len(words))
	for i, word := range words {
		var err error
		if ids[i], err = parseStreamID(word, 0); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// appendStreamID appends an id as replies have it.
func appendStreamID(dst []byte, id storage.StreamID) []byte {
	dst = append(strconv.AppendUint(dst, id.Ms, 10), '-')
	return strconv.AppendUint(dst, id.Seq, 10)
}

func formatStreamID(id storage.StreamID) []byte { return appendStreamID(nil, id) }

func replyStreamID(c *Invocation, id storage.StreamID) {
	var text [48]byte
	c.Reply.Bulk(appendStreamID(text[:0], id))
}

// replyEntry replies an entry: its id, and its fields and values.
func replyEntry(c *Invocation, id storage.StreamID, fields [][]byte) {
	c.Reply.Array(2)
	replyEntryFields(c, id, fields)
}

func replyEntryFields(c *Invocation, id storage.StreamID, fields [][]byte) {
	replyStreamID(c, id)
	c.Reply.Array(len(fields))
	for _, text := range fields {
		c.Reply.Bulk(text)
	}
}
