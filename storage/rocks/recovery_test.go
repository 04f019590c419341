package rocks

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestCloseBesideACall: a call that hasn't come to its end looks now and then whether RocksDB waits
// for room. It doesn't when there is no RocksDB any more.
func TestCloseBesideACall(t *testing.T) {
	d, err := Open(Options{Directory: filepath.Join(t.TempDir(), "db")})
	must(t, err)
	begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	defer close(release)
	go func() {
		ended <- d.unless(d.full, "wait", func() error {
			close(begun)
			<-release
			return nil
		})
	}()
	<-begun
	must(t, d.Close())
	select {
	case err := <-ended:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("a call that was under way when the database was closed: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a call doesn't notice that the database is closed")
	}
	if d.givenUp() != 0 || d.writesStopped() || d.MemtableBytes() != 0 {
		t.Error("a closed database has something to tell")
	}
}

// TestSweepsBesideCompactions: while compactions run all the time, all files are looked at ever
// less often.
func TestSweepsBesideCompactions(t *testing.T) {
	d, err := Open(Options{Directory: filepath.Join(t.TempDir(), "db"), Compression: "none"})
	must(t, err)
	d.recovery.end() // the test itself is the recovery
	f := d.Family(DefaultFamily)
	must(t, d.SetFamilyOptions(map[string]string{"disable_auto_compactions": "true"}))
	for i := range 4 {
		for j := range 64 {
			must(t, writeFiller(d, f, 4*j+i))
		}
		must(t, d.Flush())
	}
	must(t, d.Drop(create(t, d, "dropped")))
	d.SetRateLimitBytes(1 << 20)
	must(t, d.SetFamilyOptions(map[string]string{"disable_auto_compactions": "false"}))
	compacts := func() bool {
		var s Statistics
		must(t, d.addDatabase(&s, f))
		return s.RunningCompactions > 0
	}
	await(t, "a compaction", compacts)
	now := time.Now()
	for i := range 3 {
		must(t, d.sweep(now))
		if pause := d.recovery.sweeps.due.Sub(now); pause != recoverEvery<<i {
			t.Errorf("after %d sweeps: a pause of %v", i+1, pause)
		}
		due := d.recovery.sweeps.due
		must(t, d.sweep(due.Add(-1)))
		if d.recovery.sweeps.due != due {
			t.Error("a sweep within the pause")
		}
		now = due
	}
	if d.recovery.swept != 0 {
		t.Error("nothing more is swept, though a compaction runs")
	}
	d.SetRateLimitBytes(0)
	await(t, "the compaction's end", func() bool { return !compacts() })
	must(t, d.sweep(now))
	if d.recovery.swept != 1 || d.recovery.sweeps != (pauses{}) {
		t.Errorf("after the last sweep: %+v", d.recovery.sweeps)
	}
	d.startRecovery()
	must(t, d.Close())
}

func await(t *testing.T, what string, happens func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happens(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what, " doesn't come")
		}
	}
}
