package binlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// image is the files of a directory, to be put back for another attempt.
type image map[string][]byte

func takeImage(t *testing.T, directory string) image {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	saved := image{}
	for _, entry := range entries {
		b, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		saved[entry.Name()] = b
	}
	return saved
}

// put makes the directory hold the image's files and no others.
func (m image) put(t *testing.T, directory string) {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	// Removed, not overwritten: ext4 waits for the disk when a file that was truncated is closed.
	for _, entry := range entries {
		if err := os.Remove(filepath.Join(directory, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range m {
		if err := os.WriteFile(filepath.Join(directory, name), b, 0o640); err != nil {
			t.Fatal(err)
		}
	}
}

// with returns a copy of the image in which one file was changed.
func (m image) with(name string, change func([]byte) []byte) image {
	changed := image{}
	for other, b := range m {
		changed[other] = b
	}
	changed[name] = change(slices.Clone(m[name]))
	return changed
}

// crashedFrom is where they begin: at 0, so that bytes of zeros look like positions.
const crashedFrom Position = 0

// crashed is a log that was killed, and where its records lie.
type crashed struct {
	options Options
	image   image
	records []placed
}

// placed is a record and its place.
type placed struct {
	file       string
	offset     int64 // of its header
	end        int64 // behind it
	start      Position
	payload    string
	durable    Position
	endsStream Position
}

// crashedLog writes count records of different sizes, syncing after those that are in syncAfter,
// and is killed.
func crashedLog(t *testing.T, count int, syncAfter ...int) crashed {
	t.Helper()
	o := options(t)
	o.files = (&faults{}).files()
	l := create(t, o, crashedFrom)
	for i := range count {
		size := i * 7 % 300
		if i >= count-3 {
			size = i % 10 // for the tests that try each of their bytes
		}
		add(t, l, command("SET", fmt.Sprint("key", i), strings.Repeat(string(rune('a'+i%26)), size)))
		if slices.Contains(syncAfter, i) {
			if err := l.Sync(l.Position()); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "the spare", hasSpare(l))
	abandon(t, l)
	c := crashed{options: o, image: takeImage(t, o.Directory)}
	found, err := survey(o.Directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if !f.begun() {
			continue
		}
		opened, err := os.Open(f.path)
		if err != nil {
			t.Fatal(err)
		}
		scan := scanner{file: opened, seed: f.seed, limit: f.bytes, offset: headerBytes, position: f.start}
		for {
			offset := scan.offset
			h, payload, err := scan.next()
			if err == errEnd {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			c.records = append(c.records, placed{filepath.Base(f.path), offset, scan.offset, h.position, string(payload), h.durable, h.end()})
		}
		if err := opened.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.records) != count {
		t.Fatalf("%d records of %d were written", len(c.records), count)
	}
	return c
}

// expect opens the log and wants its first count records, with or without a cut.
func (c crashed) expect(t *testing.T, what string, count int, cut bool) {
	t.Helper()
	l, recovered, err := Open(c.options)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer closeLog(t, l)
	if (recovered.Cut != nil) != cut {
		t.Fatalf("%s: cut %v, want one: %v", what, recovered.Cut, cut)
	}
	end := crashedFrom
	var want []string
	for _, r := range c.records[:count] {
		want, end = append(want, r.payload), r.endsStream
	}
	if l.Position() != end || l.Durable() != end {
		t.Fatalf("%s: the log ends at %d, durable %d, want %d", what, l.Position(), l.Durable(), end)
	}
	// What follows must be found again, and nothing that was cut.
	add(t, l, command("PING"))
	if got := readAll(t, l, crashedFrom); !slices.Equal(got, append(want, string(command("PING")))) {
		t.Fatalf("%s: %d records are not the %d expected", what, len(got)-1, count)
	}
	if recovered.Clean {
		t.Fatalf("%s: taken for a clean stop", what)
	}
}

// refuse opens the log and wants it refused, with the place.
func (c crashed) refuse(t *testing.T, what, file string, offset int64) {
	t.Helper()
	_, _, err := Open(c.options)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%s: not refused as corrupt: %v", what, err)
	}
	if filepath.Base(corrupt.Path) != file || corrupt.Offset != offset || !strings.Contains(err.Error(), "repair") {
		t.Fatalf("%s: want %s at %d, got %v", what, file, offset, err)
	}
}

func TestCutAtEveryByte(t *testing.T) {
	c := crashedLog(t, 30)
	last := c.records[len(c.records)-3:]
	file := last[0].file
	if file != last[2].file {
		t.Fatal("the last records are in two segments")
	}
	fills := map[string]func(b []byte, at int64) []byte{
		"truncated": func(b []byte, at int64) []byte { return b[:at] },
		"zeros":     func(b []byte, at int64) []byte { clear(b[at:]); return b },
		"garbage": func(b []byte, at int64) []byte {
			for i := at; i < last[2].end; i++ {
				b[i] ^= 0xa5
			}
			return b
		},
	}
	for how, fill := range fills {
		for at := last[0].offset; at <= last[2].end; at++ {
			whole := len(c.records) - 3
			border := at == last[0].offset
			for _, r := range last {
				if r.end <= at {
					whole++
				}
				border = border || at == r.end
			}
			c.image.with(file, func(b []byte) []byte { return fill(b, at) }).put(t, c.options.Directory)
			// A record of which only zeros are missing would be whole; none of these ends in zeros.
			// Of one that is cut within its length, the rest may be zeros already, which is an end.
			cut := !border
			if how == "garbage" {
				cut = at < last[2].end
			} else if partial := at - c.records[whole-1].end; partial > 0 && partial <= 4 {
				cut = !allZero(c.image[file][c.records[whole-1].end:at])
				if how == "truncated" && partial == 4 {
					cut = true
				}
			}
			c.expect(t, fmt.Sprintf("%s at %d, record ends %d", how, at, last[0].end), whole, cut)
		}
	}
}

// Pages of what was not synced reach the disk in any order.
func TestLostPages(t *testing.T) {
	c := crashedLog(t, 60)
	for i, r := range c.records {
		c.image.with(r.file, func(b []byte) []byte { clear(b[r.offset:r.end]); return b }).put(t, c.options.Directory)
		c.expect(t, fmt.Sprintf("record %d zeroed", i), i, i < len(c.records)-1)
		c.image.with(r.file, func(b []byte) []byte { clear(b[r.offset+recordBytes+3 : r.end]); return b }).put(t, c.options.Directory)
		c.expect(t, fmt.Sprintf("the payload of record %d zeroed", i), i, true)
	}
}

func TestFlippedBytes(t *testing.T) {
	const durable = 35 // the first records that were synced; the record behind says so
	c := crashedLog(t, 60, durable-1)
	if c.records[durable].durable != c.records[durable-1].endsStream {
		t.Fatal("the records don't tell what is durable")
	}
	lastSegment := c.records[len(c.records)-1].file
	if c.records[durable-2].file != c.records[durable+2].file {
		t.Fatal("the border should lie within a segment")
	}
	for i, r := range c.records {
		for _, at := range []int64{0, 3, 4, 8, 20, 24, 30, 35, 40, 44} {
			what := fmt.Sprintf("record %d flipped at %d", i, at)
			c.image.with(r.file, func(b []byte) []byte { b[r.offset+at] ^= 0x10; return b }).put(t, c.options.Directory)
			switch {
			case i >= durable:
				c.expect(t, what, i, true)
			case r.file == c.records[durable].file:
				c.refuse(t, what, r.file, r.offset)
			default:
				c.expectLater(t, what, r)
			}
		}
	}
	if lastSegment == c.records[durable].file {
		t.Fatal("the last segment should not be the one with the border")
	}
}

// expectLater wants damage far below the durable position found by whoever reads there.
func (c crashed) expectLater(t *testing.T, what string, damaged placed) {
	t.Helper()
	l, _, err := Open(c.options)
	if errors.Is(err, ErrCorrupt) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	r, err := l.NewReader(crashedFrom)
	for err == nil {
		_, err = r.Next(expired())
	}
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) || filepath.Base(corrupt.Path) != damaged.file || corrupt.Offset != damaged.offset {
		t.Fatalf("%s: %v", what, err)
	}
}

// With a clean stop, or a position that the data vouches for, all of the log is known to have been
// durable.
func TestFlippedBytesBelowKnownPosition(t *testing.T) {
	c := crashedLog(t, 60)
	last := c.records[len(c.records)-1]
	damaged := c.image.with(last.file, func(b []byte) []byte { b[last.offset+recordBytes] ^= 1; return b })
	known := c
	known.options.Persisted = last.endsStream
	damaged.put(t, c.options.Directory)
	known.refuse(t, "damage below P", last.file, last.offset)
	known.refuse(t, "and once more, for nothing was cut", last.file, last.offset)
	c.image.with(last.file, func(b []byte) []byte { clear(b[last.offset:]); return b }).put(t, c.options.Directory)
	known.refuse(t, "a log that ends before P", last.file, last.offset)
	known.options.Persisted = last.start
	known.expect(t, "a log that ends at P", len(c.records)-1, false)

	c.image.put(t, c.options.Directory)
	l, _ := open(t, c.options)
	if err := l.Branch(idB); err != nil {
		t.Fatal(err)
	}
	add(t, l, command("SET", "key", "value"))
	closeLog(t, l)
	path := l.current.path
	damageFile(t, path, headerBytes+recordBytes+2, 1)
	c.refuse(t, "damage after a clean stop", filepath.Base(path), headerBytes)
	if err := os.Truncate(path, headerBytes); err != nil {
		t.Fatal(err)
	}
	c.refuse(t, "a log that is shorter than at its clean stop", filepath.Base(path), headerBytes)
}

func TestDamagedHeaders(t *testing.T) {
	const durable = 20
	c := crashedLog(t, 120, durable-1)
	var names []string
	starts := map[string]int{}
	for i, r := range c.records {
		if _, seen := starts[r.file]; !seen {
			names, starts[r.file] = append(names, r.file), i
		}
	}
	if len(names) < 4 || starts[names[1]] <= durable {
		t.Fatalf("segments %v begin at records %v", names, starts)
	}
	clearBeginning := func(b []byte) []byte { clear(b[beginningAt:headerBytes]); return b }
	flip := func(at int) func([]byte) []byte { return func(b []byte) []byte { b[at] ^= 1; return b } }
	for i, name := range names {
		if i == 0 {
			for _, at := range []int{20, 30, beginningAt + 20} {
				c.image.with(name, flip(at)).put(t, c.options.Directory)
				c.refuse(t, "the first header damaged", name, 0)
			}
			continue
		}
		c.image.with(name, clearBeginning).put(t, c.options.Directory)
		c.expect(t, name+" lost its beginning", starts[name], true)
		c.image.with(name, flip(beginningAt+20)).put(t, c.options.Directory)
		c.expect(t, name+" has a torn beginning", starts[name], true)
		// The prologue was durable before the segment was used.
		c.image.with(name, flip(20)).put(t, c.options.Directory)
		c.refuse(t, name+" has a damaged prologue", name, 0)
		missing := c.image.with(name, func(b []byte) []byte { return b })
		delete(missing, name)
		missing.put(t, c.options.Directory)
		if i < len(names)-1 {
			c.expect(t, name+" is missing", starts[name], true)
		}
	}
	c.image.with(names[2], func(b []byte) []byte { b[11] = 9; return b }).put(t, c.options.Directory)
	if _, _, err := Open(c.options); err == nil || errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "format version 9") {
		t.Fatalf("a format that is not known: %v", err)
	}
	c.image.with(names[1], func([]byte) []byte { return c.image[names[2]] }).put(t, c.options.Directory)
	if _, _, err := Open(c.options); err == nil || !strings.Contains(err.Error(), "segment 3 under another name") {
		t.Fatalf("a segment under another name: %v", err)
	}
}

// A segment of another log, of the same number and position, is no continuation.
func TestForeignSegment(t *testing.T) {
	ours, theirs := crashedLog(t, 60), crashedLog(t, 60)
	last := ours.records[59].file
	foreign := theirs.image.with(last, func(b []byte) []byte { return b })
	found, err := survey(theirs.options.Directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.begun() && filepath.Base(f.path) == last {
			f.history.ID = idB
			copy(foreign[last][beginningAt:], f.beginning.encode(f.seed))
		}
	}
	ours.image.with(last, func([]byte) []byte { return foreign[last] }).put(t, ours.options.Directory)
	ours.refuse(t, "a segment of another history", last, 0)
}

// A value that looks like a record must not be taken for one when a torn tail is searched for what
// had been durable.
func TestForgedRecord(t *testing.T) {
	o := options(t)
	o.files = (&faults{}).files()
	l := create(t, o, 0)
	add(t, l, command("PING"))
	forged := make([]byte, recordBytes+4)
	h := recordHeader{length: 4, position: 200, durable: 200}
	crc := checksum(h.encode(forged, 0), forged[recordBytes:])
	copy(forged[4:], []byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)})
	start := l.Position()
	add(t, l, command("SET", "key", string(forged)+strings.Repeat("v", 200)))
	abandon(t, l)
	damageFile(t, segmentPath(o.Directory, 1), headerBytes+recordBytes+start+4, 1)
	l, recovered := open(t, o)
	if recovered.Cut == nil || l.Position() != start {
		t.Fatalf("%+v, position %d of %d", recovered, l.Position(), start)
	}
}

// Until Branch was called, a log that was not cleanly stopped is not clean, however often it is
// closed.
func TestCleanOnlyAfterBranch(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	add(t, l, command("PING"))
	abandon(t, l)
	for range 3 {
		l, recovered := open(t, o)
		if recovered.Clean {
			t.Fatal("an unclean stop was forgotten")
		}
		closeLog(t, l)
	}
	l, _ = open(t, o)
	if err := l.Branch(idB); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	l, recovered := open(t, o)
	if !recovered.Clean || l.History().ID != idB {
		t.Fatalf("after a branch and a clean stop: %+v, %v", recovered, l.History())
	}
}

// A server that is killed again and again leaves no room behind that segments were to use.
func TestBranchGivesRoomBack(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	abandon(t, l)
	for range 5 {
		l, _ = open(t, o)
		former := l.current
		if err := l.Branch(NewID()); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(former.path); err != nil || info.Size() != former.end.Load() {
			t.Fatalf("a segment of %d bytes takes %d (%v)", former.end.Load(), info.Size(), err)
		}
		add(t, l, command("PING"))
		abandon(t, l)
	}
}

// The mark of a clean stop must not outlive what is written after it.
func TestMarkIsTakenAway(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	add(t, l, command("PING"))
	closeLog(t, l)
	l, _ = open(t, o)
	end := l.current.end.Load()
	add(t, l, command("PING"))
	abandon(t, l)
	if err := os.Truncate(l.current.path, end); err != nil {
		t.Fatal(err)
	}
	if _, recovered := open(t, o); recovered.Clean {
		t.Fatal("a lost record went unnoticed")
	}
}

// Files that appear or disappear are only sure to when their directory is synced.
func TestDirectoryIsSynced(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	synced := func(what string, change func()) {
		t.Helper()
		before := fault.directories
		if change(); fault.directories == before {
			t.Errorf("%s without a sync of the directory", what)
		}
	}
	var l *Log
	synced("a log was made", func() {
		l = create(t, o, 0)
		eventually(t, "the spare", hasSpare(l))
	})
	synced("a segment was made", func() {
		add(t, l, command("SET", "key", strings.Repeat("v", leastSegmentBytes)))
		eventually(t, "the spare", hasSpare(l))
	})
	synced("a log was purged", func() {
		if err := l.Sync(l.Position()); err != nil {
			t.Fatal(err)
		}
		purge(t, l, l.Position(), 1)
	})
	synced("a log was closed", func() { closeLog(t, l) })
}

func TestOpenWithoutLog(t *testing.T) {
	o := options(t)
	if _, _, err := Open(o); !errors.Is(err, ErrNoLog) {
		t.Fatalf("an empty directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(o.Directory, "new"), []byte("left by a crash"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(o); !errors.Is(err, ErrNoLog) {
		t.Fatalf("a log that was not finished: %v", err)
	}
	create(t, o, 0)
	o.Directory = filepath.Join(o.Directory, "absent")
	if _, _, err := Open(o); !errors.Is(err, ErrNoLog) {
		t.Fatalf("no directory: %v", err)
	}
}

func TestOneProcessOnly(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	if _, _, err := Open(o); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("opened twice: %v", err)
	}
	if _, err := Create(o, History{ID: idA}, 0, 0); err == nil {
		t.Fatal("created over an open log")
	}
	if _, err := Repair(o.Directory); err == nil {
		t.Fatal("repaired an open log")
	}
	closeLog(t, l)
	if _, err := Create(o, History{ID: idA}, 0, 0); err == nil || !strings.Contains(err.Error(), "already holds a log") {
		t.Fatalf("created over a closed log: %v", err)
	}
}

func TestCutIsLogged(t *testing.T) {
	c := crashedLog(t, 10)
	last := c.records[9]
	c.image.with(last.file, func(b []byte) []byte { return b[:last.end-3] }).put(t, c.options.Directory)
	var lines strings.Builder
	c.options.Logger = hclog.New(&hclog.LoggerOptions{Output: &lines})
	c.expect(t, "a torn record", 9, true)
	for _, want := range []string{last.file, fmt.Sprint("offset=", last.offset), fmt.Sprint("position=", last.start), fmt.Sprint("bytes=", last.end-3-last.offset)} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%q is not in %q", want, lines.String())
		}
	}
}

// TestSpareThatVanishes reads a log while the process that has it open gives a segment up that it
// was making: there was no room for it.
func TestSpareThatVanishes(t *testing.T) {
	c := crashedLog(t, 10)
	n, err := load(c.options.Directory, 0)
	if err != nil {
		t.Fatal(err)
	}
	spare := n.files[len(n.files)-1]
	if spare.begun() {
		t.Fatalf("%s is no spare", spare.path)
	}
	if err := os.Remove(spare.path); err != nil {
		t.Fatal(err)
	}
	if err := n.inspect(0); err != nil || n.damage != nil || n.records != 10 {
		t.Errorf("%d records, damage %v: %v", n.records, n.damage, err)
	}
}
