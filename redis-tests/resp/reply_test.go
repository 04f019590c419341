package resp

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// everyKind holds a reply of each type as it travels, and how it is shown.
var everyKind = []struct{ wire, shown string }{
	{"+OK\r\n", `+OK`},
	{"-ERR no \\ \"way\"\r\n", `-ERR no \\ "way"`},
	{":-12\r\n", `:-12`},
	{"$-1\r\n", `nil`},
	{"*-1\r\n", `nil-array`},
	{"_\r\n", `null`},
	{"$0\r\n\r\n", `""`},
	{"$6\r\na\"\r\n\x00\xff\r\n", `"a\"\r\n\x00\xff"`},
	{"$60\r\n" + strings.Repeat("x", 60) + "\r\n", `"x"*60`},
	{"#t\r\n", `#t`},
	{",1.5\r\n", `,1.5`},
	{"(12345678901234567890\r\n", `(12345678901234567890`},
	{"!9\r\nERR wrong\r\n", `!"ERR wrong"`},
	{"=7\r\ntxt:abc\r\n", `="txt:abc"`},
	{"*0\r\n", `[]`},
	{"*2\r\n$1\r\na\r\n*1\r\n:1\r\n", `["a" [:1]]`},
	{"%1\r\n+a\r\n:1\r\n", `{+a: :1}`},
	{"~1\r\n$1\r\na\r\n", `~["a"]`},
	{">1\r\n+x\r\n", `>[+x]`},
	{"|1\r\n+x\r\n+y\r\n", `|{+x: +y}`},
}

func TestReadAndShowEveryKind(t *testing.T) {
	for _, example := range everyKind {
		reader := bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(example.wire+"+next\r\n")), 16)
		reply, err := ReadReply(reader)
		if err != nil || string(reply.Raw) != example.wire || reply.String() != example.shown {
			t.Errorf("%q: got %q shown as %s (%v), want %s", example.wire, reply.Raw, reply, err, example.shown)
		}
		if next, err := ReadReply(reader); err != nil || !next.Is("next") {
			t.Errorf("%q: what follows was read as %s (%v)", example.wire, next, err)
		}
	}
}

func TestRepliesThatBreakOff(t *testing.T) {
	for _, example := range everyKind {
		for end := 1; end < len(example.wire); end++ {
			_, err := ReadReply(bufio.NewReader(strings.NewReader(example.wire[:end])))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q cut after %d bytes: %v", example.wire, end, err)
			}
		}
	}
	if _, err := ReadReply(bufio.NewReader(strings.NewReader(""))); !errors.Is(err, io.EOF) {
		t.Errorf("an ended stream: %v", err)
	}
}

func TestMalformedReplies(t *testing.T) {
	for _, wire := range []string{"\r\n", "OK\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "$1\r\nabc\r\n", "*9999999999\r\n",
		strings.Repeat("*1\r\n", 100)} {
		if _, err := ReadReply(bufio.NewReader(strings.NewReader(wire))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %v", wire, err)
		}
	}
}

func TestSorted(t *testing.T) {
	read := func(wire string) Reply {
		t.Helper()
		reply, err := ReadReply(bufio.NewReader(strings.NewReader(wire)))
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	pairs := read("*4\r\n+b\r\n+1\r\n+a\r\n+2\r\n")
	if got := Sorted(pairs, 2).String(); got != "[+a +2 +b +1]" {
		t.Errorf("pairs: %s", got)
	}
	if got := Sorted(pairs, 1).String(); got != "[+1 +2 +a +b]" {
		t.Errorf("members: %s", got)
	}
	sorted := Sorted(read("%2\r\n+b\r\n:1\r\n+a\r\n:2\r\n"), 1)
	if string(sorted.Raw) != "%2\r\n+a\r\n:2\r\n+b\r\n:1\r\n" {
		t.Errorf("a map: %q", sorted.Raw)
	}
	if got := Sorted(read("+OK\r\n"), 1).String(); got != "+OK" {
		t.Errorf("a scalar: %s", got)
	}
}
