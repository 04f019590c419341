package binlog

import (
	"bytes"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	data := bytes.Join([][]byte{command("SET", "key", "\r\n"), []byte("\n\r\n"), command("PING"), []byte("*0\r\n"), command("", "x")}, nil)
	want := [][]string{{"SET", "key", "\r\n"}, {"PING"}, {}, {"", "x"}}
	rest := data
	for _, words := range want {
		split, after, err := splitCommand(rest, nil)
		if err != nil || len(split) != len(words) {
			t.Fatalf("%q: %q, %v", rest, split, err)
		}
		for i := range words {
			if string(split[i]) != words[i] {
				t.Fatalf("%q, want %q", split, words)
			}
		}
		rest = after
	}
	if len(rest) != 0 || wholeCommands(data) != len(data) {
		t.Fatalf("%q is left", rest)
	}
}

func TestSplitRefuses(t *testing.T) {
	whole := command("SET", "key", "value")
	for n := range whole {
		if _, _, err := splitCommand(whole[:n], nil); err == nil {
			t.Errorf("%q was taken for a command", whole[:n])
		}
	}
	for _, text := range []string{
		"PING\r\n", "*\r\n", "*-1\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*1\r\n$1\r\nab\r\n", "*1\r\n$1\rxa\r\n", "*+1\r\n$1\r\na\r\n",
		"*1000000000000000000000\r\n", "*1\r\n$999999999999999999\r\na\r\n", "*1 \r\n$1\r\na\r\n",
	} {
		if command, _, err := splitCommand([]byte(text), nil); err == nil {
			t.Errorf("%q was taken for %q", text, command)
		}
	}
}

func TestDatabaseAfter(t *testing.T) {
	data := bytes.Join([][]byte{command("select", "5"), command("SELECT", "6", "7"), command("SELECT", "-1"), command("PING")}, nil)
	if database, err := databaseAfter(data, 1); err != nil || database != 5 {
		t.Errorf("database %d, %v", database, err)
	}
	if _, err := databaseAfter(data[:len(data)-1], 1); err == nil {
		t.Error("a part of a command was passed")
	}
}

func TestWholeCommands(t *testing.T) {
	set, begin, end := command("SET", "k", "v"), command("MULTI"), command("exec")
	for _, test := range []struct {
		parts [][]byte
		whole int // of them
	}{
		{[][]byte{set, set, set[:5]}, 2},
		{[][]byte{set, begin, set, set}, 1},
		{[][]byte{set, begin, set, end[:3]}, 1},
		{[][]byte{set, begin, set, end, set}, 5},
		{[][]byte{set, end, begin}, 2}, // it began inside of a transaction
		{nil, 0},
	} {
		want := len(bytes.Join(test.parts[:test.whole], nil))
		if got := wholeCommands(bytes.Join(test.parts, nil)); got != want {
			t.Errorf("%q: %d bytes, want %d", test.parts, got, want)
		}
	}
}
