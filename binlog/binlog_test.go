package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// command returns the RESP bytes of a command.
func command(words ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return []byte(b.String())
}

// options are those of most tests: small segments, nothing in the background but what is asked for.
func options(t *testing.T) Options {
	return Options{
		Directory:    t.TempDir(),
		SegmentBytes: leastSegmentBytes,
		Sync:         func() SyncPolicy { return Never },
		retryEvery:   time.Millisecond,
	}
}

func create(t *testing.T, o Options, at Position) *Log {
	t.Helper()
	l, err := Create(o, History{ID: idA}, at, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

func open(t *testing.T, o Options) (*Log, Recovered) {
	t.Helper()
	l, recovered, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l, recovered
}

// closeLog closes a log unless the test has done so.
func closeLog(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// abandon ends a log as a killed process does: what was written stays, and nothing more is.
func abandon(t testing.TB, l *Log) {
	t.Helper()
	l.mu.Lock()
	l.closed = true
	l.publish()
	l.spared.Broadcast()
	l.mu.Unlock()
	close(l.stop)
	l.running.Wait()
	for s := l.tail.Load(); s != nil; s = s.next.Load() {
		if err := s.file.Close(); err != nil {
			t.Error(err)
		}
	}
	if l.spare != nil {
		if err := l.spare.file.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := l.lock.Close(); err != nil {
		t.Error(err)
	}
}

// add appends one record that leaves the selected database as it is.
func add(t *testing.T, l *Log, payload []byte) Position {
	t.Helper()
	database := l.Database()
	position, err := l.Append(database, database, payload)
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// expired is a context in which Next returns only what is there.
func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// readAll returns the payloads from a position to the visible end.
func readAll(t *testing.T, l *Log, from Position) []string {
	t.Helper()
	r, err := l.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	var payloads []string
	for at := from; ; {
		record, err := r.Next(expired())
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if record.Start != at || record.End != at+int64(len(record.Payload)) {
			t.Fatalf("a record from %d to %d with %d bytes, at %d", record.Start, record.End, len(record.Payload), at)
		}
		at = record.End
		payloads = append(payloads, string(record.Payload))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return payloads
}

func TestAppendReadReopen(t *testing.T) {
	o := options(t)
	l := create(t, o, 1000)
	var want []string
	for i := range 200 {
		payload := command("SET", fmt.Sprint("key", i), strings.Repeat("v", i))
		want = append(want, string(payload))
		if end := add(t, l, payload); end != l.Position() {
			t.Fatalf("Append said %d, Position %d", end, l.Position())
		}
	}
	if got := readAll(t, l, 1000); !slices.Equal(got, want) {
		t.Fatalf("read %d records that are not the %d written", len(got), len(want))
	}
	end := l.Position()
	closeLog(t, l)

	l, recovered := open(t, o)
	if !recovered.Clean || recovered.Cut != nil || recovered.Segments < 4 {
		t.Fatalf("after a clean stop: %+v", recovered)
	}
	if l.Position() != end || l.Durable() != end || l.First() != 1000 || l.History().ID != idA {
		t.Fatalf("position %d of %d, durable %d, first %d, history %v", l.Position(), end, l.Durable(), l.First(), l.History())
	}
	want = append(want, "*1\r\n$4\r\nPING\r\n")
	add(t, l, command("PING"))
	if got := readAll(t, l, 1000); !slices.Equal(got, want) {
		t.Fatalf("read %d records that are not the %d written", len(got), len(want))
	}
	abandon(t, l)

	l, recovered = open(t, o)
	if recovered.Clean || recovered.Cut != nil {
		t.Fatalf("after a kill: %+v", recovered)
	}
	if got := readAll(t, l, 1000); !slices.Equal(got, want) {
		t.Fatalf("read %d records that are not the %d written", len(got), len(want))
	}
}
