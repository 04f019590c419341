package replication

import (
	"fmt"
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

// TestOwnPlace: Sentinels name the primary by the port that it has told them, which is that of TLS
// where replicas use TLS, and by an address or a name.
func TestOwnPlace(t *testing.T) {
	n := node(t, t.TempDir(), "")
	n.Host = &slowHost{}
	for option, value := range map[string]string{"sentinel-quorum": "1", "port": "7000", "tls-port": "7001", "replica-announce-port": "7002", "replica-announce-ip": "Kedis.example"} {
		if err := n.Config.SetFlag(option, value); err != nil {
			t.Fatal(err)
		}
	}
	for place, own := range map[target]bool{
		{"127.0.0.1", 7000}: true, {"127.0.0.1", 7001}: true, {"127.0.0.1", 7002}: true, {"kedis.example", 7001}: true, {"localhost", 7001}: true,
		{"127.0.0.1", 7003}: false, {"192.0.2.1", 7001}: false, {"localhost", 7003}: false,
	} {
		got := n.isOwn(place)
		if !got {
			var err error
			if got, err = n.isOwnName(place); err != nil {
				t.Error(err)
			}
		}
		if got != own {
			t.Errorf("%s is the server's own: %v", place, got)
		}
	}
	for epoch, host := range []string{"127.0.0.1", "localhost"} {
		n.HeardSentinel(1, fmt.Appendf(nil, "127.0.0.1,26379,sentinel,5,name,%s,7001,%d", host, epoch+1))
		n.running.Wait()
		if n.link != nil || n.loadEpoch() != int64(epoch+1) {
			t.Fatalf("the server's link is %v, and the epoch that it remembers %d, after it was named as %s", n.link, n.loadEpoch(), host)
		}
	}
}
