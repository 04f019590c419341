package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// readFile passes all records to take.
func readFile(file []byte, take func(*Record) error) error {
	r, err := NewReader(bytes.NewReader(file), 0)
	if err != nil {
		return err
	}
	return readAll(r, take)
}

func readAll(r *Reader, take func(*Record) error) error {
	for {
		record, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := take(record); err != nil {
			return err
		}
	}
}

// describe returns all of a file as text, a line for each record.
func describe(r *Reader) ([]string, error) {
	var lines []string
	err := readAll(r, func(record *Record) error {
		text, err := describeRecord(record)
		lines = append(lines, text)
		return err
	})
	return lines, err
}

func describeRecord(record *Record) (string, error) {
	switch record.Kind {
	case RecordAux:
		return fmt.Sprintf("aux %s=%s", record.Name, record.Data), nil
	case RecordDatabase:
		return fmt.Sprint("database ", record.Database), nil
	case RecordSizes:
		return fmt.Sprintf("sizes %d %d", record.Keys, record.Expires), nil
	case RecordFunction:
		return fmt.Sprintf("function %s %s %s", record.Engine, record.Name, record.Data), nil
	case RecordModuleAux:
		return fmt.Sprintf("module %s", record.Name), nil
	}
	lines, err := elements(record.Value)
	return fmt.Sprintf("%d %s %q expires %d idle %d frequency %d: %s", record.Database, record.Value.Kind,
		record.Key, record.ExpireMs, record.IdleSeconds, record.Frequency, strings.Join(lines, ", ")), err
}

// sample is a file with a bit of everything.
func sample(t testing.TB) (file []byte, want []string) {
	var b bytes.Buffer
	w := NewWriter(&b, Redis70)
	w.Aux("redis-ver", "7.0.15")
	w.AuxInt("repl-offset", 123456789012)
	w.Function([]byte("#!lua name=x"))
	w.Database(0)
	w.Sizes(2, 1)
	w.Key([]byte("string"), 0)
	w.String([]byte("value"))
	w.Key([]byte("17"), 1700000000000)
	w.HashListpack(pack("f", "v", "g", "1"))
	w.Database(300)
	w.Key([]byte("set"), 0)
	w.BeginSet(2)
	w.Member([]byte("a"))
	w.Member(bytes.Repeat([]byte("b"), 100))
	w.End()
	w.Key([]byte("list"), 1)
	w.BeginList(2)
	w.ListElement([]byte("1"))
	w.ListElement(bytes.Repeat([]byte("c"), 9000))
	w.End()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), []string{
		"aux redis-ver=7.0.15", "aux repl-offset=123456789012", "function   #!lua name=x", "database 0", "sizes 2 1",
		`0 string "string" expires 0 idle -1 frequency -1: "value"`,
		`0 hash "17" expires 1700000000000 idle -1 frequency -1: "f": "v", "g": "1"`,
		"database 300",
		fmt.Sprintf(`300 set "set" expires 0 idle -1 frequency -1: "a", %q`, strings.Repeat("b", 100)),
		fmt.Sprintf(`300 list "list" expires 1 idle -1 frequency -1: "1", %q`, strings.Repeat("c", 9000)),
	}
}

func TestFileRoundTrip(t *testing.T) {
	file, want := sample(t)
	for name, source := range map[string]io.Reader{
		"whole": bytes.NewReader(file), "byte by byte": iotest.OneByteReader(bytes.NewReader(file)),
		"error with the data": iotest.DataErrReader(bytes.NewReader(file)),
	} {
		r, err := NewReader(source, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := describe(r)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v: got %.2000q\nwant %.2000q", name, err, got, want)
		}
		if r.Version() != Version || r.Offset() != int64(len(file)) {
			t.Errorf("%s: version %d, %d bytes", name, r.Version(), r.Offset())
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: after the end: %v", name, err)
		}
	}
}

// Values that nobody reads are passed over.
func TestFileKeysOnly(t *testing.T) {
	file, _ := sample(t)
	var keys []string
	err := readFile(file, func(r *Record) error {
		if r.Kind == RecordKey {
			keys = append(keys, string(r.Key))
			r.Value.Next() // one element, and no more
		}
		return nil
	})
	if err != nil || !slices.Equal(keys, []string{"string", "17", "set", "list"}) {
		t.Fatal(keys, err)
	}
}

func TestFileCutAnywhere(t *testing.T) {
	file, _ := sample(t)
	for cut := range file {
		if err := readFile(file[:cut], func(*Record) error { return nil }); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

func TestFileFlippedAnywhere(t *testing.T) {
	file, _ := sample(t)
	for i := range file {
		flipped := bytes.Clone(file)
		flipped[i] ^= 1 << (i % 8)
		if err := readFile(flipped, func(*Record) error { return nil }); err == nil {
			t.Fatalf("byte %d flipped: accepted", i)
		}
	}
}

func TestFileChecksum(t *testing.T) {
	file, _ := sample(t)
	nothing := func(*Record) error { return nil }
	unchecked := append(bytes.Clone(file[:len(file)-8]), 0, 0, 0, 0, 0, 0, 0, 0)
	unchecked[12] = 'X' // in redis-ver
	if err := readFile(unchecked, nothing); err != nil {
		t.Error("without a checksum: ", err)
	}
	// Before version 5 files had none.
	old := append([]byte("REDIS0004"), file[9:len(file)-8]...)
	if err := readFile(old, nothing); err != nil {
		t.Error("version 4: ", err)
	}
}

func TestFileHeader(t *testing.T) {
	for header, valid := range map[string]bool{
		"REDIS0001": true, "REDIS0012": true, "REDIS0000": false, "REDIS0013": false, "REDIS-001": false,
		"VALKEY080": true, "VALKEY081": false, "VALKEY012": false, "REDIS0080": false, "REDIS00": false, "": false, "RESID0010": false,
	} {
		if _, err := NewReader(strings.NewReader(header), 0); (err == nil) != valid {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestFileOfNoDatabase: a number that no database of Redis has may be taken for a negative one.
func TestFileOfNoDatabase(t *testing.T) {
	for _, database := range []uint64{math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64 + 1, math.MaxUint64} {
		var file bytes.Buffer
		w := NewWriter(&file, Redis70)
		w.Database(database)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		err := readFile(file.Bytes(), func(*Record) error { return nil })
		if valid := database <= math.MaxInt32; (err == nil) != valid || err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d: %v", database, err)
		}
	}
}

// What a reader fails with is passed on, and isn't taken for corruption.
func TestFileReadError(t *testing.T) {
	file, _ := sample(t)
	broken := errors.New("the disk is gone")
	r, err := NewReader(io.MultiReader(bytes.NewReader(file[:50]), iotest.ErrReader(broken)), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = describe(r); !errors.Is(err, broken) || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if _, again := r.Next(); again != err {
		t.Fatal(again)
	}
}

func TestFileWriteError(t *testing.T) {
	broken := errors.New("the disk is full")
	w := NewWriter(writerFunc(func([]byte) (int, error) { return 0, broken }), Redis70)
	for range 1000 {
		w.Key([]byte("k"), 0)
		w.String(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 100))
	}
	if err := w.Close(); !errors.Is(err, broken) || !errors.Is(w.Err(), broken) {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Every opcode that a file may have besides those that Writer writes.
func TestFileOpcodes(t *testing.T) {
	file := []byte("REDIS0012")
	for _, b := range [][]byte{
		{opSlotInfo, 5, 6, 7},
		{opExpireSeconds, 0x00, 0xF1, 0x53, 0x65, opIdle, 0x40, 100, opFreq, 200, byte(typeString), 1, 'a', 1, 'x'},
		{opExpireMs, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, byte(typeString), 1, 'b', 0xC0, 0xFE},
		{opExpireMs, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, byte(typeString), 1, 'c', 0xC1, 0x39, 0x30},
		{opExpireMs, 1, 0, 0, 0, 0, 0, 0, 0, byte(typeSet), 5, 'e', 'm', 'p', 't', 'y', 0},
		{byte(typeString), 1, 'd', 0xC2, 0x40, 0xE2, 0x01, 0x00},
		{opFunctionPreGA, 1, 'f', 3, 'L', 'U', 'A', 1, 4, 't', 'e', 'x', 't', 4, 'c', 'o', 'd', 'e'},
		{opFunctionPreGA, 1, 'g', 3, 'L', 'U', 'A', 0, 4, 'c', 'o', 'd', 'e'},
		{opModuleAux, 0, moduleUint, 2, moduleString, 1, 'x', moduleEOF},
		{byte(typeModule2), 1, 'm', 0, moduleUint, 1, moduleEOF},
		{byte(typeString), 1, 'z', 0},
		{opEOF, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		file = append(file, b...)
	}
	r, err := NewReader(bytes.NewReader(file), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := describe(r)
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || string(unsupported.Key) != "m" || unsupported.Module != "AAAAAAAAA" {
		t.Fatal(err)
	}
	rest, err := describe(r) // goes on after the module's value
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`0 string "a" expires 1700000000000 idle 100 frequency 200: "x"`,
		`0 string "b" expires 0 idle -1 frequency -1: "-2"`,
		`0 string "c" expires 1 idle -1 frequency -1: "12345"`,
		`0 string "d" expires 0 idle -1 frequency -1: "123456"`,
		"function LUA f code", "function LUA g code", "module AAAAAAAAA",
		`0 string "z" expires 0 idle -1 frequency -1: ""`,
	}
	if got = append(got, rest...); !slices.Equal(got, want) || r.EmptyKeys != 1 {
		t.Fatalf("got %q, %d empty\nwant %q", got, r.EmptyKeys, want)
	}
}

func FuzzRDBFile(f *testing.F) {
	file, _ := sample(f)
	f.Add(file[9:])
	for _, old := range oldEncodings(f) {
		f.Add(slices.Concat(old.body[:1], []byte{1, 'k'}, old.body[1:], []byte{opEOF, 0, 0, 0, 0, 0, 0, 0, 0}))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := NewReader(bytes.NewReader(append([]byte("REDIS0012"), body...)), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			record, err := r.Next()
			if err != nil {
				return
			}
			if record.Kind == RecordKey {
				_, _ = elements(record.Value)
			}
		}
	})
}

// A collection passes through the writer and the reader without ever being held by them.
func TestLargeCollectionsAreNotHeld(t *testing.T) {
	const fields = 200_000
	pipe, end := io.Pipe()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		w := NewWriter(end, Redis70)
		w.Key([]byte("large"), 0)
		w.BeginHash(fields)
		field, value := make([]byte, 0, 20), []byte("a value that has some more bytes")
		for i := range int64(fields) {
			field = strconv.AppendInt(field[:0], i, 10)
			w.Field(field, value)
		}
		w.End()
		end.CloseWithError(w.Close())
	}()
	r, err := NewReader(pipe, 0)
	if err != nil {
		t.Fatal(err)
	}
	record, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for record.Value.Next() {
		n++
	}
	if err := record.Value.Err(); err != nil || n != fields || record.Value.Count != fields {
		t.Fatal(n, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 2<<20 {
		t.Fatalf("%d bytes were allocated for a file of %d", spent, r.Offset())
	}
}

func TestRest(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, Redis70)
	w.Database(0)
	w.Key([]byte("k"), 0)
	w.String([]byte("v"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tail := strings.Repeat("what follows", 20_000) // more than is read ahead
	r, err := NewReader(io.MultiReader(&file, strings.NewReader(tail)), 0)
	for err == nil {
		_, err = r.Next()
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r.Rest()); err != nil || string(rest) != tail {
		t.Errorf("%d bytes follow, expected %d (%v)", len(rest), len(tail), err)
	}
}
