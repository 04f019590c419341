package rocks

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// openAt opens a small database; what is still open at the test's end is closed.
func openAt(t testing.TB, directory string) *DB {
	t.Helper()
	d, err := Open(Options{Directory: directory, BlockCacheBytes: 8 << 20, WriteBufferBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return d
}

func openNew(t testing.TB) *DB { return openAt(t, t.TempDir()) }

func create(t testing.TB, d *DB, name string) *Family {
	t.Helper()
	f, err := d.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func put(t testing.TB, d *DB, f *Family, pairs ...string) {
	t.Helper()
	var b Batch
	for i := 0; i < len(pairs); i += 2 {
		b.Put(f, []byte(pairs[i]), []byte(pairs[i+1]))
	}
	must(t, d.Write(&b))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantValue checks one key; want "-" stands for none.
func wantValue(t testing.TB, d *DB, f *Family, s *Snapshot, key, want string) {
	t.Helper()
	value, found, err := d.Get(f, s, []byte(key), nil)
	must(t, err)
	got := "-"
	if found {
		got = string(value)
	}
	if got != want {
		t.Fatalf("%s: got %.40q, want %.40q", key, got, want)
	}
}

func TestGetAppends(t *testing.T) {
	d := openNew(t)
	f := d.Family(DefaultFamily)
	large := strings.Repeat("x", 200<<10)
	put(t, d, f, "small", "value", "empty", "", "large", large, "", "of the empty key")
	for round := range 2 { // from the memtable, then from a table file
		for key, want := range map[string]string{"small": "value", "empty": "", "large": large, "": "of the empty key"} {
			for _, room := range []int{0, 3, 1 << 20} {
				dst := append(make([]byte, 0, room+2), "ab"...)
				value, found, err := d.Get(f, nil, []byte(key), dst)
				if err != nil || !found || string(value) != "ab"+want {
					t.Fatalf("round %d, %q, room %d: %.20q, %v, %v", round, key, room, value, found, err)
				}
			}
		}
		value, found, err := d.Get(f, nil, []byte("absent"), []byte("ab"))
		if err != nil || found || string(value) != "ab" {
			t.Fatalf("absent: %q, %v, %v", value, found, err)
		}
		must(t, d.Flush())
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	d := openNew(t)
	f := d.Family(DefaultFamily)
	put(t, d, f, "key", "value")
	key, dst := []byte("key"), make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		if _, found, err := d.Get(f, nil, key, dst); !found || err != nil {
			t.Fatal(found, err)
		}
	}); n > 0 {
		t.Fatalf("%v allocations for each Get", n)
	}
}

// TestGetCached reads keys of the memtable, and of a table file before and after its blocks have
// come into the cache.
// TestGetCachedFromAFileThatIsNotOpen: what RocksDB would have to open a file for is unread, and
// not an empty value.
func TestGetCachedFromAFileThatIsNotOpen(t *testing.T) {
	const files, open = 40, 20
	o := Options{Directory: t.TempDir(), MaxOpenFiles: open, MaxBackgroundJobs: 1}
	d, err := Open(o)
	must(t, err)
	for i := range files { // a family for each, so that nothing is compacted
		f := create(t, d, fmt.Sprint("f", i))
		put(t, d, f, "value", "something", "empty", "")
		must(t, d.Flush())
	}
	must(t, d.Close())
	d, err = Open(o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	keys := [][]byte{[]byte("value"), []byte("empty"), []byte("none")}
	var v CachedValues
	unread, empty := 0, 0
	for i := range files {
		f := d.Family(fmt.Sprint("f", i))
		must(t, d.GetCached(f, keys, &v))
		for k, want := range []string{"something", ""} {
			value, found := v.At(k)
			switch {
			case v.Unread(k):
				unread++
			case !found || string(value) != want:
				t.Errorf("family %d, %q: %q, %v", i, keys[k], value, found)
			}
		}
		if _, found := v.At(2); found {
			t.Errorf("family %d has a value for what isn't there", i)
		}
		for k, want := range []string{"something", ""} {
			value, found, err := d.Get(f, nil, keys[k], nil)
			if err != nil || !found || string(value) != want {
				t.Errorf("family %d, %q: %q, %v, %v", i, keys[k], value, found, err)
			}
		}
		must(t, d.GetCached(f, keys, &v)) // most files are open now, and their blocks in memory
		switch value, found := v.At(1); {
		case found && len(value) == 0:
			empty++
		case !v.Unread(1):
			t.Errorf("family %d: an empty value that was read is %q, %v", i, value, found)
		}
	}
	if unread == 0 || empty == 0 {
		t.Errorf("%d values were unread at first, %d empty ones known after they were read", unread, empty)
	}
}

func TestGetCached(t *testing.T) {
	directory := t.TempDir()
	d := openAt(t, directory)
	f := create(t, d, "f")
	for i := range 2000 { // more than RocksDB reads when it opens the file
		put(t, d, f, fmt.Sprintf("b%04d", i), strings.Repeat(fmt.Sprint(i), 200))
	}
	put(t, d, f, "a", "1")
	must(t, d.Flush())
	must(t, d.Close())
	d = openAt(t, directory)
	f = d.Family("f")
	put(t, d, f, "c", "3", "empty", "", "large", strings.Repeat("y", cachedBytes+1), "half", strings.Repeat("z", cachedBytes/2))
	const unreadYet, leftOut = "unread", "left out"
	check := func(wanted ...string) { // key, what is told of it, key …
		t.Helper()
		var keys [][]byte
		for i := 0; i < len(wanted); i += 2 {
			keys = append(keys, []byte(wanted[i]))
		}
		var v CachedValues
		for range 2 { // into nothing, then into what is there
			must(t, d.GetCached(f, keys, &v))
			if v.Len() != len(keys) {
				t.Fatalf("%d values, want %d", v.Len(), len(keys))
			}
			for i := range keys {
				value, found := v.At(i)
				got := "absent"
				switch {
				case found:
					got = "=" + string(value)
				case v.Unread(i):
					got = unreadYet
				case !v.Known(i):
					got = leftOut
				}
				if want := wanted[2*i+1]; got != want {
					t.Errorf("%s: %.20q, want %.20q", keys[i], got, want)
				}
			}
		}
	}
	half := "=" + strings.Repeat("z", cachedBytes/2)
	check("a", unreadYet, "c", "=3", "none", "absent", "empty", "=", "c", "=3")
	check("large", leftOut, "half", half, "c", "=3", "half", leftOut, "c", "=3")
	wantValue(t, d, f, nil, "a", "1")
	check("a", "=1", "none", "absent", "c", "=3")
	check()
	must(t, d.Close())
	if err := d.GetCached(f, [][]byte{[]byte("a")}, new(CachedValues)); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestSnapshot(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	put(t, d, f, "k", "old")
	s := d.Snapshot()
	put(t, d, f, "k", "new", "l", "new")
	wantValue(t, d, f, s, "k", "old")
	wantValue(t, d, f, s, "l", "-")
	wantValue(t, d, f, nil, "k", "new")
	if err := d.Close(); !errors.Is(err, ErrInUse) {
		t.Fatalf("close with a snapshot: %v", err)
	}
	s.Release()
	must(t, d.Close())
	if _, _, err := d.Get(f, nil, []byte("k"), nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("get after close: %v", err)
	}
}

func TestFamilies(t *testing.T) {
	directory := t.TempDir()
	d := openAt(t, directory)
	a, b := create(t, d, "a"), create(t, d, "b")
	if _, err := d.Create("a"); err == nil {
		t.Error("created twice")
	}
	put(t, d, a, "k", "in a")
	put(t, d, b, "k", "in b")
	wantValue(t, d, a, nil, "k", "in a")
	wantValue(t, d, b, nil, "k", "in b")
	if err := d.Drop(d.Family(DefaultFamily)); err == nil {
		t.Error("the default family was dropped")
	}
	must(t, d.Drop(a))
	if _, _, err := d.Get(a, nil, []byte("k"), nil); !errors.Is(err, ErrDropped) {
		t.Errorf("get from a dropped family: %v", err)
	}
	if err := d.Drop(a); !errors.Is(err, ErrDropped) {
		t.Errorf("dropped twice: %v", err)
	}
	again := create(t, d, "a")
	if again.ID() <= b.ID() {
		t.Errorf("id %d was given again, the last one was %d", again.ID(), b.ID())
	}
	wantValue(t, d, again, nil, "k", "-")
	must(t, d.Close())

	d = openAt(t, directory)
	if got := d.Families(); !slices.Equal(got, []string{"a", "b", DefaultFamily}) {
		t.Errorf("families %v", got)
	}
	wantValue(t, d, d.Family("b"), nil, "k", "in b")
	if _, _, err := d.Get(b, nil, []byte("k"), nil); !errors.Is(err, ErrForeign) {
		t.Errorf("family of the closed database: %v", err)
	}
}

// A batch that names a dropped family must not be applied in part, as RocksDB would.
func TestWriteRefusesDroppedFamily(t *testing.T) {
	d := openNew(t)
	a, b := create(t, d, "a"), create(t, d, "b")
	must(t, d.Drop(b))
	var batch Batch
	batch.Put(a, []byte("k"), []byte("v"))
	batch.Put(b, []byte("k"), []byte("v"))
	if err := d.Write(&batch); !errors.Is(err, ErrDropped) {
		t.Fatalf("write: %v", err)
	}
	wantValue(t, d, a, nil, "k", "-")
}

func TestDropWaitsForIterators(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	put(t, d, f, "k", "v")
	it := d.NewIterator(f, nil, IteratorOptions{})
	it.Next()
	if err := d.Drop(f); !errors.Is(err, ErrInUse) {
		t.Fatalf("drop: %v", err)
	}
	it.Close()
	must(t, d.Drop(f))
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(Options{}); err == nil {
		t.Error("opened no directory")
	}
	if _, err := Open(Options{Directory: t.TempDir(), Compression: "best"}); err == nil || !strings.Contains(err.Error(), "best") {
		t.Errorf("unknown compression: %v", err)
	}
	if _, err := Open(Options{Directory: t.TempDir(), MaxWriteBuffers: -1}); err == nil {
		t.Error("opened with -1 write buffers")
	}
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(Options{Directory: file}); err == nil {
		t.Error("opened a file")
	}
}

func TestOpenLockedByThisProcess(t *testing.T) {
	d := openNew(t)
	put(t, d, d.Family(DefaultFamily), "k", "v")
	for range 2 { // the refused Open must not have dropped the lock
		_, err := Open(Options{Directory: d.Directory()})
		if !IsLocked(err) || IsCorruption(err) || IsNoSpace(err) {
			t.Fatalf("second open: %v", err)
		}
		wantLockedElsewhere(t, d.Directory())
	}
}

// wantLockedElsewhere opens the directory in another process, which is this test binary again.
func wantLockedElsewhere(t *testing.T, directory string) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=TestOpenInChild")
	command.Env = append(os.Environ(), "ROCKS_TEST_OPEN="+directory)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "locked: true") {
		t.Fatalf("the other process says: %s", out)
	}
}

func TestOpenInChild(t *testing.T) {
	directory := os.Getenv("ROCKS_TEST_OPEN")
	if directory == "" {
		t.Skip("runs in the child process of TestOpenLockedByThisProcess only")
	}
	_, err := Open(Options{Directory: directory})
	fmt.Printf("locked: %v, %v\n", IsLocked(err), err)
}

func TestOpenWithoutRights(t *testing.T) {
	directory := t.TempDir()
	must(t, os.Chmod(directory, 0o500))
	defer os.Chmod(directory, 0o700)
	if os.Getuid() == 0 {
		t.Skip("root has all rights")
	}
	if _, err := Open(Options{Directory: directory}); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("open: %v", err)
	}
}

func TestOpenCorrupt(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, directory string){
		"manifest damaged": func(t *testing.T, directory string) { flip(t, matching(t, directory, "MANIFEST-*")) },
		"manifest missing": func(t *testing.T, directory string) { remove(t, directory, "MANIFEST-*") },
		"table missing":    func(t *testing.T, directory string) { remove(t, directory, "*.sst") },
		"table cut":        func(t *testing.T, directory string) { cut(t, directory, "*.sst") },
		"no CURRENT":       func(t *testing.T, directory string) { remove(t, directory, "CURRENT") },
	} {
		t.Run(name, func(t *testing.T) {
			d := openNew(t)
			put(t, d, d.Family(DefaultFamily), "k", "v")
			must(t, d.Close())
			damage(t, d.Directory())
			broken, err := Open(Options{Directory: d.Directory()})
			if err == nil {
				broken.Close()
			}
			if !IsCorruption(err) {
				t.Fatalf("open: %v", err)
			}
		})
	}
}

// TestOpenWithoutCurrent: a database that has lost its CURRENT file isn't begun anew where the
// directory's name would be a pattern, either.
func TestOpenWithoutCurrent(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "[data]")
	d, err := Open(Options{Directory: directory})
	must(t, err)
	put(t, d, d.Family(DefaultFamily), "k", "v")
	must(t, d.Close())
	entries, err := os.ReadDir(directory)
	must(t, err)
	for _, entry := range entries { // RocksDB looks at its logs, which a checkpoint hasn't
		if entry.Name() == "CURRENT" || filepath.Ext(entry.Name()) == ".log" {
			must(t, os.Remove(filepath.Join(directory, entry.Name())))
		}
	}
	broken, err := Open(Options{Directory: directory})
	if err == nil {
		must(t, broken.Close())
	}
	if !IsCorruption(err) {
		t.Errorf("open: %v", err)
	}
}

func matching(t *testing.T, directory, pattern string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s in %s", pattern, directory)
	}
	return paths[len(paths)-1]
}

func cut(t *testing.T, directory, pattern string) {
	path := matching(t, directory, pattern)
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.Truncate(path, info.Size()/2))
}

func remove(t *testing.T, directory, pattern string) {
	must(t, os.Remove(matching(t, directory, pattern)))
}

// crash copies a database's files as they stand, which is what a killed process leaves. Those that
// are out of date may vanish meanwhile, a moment after they are.
func crash(t testing.TB, directory string) string {
	t.Helper()
	for {
		to := t.TempDir()
		err := os.CopyFS(to, os.DirFS(directory))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		return to
	}
}

// Each batch writes its number to three families. Whatever was flushed when the process died, the
// three agree.
func TestFlushIsAtomicOverFamilies(t *testing.T) {
	d := openNew(t)
	families := []*Family{d.Family(DefaultFamily), create(t, d, "a"), create(t, d, "b")}
	write := func(i int) {
		var b Batch
		for _, f := range families {
			b.Put(f, []byte("position"), fmt.Append(nil, i))
		}
		must(t, d.Write(&b))
	}
	last := "-"
	for i := range 10 {
		write(i)
		if i%3 == 1 {
			families = append(families, create(t, d, fmt.Sprint("more", i)))
			write(i)
			must(t, d.Flush())
			last = fmt.Sprint(i)
		}
		survivor := openAt(t, crash(t, d.Directory()))
		for _, name := range survivor.Families() {
			wantValue(t, survivor, survivor.Family(name), nil, "position", last)
		}
		must(t, survivor.Close())
	}
	for _, f := range families {
		value, found, err := d.GetPersisted(f, []byte("position"))
		if err != nil || !found || string(value) != last {
			t.Errorf("%s: persisted %q, %v, %v, want %s", f.Name(), value, found, err, last)
		}
	}
}

// RocksDB's own flushes, which begin when a memtable is full, take all families along as well.
func TestOwnFlushesAreAtomic(t *testing.T) {
	d := openNew(t)
	a, b := create(t, d, "a"), create(t, d, "b")
	filler := make([]byte, 10<<10)
	for i := range 500 { // 5 MB in a with write buffers of 1 MB; next to nothing in b
		var batch Batch
		batch.Put(a, fmt.Appendf(nil, "filler%d", i), filler)
		batch.Put(a, []byte("position"), fmt.Append(nil, i))
		batch.Put(b, []byte("position"), fmt.Append(nil, i))
		must(t, d.Write(&batch))
		if i%100 != 99 {
			continue
		}
		survivor := crashConsistently(t, d)
		inA, _, err := survivor.Get(survivor.Family("a"), nil, []byte("position"), nil)
		must(t, err)
		inB, _, err := survivor.Get(survivor.Family("b"), nil, []byte("position"), nil)
		must(t, err)
		if !bytes.Equal(inA, inB) || i == 499 && len(inA) == 0 {
			t.Fatalf("after %d: a is at %q, b at %q", i, inA, inB)
		}
		must(t, survivor.Close())
	}
}

// crashConsistently copies the directory while background work changes it: a copy in which a file
// that the manifest names is missing is not a moment that a crash could leave, and is taken again.
func crashConsistently(t *testing.T, d *DB) *DB {
	t.Helper()
	var err error
	for range 20 {
		to := t.TempDir()
		if err = os.CopyFS(to, os.DirFS(d.Directory())); err != nil {
			continue
		}
		var survivor *DB
		if survivor, err = Open(Options{Directory: to, WriteBufferBytes: 1 << 20, BlockCacheBytes: 1 << 20}); err == nil {
			t.Cleanup(func() { survivor.Close() })
			return survivor
		}
	}
	t.Fatal(err)
	return nil
}

func TestCloseFlushes(t *testing.T) {
	directory := t.TempDir()
	d := openAt(t, directory)
	f := create(t, d, "f")
	put(t, d, f, "k", "v")
	if _, found, err := d.GetPersisted(f, []byte("k")); found || err != nil {
		t.Fatalf("persisted before any flush: %v, %v", found, err)
	}
	must(t, d.Close())
	if err := d.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	d = openAt(t, directory)
	wantValue(t, d, d.Family("f"), nil, "k", "v")
}

// TestCloseAwaitsWrites closes a database, behind its last flush, with a Write under way, as one
// that was given up on a full disk may be: it ends first, though nothing ends what it waits for.
func TestCloseAwaitsWrites(t *testing.T) {
	d := openAt(t, t.TempDir())
	f := create(t, d, "f")
	must(t, d.SetFamilyOptions(map[string]string{"level0_file_num_compaction_trigger": "100", "level0_slowdown_writes_trigger": "100", "level0_stop_writes_trigger": "2"}))
	for !d.writesStopped() {
		put(t, d, f, "k", "v")
		must(t, d.Flush())
	}
	written := make(chan error, 1)
	go func() {
		var b Batch
		b.Put(f, []byte("k"), []byte("late"))
		written <- d.writePatiently(d.full, b.families, b.Bytes())
	}()
	for d.writing.TryLock() {
		d.writing.Unlock()
		runtime.Gosched()
	}
	d.recovery.end()
	d.closed.Store(true)
	d.end()
	if !d.writing.TryLock() {
		t.Error("the write is under way still")
	}
	if err := <-written; err == nil {
		t.Error("written behind the last flush")
	}
}

func TestCheckpoint(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	put(t, d, f, "k", "then")
	directory := filepath.Join(t.TempDir(), "checkpoint")
	must(t, d.Checkpoint(directory))
	put(t, d, f, "k", "later")
	copied := openAt(t, directory)
	wantValue(t, copied, copied.Family("f"), nil, "k", "then")
	if err := d.Checkpoint(directory); err == nil {
		t.Error("a checkpoint overwrote another")
	}
	if err := d.Checkpoint(filepath.Join(directory, "no", "such")); err == nil || IsCorruption(err) {
		t.Errorf("a checkpoint in a directory that is not there: %v", err)
	}
}

// TestCheckpointHasWholeBatches makes checkpoints while a family is written to for the first time
// since it was flushed.
func TestCheckpointHasWholeBatches(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	base := d.Family(DefaultFamily)
	for i := range 40 {
		must(t, d.Flush())
		put(t, d, base, "k", fmt.Sprint(i, " before"))
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := range 200 {
				var b Batch
				value := fmt.Append(nil, i, " ", n)
				b.Put(base, []byte("k"), value)
				b.Put(f, []byte("k"), value)
				if err := d.Write(&b); err != nil {
					t.Error(err)
				}
			}
		})
		directory := filepath.Join(t.TempDir(), "checkpoint")
		must(t, d.Checkpoint(directory))
		writer.Wait()
		copied := openAt(t, directory)
		want, _, err := copied.Get(copied.Family(DefaultFamily), nil, []byte("k"), nil)
		must(t, err)
		if !strings.HasSuffix(string(want), "before") {
			wantValue(t, copied, copied.Family("f"), nil, "k", string(want))
		}
		must(t, copied.Close())
	}
}

// checkpointHeld begins to make a checkpoint, which stands still once it knows what it copies,
// until release is called: RocksDB looks whether a log is empty that is a pipe.
func checkpointHeld(t *testing.T, d *DB, directory string) (made <-chan error, release func()) {
	t.Helper()
	pipe := filepath.Join(d.Directory(), "999999.log")
	must(t, syscall.Mkfifo(pipe, 0o600))
	result := make(chan error, 1)
	go func() { result <- d.Checkpoint(directory) }()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil { // it reads
			release = sync.OnceFunc(func() { must(t, errors.Join(os.Remove(pipe), writer.Close())) })
			t.Cleanup(release)
			return result, release
		}
		if !errors.Is(err, syscall.ENXIO) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestBesideACheckpoint: while a checkpoint copies files, as it does for long on another file
// system, all else goes on; but the files that it copies stay, and the database can't be closed.
func TestBesideACheckpoint(t *testing.T) {
	d := openNew(t)
	f, dropped := create(t, d, "f"), create(t, d, "dropped")
	put(t, d, f, "k", "then")
	put(t, d, dropped, "k", "then")
	directory := filepath.Join(t.TempDir(), "checkpoint")
	made, release := checkpointHeld(t, d, directory)
	went := make(chan struct{})
	go func() {
		defer close(went)
		put(t, d, f, "k", "later")
		tables := newTables(t, d, TableOptions{})
		tables.Put(f, []byte("table"), []byte("later"))
		for _, err := range []error{d.Ingest(tables), d.Flush(), d.Compact(t.Context(), f), d.Drop(dropped)} {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := d.Create("later"); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-went:
	case <-time.After(30 * time.Second):
		t.Fatal("something waits for the checkpoint")
	}
	if err := d.Close(); !errors.Is(err, ErrInUse) {
		t.Fatalf("closed beside a checkpoint: %v", err)
	}
	release()
	must(t, <-made)
	copied := openAt(t, directory)
	if got := copied.Families(); !slices.Equal(got, []string{"default", "dropped", "f"}) {
		t.Errorf("the checkpoint has the families %q", got)
	}
	wantValue(t, copied, copied.Family("f"), nil, "k", "then")
	wantValue(t, copied, copied.Family("dropped"), nil, "k", "then")
	if _, found, err := copied.Get(copied.Family("f"), nil, []byte("table"), nil); found || err != nil {
		t.Errorf("the checkpoint has what came later (%v)", err)
	}
}

func TestSetOptions(t *testing.T) {
	d := openNew(t)
	must(t, d.SetFamilyOptions(map[string]string{"write_buffer_size": "2097152"}))
	must(t, d.SetOptions(map[string]string{"max_background_jobs": "3", "bytes_per_sync": "2097152"}))
	if err := d.SetFamilyOptions(map[string]string{"num_levels": "3"}); err == nil {
		t.Error("num_levels was changed")
	}
	if err := d.SetOptions(map[string]string{"no_such_option": "1"}); err == nil {
		t.Error("an unknown option was set")
	}
	create(t, d, "later")
	d.SetBlockCacheBytes(16 << 20)
	d.SetRateLimitBytes(10 << 20)
	d.SetRateLimitBytes(0)
	s, err := d.Statistics()
	if err != nil || s.BlockCacheBytes != 16<<20 {
		t.Errorf("cache of %d bytes, %v", s.BlockCacheBytes, err)
	}
	text := optionsFile(t, d.Directory())
	if n := strings.Count(text, "write_buffer_size=2097152"); n != 2 {
		t.Errorf("%d families have the new write buffers, want 2", n)
	}
	if !strings.Contains(text, "max_background_jobs=3") {
		t.Error("max_background_jobs did not change")
	}
}

// optionsFile returns the newest of the files in which RocksDB notes its options.
func optionsFile(t *testing.T, directory string) string {
	t.Helper()
	text, err := os.ReadFile(matching(t, directory, "OPTIONS-*"))
	must(t, err)
	return strings.ReplaceAll(string(text), "db_write_buffer_size", "")
}

func TestCacheShardBits(t *testing.T) {
	for bytes, want := range map[int64]int{1 << 20: 0, 16 << 20: 0, 31 << 20: 0, 32 << 20: 1, 256 << 20: 4, 1 << 30: 6, 1 << 40: 6} {
		if got := cacheShardBits(bytes); got != want {
			t.Errorf("%d bytes: 2^%d shards, want 2^%d", bytes, got, want)
		}
	}
}

func TestStatistics(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	put(t, d, f, "k", "value")
	must(t, d.Flush())
	for range 3 {
		wantValue(t, d, f, nil, "k", "value")
	}
	wantValue(t, d, f, nil, "absent", "-")
	s, err := d.Statistics()
	must(t, err)
	if s.KeysWritten != 1 || s.KeysRead != 4 || s.BytesRead != 15 || s.BlockCacheDataHits == 0 || s.FlushedBytes == 0 {
		t.Errorf("counters %+v", s.Counters)
	}
	if s.EstimatedKeys != 1 || s.TableFileBytes == 0 || s.MemtableBytes == 0 || s.WritesStopped || s.BackgroundErrors != 0 {
		t.Errorf("gauges %+v", s)
	}
	if value, ok, err := d.Property(f, "rocksdb.stats"); err != nil || !ok || value == "" {
		t.Errorf("rocksdb.stats: %q, %v, %v", value, ok, err)
	}
	if _, ok, err := d.Property(f, "rocksdb.no-such"); ok || err != nil {
		t.Errorf("rocksdb.no-such: %v, %v", ok, err)
	}
}

// TestWhatIsAskedForAwaitsADrop, or a Close, which has begun: what it is asked of is freed then.
func TestWhatIsAskedForAwaitsADrop(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	for name, ask := range map[string]func() error{
		"Statistics":      func() error { _, err := d.Statistics(); return err },
		"FamilyBytes":     func() error { _, err := d.FamilyBytes(f); return err },
		"FamilyRecords":   func() error { _, err := d.FamilyRecords(f); return err },
		"Property":        func() error { _, _, err := d.Property(f, "rocksdb.stats"); return err },
		"ApproximateSize": func() error { _, err := d.ApproximateSize(f, []byte("a"), []byte("b")); return err },
	} {
		d.families.Lock()
		answer := make(chan error, 1)
		go func() { answer <- ask() }()
		time.Sleep(20 * time.Millisecond) // one that doesn't wait has answered by then
		f.gone.Store(true)
		d.closed.Store(true)
		d.families.Unlock()
		if err := <-answer; !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, ErrClosed)
		}
		f.gone.Store(false)
		d.closed.Store(false)
	}
}

func TestVersion(t *testing.T) {
	if Version() != "7.8.3" {
		t.Errorf("RocksDB %s, the package was written for 7.8.3", Version())
	}
	if BuildKind() == "" {
		t.Error("no build kind")
	}
}

// Readers, a walker, writers, flushes, and families that come and go, all at once; for the race
// detector.
func TestConcurrentUse(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for i := range 100 {
				if err := disturb(d, f, random, fmt.Sprint(seed, "-", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// disturb does one random thing.
func disturb(d *DB, f *Family, random *rand.Rand, name string) error {
	switch key := fmt.Append(nil, random.IntN(50)); random.IntN(13) {
	case 0:
		return d.Flush()
	case 1:
		other, err := d.Create(name)
		if err != nil {
			return err
		}
		var b Batch
		b.Put(other, key, key)
		return errors.Join(d.Write(&b), d.Drop(other))
	case 2:
		s := d.Snapshot()
		defer s.Release()
		it := d.NewIterator(f, s, IteratorOptions{Reverse: random.IntN(2) == 0})
		defer it.Close()
		for it.Next() {
			if !bytes.Equal(it.Key(), it.Value()) {
				return fmt.Errorf("%q holds %q", it.Key(), it.Value())
			}
		}
		return it.Err()
	case 3:
		_, err := d.Statistics()
		return err
	case 4, 5, 6, 7:
		value, found, err := d.Get(f, nil, key, nil)
		if found && !bytes.Equal(value, key) {
			return fmt.Errorf("%q holds %q", key, value)
		}
		return err
	case 8:
		tables, err := d.NewTables(TableOptions{Bytes: 1})
		if err != nil {
			return err
		}
		tables.Put(f, key, key)
		return d.Ingest(tables)
	default:
		var b Batch
		b.Put(f, key, key)
		return d.Write(&b)
	}
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 0x55
	must(t, os.WriteFile(path, data, 0o600))
}

// TestCompactEagerly: few tables are compacted only when that is asked for, and only where it
// doesn't rewrite much for little.
func TestCompactEagerly(t *testing.T) {
	d := openAt(t, t.TempDir())
	f, large := create(t, d, "f"), create(t, d, "large")
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 100<<10)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	put(t, d, large, "a", string(noise), "z", string(noise))
	must(t, d.Flush())
	must(t, d.Compact(t.Context(), large))
	collectFew(t, d, large)
	collectFew(t, d, f)
	wantCollected(t, d, f, collectedIdle, "before anybody asked")
	must(t, d.CompactEagerly(true))
	wantCollected(t, d, f, 0, "when it was asked for")
	wantCollected(t, d, large, collectedIdle, "where it isn't worth it")
	wantValue(t, d, f, nil, "z", "2")
	must(t, d.CompactEagerly(true))
	collectFew(t, d, f)
	wantCollected(t, d, f, collectedIdle, "of what came when all had been compacted")
	must(t, d.CompactEagerly(true))
	wantCollected(t, d, f, 0, "when it was asked for once more")
	must(t, d.CompactEagerly(false))
	collectFew(t, d, f)
	wantCollected(t, d, f, collectedIdle, "of what came afterwards")
	must(t, d.Close())
}

// TestCompactEagerlyWithManyFamilies: a database in which it would take long to tell RocksDB is
// left alone.
func TestCompactEagerlyWithManyFamilies(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	collectFew(t, d, f)
	for n := len(d.Families()); n <= eagerFamilies; n++ {
		create(t, d, fmt.Sprint(n))
	}
	must(t, d.CompactEagerly(true))
	wantCollected(t, d, f, collectedIdle, "among many families")
	must(t, d.Drop(d.Family(fmt.Sprint(eagerFamilies))))
	must(t, d.CompactEagerly(true))
	wantCollected(t, d, f, 0, "among fewer")
}

// collectFew writes tables to level 0 of a family that are compacted only eagerly.
func collectFew(t *testing.T, d *DB, f *Family) {
	t.Helper()
	for range collectedIdle {
		put(t, d, f, "a", "1", "z", "2")
		must(t, d.Flush())
	}
}

// wantCollected looks for tables on level 0 of a family when RocksDB has no compaction to do.
func wantCollected(t *testing.T, d *DB, f *Family, want int, when string) {
	t.Helper()
	property := func(f *Family, name string) uint64 {
		value, _ := d.inner.GetIntPropertyCF(name, f.handle)
		return value
	}
	await(t, "the end of all compactions", func() bool {
		for _, other := range d.all() { // first: what isn't pending any more runs
			if property(other, "rocksdb.compaction-pending") > 0 {
				return false
			}
		}
		return property(f, "rocksdb.num-running-compactions") == 0
	})
	if got := int(d.collectedIn(f).tables); got != want {
		t.Errorf("%d tables on level 0 of family %s %s, want %d", got, f.name, when, want)
	}
}
