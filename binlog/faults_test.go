package binlog

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// faults is a file system that fails as it is told, and otherwise is the disk, whose syncs it skips
// for speed.
type faults struct {
	mu          sync.Mutex
	create      error
	allocate    error
	truncate    error
	sync        error
	write       error
	writeAfter  int    // bytes that a failing write still writes
	removeOf    string // a path that can't be removed
	directories int    // syncs of directories
	free        int64  // what the disk has left; 0: what it has indeed
	frees       int64  // what each removed file adds to it
}

// set changes what fails.
func (f *faults) set(change func(*faults)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faults) get(fault func(*faults) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fault(f)
}

// files is the file system itself.
func (f *faults) files() files { return faultyFiles{f} }

type faultyFiles struct{ faults *faults }

func (fs faultyFiles) create(path string) (file, error) {
	if err := fs.faults.get(func(f *faults) error { return f.create }); err != nil {
		return nil, err
	}
	return fs.wrap(disk{}.create(path))
}

func (fs faultyFiles) open(path string) (file, error) { return fs.wrap(disk{}.open(path)) }

func (fs faultyFiles) wrap(f file, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return &faultyFile{file: f, faults: fs.faults}, nil
}

func (fs faultyFiles) remove(path string) error {
	err := fs.faults.get(func(f *faults) error {
		if path == f.removeOf {
			return syscall.EIO
		}
		return nil
	})
	if err != nil {
		return err
	}
	fs.faults.set(func(f *faults) {
		if f.free > 0 {
			f.free += f.frees
		}
	})
	return disk{}.remove(path)
}

func (fs faultyFiles) free(directory string) (int64, error) {
	var free int64
	err := fs.faults.get(func(f *faults) error {
		free = f.free
		return nil
	})
	if free > 0 {
		return free, err
	}
	return disk{}.free(directory)
}

func (fs faultyFiles) syncDirectory(string) error {
	fs.faults.set(func(f *faults) { f.directories++ })
	return nil
}

type faultyFile struct {
	file
	faults *faults
}

func (f *faultyFile) writeAt(pieces [][]byte, offset int64) error {
	f.faults.mu.Lock()
	err, after := f.faults.write, f.faults.writeAfter
	f.faults.mu.Unlock()
	if err == nil {
		return f.file.writeAt(pieces, offset)
	}
	var all []byte
	for _, piece := range pieces {
		all = append(all, piece...)
	}
	return errors.Join(f.file.writeAt([][]byte{all[:min(after, len(all))]}, offset), err)
}

func (f *faultyFile) allocate(size int64) error {
	// A part may have been reserved before the disk was full.
	return errors.Join(f.file.allocate(size), f.faults.get(func(f *faults) error { return f.allocate }))
}

func (f *faultyFile) truncate(size int64) error {
	if err := f.faults.get(func(f *faults) error { return f.truncate }); err != nil {
		return err
	}
	return f.file.truncate(size)
}

func (f *faultyFile) sync() error {
	return f.faults.get(func(f *faults) error { return f.sync })
}

// eventually waits for something that happens in the background.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 10000 {
		if happened() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s did not happen", what)
}

func hasSpare(l *Log) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.spare != nil
	}
}

func TestDiskFull(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	eventually(t, "the first spare", hasSpare(l))
	fault.set(func(f *faults) { f.allocate = syscall.ENOSPC })
	payload := command("SET", "key", strings.Repeat("v", 500))
	accepted := 0
	for l.Ready() == nil && accepted < 100 {
		add(t, l, payload)
		accepted++
		if len(readAll(t, l, 0)) != accepted {
			t.Fatal("a record is lost")
		}
		l.mu.Lock()
		rolled := l.spare == nil
		l.mu.Unlock()
		if rolled {
			eventually(t, "the refusal", func() bool { return l.Ready() != nil })
		}
	}
	if !errors.Is(l.Ready(), syscall.ENOSPC) {
		t.Fatalf("after %d records: %v", accepted, l.Ready())
	}
	// What was on its way when the disk was found full still fits into the segment that was made
	// ahead.
	add(t, l, payload)
	accepted++
	// Then Append itself refuses, and nothing is torn.
	var err error
	for range 100 {
		if _, err = l.Append(0, 0, payload); err != nil {
			break
		}
		accepted++
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("on a full disk: %v", err)
	}
	if got := len(readAll(t, l, 0)); got != accepted {
		t.Fatalf("%d records of %d are there", got, accepted)
	}
	fault.set(func(f *faults) { f.allocate = nil })
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	add(t, l, payload)
	closeLog(t, l)
	l, recovered := open(t, o)
	if got := len(readAll(t, l, 0)); got != accepted+1 || !recovered.Clean {
		t.Fatalf("%d records of %d are there after a reopening: %+v", got, accepted+1, recovered)
	}
}

// A server must come up on a full disk, to serve reads.
func TestOpenOnFullDisk(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	add(t, l, command("PING"))
	closeLog(t, l)
	fault := &faults{allocate: syscall.ENOSPC}
	o.files = fault.files()
	o.SegmentBytes *= 2 // so that the last segment would have to grow
	l, _ = open(t, o)
	eventually(t, "the refusal", func() bool { return l.Ready() != nil })
	if got := readAll(t, l, 0); len(got) != 1 {
		t.Fatalf("read %q", got)
	}
	fault.set(func(f *faults) { f.allocate = nil })
	eventually(t, "the acceptance", func() bool { return l.Ready() == nil })
	add(t, l, command("PING"))
}

// A record that needs a segment of its own is refused alone.
func TestDiskFullForLargeRecord(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	add(t, l, command("PING"))
	eventually(t, "the spare", hasSpare(l))
	fault.set(func(f *faults) { f.allocate = syscall.ENOSPC })
	large := command("SET", "key", strings.Repeat("v", 3*leastSegmentBytes))
	if _, err := l.Append(0, 0, large); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a large record on a full disk: %v", err)
	}
	if err := l.Ready(); err != nil {
		t.Fatalf("small records are refused: %v", err)
	}
	add(t, l, command("PING"))
	if size, err := l.spare.file.size(); err != nil || size != leastSegmentBytes || l.spare.size != size {
		t.Fatalf("the next segment has %d bytes, %v", size, err)
	}
	fault.set(func(f *faults) { f.allocate = nil })
	add(t, l, large)
	add(t, l, command("PING"))
	if got := readAll(t, l, 0); len(got) != 4 || got[2] != string(large) {
		t.Fatalf("read %d records", len(got))
	}
}

func TestWriteFailsInTheMiddle(t *testing.T) {
	payload := command("SET", "key", "value")
	for after := 0; after <= recordBytes+len(payload); after++ {
		o := options(t)
		fault := &faults{}
		o.files = fault.files()
		o.retryEvery = time.Millisecond
		l := create(t, o, 0)
		add(t, l, payload)
		end := l.Position()
		fault.set(func(f *faults) { f.write, f.writeAfter = syscall.EIO, after; f.truncate = syscall.EIO })
		if _, err := l.Append(0, 0, payload); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a write that fails after %d bytes: %v", after, err)
		}
		if err := l.Ready(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("Ready: %v", err)
		}
		if _, err := l.Append(0, 0, payload); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a second write: %v", err)
		}
		if l.Position() != end || len(readAll(t, l, 0)) != 1 {
			t.Fatalf("position %d after the failure, was %d", l.Position(), end)
		}
		fault.set(func(f *faults) { f.write, f.truncate = nil, nil })
		eventually(t, "the repair", func() bool { return l.Ready() == nil })
		// Shorter than what the failed write has left behind.
		add(t, l, command("PING"))
		abandon(t, l)
		o.files = nil
		l, recovered := open(t, o)
		if got := readAll(t, l, 0); recovered.Cut != nil || len(got) != 2 || got[1] != "*1\r\n$4\r\nPING\r\n" {
			t.Fatalf("after %d bytes: %+v, %q", after, recovered, got)
		}
		closeLog(t, l)
	}
}

// A beginning whose writing failed may stand on disk in part or whole. Nothing of it may be left
// when the segment before is written on.
func TestBeginningFails(t *testing.T) {
	for _, after := range []int{0, 50, headerBytes} {
		o := options(t)
		fault := &faults{}
		o.files = fault.files()
		l := create(t, o, 0)
		add(t, l, command("PING"))
		eventually(t, "the spare", hasSpare(l))
		fault.set(func(f *faults) { f.write, f.writeAfter = syscall.EIO, after; f.truncate = syscall.EIO })
		if err := l.Branch(idB); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a branch whose header can't be written: %v", err)
		}
		fault.set(func(f *faults) { f.write, f.truncate = nil, nil })
		eventually(t, "the repair", func() bool { return l.Ready() == nil })
		add(t, l, command("PING"))
		abandon(t, l)
		l, recovered := open(t, o)
		if got := readAll(t, l, 0); recovered.Cut != nil || len(got) != 2 || l.History().ID != idA {
			t.Fatalf("%d bytes: %+v, %q, %v", after, recovered, got, l.History())
		}
		if err := l.Branch(idB); err != nil {
			t.Fatal(err)
		}
		add(t, l, command("PING"))
		abandon(t, l)
		l, recovered = open(t, o)
		if got := readAll(t, l, 0); recovered.Cut != nil || len(got) != 3 || l.History().ID != idB {
			t.Fatalf("%d bytes: %+v, %q, %v", after, recovered, got, l.History())
		}
		closeLog(t, l)
	}
}

// A segment that is spoiled and can't be removed is removed as soon as that is possible.
func TestSpoiledSegmentStays(t *testing.T) {
	for _, gone := range []bool{false, true} {
		o := options(t)
		fault := &faults{}
		o.files = fault.files()
		l := create(t, o, 0)
		eventually(t, "the spare", hasSpare(l))
		spare := l.spare
		fault.set(func(f *faults) { f.write, f.removeOf = syscall.EIO, spare.path })
		if err := l.Branch(idB); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a branch whose header can't be written: %v", err)
		}
		for range 2 {
			if err := l.repair(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("the repair: %v", err)
			}
		}
		if gone {
			if err := os.Remove(spare.path); err != nil {
				t.Fatal(err)
			}
		}
		fault.set(func(f *faults) { f.write, f.removeOf = nil, "" })
		eventually(t, "the repair", func() bool { return l.Ready() == nil })
		if err := l.Branch(idB); err != nil {
			t.Fatal(err)
		}
	}
}

// Who waits for the next segment, with the locks that it holds, is told when the log breaks: the
// segment isn't made before the log is repaired.
func TestLogBreaksWhileASegmentIsAwaited(t *testing.T) {
	o := options(t)
	fault := &faults{truncate: syscall.EIO}
	o.files = fault.files()
	l := create(t, o, 0)
	eventually(t, "the spare", hasSpare(l))
	l.mu.Lock()
	spare := l.spare
	l.spare = nil
	l.mu.Unlock()
	answered := make(chan error)
	go func() {
		_, err := l.Append(0, 0, command("SET", "key", strings.Repeat("v", leastSegmentBytes)))
		answered <- err
	}()
	time.Sleep(10 * time.Millisecond) // in which it as a rule begins to wait
	l.mu.Lock()
	_ = l.fail(syscall.EIO)
	l.mu.Unlock()
	select {
	case err := <-answered:
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("who waits is answered %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("who waits isn't answered")
	}
	l.mu.Lock()
	l.spare = spare
	l.spared.Broadcast()
	l.mu.Unlock()
	fault.set(func(f *faults) { f.truncate = nil })
	eventually(t, "the repair", func() bool { return l.Ready() == nil })
}

// Linux tells once that a page could not be written. What a failed sync left in doubt must be
// written again before a later sync can be believed.
func TestSyncFails(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	for range 50 {
		add(t, l, command("SET", "key", strings.Repeat("v", 500)))
	}
	end := l.Position()
	fault.set(func(f *faults) { f.sync = syscall.EIO; f.write = syscall.EIO })
	if err := l.Sync(end); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a sync that fails: %v", err)
	}
	fault.set(func(f *faults) { f.sync = nil })
	if err := l.Sync(end); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a sync behind one that failed: %v", err)
	}
	if l.Durable() == end || !errors.Is(l.Ready(), syscall.EIO) {
		t.Fatalf("durable %d of %d, ready: %v", l.Durable(), end, l.Ready())
	}
	fault.set(func(f *faults) { f.write = nil })
	eventually(t, "the repair", func() bool { return l.Ready() == nil })
	if l.Durable() != end {
		t.Fatalf("durable %d of %d", l.Durable(), end)
	}
	if got := len(readAll(t, l, 0)); got != 50 {
		t.Fatalf("%d records", got)
	}
	add(t, l, command("PING"))
}

// When the page is lost from memory too, the log must not accept writes behind the hole.
func TestSyncLosesData(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	add(t, l, command("SET", "key", "value"))
	fault.set(func(f *faults) { f.sync = syscall.EIO })
	if err := l.Sync(l.Position()); err == nil {
		t.Fatal("the sync succeeded")
	}
	damageFile(t, segmentPath(o.Directory, 1), headerBytes+recordBytes, 1)
	fault.set(func(f *faults) { f.sync = nil })
	for range 3 {
		if err := l.repair(); !errors.Is(err, errDamaged) {
			t.Fatalf("the repair: %v", err)
		}
	}
	if err := l.Ready(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Ready: %v", err)
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Close: %v", err)
	}
}

// damageFile flips bits of a file's bytes.
func damageFile(t *testing.T, path string, offset int64, count int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, count)
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] ^= 0x55
	}
	if _, err := f.WriteAt(b, offset); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
