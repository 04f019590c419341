package binlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

// segmentedLog has a segment for each of count records, written a minute apart, and is durable.
func segmentedLog(t *testing.T, o *Options, c *clock, count int) (*Log, []Position) {
	t.Helper()
	c.now = time.UnixMilli(1_700_000_000_000)
	o.Now = func() time.Time { return c.now }
	l := create(t, *o, 10)
	starts := []Position{10}
	for i := range count {
		add(t, l, command("SET", fmt.Sprint("key", i), strings.Repeat("v", leastSegmentBytes/3)))
		starts = append(starts, l.Position())
		c.now = c.now.Add(time.Minute)
	}
	if err := l.Sync(l.Position()); err != nil {
		t.Fatal(err)
	}
	return l, starts
}

func purge(t *testing.T, l *Log, persisted Position, want int) {
	t.Helper()
	before := l.Stats()
	removed, err := l.Purge(persisted)
	if err != nil || removed != want {
		t.Fatalf("purged up to %d: %d segments, %v; want %d", persisted, removed, err, want)
	}
	if after := l.Stats(); after.Segments != before.Segments-want {
		t.Fatalf("%d segments, were %d", after.Segments, before.Segments)
	}
}

func TestPurgeUpToPersisted(t *testing.T) {
	o := options(t)
	var c clock
	l, starts := segmentedLog(t, &o, &c, 10)
	purge(t, l, 10, 0)
	purge(t, l, starts[3]-1, 2)
	purge(t, l, starts[3], 1)
	if l.First() != starts[3] {
		t.Fatalf("the log begins at %d, not %d", l.First(), starts[3])
	}
	if _, err := l.NewReader(starts[3] - 1); !errors.Is(err, ErrPurged) {
		t.Fatalf("a reader of what is purged: %v", err)
	}
	if got := len(readAll(t, l, starts[3])); got != 7 {
		t.Fatalf("%d records are left", got)
	}
	purge(t, l, l.Position(), 6) // never the last one
	closeLog(t, l)
	l, recovered := open(t, o)
	if l.First() != starts[9] || !recovered.Clean || len(readAll(t, l, starts[9])) != 1 {
		t.Fatalf("after a reopening the log begins at %d, not %d: %+v", l.First(), starts[9], recovered)
	}
	numbers, err := listSegments(o.Directory)
	if err != nil || numbers[0] != 10 {
		t.Fatalf("segment files %v, %v", numbers, err)
	}
}

func TestPurgeOnlyDurable(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	for range 3 {
		add(t, l, command("SET", "key", strings.Repeat("v", leastSegmentBytes)))
	}
	purge(t, l, l.Position(), 0)
	if err := l.Sync(l.Position()); err != nil {
		t.Fatal(err)
	}
	purge(t, l, l.Position(), 3) // the first segment held nothing, for none of the records fits there
}

// A segment goes when it is past both limits.
func TestRetention(t *testing.T) {
	o := options(t)
	var c clock
	age, bytes := time.Hour, int64(0)
	o.RetentionAge = func() time.Duration { return age }
	o.RetentionBytes = func() int64 { return bytes }
	l, _ := segmentedLog(t, &o, &c, 10)
	purge(t, l, l.Position(), 0)
	age = 8 * time.Minute // the records' times are 10, 9 … 1 minutes ago, and each segment ended when the next began
	purge(t, l, l.Position(), 2)
	age, bytes = 0, 5*6800
	purge(t, l, l.Position(), 3) // five segments of 6,900 bytes remain
	if got := l.Stats(); got.Bytes < bytes {
		t.Fatalf("%d bytes are left of at least %d", got.Bytes, bytes)
	}
	age = time.Hour
	bytes = 0
	purge(t, l, l.Position(), 0)
}

func TestPins(t *testing.T) {
	o := options(t)
	var c clock
	l, starts := segmentedLog(t, &o, &c, 10)
	release := l.Hold(starts[7] - 1)
	r, err := l.NewReader(starts[3])
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got.Pinned != starts[3] || got.Readers != 2 {
		t.Fatalf("%+v", got)
	}
	purge(t, l, l.Position(), 3)
	for range 2 {
		if _, err := r.Next(expired()); err != nil {
			t.Fatal(err)
		}
	}
	purge(t, l, l.Position(), 1) // the reader is in the segment of the record that it has read last
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	purge(t, l, l.Position(), 2)
	if l.First() != starts[6] {
		t.Fatalf("the log begins at %d, held is %d", l.First(), starts[7]-1)
	}
	release()
	release()
	purge(t, l, l.Position(), 3)
}

func TestPurgeFails(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	var c clock
	l, starts := segmentedLog(t, &o, &c, 5)
	fault.set(func(f *faults) { f.removeOf = segmentPath(o.Directory, 3) })
	removed, err := l.Purge(l.Position())
	if removed != 2 || !errors.Is(err, syscall.EIO) || l.First() != starts[2] {
		t.Fatalf("%d removed, %v, first position %d", removed, err, l.First())
	}
	if got := len(readAll(t, l, starts[2])); got != 3 {
		t.Fatalf("%d records", got)
	}
	fault.set(func(f *faults) { f.removeOf = "" })
	purge(t, l, l.Position(), 2)
}

func TestBranch(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	var left []Position
	ids := []string{idA}
	for i := range 3 {
		left = append(left, add(t, l, command("INCR", fmt.Sprint("key", i))))
		ids = append(ids, NewID())
		if err := l.Branch(ids[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if l.Durable() != left[2] {
		t.Fatalf("durable up to %d after a branch at %d", l.Durable(), left[2])
	}
	add(t, l, command("PING"))
	check := func(l *Log) {
		t.Helper()
		want := []Ancestor{{ids[0], left[0]}, {ids[1], left[1]}, {ids[2], left[2]}}
		if h := l.History(); h.ID != ids[3] || !slices.Equal(h.Ancestors, want) {
			t.Fatalf("%+v, want %s from %v", h, ids[3], want)
		}
		if got := len(readAll(t, l, 0)); got != 4 {
			t.Fatalf("%d records over all histories", got)
		}
	}
	check(l)
	abandon(t, l)
	l, _ = open(t, o)
	check(l)
	if err := l.Branch(ids[3]); err == nil {
		t.Fatal("a branch to the same id")
	}
	if err := l.Branch("short"); err == nil {
		t.Fatal("a branch to what is no id")
	}
	for range 2 * maxAncestors {
		if err := l.Branch(NewID()); err != nil {
			t.Fatal(err)
		}
	}
	last := l.History()
	closeLog(t, l)
	l, _ = open(t, o)
	if h := l.History(); len(h.Ancestors) != maxAncestors || h.ID != last.ID || !slices.Equal(h.Ancestors, last.Ancestors) {
		t.Fatalf("%d ancestors of %s", len(h.Ancestors), h.ID)
	}
}
