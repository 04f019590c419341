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
