package migrate

import (
	"bytes"
	"slices"
	"strconv"

	"kedis/internal/resp"
)

// batch is what a lane sends at once: commands as they go over the connection.
type batch struct {
	encoded  []byte
	entries  []entry
	database int      // that is selected behind the last command; each batch begins and ends in 0, where the marker is
	all      bool     // comes from all lanes
	position Position // behind the last command
}

// entry is a command in a batch.
type entry struct {
	from, to int // where it stands in encoded
	slot     int // in a cluster
}

const (
	batchBytes = 512 << 10
	// transactionCommands is how many commands a batch has when it is a transaction, whose keys are
	// locked together.
	transactionCommands = 512
	batchCommands       = 8 * transactionCommands
)

var selectWord = []byte("SELECT")

// add appends a command. The words may change afterwards.
func (b *batch) add(database, slot int, words ...[]byte) {
	b.selects(database)
	b.append(slot, words...)
}

// selects has the connection in a database.
func (b *batch) selects(database int) {
	if database != b.database {
		b.append(0, selectWord, strconv.AppendInt(nil, int64(database), 10))
		b.database = database
	}
}

func (b *batch) append(slot int, words ...[]byte) {
	from := len(b.encoded)
	size := len(b.encoded)
	for _, word := range words {
		size += len(word) + len("$1234567890\r\n\r\n")
	}
	if size > 2*batchBytes { // no more than that: append would get it a quarter, at least
		b.encoded = slices.Grow(b.encoded, size+64-len(b.encoded))
	}
	b.encoded = resp.AppendRequest(b.encoded, words...)
	b.entries = append(b.entries, entry{from: from, to: len(b.encoded), slot: slot})
}

func (b *batch) full(transaction bool) bool {
	n := len(b.entries)
	return len(b.encoded) >= batchBytes || n >= batchCommands || transaction && n >= transactionCommands
}

// reset empties a batch. It returns nil for one whose memory is too large to be kept.
func (b *batch) reset() *batch {
	if cap(b.encoded) > 2*batchBytes {
		return nil
	}
	return &batch{encoded: b.encoded[:0], entries: b.entries[:0]}
}

// command is what a message shows of one.
func (b *batch) command(e entry) string { return brief(b.words(e)) }

// key is the first key of a command that has one.
func (b *batch) key(e entry) []byte {
	if words := b.words(e); len(words) > 1 {
		return words[1]
	}
	return nil
}

func (b *batch) words(e entry) [][]byte {
	words, _, err := resp.NewReader(bytes.NewReader(b.encoded[e.from:e.to]), longestCommand).ReadRequest()
	if err != nil {
		panic("migrate: a batch has what is no request: " + err.Error())
	}
	return words
}
