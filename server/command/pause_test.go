package command

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"kedis/lock"
)

// atTheGate has a worker admit a write while the gate is closed, changes something, and opens the gate.
func atTheGate(t *testing.T, e *Engine, change func()) (*Session, Outcome) {
	t.Helper()
	s := NewSession(nowhere{}, true)
	open := e.Gate.Close(runtime.Gosched)
	done := make(chan Outcome)
	go func() { done <- e.Work(s, words("SET", "k", "v")) }()
	for s.LastCommand.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond) // by now it waits; if not, it is admitted later, and the outcome is the same
	change()
	open()
	return s, <-done
}

// TestWriteAtTheGate has the role change, or a pause begin, while a write that was admitted before waits at the
// gate: it doesn't happen.
func TestWriteAtTheGate(t *testing.T) {
	e, log := newTestEngine(t)
	_, outcome := atTheGate(t, e, e.HoldWrites)
	if outcome != Paused || log.length != 0 {
		t.Errorf("in a pause: outcome %d, %d bytes in the log", outcome, log.length)
	}
	e.ReleaseWrites()
	s, outcome := atTheGate(t, e, func() { e.SetReplica(true, false) })
	if reply := string(s.Reply.Bytes()); outcome != Done || reply != "-READONLY You can't write against a read only replica.\r\n" || log.length != 0 {
		t.Errorf("on a replica: outcome %d, %q, %d bytes in the log", outcome, reply, log.length)
	}
}

// TestHoldWrites holds writes beside CLIENT PAUSE: each ends what it has begun.
func TestHoldWrites(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	outcome := func(w ...string) Outcome {
		args := words(w...)
		o := c.batch.Execute(c.session, args)
		if err := c.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.batch.Clear()
		return o
	}
	woken := 0
	e.HoldWrites()
	if outcome("SET", "k", "v") != Paused || outcome("GET", "k") != Done || outcome("PUBLISH", "c", "m") != Paused {
		t.Error("held writes don't wait, or reads do")
	}
	e.WhenUnpaused(func() { woken++ })
	c.do("CLIENT", "PAUSE", "100000", "ALL")
	if outcome("GET", "k") != Paused {
		t.Error("CLIENT PAUSE ALL is nothing while writes are held")
	}
	e.ReleaseWrites()
	if woken != 1 || outcome("GET", "k") != Paused {
		t.Errorf("the end of one pause is that of the other; woken %d times", woken)
	}
	e.HoldWrites()
	e.pause.finish()
	if outcome("SET", "k", "v") != Paused || outcome("GET", "k") != Done {
		t.Error("CLIENT UNPAUSE ends what a failover has begun, or its own pause lasts")
	}
	e.ReleaseWrites()
	if outcome("SET", "k", "v") != Done {
		t.Error("writes are held for ever")
	}
}

// TestStopWaitsForWorkers stops an engine while a worker waits for a lock.
func TestStopWaitsForWorkers(t *testing.T) {
	e, _ := newTestEngine(t)
	stripe := e.Store.Stripe(0, []byte("k"))
	if e.Locks.TryExclusive(stripe, 1) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	s := NewSession(nowhere{}, true)
	worked, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		e.Work(s, words("SET", "k", "v"))
		close(worked)
	}()
	for s.LastCommand.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	go func() {
		e.Stop()
		close(stopped)
	}()
	<-e.stopped
	select {
	case <-stopped:
		t.Error("the engine has stopped, and a worker still works")
	case <-time.After(10 * time.Millisecond):
	}
	e.Locks.ReleaseExclusive(stripe, 1)
	<-worked
	<-stopped
}

// TestPausedClientsAreBlocked: who waits for the end of a pause counts among the blocked clients until then. What waits is decided by the
// command, not by its words (compared with redis-server 7.0).
func TestPausedClientsAreBlocked(t *testing.T) {
	e, _ := newTestEngine(t)
	admin, c := newTestClient(t, e), newTestClient(t, e)
	e.Clients.Add(c.session)
	execute := func(w ...string) Outcome {
		outcome := c.batch.Execute(c.session, words(w...))
		if err := c.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.batch.Clear()
		return outcome
	}
	blocked := func() bool { return strings.Contains(admin.do("INFO", "clients"), "\r\nblocked_clients:1\r\n") }
	admin.do("CLIENT", "PAUSE", "100000", "WRITE")
	for request, held := range map[string]bool{"SET k v": true, "SET k v BAD": true, "SORT l": true, "SORT_RO l": false, "SORT l STORE d": true,
		"PFCOUNT h": true, "PUBLISH c m": true, "BITFIELD k GET u8 0": true, "BITFIELD_RO k GET u8 0": false, "GETEX k": true, "GET k": false,
		"SET": false, "PING": false, "FLUSHDB": true} {
		if outcome := execute(strings.Fields(request)...); (outcome == Paused) != held {
			t.Errorf("%s: outcome %d", request, outcome)
		}
		if blocked() != held || strings.Contains(admin.do("CLIENT", "LIST"), " flags=b ") != held {
			t.Errorf("%s: the client is blocked: %v", request, blocked())
		}
	}
	execute("SET", "k", "v")
	admin.do("CLIENT", "UNPAUSE")
	if outcome := execute("SET", "k", "v"); outcome != Done || blocked() {
		t.Errorf("after the pause: outcome %d, blocked: %v", outcome, blocked())
	}
}
