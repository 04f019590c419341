package psync

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"kedis/internal/resp"
)

var idA, idB = strings.Repeat("a", idBytes), strings.Repeat("b", idBytes)

func TestParseAnswer(t *testing.T) {
	for text, want := range map[string]Answer{
		"FULLRESYNC " + idA + " 17": {Full: true, ID: idA, Position: 17}, "CONTINUE": {}, "continue " + idB: {ID: idB},
		"FULLRESYNC " + idA + " 4611686018427387904": {Full: true, ID: idA, Position: 1 << 62}, "CONTINUE " + strings.Repeat("F", idBytes): {ID: strings.Repeat("F", idBytes)},
		"FULLRESYNC " + idB + " 17 4": {Full: true, ID: idB, Position: 17, Commands: true, Keys: 4},
	} {
		if got, err := ParseAnswer([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "OK", "FULLRESYNC x 17", "FULLRESYNC " + idA, "FULLRESYNC " + idA + " -1", "CONTINUE a b",
		"FULLRESYNC " + idA + " 9223372036854775807", "FULLRESYNC " + idA + " 4611686018427387905", "FULLRESYNC " + idA + " 9223372036854775808",
		"FULLRESYNC " + strings.Repeat("g", idBytes) + " 17", "CONTINUE " + strings.Repeat("z", idBytes), "CONTINUE " + idA[1:],
		"CONTINUE " + strings.Repeat("\x01", idBytes), "CONTINUE " + strings.Repeat("é", idBytes/2), "FULLRESYNC " + idA + " 9223372036854775807 4",
		"FULLRESYNC " + idA + " 1 x", "FULLRESYNC " + idA + " 1 -1", "FULLRESYNC x 1 1", "FULLRESYNC " + idA + " 1 1 1"} {
		if got, err := ParseAnswer([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestHeader(t *testing.T) {
	for text, want := range map[string]string{"\n\n$12\r\nsnapshot and": "snapshot and", "$EOF:" + idA + "\r\nsnapshot" + idA: "snapshot"} {
		r := resp.NewReader(strings.NewReader(text), 1<<20)
		length, mark, err := ReadHeader(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(Body(r, length, mark)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"$-1\r\n", "$EOF:short\r\n", "+OK\r\n", "-ERR no\r\n"} {
		if _, _, err := ReadHeader(resp.NewReader(strings.NewReader(text), 1<<20)); err == nil {
			t.Errorf("%q was taken for a header", text)
		}
	}
}

func TestMarkedReader(t *testing.T) {
	body := strings.Repeat("snapshot ", 20000) + idA[:39]
	for _, size := range []int{0, 1, 39, 40, 41, 65536, len(body)} {
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "halves": iotest.HalfReader} {
			m := &markedReader{source: wrap(strings.NewReader(body[:size] + idB)), mark: []byte(idB)}
			got, err := io.ReadAll(m)
			if err != nil || string(got) != body[:size] {
				t.Errorf("%s: %d bytes of %d, %v", name, len(got), size, err)
			}
		}
	}
}

func TestMarkedReaderThatBreaksOff(t *testing.T) {
	m := &markedReader{source: strings.NewReader("half a snapshot" + idB[:39]), mark: []byte(idB)}
	if _, err := io.ReadAll(m); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a snapshot without its end: %v", err)
	}
	m = &markedReader{source: strings.NewReader("a snapshot" + idB + "more"), mark: []byte(idB)}
	if _, err := io.ReadAll(m); err == nil {
		t.Error("bytes behind the mark were not noticed")
	}
}

func TestDrained(t *testing.T) {
	if err := Drained(bytes.NewReader(nil)); err != nil {
		t.Error(err)
	}
	if err := Drained(strings.NewReader("x")); err == nil {
		t.Error("bytes behind the snapshot were not noticed")
	}
}

// node makes a node that remembers its role in a directory.
