package replication

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"kedis/internal/psync"
	"kedis/internal/resp"
	"kedis/storage/rdb"
)

func words(line string) [][]byte { return bytes.Fields([]byte(line)) }

// TestFillersCountAsMuch: whatever the length, what stands instead of a command is as long, and
// does nothing.
func TestFillersCountAsMuch(t *testing.T) {
	for size := range 300 {
		filler := appendFiller(nil, size)
		if len(filler) != size {
			t.Fatalf("%d bytes instead of %d: %q", len(filler), size, filler)
		}
		requests := resp.NewReader(bytes.NewReader(filler), math.MaxInt64)
		for {
			args, _, err := requests.ReadRequest()
			if err == io.EOF {
				break
			}
			if err != nil || string(args[0]) != "PING" {
				t.Fatalf("%d bytes: %q, %v", size, args, err)
			}
		}
	}
}

// TestStreamsWithoutTimes: a replica that is to get none gets what a command does besides, at the
// same positions.
func TestStreamsWithoutTimes(t *testing.T) {
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.BeginExpiringHash(1, 1)
	w.ExpiringField([]byte("f"), []byte("v"), 4102444800000)
	w.End()
	timed, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	restore := [][]byte{[]byte("RESTORE"), []byte("h"), []byte("0"), timed, []byte("REPLACE"), []byte("ABSTTL")}
	var stream []byte
	for _, line := range []string{"SET a b", "MULTI", "HSET h f v", "HPEXPIREAT h 4102444800000 FIELDS 1 f", "EXEC", "hpersist h fields 1 f",
		"HSETEX h PXAT 4102444800000 FIELDS 2 f v g w", "HGETEX h PERSIST FIELDS 1 f", "HDEL h f"} {
		stream = resp.AppendRequest(stream, words(line)...)
	}
	stream = resp.AppendRequest(stream, restore...)
	stream = append(stream, "\r\n"...) // as a primary shows that it lives
	stream = resp.AppendRequest(stream, words("SET c d")...)

	f := &feed{node: &Node{}, client: psync.Replica{}, times: dropTimes}
	adapted, err := f.adapt(stream)
	if err != nil || len(adapted) != len(stream) {
		t.Fatalf("%d bytes of %d, %v", len(adapted), len(stream), err)
	}
	var got []string
	requests := resp.NewReader(bytes.NewReader(adapted), math.MaxInt64)
	for {
		args, _, err := requests.ReadRequest()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch string(args[0]) {
		case "PING":
			args = args[:1]
		case "RESTORE":
			if rdb.PayloadHasFieldTimes(args[3]) {
				t.Error("a payload has times")
			}
			args = args[:2]
		}
		got = append(got, string(bytes.Join(args, []byte(" "))))
	}
	want := "SET a b; MULTI; HSET h f v; PING; EXEC; PING; HSET h f v g w; PING; PING; HDEL h f; RESTORE h; SET c d"
	if strings.Join(got, "; ") != want {
		t.Errorf("the replica gets %q", got)
	}

	f.times = sendTimes
	if same, err := f.adapt(stream); err != nil || !bytes.Equal(same, stream) {
		t.Errorf("%v", err)
	}
	f.times = stopAtTimes
	if _, err := f.adapt(stream); !errors.Is(err, errFieldTimes) {
		t.Errorf("%v", err)
	}
	if plain := resp.AppendRequest(nil, words("HSET h f v")...); true {
		if same, err := f.adapt(plain); err != nil || &same[0] != &plain[0] {
			t.Errorf("%q, %v", same, err)
		}
	}
}
