package binlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// dumpedLog has three records, a minute apart, in a directory, closed. It returns the positions of
// its commands.
func dumpedLog(t *testing.T) (string, []Position) {
	t.Helper()
	o := options(t)
	now := time.UnixMilli(1_700_000_000_123)
	o.Now = func() time.Time { return now }
	l := create(t, o, 100)
	records := [][][]byte{
		{command("SELECT", "3"), command("SET", "key", "a \"b\" \\ \r\n\t\x00\xff")},
		{command("DEL", "key")},
		{command("SELECT", "0"), command("PING")},
	}
	afters := []int{3, 3, 0}
	positions := []Position{100}
	for i, commands := range records {
		if _, err := l.Append(l.Database(), afters[i], commands...); err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			positions = append(positions, positions[len(positions)-1]+int64(len(c)))
		}
		now = now.Add(time.Minute)
	}
	closeLog(t, l)
	return o.Directory, positions
}

func dump(t *testing.T, directory string, r Range) []string {
	t.Helper()
	var out strings.Builder
	if err := Dump(directory, r, &out); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(out.String()))
}

func TestDump(t *testing.T) {
	directory, at := dumpedLog(t)
	want := []string{
		fmt.Sprintln(at[0], `2023-11-14T22:13:20.123Z 0 "SELECT" "3"`),
		fmt.Sprintln(at[1], `2023-11-14T22:13:20.123Z 3 "SET" "key" "a \"b\" \\ \r\n\t\x00\xff"`),
		fmt.Sprintln(at[2], `2023-11-14T22:14:20.123Z 3 "DEL" "key"`),
		fmt.Sprintln(at[3], `2023-11-14T22:15:20.123Z 3 "SELECT" "0"`),
		fmt.Sprintln(at[4], `2023-11-14T22:15:20.123Z 0 "PING"`),
	}
	for _, test := range []struct {
		r        Range
		from, to int
	}{
		{Range{}, 0, 5},
		{Range{From: at[1]}, 1, 5},
		{Range{From: at[1] + 1}, 2, 5},
		{Range{To: at[3]}, 0, 3},
		{Range{To: at[4] + 1}, 0, 4},
		{Range{From: at[1], To: at[4]}, 1, 4},
		{Range{Until: time.UnixMilli(1_700_000_060_123)}, 0, 3},
		{Range{Until: time.UnixMilli(1_700_000_060_122)}, 0, 2},
		{Range{From: at[5]}, 5, 5},
	} {
		if got := dump(t, directory, test.r); !slices.Equal(got, want[test.from:test.to]) {
			t.Errorf("%+v: %q, want %q", test.r, got, want[test.from:test.to])
		}
	}
}

// What is no command is shown, not hidden.
func TestDumpOfOtherBytes(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	add(t, l, append(command("PING"), "*1\r\n$9\r\nshort\r\n"...))
	closeLog(t, l)
	got := dump(t, o.Directory, Range{})
	if len(got) != 2 || !strings.HasSuffix(got[1], ` 0 # not a command: "*1\r\n$9\r\nshort\r\n"`+"\n") || !strings.HasPrefix(got[1], "14 ") {
		t.Errorf("%q", got)
	}
}

func TestWalk(t *testing.T) {
	directory, at := dumpedLog(t)
	walk := func(r Range) (records []Record, err error) {
		err = Scan(directory, r, func(record Record) error {
			record.Payload = bytes.Clone(record.Payload)
			records = append(records, record)
			return nil
		})
		return records, err
	}
	all, err := walk(Range{From: at[0]})
	if err != nil || len(all) != 3 || all[0].Start != at[0] || all[2].End != at[5] || all[1].Database != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	part, err := walk(Range{From: at[1], To: at[4] + 3})
	if err != nil || len(part) != 3 {
		t.Fatalf("%+v, %v", part, err)
	}
	if first := part[0]; first.Start != at[1] || first.End != at[2] || first.Database != 3 || !bytes.HasPrefix(first.Payload, []byte("*3\r\n$3\r\nSET")) {
		t.Errorf("the first: %+v", first)
	}
	if last := part[2]; last.Start != at[3] || last.End != at[4] || string(last.Payload) != string(command("SELECT", "0")) {
		t.Errorf("the last: %+v", last)
	}
	for from, want := range map[Position]error{99: ErrPurged, at[1] + 1: ErrNotBorder, at[5] + 1: ErrBeyondEnd, at[5]: nil} {
		if _, err := walk(Range{From: from}); !errors.Is(err, want) {
			t.Errorf("from %d: %v, want %v", from, err, want)
		}
	}
	stop := errors.New("stop")
	if err := Scan(directory, Range{From: at[0]}, func(Record) error { return stop }); err != stop {
		t.Errorf("the visitor's error: %v", err)
	}
	if err := Scan(t.TempDir(), Range{}, nil); !errors.Is(err, ErrNoLog) {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestVerifySound(t *testing.T) {
	c := crashedLog(t, 60)
	report, err := Verify(c.options.Directory, Range{}, 0)
	if err != nil || report.Bad != nil {
		t.Fatalf("%+v, %v", report, err)
	}
	last := c.records[len(c.records)-1]
	var records int64
	next := crashedFrom
	for _, s := range report.Segments {
		if s.Start != next || s.History.ID != idA {
			t.Errorf("a segment at %d, not %d, of %s", s.Start, next, s.History.ID)
		}
		records, next = records+s.Records, s.End
	}
	if records != 60 || next != last.endsStream || report.Position != next {
		t.Errorf("%d records up to %d, position %d", records, next, report.Position)
	}
	if !strings.Contains(report.String(), "sound: ") {
		t.Errorf("%s", report)
	}
	report, err = Verify(c.options.Directory, Range{From: c.records[20].start, To: c.records[40].start}, 0)
	if err != nil || report.Bad != nil || report.Position != c.records[39].endsStream || len(report.Segments) >= 5 {
		t.Errorf("of a part: %+v, %v", report, err)
	}
}

func TestVerifyAndRepair(t *testing.T) {
	const durable = 50
	c := crashedLog(t, 60, durable-1)
	for _, i := range []int{0, 1, 30, 49, 55} {
		bad := c.records[i]
		damaged := c.image.with(bad.file, func(b []byte) []byte { b[bad.offset+recordBytes+3] ^= 1; return b })
		damaged.put(t, c.options.Directory)
		report, err := Verify(c.options.Directory, Range{}, 0)
		if err != nil || report.Bad == nil {
			t.Fatalf("%+v, %v", report, err)
		}
		cut := *report.Bad
		if filepath.Base(cut.Path) != bad.file || cut.Offset != bad.offset || cut.Position != bad.start || report.Torn != (i >= durable) {
			t.Fatalf("record %d damaged: %+v", i, report)
		}
		end := c.records[59].endsStream
		if cut.Records != int64(59-i) || cut.End != end || cut.Bytes != c.bytesFrom(i) {
			t.Fatalf("record %d damaged: the loss is %+v; want %d bytes", i, cut, c.bytesFrom(i))
		}
		var out strings.Builder
		if err := Dump(c.options.Directory, Range{}, &out); errors.Is(err, ErrCorrupt) == report.Torn || strings.Count(out.String(), "\n") != i {
			t.Fatalf("a dump of %d lines: %v", strings.Count(out.String(), "\n"), err)
		}
		if got := takeImage(t, c.options.Directory); !slices.EqualFunc(sorted(got), sorted(damaged), bytes.Equal) {
			t.Fatal("looking at a log has changed it")
		}
		repaired, err := Repair(c.options.Directory)
		if err != nil || *repaired != cut {
			t.Fatalf("repaired %+v, announced %+v, %v", repaired, cut, err)
		}
		if again, err := Repair(c.options.Directory); err != nil || again != nil {
			t.Fatalf("repaired twice: %+v, %v", again, err)
		}
		c.expect(t, fmt.Sprintf("record %d damaged, repaired", i), i, false)
	}
}

// bytesFrom counts the bytes of the records from one on.
func (c crashed) bytesFrom(i int) (count int64) {
	for _, r := range c.records[i:] {
		count += r.end - r.offset
	}
	return count
}

func sorted(m image) (contents [][]byte) {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		contents = append(contents, m[name])
	}
	return contents
}

func TestRepairOfFirstHeader(t *testing.T) {
	c := crashedLog(t, 20)
	c.image.with(c.records[0].file, func(b []byte) []byte { b[20] ^= 1; return b }).put(t, c.options.Directory)
	report, err := Verify(c.options.Directory, Range{}, 0)
	if err != nil || report.Bad == nil || report.Torn {
		t.Fatalf("%+v, %v", report, err)
	}
	before := takeImage(t, c.options.Directory)
	if _, err := Repair(c.options.Directory); err == nil || !strings.Contains(err.Error(), "would leave nothing") {
		t.Fatalf("a repair that leaves nothing: %v", err)
	}
	if !slices.EqualFunc(sorted(takeImage(t, c.options.Directory)), sorted(before), bytes.Equal) {
		t.Fatal("a repair that was refused has changed the log")
	}
}

// A log that is being written to must not look damaged.
func TestVerifyWhileWriting(t *testing.T) {
	o := options(t)
	o.files = (&faults{}).files()
	l := create(t, o, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 1000 {
			position, err := l.Append(0, 0, command("SET", "key", strings.Repeat("v", i)))
			if err == nil {
				err = l.Sync(position) // so that each record vouches for the ones before
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		report, err := Verify(o.Directory, Range{From: l.Position()}, 0)
		if err != nil || (report.Bad != nil && !report.Torn) {
			t.Errorf("%v, %v", report, err)
			break
		}
	}
	<-done
}

// The writer has gone on since the headers were read: filled a segment, begun the next, and made
// both durable.
func TestVerifyOvertaken(t *testing.T) {
	l := create(t, options(t), 0)
	add(t, l, command("PING"))
	eventually(t, "the spare", hasSpare(l))
	n, err := load(l.options.Directory, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		end := add(t, l, command("SET", "key", strings.Repeat("v", leastSegmentBytes/5)))
		if err := l.Sync(end); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.examine(Range{}, nil); err != nil {
		t.Fatal(err)
	}
	if report, err := n.report(); err != nil || report.Bad != nil {
		t.Fatalf("%v, %v", report, err)
	}
}

// What Verify says a start makes of damage is what Open makes of it.
func TestVerifyKnowsWhatTheDataHasReached(t *testing.T) {
	c := crashedLog(t, 60, 30, 45)
	end := c.records[59].endsStream
	for _, test := range []struct {
		damaged   int // record; -1 for none, and the last segment missing
		persisted Position
		unread    bool
		short     bool
		belowData bool
		text      string
	}{
		{1, end, true, false, true, "the server starts, but replicas"},
		{1, 0, true, false, false, "only if its data has passed it"},
		{59, end, false, false, true, "refuses to start"},
		{59, c.records[59].start, false, false, false, "the torn end of a crash"},
		{-1, end, false, true, false, "what follows is missing"},
		{-1, 0, false, false, false, "sound: "},
	} {
		var damaged image
		if test.damaged >= 0 {
			bad := c.records[test.damaged]
			damaged = c.image.with(bad.file, func(b []byte) []byte { b[bad.offset+recordBytes] ^= 1; return b })
		} else {
			damaged = maps.Clone(c.image)
			for name := range damaged {
				if name >= c.records[59].file {
					delete(damaged, name)
				}
			}
		}
		damaged.put(t, c.options.Directory)
		report, err := Verify(c.options.Directory, Range{}, test.persisted)
		if err != nil || report.Unread != test.unread || report.Short != test.short || report.BelowData() != test.belowData || !strings.Contains(report.String(), test.text) {
			t.Errorf("record %d damaged, data at %d: %+v, %v\n%s", test.damaged, test.persisted, report, err, report)
		}
		o := c.options
		o.Persisted = test.persisted
		l, _, err := Open(o)
		if refused := report.Short || report.Bad != nil && !report.Torn && !report.Unread; refused != errors.Is(err, ErrCorrupt) {
			t.Errorf("record %d damaged, data at %d: opened: %v", test.damaged, test.persisted, err)
		}
		if err == nil {
			closeLog(t, l)
		}
	}
}

func TestARangeThatEndsBeforeItBegins(t *testing.T) {
	directory, at := dumpedLog(t)
	early := time.UnixMilli(1_600_000_000_000)
	err := Scan(directory, Range{From: at[3], Until: early}, func(Record) error { return nil })
	if !errors.Is(err, ErrLater) {
		t.Errorf("a walk from %d until %v: %v", at[3], early, err)
	}
	if err := Scan(directory, Range{From: at[0], To: at[5] + 1}, func(Record) error { return nil }); !errors.Is(err, ErrBeyondEnd) {
		t.Errorf("a walk to behind the end: %v", err)
	}
	if err := Dump(directory, Range{From: at[5] + 1}, io.Discard); !errors.Is(err, ErrBeyondEnd) {
		t.Errorf("a dump from behind the end: %v", err)
	}
}
