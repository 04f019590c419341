package rocks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/redis-tests/launch"
)

// A full disk, which is a small tmpfs in a mount namespace of its own, needs a process of its own:
// this test binary again.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills disks")
	}
	for _, name := range []string{"Stays", "ComesAndGoes", "AtTheEnd", "StopsWrites", "HeldByCompactions", "AtACheckpoint", "BesideACheckpoint", "CompactsEagerly"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runOnSmallDisk(t, "TestInChildFullDisk"+name)
		})
	}
}

func runOnSmallDisk(t *testing.T, name string) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.v")
	command.Env = append(os.Environ(), "ROCKS_TEST_FULL="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := command.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || strings.Contains(string(out), "may not mount") {
		launch.Skip(t, "this system doesn't let the test mount a small disk: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Fatalf("%v\n%.20000s", err, out)
	}
}

const (
	smallDiskBytes = 24 << 20
	ballastBytes   = 16 << 20
)

// smallDisk mounts a disk and returns it and the path of a file that takes most of its room.
func smallDisk(t *testing.T) (disk, ballast string) {
	t.Helper()
	disk = diskOf(t, smallDiskBytes)
	ballast = filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, ballastBytes), 0o600))
	return disk, ballast
}

// diskOf mounts a disk.
func diskOf(t *testing.T, bytes int) string {
	t.Helper()
	disk := os.Getenv("ROCKS_TEST_FULL")
	if disk == "" {
		t.Skip("runs in the child process of TestFullDisk only")
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal("may not mount: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	return disk
}

// fillDisk takes all the room that the disk has left.
func fillDisk(t *testing.T, ballast string) {
	t.Helper()
	file, err := os.OpenFile(ballast, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(t, err)
	for err == nil {
		_, err = file.Write(make([]byte, os.Getpagesize()))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, file.Close())
}

func openOnSmallDisk(t *testing.T, disk string, log *strings.Builder) *DB {
	t.Helper()
	d, err := Open(Options{Directory: filepath.Join(disk, "db"), WriteBufferBytes: 1 << 20, Compression: "none",
		Logger: hclog.New(&hclog.LoggerOptions{Output: log})})
	must(t, err)
	return d
}

func TestInChildFullDiskStays(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	f := d.Family(DefaultFamily)
	acknowledged := fillUp(t, d, f)
	tablesFillUp(t, d, f)
	for i := range acknowledged { // in memory or on disk, it is there
		wantFiller(t, d, f, i)
	}
	if err := d.Compact(t.Context(), f); !IsNoSpace(err) {
		t.Errorf("a compaction on a full disk: %v", err)
	}
	if _, err := d.Create("f"); !IsNoSpace(err) {
		t.Errorf("a family on a full disk: %v", err)
	}
	must(t, os.Remove(ballast))
	waitForRoom(t, d, f, acknowledged)
	wantFiller(t, d, f, acknowledged)
	tables := newTables(t, d, TableOptions{})
	tables.Put(f, []byte("table"), []byte("of a database that has met a full disk"))
	must(t, d.Ingest(tables))
	wantNoTables(t, d)
	must(t, d.Close())
	for _, line := range []string{"the disk is full", "there is room on the disk again"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log doesn't say %q:\n%s", line, log.String())
		}
	}
	if strings.Contains(log.String(), "background work failed") {
		t.Errorf("RocksDB has learned of the full disk:\n%s", log.String())
	}
}

// TestInChildFullDiskComesAndGoes has the disk become full, and have room again, at any moment of
// flushes, of compactions and of what they write to the manifest.
func TestInChildFullDiskComesAndGoes(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	families := []*Family{d.Family(DefaultFamily), create(t, d, "a"), create(t, d, "b")}
	stop, stopped := make(chan struct{}), make(chan struct{})
	rounds := 0
	go func() {
		defer close(stopped)
		for {
			fillDisk(t, ballast)
			time.Sleep(time.Duration(rounds%7) * 5 * time.Millisecond)
			must(t, os.Remove(ballast))
			rounds++
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rounds%5) * 5 * time.Millisecond):
			}
		}
	}()
	const batches = 1000
	flushed := 0
	for n := range batches {
		var b Batch
		for i, f := range families {
			b.Put(f, fmt.Appendf(nil, "key%d", n%8), fmt.Appendf(nil, "%0*d", 4<<10<<i, n))
		}
		if err := d.Write(&b); err != nil && !IsNoSpace(err) {
			t.Fatal(err)
		}
		if err := d.Flush(); err == nil {
			flushed++
		} else if !IsNoSpace(err) {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	waitForRoom(t, d, families[0], 0)
	wantNoLeftovers(t, d)
	must(t, d.Close())
	if t.Logf("%d flushes while the disk was full %d times", flushed, rounds); flushed == 0 || flushed == batches {
		t.Error("the disk was always full, or never")
	}
	if strings.Contains(log.String(), "background work failed") {
		t.Errorf("RocksDB has learned of the full disk:\n%s", log.String())
	}
	d = openOnSmallDisk(t, disk, &log)
	wantFiller(t, d, d.Family(DefaultFamily), 0)
	must(t, d.Close())
}

// wantNoLeftovers waits until no table is there that belongs to no family.
func wantNoLeftovers(t *testing.T, d *DB) {
	t.Helper()
	t.Logf("%d compactions were given up", d.givenUp())
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(d.directory, "*.sst"))
		must(t, err)
		of := map[string]bool{}
		for _, file := range d.inner.GetLiveFilesMetaData() {
			of[filepath.Base(file.Name)] = true
		}
		files = slices.DeleteFunc(files, func(path string) bool { return of[filepath.Base(path)] })
		if len(files) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d tables are of no family, such as %s", len(files), files[0])
			return
		}
	}
}

// TestInChildFullDiskStopsWrites has no write accepted before a compaction that was given up. It
// begins again, though nothing that has to wait for it may.
func TestInChildFullDiskStopsWrites(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	f := d.Family(DefaultFamily)
	for i := 0; d.givenUp() == 0; i++ {
		var b Batch
		b.Put(f, []byte("key"), fmt.Append(nil, i))
		must(t, errors.Join(d.Write(&b), d.Flush()))
	}
	err := d.SetFamilyOptions(map[string]string{"level0_file_num_compaction_trigger": "100", "level0_slowdown_writes_trigger": "100", "level0_stop_writes_trigger": "2"})
	if err != nil && !IsNoSpace(err) { // that it has come to that may be seen before the call ends
		t.Fatal(err)
	}
	await(t, "a stop of writes", d.writesStopped)
	if err := writeFiller(d, f, 0); !IsNoSpace(err) {
		t.Errorf("a write is answered %v", err)
	}
	must(t, os.Remove(ballast))
	for deadline := time.Now().Add(10 * time.Second); d.full("write") != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is room, and compactions don't begin again: %v", d.full("write"))
		}
	}
	must(t, d.SetFamilyOptions(map[string]string{"level0_file_num_compaction_trigger": "4", "level0_slowdown_writes_trigger": "20", "level0_stop_writes_trigger": "48"}))
	waitForRoom(t, d, f, 0)
	must(t, d.Close())
}

// TestInChildFullDiskAtTheEnd closes a database that waits for room: it doesn't wait, and what was
// flushed before is there.
func TestInChildFullDiskAtTheEnd(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	f := d.Family(DefaultFamily)
	must(t, writeFiller(d, f, 0))
	must(t, d.Flush())
	must(t, writeFiller(d, f, 1))
	fillDisk(t, ballast)
	if err := d.Close(); !IsNoSpace(err) {
		t.Errorf("closed on a full disk: %v", err)
	}
	if err := d.Flush(); !errors.Is(err, ErrClosed) {
		t.Errorf("a flush of a closed database: %v", err)
	}
	// It is locked until the process ends.
	if _, err := Open(Options{Directory: d.Directory()}); !IsLocked(err) {
		t.Errorf("opened once more: %v", err)
	}
}

// TestInChildFullDiskAtACheckpoint: a checkpoint that has failed doesn't come when there is room.
func TestInChildFullDiskAtACheckpoint(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	f := d.Family(DefaultFamily)
	put(t, d, f, "key", strings.Repeat("value", 1000))
	fillDisk(t, ballast)
	directory := filepath.Join(disk, "checkpoint")
	if err := d.Checkpoint(directory); !IsNoSpace(err) {
		t.Errorf("a checkpoint on a full disk: %v", err)
	}
	must(t, os.Remove(ballast))
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := d.Flush() // which comes behind the checkpoint's
		if err == nil {
			break
		}
		if !IsNoSpace(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the checkpoint is there: %v", err)
	}
	must(t, d.Close())
}

// TestInChildFullDiskBesideACheckpoint: a checkpoint on another disk is complete when it is told
// of, though the disk of the database is full meanwhile. What was given up would go on, be taken
// for an attempt that was interrupted, and come to stand where complete ones do.
func TestInChildFullDiskBesideACheckpoint(t *testing.T) {
	disk, ballast := smallDisk(t)
	var log strings.Builder
	d := openOnSmallDisk(t, disk, &log)
	f := d.Family(DefaultFamily)
	put(t, d, f, "key", strings.Repeat("value", 1000))
	directory := filepath.Join(t.TempDir(), "checkpoint")
	made, release := checkpointHeld(t, d, directory)
	fillDisk(t, ballast)
	fillUp(t, d, f)
	select {
	case err := <-made:
		t.Fatalf("the checkpoint is given up: %v", err)
	case <-time.After(10 * lookEvery):
	}
	release()
	must(t, <-made)
	copied := openAt(t, directory)
	wantValue(t, copied, copied.Family(DefaultFamily), nil, "key", strings.Repeat("value", 1000))
	must(t, os.Remove(ballast))
	waitForRoom(t, d, f, 0)
	must(t, d.Close())
}

// TestInChildFullDiskHeldByCompactions has a flush wait for the room of a compaction that is given
// up, whose files are newer than those of the flush.
func TestInChildFullDiskHeldByCompactions(t *testing.T) {
	disk := diskOf(t, 80<<20)
	d, err := Open(Options{Directory: filepath.Join(disk, "db"), WriteBufferBytes: 64 << 20, TargetFileBytes: 1 << 20, Compression: "none"})
	must(t, err)
	f := d.Family(DefaultFamily)
	must(t, d.SetFamilyOptions(map[string]string{"disable_auto_compactions": "true"}))
	write := func(first, count int) {
		for i := range count {
			must(t, writeFiller(d, f, first+5*i))
		}
	}
	for first := range 4 { // 20 MB; the compaction has room for 18
		write(first, 80)
		must(t, d.Flush())
	}
	write(4, 384) // 24 MB
	free, err := d.free()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, free-26<<20), 0o600))
	must(t, d.setFamily(f, map[string]string{"disable_auto_compactions": "false"}))
	for left := uint64(26 << 20); left > 25<<20; {
		left, err = d.free()
		must(t, err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = d.Flush(); err == nil {
			break
		}
		if !IsNoSpace(err) || time.Now().After(deadline) {
			t.Fatalf("the flush waits for what a compaction has left: %v", err)
		}
	}
	wantNoLeftovers(t, d)
	must(t, d.Close())
}

// TestInChildFullDiskCompactsEagerly compacts eagerly only as much at once as there is room for.
func TestInChildFullDiskCompactsEagerly(t *testing.T) {
	disk := diskOf(t, 80<<20)
	d, err := Open(Options{Directory: filepath.Join(disk, "db"), WriteBufferBytes: 64 << 20, Compression: "none"})
	must(t, err)
	families := []*Family{create(t, d, "a"), create(t, d, "b")}
	for _, f := range families { // 12 MB
		for range collectedIdle {
			for i := range 96 {
				must(t, writeFiller(d, f, i))
			}
			must(t, d.Flush())
		}
	}
	ballast := filepath.Join(disk, "ballast")
	compact := func(room uint64, a, b int) {
		t.Helper()
		free, err := d.free()
		must(t, err)
		must(t, os.WriteFile(ballast, make([]byte, free-CompactionRoom-room), 0o600))
		must(t, d.CompactEagerly(true))
		when := fmt.Sprintf("with %d bytes of room", room)
		wantCollected(t, d, families[0], a, when)
		wantCollected(t, d, families[1], b, when)
		must(t, os.Remove(ballast))
	}
	compact(8<<20, collectedIdle, collectedIdle)
	compact(20<<20, 0, collectedIdle)
	compact(20<<20, 0, 0)
	must(t, d.Close())
}

func filler(i int) (key, value []byte) {
	return fmt.Appendf(nil, "key%06d", i), fmt.Appendf(nil, "%065536d", i)
}

func wantFiller(t *testing.T, d *DB, f *Family, i int) {
	t.Helper()
	key, value := filler(i)
	wantValue(t, d, f, nil, string(key), string(value))
}

// tablesFillUp writes tables until the disk is full, and finds that they leave nothing behind.
func tablesFillUp(t *testing.T, d *DB, f *Family) {
	t.Helper()
	tables := newTables(t, d, TableOptions{})
	for i := 0; i < 1000 && tables.Err() == nil; i++ {
		key, value := filler(i)
		tables.Put(f, append(key, "in a table"...), value)
	}
	if err := d.Ingest(tables); !IsNoSpace(err) {
		t.Errorf("tables on a full disk: %v", err)
	}
	wantNoTables(t, d)
}

// fillUp writes until the disk is full and returns how many writes were accepted.
func fillUp(t *testing.T, d *DB, f *Family) int {
	t.Helper()
	for i := range 1000 { // 64 MB
		err := writeFiller(d, f, i)
		if err == nil && i%16 == 15 {
			err = d.Flush()
		}
		if err == nil {
			continue
		}
		if !IsNoSpace(err) || IsCorruption(err) || IsLocked(err) {
			t.Fatalf("after %d writes: %v", i, err)
		}
		if err := d.Flush(); !IsNoSpace(err) {
			t.Fatalf("flush: %v", err)
		}
		return i
	}
	t.Fatal("the disk did not become full")
	return 0
}

func writeFiller(d *DB, f *Family, i int) error {
	key, value := filler(i)
	var b Batch
	b.Put(f, key, value)
	return d.Write(&b)
}

// waitForRoom writes until it is accepted and flushed: that there is room again is found out
// without anybody's help.
func waitForRoom(t *testing.T, d *DB, f *Family, i int) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = errors.Join(writeFiller(d, f, i), d.Flush()); err == nil {
			return
		}
	}
	t.Fatalf("no write is accepted although there is room: %v", err)
}
