package port

import (
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// TestReleaseBesideHotKey has a client that was switched write to one key more often than the tool
// can ask the target: the others get their expiries meanwhile, and that key when it rests.
func TestReleaseBesideHotKey(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "hot", "1", "EX", "10000")
	const keys = 500
	for i := range keys {
		do(t, c, "SET", "key:"+strconv.Itoa(i), "1", "EX", "10000")
	}
	g := startGate(t, to.Address, &gate{delay: 3 * time.Millisecond})
	t.Cleanup(g.drain)
	p := startTool(t, t.TempDir(), "port", "--from", from.Address, "--to", g.address, "--until", "forever")
	p.says("has caught up")
	stop := increment(t, to.MustDial(t), "hot")
	p.signal(syscall.SIGINT)
	p.says("clients can be switched")
	until(t, "the other keys to expire when the source's do", func() bool {
		for i := range keys {
			c.Queue("PEXPIRETIME", "key:"+strconv.Itoa(i))
			d.Queue("PEXPIRETIME", "key:"+strconv.Itoa(i))
		}
		same := true
		wants, gots := replies(t, c, keys), replies(t, d, keys)
		for i := range keys {
			same = same && wants[i] == gots[i]
		}
		return same
	})
	stop()
	p.ends(0)
	if got, want := do(t, d, "PEXPIRETIME", "hot").String(), do(t, c, "PEXPIRETIME", "hot").String(); got != want {
		t.Errorf("the key that is written expires at %s, and not at %s", got, want)
	}
}

// increment counts a key up without a pause, until it is stopped.
func increment(t *testing.T, c *resp.Connection, key string) (stop func()) {
	const burst = 100
	var stopped atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stopped.Load() {
			for range burst {
				c.Queue("INCR", key)
			}
			if err := c.Flush(); err != nil {
				t.Errorf("writing: %v", err)
				return
			}
			for range burst {
				if _, err := c.Read(); err != nil {
					t.Errorf("writing: %v", err)
					return
				}
			}
		}
	}()
	stop = func() {
		stopped.Store(true)
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// replies sends what is queued, and reads what is answered.
func replies(t *testing.T, c *resp.Connection, count int) (all []string) {
	t.Helper()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range count {
		reply, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, reply.String())
	}
	return all
}
