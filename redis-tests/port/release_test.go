package port

import (
	"slices"
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

// TestReleaseOfRenamedHash renames a hash, while the target is walked over for the first time, to
// where the walk has been: its field gets its time all the same.
func TestReleaseOfRenamedHash(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	const early, passed, late = "1:hash", "2:string", "4:hash" // in the order in which a Kedis is walked over
	const between = 2000
	for i := range between {
		c.Queue("SET", "3:string:"+strconv.Itoa(i), "1")
	}
	replies(t, c, between)
	do(t, c, "SET", passed, "1")
	for _, hash := range []string{early, late} {
		do(t, c, "HSET", hash, "field", "1")
		do(t, c, "HEXPIRE", hash, "10000", "FIELDS", "1", "field")
	}
	page := do(t, c, "SCAN", "0", "COUNT", "1000").Elements[1].Strings()
	if !slices.Contains(page, early) || !slices.Contains(page, passed) || slices.Contains(page, late) {
		t.Fatalf("the walk begins with %q", page)
	}
	g := newGate(t, to.Address, "\r\nhscan\r\n$6\r\n"+early+"\r\n") // when the first page is passed
	p := startTool(t, t.TempDir(), "port", "--from", from.Address, "--to", g.address)
	<-g.waiting
	do(t, d, "RENAME", late, passed)
	close(g.opened)
	p.ends(0)
	g.listener.Close()
	got, want := do(t, d, "HPEXPIRETIME", passed, "FIELDS", "1", "field").String(), do(t, c, "HPEXPIRETIME", late, "FIELDS", "1", "field").String()
	if got != want {
		t.Errorf("the field expires at %s, and not at %s", got, want)
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
