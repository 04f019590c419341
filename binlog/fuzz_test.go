package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"testing"
)

// FuzzRecord reads arbitrary bytes as the records of a segment.
func FuzzRecord(f *testing.F) {
	payload := command("SET", "key", "value")
	for _, flip := range []int{-1, 0, 4, 8, 20, 32, recordBytes + 5} {
		b := make([]byte, recordBytes, recordBytes+len(payload))
		h := recordHeader{length: uint32(len(payload)), position: 10, after: 3}
		crc := checksum(h.encode(b, 1), payload)
		binary.BigEndian.PutUint32(b[4:], crc)
		b = append(b, payload...)
		if flip >= 0 {
			b[flip] ^= 0x81
		}
		f.Add(b, int64(10))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, position int64) {
		scan := scanner{file: bytes.NewReader(b), seed: 1, limit: int64(len(b)), position: position}
		for {
			before := scan.offset
			h, payload, err := scan.next()
			if err != nil {
				if err != errEnd && !bad(err) || scan.offset != before {
					t.Fatalf("%v at %d, behind %d", err, scan.offset, before)
				}
				break
			}
			// What is read must be what would be written.
			encoded := make([]byte, recordBytes)
			if crc := checksum(h.encode(encoded, 1), payload); crc != h.crc {
				t.Fatal("a record with a wrong checksum was read")
			}
			binary.BigEndian.PutUint32(encoded[4:], h.crc)
			if !bytes.Equal(append(encoded, payload...), b[before:scan.offset]) {
				t.Fatal("a record is not read as it stands there")
			}
			if database, err := databaseAfter(payload, 0); err == nil && database < 0 {
				t.Fatal("a negative database")
			}
		}
		if cap(scan.buffer) > max(blockBytes, len(b)) {
			t.Fatalf("%d bytes were allocated for %d", cap(scan.buffer), len(b))
		}
	})
}

// What FuzzSegment puts before, or into, the arbitrary bytes.
const (
	withHeader   = 1 // a sound header of a segment
	withChecksum = 2 // the right checksum in what would be the first record's header
)

// FuzzSegment opens, verifies, dumps and repairs a log whose second segment is arbitrary bytes.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, uint8(withHeader))
	f.Add(make([]byte, 5000), uint8(0))
	f.Add(bytes.Repeat([]byte{1}, 200), uint8(withHeader))
	f.Add(append(magic[:], 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2), uint8(0))
	record := make([]byte, recordBytes, 100)
	h := recordHeader{length: 14, position: 14, database: 5, after: 1 << 31}
	h.encode(record, 0)
	f.Add(append(record, command("PING")...), uint8(withHeader|withChecksum))
	h.durable = 14
	h.encode(record, 0)
	f.Add(append(append(record, command("PING")...), 1, 2, 3), uint8(withHeader|withChecksum))
	f.Fuzz(func(t *testing.T, b []byte, with uint8) {
		o := options(t)
		o.files = (&faults{}).files()
		l, err := Create(o, History{ID: idA}, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		add(t, l, command("PING"))
		end := l.Position()
		abandon(t, l)
		if with&withHeader != 0 {
			header, seed := soundHeader(end)
			if with&withChecksum != 0 {
				b = soundRecord(bytes.Clone(b), seed)
			}
			b = append(header, b...)
		}
		if err := os.WriteFile(segmentPath(o.Directory, 2), b, 0o640); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		if _, err := Verify(o.Directory, Range{}, 0); errors.Is(err, ErrCorrupt) {
			t.Fatalf("verify reports damage as an error: %v", err)
		}
		if err := Dump(o.Directory, Range{}, io.Discard); err != nil {
			t.Logf("dump: %v", err)
		}
		l, _, err = Open(o)
		if errors.Is(err, ErrCorrupt) {
			if _, err = Repair(o.Directory); err != nil {
				t.Fatalf("repair: %v", err)
			}
			l, _, err = Open(o)
		}
		if err != nil {
			t.Logf("open: %v", err) // of another format, or number
			return
		}
		if grown := allocated() - before; grown > 64*blockBytes+16*uint64(len(b)) {
			t.Fatalf("%d bytes were allocated for %d", grown, len(b))
		}
		if l.Position() < end {
			t.Fatalf("the log ends at %d, before %d", l.Position(), end)
		}
		add(t, l, command("PING"))
		closeLog(t, l)
	})
}

func soundHeader(start Position) ([]byte, uint32) {
	header := make([]byte, headerBytes)
	prologue, seed := prologue{number: 2, salt: 3}.encode()
	copy(header, prologue)
	copy(header[beginningAt:], beginning{history: History{ID: idA}, start: start}.encode(seed))
	return header, seed
}

// soundRecord puts the right checksum into the record at the front of b, if there is a whole one.
func soundRecord(b []byte, seed uint32) []byte {
	if len(b) < recordBytes {
		return b
	}
	length := uint64(decodeRecordHeader(b).length)
	if length <= uint64(len(b)-recordBytes) {
		crc := checksum(headerChecksum(seed, b), b[recordBytes:recordBytes+length])
		binary.BigEndian.PutUint32(b[4:], crc)
	}
	return b
}

func allocated() uint64 {
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	return statistics.TotalAlloc
}
