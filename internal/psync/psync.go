// Package psync holds the words of Redis's replication protocol: the answer to PSYNC, where a
// snapshot ends, when the primary wants to hear from a replica, and the types that commands and
// replication share. It holds no connection and no state of a replica, and may import
// internal/resp.
//
// Sources: Redis's documentation of replication, and what redis-server 7.0 sends.
package psync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"kedis/internal/resp"
)

// idBytes is the length of a history's id, in hexadecimal digits.
const idBytes = 40

// maxPosition is the greatest position that is taken from a primary. It leaves room for more than
// will ever be written behind it: positions that overflow would make a log that can't be read.
const maxPosition = 1 << 62

// Answer is what a primary says to PSYNC.
type Answer struct {
	Full     bool   // a snapshot follows; else the stream goes on
	ID       string // of the history; empty: the one that was asked for
	Position int64  // of the snapshot

	// Commands says that the snapshot comes as commands, as one Kedis sends it to another that has
	// announced that it takes it, with Keys keys.
	Commands bool
	Keys     int64
}

// ParseAnswer reads FULLRESYNC id position [keys], or CONTINUE [id].
func ParseAnswer(text []byte) (Answer, error) {
	words := strings.Fields(string(text))
	switch {
	case len(words) == 3 && strings.EqualFold(words[0], "FULLRESYNC"):
		position, err := strconv.ParseInt(words[2], 10, 64)
		if err == nil && position >= 0 && position <= maxPosition && isID(words[1]) {
			return Answer{Full: true, ID: words[1], Position: position}, nil
		}
	case len(words) == 4 && strings.EqualFold(words[0], "FULLRESYNC"):
		keys, err := strconv.ParseInt(words[3], 10, 64)
		if err == nil && keys >= 0 {
			answer, err := ParseAnswer([]byte(strings.Join(words[:3], " ")))
			answer.Commands, answer.Keys = true, keys
			return answer, err
		}
	case len(words) == 1 && strings.EqualFold(words[0], "CONTINUE"):
		return Answer{}, nil
	case len(words) == 2 && strings.EqualFold(words[0], "CONTINUE") && isID(words[1]):
		return Answer{ID: words[1]}, nil
	}
	return Answer{}, fmt.Errorf("psync: the primary answers PSYNC with %.200q", text)
}

// isID reports whether a word can be the id of a history.
func isID(word string) bool {
	isDigit := func(c rune) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
	return len(word) == idBytes && strings.IndexFunc(word, func(c rune) bool { return !isDigit(c) }) < 0
}

// ReadHeader reads the line in front of a snapshot: $length, or $EOF:mark, for which length is -1.
func ReadHeader(r *resp.Reader) (length int64, mark []byte, err error) {
	var line []byte
	for len(line) == 0 { // empty lines say that it is being prepared
		if line, err = r.ReadLine(); err != nil {
			return 0, nil, err
		}
	}
	if mark, ok := bytes.CutPrefix(line, []byte("$EOF:")); ok && len(mark) == markBytes {
		return -1, bytes.Clone(mark), nil
	}
	digits, ok := strings.CutPrefix(string(line), "$")
	length, err = strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || length < 0 {
		return 0, nil, fmt.Errorf("psync: the primary sends %.100q where a snapshot should begin", line)
	}
	return length, nil, nil
}

// Body returns what ends where the snapshot that the header announced does.
func Body(source io.Reader, length int64, mark []byte) io.Reader {
	if length < 0 {
		return &markedReader{source: source, mark: mark}
	}
	return io.LimitReader(source, length)
}

const markBytes = 40

// markedReader reads up to a mark of 40 bytes, behind which nothing may have come yet.
type markedReader struct {
	source  io.Reader
	mark    []byte
	buffer  []byte // read from the source; the last bytes of it may be the beginning of the mark
	started int    // buffer[:started] was handed out
	ended   bool
}

func (m *markedReader) Read(p []byte) (int, error) {
	for {
		ready := len(m.buffer) - markBytes
		if m.ended {
			ready = len(m.buffer)
		}
		if ready > m.started {
			n := copy(p, m.buffer[m.started:ready])
			m.started += n
			return n, nil
		}
		if m.ended {
			return 0, io.EOF
		}
		if err := m.fill(); err != nil {
			return 0, err
		}
	}
}

func (m *markedReader) fill() error {
	if m.buffer == nil {
		m.buffer = make([]byte, 0, 64<<10)
	}
	m.buffer = m.buffer[:copy(m.buffer, m.buffer[m.started:])]
	m.started = 0
	n, err := m.source.Read(m.buffer[len(m.buffer):cap(m.buffer)])
	m.buffer = m.buffer[:len(m.buffer)+n]
	if at := bytes.Index(m.buffer, m.mark); at >= 0 {
		if at+markBytes != len(m.buffer) {
			return errors.New("psync: the primary sends more before the snapshot was taken")
		}
		m.buffer, m.ended = m.buffer[:at], true
		return nil
	}
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Drained checks that a snapshot's bytes end where its content does.
func Drained(body io.Reader) error {
	var one [1]byte
	n, err := body.Read(one[:])
	if n > 0 {
		return errors.New("psync: bytes follow behind the end of the snapshot")
	}
	if err != nil && err != io.EOF {
		return err
	}
	return nil
}

// AsksForAck says whether a command of the stream asks for the position that was reached.
func AsksForAck(args [][]byte) bool {
	return len(args) == 3 && bytes.EqualFold(args[0], []byte("REPLCONF")) && bytes.EqualFold(args[1], []byte("GETACK"))
}
