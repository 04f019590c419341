package binlog

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestFork forks a log of several segments and histories at each border between two commands, and
// nowhere else.
func TestFork(t *testing.T) {
	o := options(t)
	l := create(t, o, 7)
	var stream []byte
	database, databases, inside := 0, map[Position]int{7: 0}, map[Position]bool{}
	write := func(after int, commands ...[]byte) {
		t.Helper()
		if _, err := l.Append(database, after, commands...); err != nil {
			t.Fatal(err)
		}
		for i, c := range commands {
			stream = append(stream, c...)
			at := 7 + int64(len(stream))
			databases[at], inside[at] = after, len(commands) > 2 && i < len(commands)-1
		}
		database = after
	}
	for i := range 40 {
		write(database, command("SET", fmt.Sprint(i), strings.Repeat("v", 300)))
		switch i % 10 {
		case 4:
			write(i%7, command("SELECT", fmt.Sprint(i%7)), command("PING"))
		case 6:
			write(database, command("MULTI"), command("SET", "a", "1"), command("EXEC"))
		}
		if i == 20 {
			if err := l.Branch(idB); err != nil {
				t.Fatal(err)
			}
		}
	}
	branched := l.History().Ancestors[0].Left
	for at := int64(7); at <= l.Position(); at++ {
		want, border := databases[at]
		if !border && at%97 != 0 {
			continue
		}
		o := o
		o.Directory = filepath.Join(t.TempDir(), "fork")
		err := l.Fork(o.Directory, at)
		if !border || inside[at] {
			if !errors.Is(err, ErrNotBorder) {
				t.Fatalf("at %d: %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		fork, _ := open(t, o)
		history := idA
		if at > branched {
			history = idB
		}
		if fork.Position() != at || fork.Database() != want || fork.History().ID != history {
			t.Fatalf("at %d: the fork ends at %d, with database %d and not %d, in %.1s", at, fork.Position(), fork.Database(), want, fork.History().ID)
		}
		if got := strings.Join(readAll(t, fork, 7), ""); got != string(stream[:at-7]) {
			t.Fatalf("at %d: the fork holds %d bytes", at, len(got))
		}
		add(t, fork, command("PING"))
		closeLog(t, fork)
	}
	if got := strings.Join(readAll(t, l, 7), ""); !bytes.Equal([]byte(got), stream) {
		t.Fatal("the log that was forked is another now")
	}
}

// TestForkElsewhere asks for what can't be.
func TestForkElsewhere(t *testing.T) {
	o := options(t)
	l := create(t, o, 100)
	end := add(t, l, command("PING"))
	for at, want := range map[Position]error{99: ErrPurged, end + 1: ErrBeyondEnd} {
		if err := l.Fork(filepath.Join(t.TempDir(), "fork"), at); !errors.Is(err, want) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if err := l.Fork(o.Directory, end); err == nil {
		t.Error("a log was made where one is")
	}
}
