package replication

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVerdictIsNotUsedUp: a server that couldn't follow the primary that Sentinels name follows
// when they name it again.
func TestVerdictIsNotUsedUp(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "missing")
	n := node(t, directory, "")
	h := &slowHost{began: make(chan struct{}), admit: make(chan struct{})}
	n.Host = h
	if err := n.Config.SetFlag("sentinel-quorum", "1"); err != nil {
		t.Fatal(err)
	}
	if err := n.TakeRole(); err != nil {
		t.Fatal(err)
	}
	close(n.recovered) // as Start does
	hello := []byte("127.0.0.1,26379,sentinel,5,name,127.0.0.1,1,5")
	n.HeardSentinel(1, hello)
	n.running.Wait()
	if n.link != nil {
		t.Fatal("it follows, though it couldn't remember that")
	}
	if err := os.Mkdir(directory, 0o750); err != nil {
		t.Fatal(err)
	}
	n.HeardSentinel(1, hello)
	<-h.began
	n.roles.Lock()
	n.leaveFor(nil)
	n.roles.Unlock()
	close(h.admit)
	n.running.Wait()
}
