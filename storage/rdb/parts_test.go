package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"testing"
	"testing/iotest"
)

// stringsOf reads the strings of a file in parts. No part may be longer than most.
func stringsOf(file []byte, most int) (all [][]byte, err error) {
	r, err := NewReader(iotest.HalfReader(bytes.NewReader(file)), 0)
	if err != nil {
		return nil, err
	}
	r.InParts()
	err = readAll(r, func(record *Record) error {
		if record.Kind != RecordKey {
			return nil
		}
		v := record.Value
		whole := bytes.Clone(v.Bytes)
		for longest := len(v.Bytes); v.Next(); longest = len(v.Element.Bytes) {
			if longest > most || v.Element.Offset != int64(len(whole)) {
				return fmt.Errorf("a part of %d bytes, then one at %d of %d", longest, v.Element.Offset, len(whole))
			}
			whole = append(whole, v.Element.Bytes...)
		}
		all = append(all, whole)
		return v.Err()
	})
	return all, err
}

func fileOf(t *testing.T, values [][]byte) []byte {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file, Redis)
	for i, value := range values {
		w.Key(fmt.Append(nil, i), 0)
		w.String(value)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestStringsInParts(t *testing.T) {
	var values [][]byte
	for _, size := range []int{0, 5, 100, partBytes, partBytes + 1, 3*partBytes + 17} {
		values = append(values, make([]byte, size), longString(rand.New(rand.NewSource(1)), size), randomBytes(size))
	}
	file := fileOf(t, values)
	got, err := stringsOf(file, partBytes+lzfMaxMatch)
	if err != nil || len(got) != len(values) {
		t.Fatalf("%d strings, %v", len(got), err)
	}
	for i, value := range values {
		if !bytes.Equal(got[i], value) {
			t.Errorf("string %d of %d bytes has %d, or others", i, len(value), len(got[i]))
		}
	}
	for cut := len(file) - 9; cut > 0; cut -= 1 + len(file)/50 {
		if _, err := stringsOf(file[:cut], len(file)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut off at %d of %d: %v", cut, len(file), err)
		}
	}
}

// What comes in parts is copied, and put together, as what doesn't.
func TestStringsInPartsAreCopied(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	values := [][]byte{nil, []byte("short"), randomBytes(2*partBytes + 5), longString(random, 3*partBytes), make([]byte, 2*partBytes)}
	file := fileOf(t, values)
	r, err := NewReader(bytes.NewReader(file), 0)
	if err != nil {
		t.Fatal(err)
	}
	r.InParts()
	var copied bytes.Buffer
	w := NewWriter(&copied, Redis)
	if err := readAll(r, func(record *Record) error {
		if record.Kind != RecordKey {
			return nil
		}
		w.Key(record.Key, 0)
		return record.Value.CopyTo(&w.Encoder)
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(copied.Bytes(), file) {
		t.Errorf("the copy has %d bytes, expected %d", copied.Len(), len(file))
	}
}

// A compressed string that isn't what it claims to be is refused, wherever its parts end.
func TestBadCompressedStringInParts(t *testing.T) {
	file := fileOf(t, [][]byte{make([]byte, 2*partBytes)})
	at := bytes.Index(file, []byte{lengthEncoding | encodingLZF})
	for i := at + 1; i < len(file)-9; i += 97 {
		for _, b := range []byte{0, 1, 0x1f, 0x20, 0x7f, 0xff} {
			bad := bytes.Clone(file)
			bad[i] = b
			if got, err := stringsOf(bad, len(file)*lzfExpansion); err == nil && !bytes.Equal(bad, file) {
				t.Fatalf("byte %d is %#x: %d strings", i, b, len(got))
			}
		}
	}
}
