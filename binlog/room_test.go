package binlog

import (
	"errors"
	"math"
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
	fault.set(func(f *faults) { f.write = syscall.EIO })
	if _, err := l.Append(0, 0, command("DEL", "key")); err == nil {
		t.Fatal("a write that fails doesn't")
	}
	if l.Usable() == nil {
		t.Error("a broken log is usable")
	}
	fault.set(func(f *faults) { f.write = nil })
	eventually(t, "the repair", func() bool { return l.Ready() == nil })
}
