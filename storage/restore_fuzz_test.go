package storage

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// FuzzRestore restores payloads whose footer is right and whose body may be anything. What is taken
// has to come out again as it went in.
func FuzzRestore(f *testing.F) {
	for _, body := range []string{
		"\x00\x05hello", "\x00\xc0\x0c", streamPayload[:len(streamPayload)-10],
		"\x01\x02\x01a\x01b", "\x02\x03\xc0\x02\xc0\x01\x01x", "\x04\x02\x01g\x01w\x01f\x01v",
		"\x05\x02\x01b\x00\x00\x00\x00\x00\x00\x00@\x01a\x00\x00\x00\x00\x00\x00\xf0?",
		"\x0b\x0e\x02\x00\x00\x00\x03\x00\x00\x00\x01\x00\x02\x00\x03\x00",
		"\x10\x12\x12\x00\x00\x00\x04\x00\x81f\x02\x81v\x02\x81g\x02\x0c\x01\xff",
		"\x11\x1c\x1c\x00\x00\x00\x06\x00\x81a\x02\x01\x01\x81b\x02\x832.5\x04\x81c\x02\x83inf\x04\xff",
		"\x12\x01\x02\x17\x17\x00\x00\x00\x05\x00\x81a\x02\x81b\x02\x01\x01\xdf8\x02\xf2\xa0\x86\x01\x04\xff",
	} {
		f.Add([]byte(body), byte(rdb.Version))
	}
	o := testOptions(f.TempDir(), 1<<20, 1<<20)
	o.Limits.SetEntries, o.Limits.HashEntries, o.Limits.ZSetEntries = constant[int64](2), constant[int64](2), constant[int64](2)
	o.Limits.ListSize, o.Limits.blockShift = constant[int64](2), 1
	s, err := Open(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
	})
	inside(s).StageFrom(64)
	f.Fuzz(func(t *testing.T, body []byte, version byte) {
		payload := append(bytes.Clone(body), version, 0)
		payload = binary.LittleEndian.AppendUint64(payload, rdb.CRC64(0, payload))
		var decoder rdb.Decoder
		v, err := decoder.Payload(payload)
		if err != nil {
			return
		}
		txn := s.NewTxn()
		defer txn.Reset()
		txn.Begin(Mode{Writing: true}, 1000, 0)
		d := txn.DB(0)
		if err := d.Restore([]byte("k"), Key{}, v, 0); err != nil {
			return
		}
		k, err := d.Lookup([]byte("k"))
		must(t, err)
		again, err := d.Dump(nil, k, rdb.NewPayloadWriter())
		must(t, err)
		compareValues(t, payload, again, k.Type)
	})
}

// compareValues compares what two payloads say. Elements may come in another order, but for a list.
func compareValues(t *testing.T, one, other []byte, kind layout.Type) {
	t.Helper()
	if kind == layout.String {
		if a, b := decode(t, one), decode(t, other); !bytes.Equal(a.Bytes, b.Bytes) {
			t.Fatalf("%q became %q", a.Bytes, b.Bytes)
		}
		return
	}
	a, b := elementsOf(t, one), elementsOf(t, other)
	if kind != layout.List {
		slices.Sort(a)
		slices.Sort(b)
	}
	if !slices.Equal(a, b) {
		t.Fatalf("%q became %q", a, b)
	}
}

func elementsOf(t *testing.T, payload []byte) (elements []string) {
	t.Helper()
	v := decode(t, payload)
	for v.Next() {
		e := v.Element
		elements = append(elements, string(e.Bytes)+"="+string(e.Value)+"="+string(appendScannedScore(nil, e.Score+0)))
	}
	must(t, v.Err())
	return elements
}
