package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// RecordKind tells what a record of an RDB file is.
type RecordKind uint8

// The kinds of records, and which fields of a Record they set.
const (
	RecordAux       RecordKind = iota + 1 // Name, Data: something about the file
	RecordDatabase                        // Database: where the keys that follow belong
	RecordSizes                           // Keys, Expires: a hint about that database
	RecordKey                             // Database, Key, Value, ExpireMs, IdleSeconds, Frequency
	RecordFunction                        // Data: a library's source; Name, Engine from 7.0's release candidates
	RecordModuleAux                       // Name: a module's data, passed over
)

// Record is one record of an RDB file. It lives until the next one is read.
type Record struct {
	Kind RecordKind

	Name, Data []byte
	Engine     []byte // RecordFunction, release candidates: what runs it

	Database      uint64 // at most mostDatabases
	Keys, Expires uint64

	Key   []byte
	Value *Value
	// ExpireMs is when the key expires, in ms since 1970; 0 is never. A time before 1970 is 1.
	ExpireMs int64
	// IdleSeconds is for how long the key hadn't been accessed; -1 is unknown.
	IdleSeconds int64
	// Frequency is the logarithmic counter of accesses; -1 is unknown.
	Frequency int
}

// Reader reads an RDB file. It holds a buffer, the strings of one element and one packed collection
// in memory, nothing else. It is used by one goroutine at a time.
//
// It reads ahead: a caller who receives a file over a connection gives it a reader that ends where
// the file does. What else follows the file, Rest has.
type Reader struct {
	// EmptyKeys is how many keys were passed over because they had an empty collection.
	EmptyKeys int64

	decoder    Decoder
	version    int
	record     Record
	database   uint64
	key        []byte
	name, data []byte
	err        error // that ended the reading; io.EOF if all went well
}

// NewReader reads the file's header and returns a Reader for the rest. maxString is as in Decoder;
// files are trusted.
func NewReader(r io.Reader, maxString int) (*Reader, error) {
	reader := &Reader{decoder: Decoder{MaxString: maxString, Trusted: true}}
	src := &reader.decoder.src
	src.resetReader(r)
	header, err := src.fixed(9)
	if err != nil {
		return nil, err
	}
	digits, isRedis := bytes.CutPrefix(header, []byte("REDIS"))
	if !isRedis {
		if digits, reader.decoder.valkey = bytes.CutPrefix(header, []byte("VALKEY")); !reader.decoder.valkey {
			return nil, fmt.Errorf("%w: not an RDB file", ErrCorrupt)
		}
	}
	version, err := strconv.ParseUint(string(digits), 10, 16)
	if err != nil || version < 1 || reader.decoder.valkey != (version >= ValkeyVersion) {
		return nil, fmt.Errorf("%w: RDB version %q", ErrCorrupt, header)
	}
	if !known(version) {
		return nil, fmt.Errorf("rdb: file of version %d is too new, the newest to be read are %d and Valkey's %d", version, NewestVersion, ValkeyVersion)
	}
	reader.version = int(version)
	return reader, nil
}

// Version is the file's RDB version.
func (r *Reader) Version() int { return r.version }

// Offset is how many bytes of the file have been read.
func (r *Reader) Offset() int64 { return r.decoder.src.offset() }

// mostDatabases is the largest number of a database: Redis's is an int.
const mostDatabases = math.MaxInt32

// Rest returns what follows the file, once Next has returned io.EOF: the commands of an AOF whose
// beginning is an RDB file.
func (r *Reader) Rest() io.Reader {
	src := &r.decoder.src
	return io.MultiReader(bytes.NewReader(src.buf[src.pos:src.end]), src.r)
}

// Next reads the next record. What wasn't read of the former one's value is passed over. After the
// last record, and a checksum that is right (or 0, which means that there is none), the error is
// io.EOF.
//
// After an *UnsupportedError for a module's value the next call goes on with the key after it.
// After any other error there is nothing more to be read.
func (r *Reader) Next() (*Record, error) {
	if r.err != nil {
		return nil, r.err
	}
	err := r.next()
	if err == nil {
		return &r.record, nil
	}
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Module == "" {
		r.err = err
	}
	return nil, err
}

func (r *Reader) next() error {
	if r.record.Value != nil {
		if err := r.record.Value.skip(); err != nil {
			return err
		}
	}
	for {
		r.record = Record{Database: r.database, IdleSeconds: -1, Frequency: -1}
		err := r.nextComplete()
		if !errors.Is(err, ErrEmpty) {
			return err
		}
		r.EmptyKeys++
	}
}

// nextComplete reads until the record is complete: a key's expiry, for one, precedes the key.
func (r *Reader) nextComplete() error {
	for {
		op, err := r.decoder.src.byte()
		if err != nil {
			return err
		}
		if done, err := r.take(op); done || err != nil {
			return err
		}
	}
}

// take reads what belongs to op. The record may need more: done says whether it is complete.
func (r *Reader) take(op byte) (done bool, err error) {
	src, record := &r.decoder.src, &r.record
	switch op {
	case opEOF:
		return false, r.finish()
	case opExpireSeconds, opExpireMs:
		return false, r.takeExpiry(op)
	case opIdle:
		idle, err := src.length()
		record.IdleSeconds = int64(idle)
		return false, err
	case opFreq:
		frequency, err := src.byte()
		record.Frequency = int(frequency)
		return false, err
	case opSlotInfo:
		return false, r.skipLengths(3) // slot, keys, expires: a hint for Redis Cluster
	case opSelectDB:
		if r.database, err = src.length(); err == nil && r.database > mostDatabases {
			err = src.corrupt("database %d", r.database)
		}
		record.Kind, record.Database = RecordDatabase, r.database
		return true, err
	case opResizeDB:
		record.Kind = RecordSizes
		if record.Keys, err = src.length(); err != nil {
			return false, err
		}
		record.Expires, err = src.length()
		return true, err
	case opAux:
		record.Kind = RecordAux
		if record.Name, err = r.decoder.string(&r.name); err != nil {
			return false, err
		}
		record.Data, err = r.decoder.string(&r.data)
		return true, err
	case opFunction2:
		record.Kind = RecordFunction
		record.Data, err = r.decoder.string(&r.data)
		return true, err
	case opFunctionPreGA:
		return true, r.takeOldFunction()
	case opModuleAux:
		return true, r.takeModuleAux()
	}
	return true, r.takeKey(Type(op))
}

func (r *Reader) skipLengths(n int) error {
	for range n {
		if _, err := r.decoder.src.length(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) takeExpiry(op byte) error {
	src := &r.decoder.src
	var at int64
	if op == opExpireSeconds {
		b, err := src.fixed(4)
		if err != nil {
			return err
		}
		at = int64(int32(binary.LittleEndian.Uint32(b))) * 1000
	} else {
		ms, err := src.uint64()
		if err != nil {
			return err
		}
		at = int64(ms)
	}
	switch {
	case at == -1: // Redis's own "never"
		r.record.ExpireMs = 0
	case at <= 0:
		r.record.ExpireMs = 1
	default:
		r.record.ExpireMs = at
	}
	return nil
}

func (r *Reader) takeKey(t Type) (err error) {
	record := &r.record
	record.Kind = RecordKey
	if record.Key, err = r.decoder.string(&r.key); err != nil {
		return err
	}
	record.Value, err = r.decoder.begin(t)
	var unsupported *UnsupportedError
	if errors.As(err, &unsupported) {
		unsupported.Key = bytes.Clone(record.Key)
	}
	return err
}

// takeOldFunction reads | name | engine | has a description | description | source |, as the
// release candidates of Redis 7.0 wrote it.
func (r *Reader) takeOldFunction() (err error) {
	record, d := &r.record, &r.decoder
	record.Kind = RecordFunction
	if record.Name, err = d.string(&r.name); err != nil {
		return err
	}
	if record.Engine, err = d.string(&r.key); err != nil {
		return err
	}
	described, err := d.src.length()
	if err != nil {
		return err
	}
	if described != 0 {
		if _, err = d.string(&r.data); err != nil {
			return err
		}
	}
	record.Data, err = d.string(&r.data)
	return err
}

// takeModuleAux reads | module id | moduleUint | when | item | … | moduleEOF |.
func (r *Reader) takeModuleAux() error {
	d := &r.decoder
	id, err := d.src.length()
	if err != nil {
		return err
	}
	r.record.Kind, r.record.Name = RecordModuleAux, []byte(moduleName(id))
	if err := r.skipLengths(2); err != nil {
		return err
	}
	return d.skipModuleItems()
}

// finish checks the checksum, which files have since version 5.
func (r *Reader) finish() error {
	src := &r.decoder.src
	src.hash()
	want := src.crc
	if r.version >= 5 {
		got, err := src.uint64()
		if err != nil {
			return err
		}
		if got != 0 && got != want {
			return src.corrupt("the file's checksum is %#x, not %#x", want, got)
		}
	}
	return io.EOF
}
