package rocks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A full disk, which is a small tmpfs in a mount namespace of its own, needs a process of its own: this test binary
// again.
func TestFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("RocksDB looks for room every five seconds")
	}
	t.Parallel()
	command := exec.Command(os.Args[0], "-test.run=^TestFullDiskInChild$", "-test.v")
	command.Env = append(os.Environ(), "ROCKS_TEST_FULL="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := command.CombinedOutput()
	if errors.Is(err, fs.ErrPermission) || strings.Contains(string(out), "may not mount") {
		t.Skip("this system doesn't let the test mount a small disk: ", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFullDiskInChild") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestFullDiskInChild(t *testing.T) {
	disk := os.Getenv("ROCKS_TEST_FULL")
	if disk == "" {
		t.Skip("runs in the child process of TestFullDisk only")
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m"); err != nil {
		t.Fatal("may not mount: ", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	ballast := filepath.Join(disk, "ballast")
	must(t, os.WriteFile(ballast, make([]byte, 16<<20), 0o600))

	var log strings.Builder
	d, err := Open(Options{Directory: filepath.Join(disk, "db"), WriteBufferBytes: 1 << 20, Compression: "none",
		Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	must(t, err)
	f := d.Family(DefaultFamily)
	acknowledged := fillUp(t, d, f)
	tablesFillUp(t, d, f)
	for i := range acknowledged { // in memory or on disk, it is there
		wantFiller(t, d, f, i)
	}
	must(t, os.Remove(ballast))
	waitForRoom(t, d, f, acknowledged)
	must(t, d.Flush())
	wantFiller(t, d, f, acknowledged)
	tables := newTables(t, d, TableOptions{})
	tables.Put(f, []byte("table"), []byte("of a resumed database"))
	if err := d.Ingest(tables); !errors.Is(err, errNoTables) {
		t.Errorf("tables of a resumed database: %v", err)
	}
	wantNoTables(t, d)
	if d.TablesFrom() < 1<<60 {
		t.Error("tables are wanted of a resumed database")
	}
	must(t, d.Close())
	for _, line := range []string{"background work failed", "recovered"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log doesn't say %q:\n%s", line, log.String())
		}
	}
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

// waitForRoom writes until it is accepted: RocksDB finds out by itself that there is room again.
func waitForRoom(t *testing.T, d *DB, f *Family, i int) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = writeFiller(d, f, i); err == nil {
			return
		}
	}
	t.Fatalf("no write is accepted although there is room: %v", err)
}

// TestAsksForAFlushThatDoesNotBegin waits for a flush that nobody has asked for, as one waits whose flush RocksDB has mislaid.
func TestAsksForAFlushThatDoesNotBegin(t *testing.T) {
	d := openNew(t)
	put(t, d, create(t, d, "f"), "k", "v")
	d.events.failed.Store(true)
	d.structure.Lock()
	defer d.structure.Unlock()
	must(t, d.begun(func() error {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if s, err := d.Statistics(); err != nil || s.TableFileBytes > 0 {
				return err
			}
		}
		return errors.New("nobody has asked for a flush")
	}))
}
