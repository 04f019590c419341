package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// newer are payloads that DUMP of newer servers has answered with, and what they hold:
//
//	HSET small a 1 b 2 c 3; HPEXPIREAT small 4102444800000 FIELDS 2 a b
//	HSET long a 1 b xxx… c 3; HPEXPIREAT long 4102444800000 FIELDS 1 a; HPEXPIREAT long 4102444800001 FIELDS 1 b
var newer = []struct {
	name, payload string
	want          []string
}{
	{"small hash of Redis 8.0.6", "\x19\x00\xd8\xc3,\xbb\x03\x00\x00\xc3%,\x11,\x00\x00\x00\t\x00\x81b\x02\x02\x01\xf4\x00\xd8\xc3,\xbb\x03 \x0f\x03\x81a\x02\x01" +
		"\xe0\x03\x0e\x06c\x02\x03\x01\x00\x01\xff\x0c\x00\x16'\x19\xf8\xe0\xf5\x89\xe8", smallTimed},
	{"large hash of Redis 8.0.6", "\x18\x00\xd8\xc3,\xbb\x03\x00\x00\x03\x00\x01c\xc0\x03\x02\x01b\xc3\t@d\x01xx\xe0W\x00\x01xx\x01\x01a\xc0\x01\x0c\x00\xb8\xb2\xa2yr\xc4\x9e9", longTimed},
	{"small hash of Valkey 9.1.2", "\x16\x03\x01a\xc0\x01\x00\xd8\xc3,\xbb\x03\x00\x00\x01b\xc0\x02\x00\xd8\xc3,\xbb\x03\x00\x00\x01c\xc0\x03\xff\xff\xff\xff\xff\xff\xff\xff" +
		"P\x00'\x013\x17\xc2\xe9\x88\xa7", smallTimed},
	{"large hash of Valkey 9.1.2", "\x16\x03\x01a\xc0\x01\x00\xd8\xc3,\xbb\x03\x00\x00\x01b\xc3\t@d\x01xx\xe0W\x00\x01xx\x01\xd8\xc3,\xbb\x03\x00\x00\x01c\xc0\x03" +
		"\xff\xff\xff\xff\xff\xff\xff\xffP\x00\x98\xec\x98\x02\x0f;\xd8\x17", longTimed},
	{"packed hash of Valkey 9.1.2", "\x10\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xffP\x00K\x8cZy4E\x83/", []string{`"a": "1"`}},
	{"packed set of Redis 8.0.6", "\x14\r\r\x00\x00\x00\x02\x00\x81a\x02\x81b\x02\xff\x0c\x00\xa8E\x83\x07N\x16\xa1\x94", []string{`"a"`, `"b"`}},
}

var (
	smallTimed = []string{`"a": "1" until 4102444800000`, `"b": "2" until 4102444800000`, `"c": "3"`}
	longTimed  = []string{`"a": "1" until 4102444800000`, `"b": "` + strings.Repeat("x", 100) + `" until 4102444800001`, `"c": "3"`}
)

func TestPayloadsOfNewerServers(t *testing.T) {
	for _, c := range newer {
		if _, got := read(t, []byte(c.payload)); !slices.Equal(sorted(got), c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// TestFilesOfNewerServers reads files that Redis 8.0.6 and Valkey 9.1.2 have saved, with the keys
// above, a stream with a group, and others.
func TestFilesOfNewerServers(t *testing.T) {
	for name, version := range map[string]int{"redis8": NewestVersion, "valkey9": ValkeyVersion} {
		file, err := os.ReadFile("testdata/" + name + ".rdb")
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(bytes.NewReader(file), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		err = readAll(r, func(record *Record) (err error) {
			if record.Kind == RecordKey {
				got[string(record.Key)], err = elements(record.Value)
			}
			return err
		})
		if err != nil || r.Version() != version || len(got) != 6 {
			t.Errorf("%s: version %d, %d keys, %v", name, r.Version(), len(got), err)
		}
		if !slices.Equal(sorted(got["small"]), smallTimed) || !slices.Equal(sorted(got["long"]), longTimed) {
			t.Errorf("%s: %q and %q", name, got["small"], got["long"])
		}
	}
}

// TestLateTimesOfValkey: a Valkey lets fields expire at any time. Later ones than Redis knows are
// the latest that it knows.
func TestLateTimesOfValkey(t *testing.T) {
	for ms, want := range map[int64]string{1<<48 - 2: "281474976710654", 1<<48 - 1: "281474976710654", math.MaxInt64: "281474976710654", 0: "1"} {
		payload := []byte("\x16\x01\x01a\xc0\x01")
		payload = binary.LittleEndian.AppendUint64(payload, uint64(ms))
		payload = binary.LittleEndian.AppendUint16(payload, ValkeyVersion)
		payload = binary.LittleEndian.AppendUint64(payload, CRC64(0, payload))
		if _, got := read(t, payload); !slices.Equal(got, []string{`"a": "1" until ` + want}) {
			t.Errorf("%d: %q", ms, got)
		}
	}
}

// TestFormats: what is written for each reader says whether fields expire, or that it can't.
func TestFormats(t *testing.T) {
	untimed := []string{`"a": "1"`, `"b": "2"`, `"c": "3"`}
	for format, c := range map[Format]struct {
		header  string
		version uint16
		want    []string
	}{
		Redis: {"REDIS0010", 12, smallTimed}, Redis74: {"REDIS0012", 12, smallTimed}, Valkey: {"VALKEY080", 80, smallTimed},
		Redis72: {"REDIS0011", 10, untimed}, Untimed: {"REDIS0010", 10, untimed}, Redis70: {"REDIS0010", 10, nil},
	} {
		for _, source := range newer {
			if !slices.Equal(source.want, smallTimed) {
				continue
			}
			v, err := new(Decoder).Payload([]byte(source.payload))
			if err != nil {
				t.Fatal(err)
			}
			p := NewPayloadWriter()
			p.SetFormat(format)
			p.Begin(nil)
			if err = v.CopyTo(&p.Encoder); c.want == nil {
				if !errors.Is(err, ErrFieldTimes) {
					t.Errorf("format %d of a %s: %v", format, source.name, err)
				}
				continue
			}
			payload, failed := p.Finish()
			if err := errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			if _, got := read(t, payload); !slices.Equal(sorted(got), c.want) || PayloadVersion(payload) != c.version {
				t.Errorf("format %d of a %s: version %d, %q", format, source.name, PayloadVersion(payload), got)
			}
		}
		var file bytes.Buffer
		w := NewWriter(&file, format)
		w.Key([]byte("k"), 0)
		w.ExpiringHashListpack(4102444800000, pack("a", "1", "4102444800000", "b", "2", "4102444800000", "c", "3", "0"))
		err := w.Close()
		if (err != nil) != (c.want == nil) || err == nil && !strings.HasPrefix(file.String(), c.header) {
			t.Errorf("format %d: a file begins with %.9q (%v)", format, file.String(), err)
		}
		if err == nil {
			r, err := NewReader(&file, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`0 hash "k" expires 0 idle -1 frequency -1: %s`, strings.Join(c.want, ", "))
			if got, err := describe(r); err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("format %d: %q, %v", format, got, err)
			}
		}
	}
}

// TestFormatsOfStreams: a stream has both times of its consumers in the form of Redis 7.2 only.
func TestFormatsOfStreams(t *testing.T) {
	stream := func(e *Encoder) {
		e.BeginStream(1)
		id := StreamID{Ms: 1, Seq: 1}
		for _, part := range []StreamElement{
			{Part: StreamEntry, ID: id, Node: id, Fields: [][]byte{[]byte("f"), []byte("v")}},
			{Part: StreamTotals, Length: 1, ID: id, FirstID: id, EntriesAdded: 1, Groups: 1},
			{Part: StreamGroup, Name: []byte("g"), EntriesRead: -1},
			{Part: StreamConsumer, Name: []byte("a"), Consumers: 2, SeenMs: 7, ActiveMs: 5},
			{Part: StreamConsumer, Name: []byte("b"), Consumers: 1, SeenMs: 7, ActiveMs: -1},
		} {
			e.StreamPart(&part)
		}
		e.EndStream()
	}
	for format, version := range map[Format]uint16{Redis72: 11, Redis: 10, Redis74: 10, Redis70: 10, Untimed: 10, Valkey: 80} {
		p := NewPayloadWriter()
		p.SetFormat(format)
		p.Begin(nil)
		stream(&p.Encoder)
		payload, err := p.Finish()
		if err != nil {
			t.Fatal(err)
		}
		want := []int64{7, 7, 7, 7}
		if format == Redis72 {
			want = []int64{7, 5, 7, -1}
		}
		if got := timesOfConsumers(t, payload); !slices.Equal(got, want) || PayloadVersion(payload) != version {
			t.Errorf("format %d: version %d, times %d", format, PayloadVersion(payload), got)
		}
		if newer := format == Redis72; IsNewerStreamPayload(payload) != newer || IsNewerPayload(payload) != (newer || format == Valkey) {
			t.Errorf("format %d: newer, or not", format)
		}
		older, err := AsUntimed(payload)
		if err != nil || PayloadVersion(older) != Version || len(older) > len(payload) {
			t.Errorf("format %d: %d bytes of %d, %v", format, len(older), len(payload), err)
		} else if got := timesOfConsumers(t, older); !slices.Equal(got, []int64{7, 7, 7, 7}) {
			t.Errorf("format %d: times %d as Redis 7.0 has them", format, got)
		}
	}
}

// timesOfConsumers is when a stream's consumers were seen, and got something.
func timesOfConsumers(t *testing.T, payload []byte) (times []int64) {
	t.Helper()
	v, err := new(Decoder).Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	for v.Next() {
		if p := v.Element.Stream; p.Part == StreamConsumer {
			times = append(times, p.SeenMs, p.ActiveMs)
		}
	}
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	return times
}

// TestPlainPayloadsStay: a value without times is written as Redis 7.0 reads it.
func TestPlainPayloadsStay(t *testing.T) {
	payload := write(t, func(e *Encoder) { e.HashListpack(pack("a", "1")) })
	if PayloadVersion(payload) != Version || PayloadHasFieldTimes(payload) {
		t.Errorf("version %d", PayloadVersion(payload))
	}
	noTime := pack("a", "1", "0", "b", "2", "0")
	v, err := new(Decoder).Payload(write(t, func(e *Encoder) { e.ExpiringHashListpack(0, noTime) }))
	if err != nil {
		t.Fatal(err)
	}
	payload = write(t, func(e *Encoder) {
		if err := v.CopyTo(e); err != nil {
			t.Fatal(err)
		}
	})
	if _, got := read(t, payload); PayloadVersion(payload) != Version || !slices.Equal(got, []string{`"a": "1"`, `"b": "2"`}) {
		t.Errorf("a packed hash that had times: version %d, %q", PayloadVersion(payload), got)
	}
	timed := []byte(newer[1].payload)
	without, err := AsUntimed(timed)
	if err != nil || !PayloadHasFieldTimes(timed) || PayloadHasFieldTimes(without) || len(without) > len(timed) {
		t.Errorf("%d bytes of %d, %v", len(without), len(timed), err)
	}
}
