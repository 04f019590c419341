package replication

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"kedis/internal/config"
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

// compressedHash is a payload of Redis 8: a listpack, compressed as a whole, of 300 fields with the
// same value and time.
func compressedHash() []byte {
	const value, fields = 40, 300
	rest := append([]byte{0x80 | value}, bytes.Repeat([]byte{'v'}, value)...)
	rest = binary.LittleEndian.AppendUint64(append(rest, value+1, 0xf4), 4102444800000)
	rest = append(rest, 9)
	field := func(i int) []byte { return fmt.Appendf(nil, "\x84f%03d\x05", i) }
	size := 6 + fields*(len(rest)+6) + 1
	first := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint32(nil, uint32(size)), 3*fields)
	first = append(append(first, field(0)...), rest...)
	var compressed []byte
	for len(first) > 0 {
		n := min(len(first), 32)
		compressed = append(append(compressed, byte(n-1)), first[:n]...)
		first = first[n:]
	}
	for i := 1; i < fields; i++ { // its name, and the rest of the one before again
		compressed = append(append(compressed, 5), field(i)...)
		compressed = append(compressed, 7<<5, byte(len(rest)-9), byte(len(rest)+6-1))
	}
	compressed = append(compressed, 0, 0xff)

	payload := binary.LittleEndian.AppendUint64([]byte{25}, 4102444800000)
	payload = binary.BigEndian.AppendUint32(append(payload, 0xc3, 0x80), uint32(len(compressed)))
	payload = append(binary.BigEndian.AppendUint32(append(payload, 0x80), uint32(size)), compressed...)
	payload = append(payload, 12, 0)
	return binary.LittleEndian.AppendUint64(payload, rdb.CRC64(0, payload))
}

// TestLongerWithoutTimes: where a command doesn't fit where it stood, the replica gets all data
// anew, once.
func TestLongerWithoutTimes(t *testing.T) {
	c := config.New()
	if err := c.SetFlag("replica-field-expiry", "drop"); err != nil {
		t.Fatal(err)
	}
	f := &feed{node: &Node{Options: Options{Config: c}}, client: psync.Replica{Address: "replica"}}
	resumes := func() bool {
		t.Helper()
		resumes, err := f.beginTimes()
		if err != nil {
			t.Fatal(err)
		}
		return resumes
	}
	if !resumes() {
		t.Error("a replica doesn't go on though nothing has happened")
	}
	restore := resp.AppendRequest(nil, []byte("RESTORE"), []byte("h"), []byte("0"), compressedHash())
	if _, err := f.adapt(restore); !errors.Is(err, errLonger) {
		t.Fatalf("a command is longer without times: %v", err)
	}
	if resumes() {
		t.Error("the replica goes on in front of what can't be sent")
	}
	if !resumes() {
		t.Error("the replica gets its data again and again")
	}
}

// TestStreamsForOlderReplicas: a replica that may be a Redis 7.0 gets a stream as that reads it, at
// the same position; any other gets both times of the consumers. One that is longer so stays.
func TestStreamsForOlderReplicas(t *testing.T) {
	w := rdb.NewPayloadWriter()
	w.SetFormat(rdb.Redis72)
	w.Begin(nil)
	w.BeginStream(0)
	for _, part := range []rdb.StreamElement{
		{Part: rdb.StreamTotals, Groups: 1}, {Part: rdb.StreamGroup, Name: []byte("g"), EntriesRead: -1},
		{Part: rdb.StreamConsumer, Name: []byte("c"), Consumers: 1, SeenMs: 7, ActiveMs: 5},
	} {
		w.StreamPart(&part)
	}
	w.EndStream()
	newer, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	older, err := rdb.AsUntimed(newer)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		times         fieldTimes
		payload, want []byte
	}{
		{sendTimes, newer, newer}, {stopAtTimes, newer, older}, {dropTimes, newer, older},
		{sendTimes, compressedStream(), compressedStream()}, {stopAtTimes, compressedStream(), compressedStream()}, {dropTimes, compressedStream(), compressedStream()},
	} {
		log := resp.AppendRequest(nil, words("SET a b")...)
		log = resp.AppendRequest(log, []byte("RESTORE"), []byte("s"), []byte("0"), c.payload, []byte("REPLACE"), []byte("ABSTTL"))
		log = resp.AppendRequest(log, words("SET c d")...)
		f := &feed{node: &Node{}, times: c.times}
		adapted, err := f.adapt(log)
		if err != nil || len(adapted) != len(log) {
			t.Errorf("%d: %d bytes of %d, %v", c.times, len(adapted), len(log), err)
			continue
		}
		requests := resp.NewReader(bytes.NewReader(adapted), math.MaxInt64)
		for i := range 3 {
			request, _, err := requests.ReadRequest()
			if err != nil || i == 1 && !bytes.Equal(request[3], c.want) {
				t.Errorf("%d: %q, %v", c.times, request, err)
			}
		}
	}
}

// compressedStream is a payload in the form of Redis 7.2 whose group has a name of 20 characters,
// which is compressed: nothing so short is when it is written here.
func compressedStream() []byte {
	payload := []byte{21, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1} // no nodes, the totals, and a group
	payload = append(payload, 0xc3, 5, 20, 0, 'g', 7<<5, 10, 0)
	payload = append(payload, 0, 0, 0, 0, 0) // its id, what it has read, nothing pending, no consumers
	payload = append(payload, 11, 0)
	return binary.LittleEndian.AppendUint64(payload, rdb.CRC64(0, payload))
}
