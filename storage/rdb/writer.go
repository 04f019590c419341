package rdb

import (
	"encoding/binary"
	"io"
	"strconv"
)

// Writer writes an RDB file: the header, then Aux and Function, then for each database Database,
// perhaps Sizes, and Key with one value (as an Encoder writes it) for each key; Close at the end.
// What is written goes to w in blocks. The first error stays, and Close returns it.
type Writer struct {
	Encoder
}

// NewWriter begins a file.
func NewWriter(w io.Writer, f Format) *Writer {
	file := &Writer{Encoder{largest: largePlain, largestStreamNode: LargestStreamNode, w: w, buf: make([]byte, 0, 2*bufferSize), format: f}}
	file.buf = append(file.buf, f.header()...)
	return file
}

// Aux writes something about the file that a reader may ignore. Redis's own are redis-ver,
// redis-bits, ctime (seconds since 1970), used-mem (bytes), aof-base, and, for replicas,
// repl-stream-db, repl-id and repl-offset.
func (w *Writer) Aux(name, data string) {
	w.buf = append(w.buf, opAux)
	w.string([]byte(name))
	w.string([]byte(data))
}

// AuxInt is Aux with a number.
func (w *Writer) AuxInt(name string, data int64) { w.Aux(name, strconv.FormatInt(data, 10)) }

// Database says where the keys that follow belong.
func (w *Writer) Database(number uint64) {
	w.buf = append(w.buf, opSelectDB)
	w.length(number)
}

// Sizes tells how many keys the database has, and how many of them expire. It is a hint.
func (w *Writer) Sizes(keys, expires uint64) {
	w.buf = append(w.buf, opResizeDB)
	w.length(keys)
	w.length(expires)
}

// Key begins a key; its value has to follow. expireMs is in ms since 1970, 0 is never.
func (w *Writer) Key(key []byte, expireMs int64) {
	w.checkComplete()
	if expireMs != 0 {
		w.buf = append(w.buf, opExpireMs)
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(expireMs))
	}
	w.key = append(w.key[:0], key...)
	w.keySet = true
}

// Close ends the file with its checksum and writes what is left of it. It doesn't close the
// io.Writer.
func (w *Writer) Close() error {
	w.checkComplete()
	w.buf = append(w.buf, opEOF)
	w.hash()
	w.buf = binary.LittleEndian.AppendUint64(w.buf, w.crc)
	w.flush()
	return w.err
}
