package binlog

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// retainingLog has segments that are durable and that retention would keep for ever, and a spare.
func retainingLog(t *testing.T, o Options) (*Log, *faults) {
	t.Helper()
	fault := &faults{frees: leastSegmentBytes}
	o.files = fault.files()
	o.RetentionBytes = func() int64 { return math.MaxInt64 }
	l := create(t, o, 0)
	for range 10 {
		addThird(t, l)
	}
	if err := l.Sync(l.Position()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the spare", hasSpare(l))
	return l, fault
}

// addThird adds a record that takes a third of a segment and more.
func addThird(t *testing.T, l *Log) {
	add(t, l, command("SET", "key", strings.Repeat("v", leastSegmentBytes/3)))
}

// TestLogThatFillsTheDisk: what retention keeps goes before a write is refused.
func TestLogThatFillsTheDisk(t *testing.T) {
	o := options(t)
	var persisted atomic.Int64
	var reclaims atomic.Int32
	o.Reclaim = func() (Position, error) {
		reclaims.Add(1)
		return persisted.Load(), nil
	}
	o.Room = func() int64 { return leastSegmentBytes }
	l, fault := retainingLog(t, o)
	persisted.Store(l.Position())
	purge(t, l, l.Position(), 0)
	first, before := l.First(), l.Stats().Segments
	// There is room for the next segment, but not for the one after it.
	fault.set(func(f *faults) { f.free = 2*leastSegmentBytes - 1 })
	for l.Stats().Segments == before {
		addThird(t, l)
	}
	eventually(t, "the removal", func() bool { return l.First() > first })
	eventually(t, "the spare", hasSpare(l))
	if err := l.Ready(); err != nil {
		t.Errorf("writes are refused: %v", err)
	}
	if after := l.Stats().Segments; before-after > 3 {
		t.Errorf("of %d segments %d are left: more than had to go", before, after)
	}
	if reclaims.Load() == 0 {
		t.Error("nothing was persisted before")
	}
}

// TestDiskFullOfWhatIsNeeded: what recovery or a reader needs stays, and writes are refused but for
// those that make room.
func TestDiskFullOfWhatIsNeeded(t *testing.T) {
	o := options(t)
	var persisted atomic.Int64
	o.Reclaim = func() (Position, error) { return persisted.Load(), nil }
	l, fault := retainingLog(t, o)
	release := l.Hold(0)
	persisted.Store(l.Position())
	fault.set(func(f *faults) { f.free = 1 })
	for rolled := false; !rolled; {
		addThird(t, l)
		l.mu.Lock()
		rolled = l.spare == nil
		l.mu.Unlock()
	}
	eventually(t, "the refusal", func() bool { return errors.Is(l.Ready(), syscall.ENOSPC) })
	if l.First() != 0 {
		t.Error("a segment is gone that somebody holds")
	}
	if err := l.Usable(); err != nil {
		t.Errorf("what makes room is refused: %v", err)
	}
	add(t, l, command("DEL", "key"))
	release()
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	if l.First() == 0 {
		t.Error("there is room, but not from the log")
	}
	fault.set(func(f *faults) { f.write, f.allocate = syscall.EIO, syscall.EIO }) // nor can it be repaired
	if _, err := l.Append(0, 0, command("DEL", "key")); err == nil {
		t.Fatal("a write that fails doesn't")
	}
	if l.Usable() == nil {
		t.Error("a broken log is usable")
	}
	fault.set(func(f *faults) { f.write, f.allocate = nil, nil })
	eventually(t, "the repair", func() bool { return l.Ready() == nil })
}

// TestRoomOfABrokenLog: a write fails, and what the segment had reserved is taken by others before
// it is reserved again. The log makes room for the next segment.
func TestRoomOfABrokenLog(t *testing.T) {
	o := options(t)
	var persisted atomic.Int64
	o.Reclaim = func() (Position, error) { return persisted.Load(), nil }
	l, fault := retainingLog(t, o)
	fault.set(func(f *faults) { f.free = 1 })
	for l.Ready() == nil {
		addThird(t, l)
		eventually(t, "a spare or the refusal", func() bool { return l.Ready() != nil || hasSpare(l)() })
	}
	fault.set(func(f *faults) { f.write, f.allocate = syscall.EIO, syscall.ENOSPC })
	if _, err := l.Append(0, 0, command("DEL", "key")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a write that fails: %v", err)
	}
	persisted.Store(l.Position())
	fault.set(func(f *faults) { f.write = nil })
	eventually(t, "the removal", func() bool { return l.First() > 0 })
	fault.set(func(f *faults) { f.allocate = nil }) // what was removed is room
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	add(t, l, command("DEL", "key"))
}

// TestGivingRoom: who waits for room gets what is reserved for records to come. Commands that make
// room are taken still, and everything is when there is room again.
func TestGivingRoom(t *testing.T) {
	o := options(t)
	o.SegmentBytes = 4 * tailBytes
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	eventually(t, "the spare", hasSpare(l))
	fault.set(func(f *faults) { f.free = 1 })
	l.GiveRoom()
	eventually(t, "the refusal", func() bool { return errors.Is(l.Ready(), syscall.ENOSPC) })
	if size := onDisk(t, o.Directory); size > 2*tailBytes {
		t.Errorf("%d bytes are kept", size)
	}
	if err := l.Usable(); err != nil {
		t.Errorf("what makes room is refused: %v", err)
	}
	add(t, l, command("DEL", "key"))
	l.GiveRoom() // there is nothing to give any more
	add(t, l, command("DEL", "key"))
	fault.set(func(f *faults) { f.free = math.MaxInt64 })
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	for l.Stats().Segments < 3 {
		add(t, l, command("SET", "key", strings.Repeat("v", tailBytes/3)))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if again, _ := open(t, o); again.Position() != l.Position() {
		t.Errorf("the log ends at %d, and at %d when it is opened again", l.Position(), again.Position())
	}
}

// onDisk is what the files of a folder take of the disk, in bytes.
func onDisk(t *testing.T, directory string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		var file syscall.Stat_t
		if err := syscall.Stat(filepath.Join(directory, entry.Name()), &file); err != nil {
			t.Fatal(err)
		}
		bytes += file.Blocks * 512
	}
	return bytes
}

// TestNoRoomForALargeRecord: one that needs a segment of its own is refused before it takes the
// room that the data and the next segment need. Nothing else is.
func TestNoRoomForALargeRecord(t *testing.T) {
	o := options(t)
	o.Room = func() int64 { return leastSegmentBytes }
	l, fault := retainingLog(t, o)
	large := command("SET", "key", strings.Repeat("v", 10*leastSegmentBytes))
	size := headerBytes + recordBytes + int64(len(large))
	needed := size - leastSegmentBytes + size + 2*leastSegmentBytes // for the log, the data, and what comes next
	fault.set(func(f *faults) { f.free = needed - 1 })
	end := l.Position()
	if _, err := l.Append(0, 0, large); !errors.Is(err, syscall.ENOSPC) || l.Position() != end {
		t.Fatalf("a record that leaves too little: %v", err)
	}
	if err := l.Ready(); err != nil {
		t.Errorf("others are refused: %v", err)
	}
	add(t, l, command("PING"))
	fault.set(func(f *faults) { f.free = needed })
	add(t, l, large)
}

// TestSmallSegments: on a full disk a history begins all the same, and what makes room is taken
// again once the current segment can be removed.
func TestSmallSegments(t *testing.T) {
	o := options(t)
	o.SegmentBytes = 64 * smallSegmentBytes
	var persisted atomic.Int64
	o.Reclaim = func() (Position, error) { return persisted.Load(), nil }
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	eventually(t, "the spare", hasSpare(l))
	fault.set(func(f *faults) { f.free = smallSegmentBytes + smallRoom })
	for _, id := range []string{idB, NewID()} { // the second one in a small segment
		if err := l.Branch(id); err != nil {
			t.Fatal(err)
		}
	}
	if l.current.size != smallSegmentBytes {
		t.Fatalf("a segment of %d bytes", l.current.size)
	}
	eventually(t, "the refusal", func() bool { return errors.Is(l.Ready(), syscall.ENOSPC) })
	payload := command("DEL", strings.Repeat("k", smallSegmentBytes/3))
	add(t, l, payload)
	add(t, l, payload)
	if err := l.Usable(); err != nil {
		t.Errorf("what makes room is refused: %v", err)
	}
	number := l.current.number
	if _, err := l.Append(0, 0, payload); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a segment is begun although none can be removed for it: %v", err)
	}
	persisted.Store(l.Position())
	eventually(t, "the acceptance", func() bool {
		_, err := l.Append(0, 0, payload)
		return err == nil
	})
	if err := l.Sync(l.Position()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the removal", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.segments[0].number > number
	})
	fault.set(func(f *faults) { f.free = 0 })
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare.size != o.SegmentBytes {
		t.Errorf("the next segment has %d bytes", l.spare.size)
	}
}
