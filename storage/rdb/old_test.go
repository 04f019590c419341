package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oldEncoding is a value as an earlier version of Redis wrote it.
type oldEncoding struct {
	name string
	body []byte // type, value
	kind Kind
	want []string
}

// oldEncodings are made by hand after the layouts in rdb.go, ziplist.go and zipmap.go; that they
// are right is shown by a redis-server which reads them, too, in TestOldEncodings.
func oldEncodings(t testing.TB) []oldEncoding {
	long := strings.Repeat("x", 64)
	ab := ziplist(t, "00 02 6162")
	return []oldEncoding{
		{"list, plain, before 2.0", unhex(t, "01 03 0161 C07B 026363"), List, []string{`"a"`, `"123"`, `"cc"`}},
		{"set, plain", unhex(t, "02 02 0161 C1E803"), Set, []string{`"a"`, `"1000"`}},
		{"sorted set, scores as text, up to 3.2", unhex(t, "03 03 0161 04 312E3235 0162 FE 0163 FF"), SortedSet,
			[]string{`"a" 1.25`, `"b" +Inf`, `"c" -Inf`}},
		{"hash, plain", unhex(t, "04 01 0166 0176"), Hash, []string{`"f": "v"`}},
		{"sorted set, scores in binary", unhex(t, "05 01 0161 000000000000F43F"), SortedSet, []string{`"a" 1.25`}},

		// a = 1 with two unused bytes behind it, bcd = nothing.
		{"hash, zipmap, up to 2.4", unhex(t, "09 0F 02 01 61 01 02 31 7878 03 626364 00 00 FF"), Hash,
			[]string{`"a": "1"`, `"bcd": ""`}},
		{"hash, zipmap with a length of five bytes", packedBody(typeHashZipmap, unhex(t, "01 FE2C010000"+strings.Repeat("66", 300)+"02 00 7677 FF")),
			Hash, []string{fmt.Sprintf(`"%s": "vw"`, strings.Repeat("f", 300))}},

		// Strings whose lengths have 6 and 14 bits; integers of 4 bits, twice, and of 1, 2, 3, 4
		// and 8 bytes.
		{"list, ziplist, up to 3.0", packedBody(typeListZiplist, ziplist(t, "00 02 6162", "04 4040"+strings.Repeat("78", 64),
			"43 F1", "02 FD", "02 FEFD", "03 C02C01", "04 F090EEFE", "05 D0002D3101", "06 E000F2052A01000000")), List,
			[]string{`"ab"`, fmt.Sprintf("%q", long), `"0"`, `"12"`, `"-3"`, `"300"`, `"-70000"`, `"20000000"`, `"5000000000"`}},
		// The second entry keeps five bytes for the length of the first, and four for its own.
		{"list, ziplist with wide lengths", packedBody(typeListZiplist, ziplist(t, "00 02 6162", "FE04000000 8000000002 6364")),
			List, []string{`"ab"`, `"cd"`}},
		// The first entry has 254 bytes or more, so five bytes for its length are due.
		{"list, ziplist with a long entry", packedBody(typeListZiplist, ziplist(t, "00 412C"+strings.Repeat("79", 300), "FE2F010000 F3")),
			List, []string{fmt.Sprintf("%q", strings.Repeat("y", 300)), `"2"`}},
		{"hash, ziplist, 2.6 to 6.2", packedBody(typeHashZiplist, ziplist(t, "00 0166", "03 F2", "02 0167", "03 0176")), Hash,
			[]string{`"f": "1"`, `"g": "v"`}},
		{"sorted set, ziplist, up to 6.2", packedBody(typeZSetZiplist, ziplist(t, "00 0161", "03 F2", "02 0162", "03 03312E35")),
			SortedSet, []string{`"a" 1`, `"b" 1.5`}},
		{"set, intset", unhex(t, "0B 0E 02000000 03000000 FEFF 0100 0300"), Set, []string{`"-2"`, `"1"`, `"3"`}},
		{"list, quicklist, 3.2 to 6.2", slices.Concat([]byte{byte(typeListQuicklist), 2}, packedBody(0, ab)[1:], packedBody(0, ziplist(t, "00 F6"))[1:]),
			List, []string{`"ab"`, `"5"`}},
		{"list, quicklist with an empty node", slices.Concat([]byte{byte(typeListQuicklist), 2}, packedBody(0, ziplist(t))[1:], packedBody(0, ab)[1:]),
			List, []string{`"ab"`}},
	}
}

// ziplist puts the frame around entries given in hex.
func ziplist(t testing.TB, entries ...string) []byte {
	b := make([]byte, 10)
	last := len(b)
	for _, text := range entries {
		last = len(b)
		b = append(b, unhex(t, text)...)
	}
	b = append(b, 0xFF)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	binary.LittleEndian.PutUint32(b[4:], uint32(last))
	binary.LittleEndian.PutUint16(b[8:], uint16(len(entries)))
	return b
}

func TestOldEncodings(t *testing.T) {
	r := startRedis(t, t.TempDir())
	for _, old := range oldEncodings(t) {
		v, got := read(t, seal(old.body))
		if v.Kind != old.kind || !slices.Equal(got, old.want) {
			t.Errorf("%s: %s %q", old.name, v.Kind, got)
			continue
		}
		r.must("RESTORE", "old", 0, seal(old.body), "REPLACE")
		v, err := new(Decoder).Payload(seal(old.body))
		if err != nil {
			t.Fatal(err)
		}
		payload := write(t, func(e *Encoder) { err = reencode(e, v) })
		if err != nil {
			t.Fatal(err)
		}
		r.must("RESTORE", "new", 0, payload, "REPLACE")
		if digests := r.must("DEBUG", "DIGEST-VALUE", "old", "new").([]any); digests[0] != digests[1] {
			t.Errorf("%s: Redis reads something else than we do", old.name)
		}
	}
}

// A whole file of Redis 2.8 to 3.0 (version 6) or 3.2 (7), as redis-server loads it.
func TestOldFiles(t *testing.T) {
	for _, version := range []string{"REDIS0002", "REDIS0006", "REDIS0007", "REDIS0009"} {
		file := append([]byte(version), opSelectDB, 0)
		for i, old := range oldEncodings(t) {
			file = append(file, opExpireMs, 0, 0, 0, 0, 0, 0, 0, 1) // far in the future
			file = append(file, old.body[0], 1, byte('a'+i))
			file = append(file, old.body[1:]...)
		}
		file = append(file, opEOF)
		if version > "REDIS0004" {
			file = binary.LittleEndian.AppendUint64(file, CRC64(0, file))
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "dump.rdb"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		theirs, ours := startRedis(t, dir), startRedis(t, rewrite(t, file))
		waitLoaded(theirs)
		waitLoaded(ours)
		if n := theirs.must("DBSIZE"); n != int64(len(oldEncodings(t))) {
			t.Fatalf("%s: %v keys", version, n)
		}
		if want, got := theirs.must("DEBUG", "DIGEST"), ours.must("DEBUG", "DIGEST"); got != want {
			t.Errorf("%s: digest %v, want %v", version, got, want)
		}
	}
}

func TestOldPackedIsListpack(t *testing.T) {
	v, _ := read(t, seal(packedBody(typeHashZiplist, ziplist(t, "00 0166", "03 F2"))))
	if want := pack("f", "1"); !bytes.Equal(v.Listpack, want) {
		t.Fatalf("%x, want %x", v.Listpack, want)
	}
}

func TestCorruptOldEncodings(t *testing.T) {
	good := ziplist(t, "00 02 6162", "04 F1")
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	for name, body := range map[string][]byte{
		"size":                 change(0, 99),
		"end":                  change(len(good)-1, 0),
		"tail":                 change(4, 10),
		"count":                change(8, 1),
		"first previous":       change(10, 1),
		"second previous":      change(14, 5),
		"string past the end":  change(11, 9),
		"unknown encoding":     change(15, 0xC1),
		"wide previous, cut":   ziplist(t, "FE 00"),
		"integer cut":          ziplist(t, "00 C0 01"),
		"length cut":           ziplist(t, "00 40"),
		"long length cut":      ziplist(t, "00 80 0000"),
		"end mark as previous": ziplist(t, "FF F1"),
		"no frame":             {1, 2, 3},
	} {
		checkCorrupt(t, "ziplist, "+name, packedBody(typeListZiplist, body))
	}
	for name, text := range map[string]string{
		"nothing": "", "no end": "00 01", "count": "02 0161 0100 31 FF", "field cut": "01 05 61 FF",
		"no value": "01 0161 FF", "value cut": "01 0161 05 00 31 FF", "unused cut": "01 0161 01 09 31 FF",
		"length cut": "01 FE 01 FF", "end mark as length": "01 0161 FF 00 FF", "twice": "02 0161 0100 31 0161 0100 32 FF",
		"no unused": "01 0161 00 FF", "length too long": "01 FE01000000 61 02 00 7677 FF",
	} {
		checkCorrupt(t, "zipmap, "+name, packedBody(typeHashZipmap, unhex(t, text)))
	}
	checkCorrupt(t, "odd", packedBody(typeHashZiplist, ziplist(t, "00 0166")))
	checkCorrupt(t, "twice", packedBody(typeHashZiplist, ziplist(t, "00 0166", "03 F2", "02 0166", "03 F2")))
}

func checkCorrupt(t *testing.T, name string, body []byte) {
	t.Helper()
	if v, err := new(Decoder).Payload(seal(body)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%s: %v %v", name, v, err)
	}
}

// Whatever happens to a payload on its way, it is refused or can be read: nothing panics.
func TestMutatedPayloads(t *testing.T) {
	bodies := [][]byte{unhex(t, streamBody)}
	for _, old := range oldEncodings(t) {
		bodies = append(bodies, old.body)
	}
	for seed := range int64(4000) {
		r := rand.New(rand.NewSource(seed))
		body := bytes.Clone(bodies[r.Intn(len(bodies))])
		for range 1 + r.Intn(3) {
			body[r.Intn(len(body))] = byte(r.Intn(256))
		}
		if v, err := new(Decoder).Payload(seal(body)); err == nil {
			_, _ = elements(v)
		}
	}
}

func TestPayloadsCutAnywhere(t *testing.T) {
	bodies := map[string][]byte{"stream": unhex(t, streamBody)}
	for _, old := range oldEncodings(t) {
		bodies[old.name] = old.body
	}
	for name, body := range bodies {
		for cut := range body {
			v, err := new(Decoder).body(body[:cut])
			if err == nil {
				_, err = elements(v)
			}
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, cut at %d: %v", name, cut, err)
			}
		}
	}
}
