package fieldtimes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kedis/storage/rdb"
)

// timed is a payload of a hash; of its fields the first count have a time, two of them the same.
func timed(t *testing.T, format rdb.Format, fields, count int) []byte {
	t.Helper()
	w := rdb.NewPayloadWriter()
	w.SetFormat(format)
	w.Begin(nil)
	w.BeginExpiringHash(1000, uint64(fields))
	for i := range fields {
		expireMs := int64(0)
		if i < count {
			expireMs = int64(1000 + i/2)
		}
		w.ExpiringField(fmt.Append(nil, "f", i), []byte("v"), expireMs)
	}
	w.End()
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func words(text string) (all [][]byte) {
	for word := range strings.FieldsSeq(text) {
		all = append(all, []byte(word))
	}
	return all
}

func TestApart(t *testing.T) {
	for _, format := range []rdb.Format{rdb.Redis, rdb.Valkey} {
		restore := words("RESTORE key 5 payload REPLACE ABSTTL")
		restore[3] = timed(t, format, 5, 3)
		if !IsNewerRestore(restore) || !Gives(restore) {
			t.Errorf("format %d isn't recognized", format)
		}
		commands, err := Apart(restore)
		if err != nil || len(commands) != 3 {
			t.Fatalf("%q, %v", commands, err)
		}
		first := slices.Clone(commands[0])
		if IsNewerRestore(first) || Gives(first) {
			t.Error("the payload still has times")
		}
		first[3] = []byte("payload")
		var got []string
		for _, command := range append([][][]byte{first}, commands[1:]...) {
			got = append(got, string(slices.Concat(addSpaces(command)...)))
		}
		want := []string{"RESTORE key 5 payload REPLACE ABSTTL ", "HPEXPIREAT key 1000 FIELDS 2 f0 f1 ", "HPEXPIREAT key 1001 FIELDS 1 f2 "}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWithoutTimes: no name of a key, or of a field, is taken for an option.
func TestWithoutTimes(t *testing.T) {
	for command, want := range map[string]string{
		"HSETEX key PXAT 99999999999999 FIELDS 1 f v":              "HSET key f v ",
		"hsetex fields PXAT 99999999999999 FIELDS 1 f v":           "HSET fields f v ",
		"HSETEX FIELDS FNX fields 2 fields FIELDS f v":             "HSET FIELDS fields FIELDS f v ",
		"HGETEX fields PXAT 99999999999999 FIELDS 1 fields":        "",
		"HPEXPIREAT fields 99999999999999 FIELDS 2 fields another": "",
	} {
		all := words(command)
		rest, err := Without(all)
		if got := string(slices.Concat(addSpaces(rest)...)); err != nil || !Gives(all) || got != want {
			t.Errorf("%s: %q, %v", command, got, err)
		}
	}
	if rest, err := Without(words("HSETEX fields FIELDS 1")); err == nil {
		t.Errorf("without fields: %q", rest)
	}
}

func addSpaces(words [][]byte) (spaced [][]byte) {
	for _, word := range words {
		spaced = append(spaced, word, []byte(" "))
	}
	return spaced
}

// TestApartOfMany: no command has more than a bounded number of fields, and none is lost.
func TestApartOfMany(t *testing.T) {
	const fields = 5000
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.BeginExpiringHash(1000, fields)
	for i := range fields {
		w.ExpiringField(fmt.Append(nil, "f", i), []byte("v"), 1000)
	}
	w.End()
	payload, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	commands, err := Apart([][]byte{[]byte("restore"), []byte("key"), []byte("0"), payload})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, command := range commands[1:] {
		if n := len(command) - 5; n > mostFields || string(command[4]) != fmt.Sprint(n) {
			t.Fatalf("%d fields, said to be %s", n, command[4])
		}
		seen += len(command) - 5
	}
	if seen != fields {
		t.Errorf("%d fields of %d", seen, fields)
	}
	plain, err := Apart([][]byte{[]byte("RESTORE"), []byte("key"), []byte("0"), []byte("\x00\xc0\x01\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00")})
	if err == nil {
		t.Errorf("a payload with a wrong checksum became %q", plain)
	}
}
