package migrate

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"kedis/internal/resp"
	"kedis/storage/rdb"
)

// Output is a Sink that is a file.
type Output interface {
	Sink
	// Close completes the file, and leaves the writer open.
	Close() error
}

// NewOutput writes a file of a format: "rdb", "resp" or "json". Keys are counted in the progress.
func NewOutput(format string, w io.Writer, version string, p *Progress) (Output, error) {
	switch format {
	case "rdb":
		file := rdb.NewWriter(w, rdb.Redis)
		file.Aux("redis-ver", "7.0.15")
		file.AuxInt("redis-bits", 64)
		file.AuxInt("ctime", time.Now().Unix())
		file.Aux("kedis-ver", version)
		return &rdbOutput{file: file, progress: p, database: -1}, nil
	case "resp":
		return &respOutput{w: bufio.NewWriterSize(w, 256<<10), progress: p, database: -1}, nil
	case "json":
		return &jsonOutput{w: bufio.NewWriterSize(w, 256<<10), progress: p}, nil
	}
	return nil, failure(ExitUsage, "--format: expected rdb, resp or json, got %q", format)
}

// errCommands says that a file takes keys, and no stream.
var errCommands = errors.New("migrate: a file of keys takes no commands")

// rdbOutput writes an RDB file of version 10, which Redis from 7.0 on reads, or from 7.4 on if
// fields of hashes expire.
type rdbOutput struct {
	file     *rdb.Writer
	progress *Progress
	database int
}

func (o *rdbOutput) Load(key Key, value *rdb.Value) error {
	if key.Database != o.database {
		o.database = key.Database
		o.file.Database(uint64(key.Database))
	}
	o.file.Key(key.Name, key.ExpireMs)
	err := value.CopyTo(&o.file.Encoder)
	if err == nil {
		err = o.file.Err()
	}
	if err == nil {
		o.progress.Keys.Add(1)
	}
	return err
}

func (o *rdbOutput) LoadLibrary(source []byte) error {
	o.file.Function(source)
	return o.file.Err()
}

func (o *rdbOutput) Apply(...Command) error { return errCommands }
func (o *rdbOutput) Flush() error           { return o.file.Err() }
func (o *rdbOutput) Close() error           { return o.file.Close() }

// respOutput writes the commands that make the keys, as redis-cli --pipe sends them.
type respOutput struct {
	w        *bufio.Writer
	progress *Progress
	database int
	payloads PayloadBuilder
	request  []byte
}

func (o *respOutput) write(words ...[]byte) error {
	o.request = resp.AppendRequest(o.request[:0], words...)
	_, err := o.w.Write(o.request)
	if cap(o.request) > 1<<20 {
		o.request = nil
	}
	return err
}

func (o *respOutput) Load(key Key, value *rdb.Value) error {
	if key.Database != o.database {
		o.database = key.Database
		if err := o.write([]byte("SELECT"), strconv.AppendInt(nil, int64(key.Database), 10)); err != nil {
			return err
		}
	}
	if err := o.payloads.writeValue(key, value, false, o.write); err != nil {
		return err
	}
	o.progress.Keys.Add(1)
	return nil
}

func (o *respOutput) LoadLibrary(source []byte) error {
	return o.write([]byte("FUNCTION"), []byte("LOAD"), []byte("REPLACE"), source)
}

func (o *respOutput) Apply(...Command) error { return errCommands }
func (o *respOutput) Flush() error           { return o.w.Flush() }
func (o *respOutput) Close() error           { return o.w.Flush() }

// jsonOutput writes an object for each key, in a line of its own:
//
//	{"db":0,"key":"k","type":"hash","expire":1700000000000,"value":[["field","value"]]}
//
// expire (ms since 1970) is left out of keys that don't. The value is a string, an array of the
// elements of a list or set, or one of pairs: field and value of a hash, member and score of a
// sorted set; the time (ms since 1970) at which a field expires follows its value; a library of
// functions is {"library":source}; a stream's is an object (see streamJSON). A score is a number,
// or "inf" or "-inf". What is no UTF-8 text is {"base64":"…"}.
type jsonOutput struct {
	w        *bufio.Writer
	progress *Progress
	scratch  []byte
}

func (o *jsonOutput) Load(key Key, value *rdb.Value) error {
	b := fmt.Appendf(o.scratch[:0], `{"db":%d,"key":`, key.Database)
	b = appendJSON(b, key.Name)
	b = fmt.Appendf(b, `,"type":%q`, value.Kind.String())
	if key.ExpireMs != 0 {
		b = fmt.Appendf(b, `,"expire":%d`, key.ExpireMs)
	}
	b = append(b, `,"value":`...)
	var err error
	switch value.Kind {
	case rdb.String:
		var whole []byte
		whole, err = value.Whole()
		b = appendJSON(b, whole)
	case rdb.Stream:
		b, err = o.stream(b, value)
	default:
		b, err = o.elements(b, value)
	}
	if err != nil {
		return err
	}
	b = append(b, "}\n"...)
	if cap(b) <= 1<<20 {
		o.scratch = b
	}
	if _, err := o.w.Write(b); err != nil {
		return err
	}
	o.progress.Keys.Add(1)
	return nil
}

func (o *jsonOutput) elements(b []byte, value *rdb.Value) ([]byte, error) {
	for separator := byte('['); value.Next(); separator = ',' {
		b = append(b, separator)
		switch e := &value.Element; {
		case value.Kind == rdb.Hash:
			b = append(appendJSON(append(b, '['), e.Bytes), ',')
			b = appendJSON(b, e.Value)
			if e.ExpireMs != 0 {
				b = strconv.AppendInt(append(b, ','), e.ExpireMs, 10)
			}
			b = append(b, ']')
		case value.Kind == rdb.SortedSet:
			b = append(appendJSON(append(b, '['), e.Bytes), ',')
			b = append(appendScore(b, e.Score), ']')
		default:
			b = appendJSON(b, e.Bytes)
		}
		if len(b) >= pieceBytes {
			if _, err := o.w.Write(b); err != nil {
				return b, err
			}
			b = b[:0]
		}
	}
	return append(b, ']'), value.Err()
}

func appendScore(b []byte, score float64) []byte {
	if math.IsInf(score, 0) {
		return strconv.AppendQuote(b, map[bool]string{true: "inf", false: "-inf"}[score > 0])
	}
	return strconv.AppendFloat(b, score, 'g', -1, 64)
}

func appendJSON(b, text []byte) []byte {
	if !utf8.Valid(text) {
		b = append(b, `{"base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, text), `"}`...)
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		panic("migrate: a string has no JSON: " + err.Error())
	}
	return append(b, quoted...)
}

func (o *jsonOutput) LoadLibrary(source []byte) error {
	b := appendJSON([]byte(`{"library":`), source)
	_, err := o.w.Write(append(b, "}\n"...))
	return err
}

func (o *jsonOutput) Apply(...Command) error { return errCommands }
func (o *jsonOutput) Flush() error           { return o.w.Flush() }
func (o *jsonOutput) Close() error           { return o.w.Flush() }
