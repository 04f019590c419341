package execute

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"kedis/lock"
)

// atTheGate has a worker admit a write while the gate is closed, changes something, and opens the
// gate.
func atTheGate(t *testing.T, e *Engine, change func()) (*Session, Outcome) {
	t.Helper()
	s := NewSession(Nowhere{}, true)
	open := e.Gate.Close(runtime.Gosched)
	done := make(chan Outcome)
	go func() { done <- e.Work(s, read(e, s, "SET", "k", "v")) }()
	for s.LastCommand.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond) // by now it waits; if not, it is admitted later, and the outcome is the same
	change()
	open()
	return s, <-done
}

// held reports whether an outcome is that a session's request waits for the end of a pause.
func held(s *Session, outcome Outcome) bool { return outcome == Waiting && s.Wait().Cause == ForPause }

// TestWriteAtTheGate has the role change, or a pause begin, while a write that was admitted before
// waits at the gate: it doesn't happen.
func TestWriteAtTheGate(t *testing.T) {
	e, log := newTestEngine(t)
	s, outcome := atTheGate(t, e, e.HoldWrites)
	if !held(s, outcome) || log.Length != 0 {
		t.Errorf("in a pause: outcome %d, %d bytes in the log", outcome, log.Length)
	}
	e.ReleaseWrites()
	s, outcome = atTheGate(t, e, func() { e.SetReplica(true, false) })
	if reply := string(s.Reply.Bytes()); outcome != Done || reply != "-READONLY You can't write against a read only replica.\r\n" || log.Length != 0 {
		t.Errorf("on a replica: outcome %d, %q, %d bytes in the log", outcome, reply, log.Length)
	}
}

// TestHoldWrites holds writes beside CLIENT PAUSE: each ends what it has begun.
func TestHoldWrites(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	paused := func(w ...string) bool {
		args := words(w...)
		o := c.batch.Execute(c.session, c.batch.Read(c.session, args))
		if err := c.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.batch.Clear()
		if !held(c.session, o) && o != Done {
			t.Errorf("%q: outcome %d", w, o)
		}
		return o != Done
	}
	woken := 0
	e.HoldWrites()
	if !paused("SET", "k", "v") || paused("GET", "k") || !paused("PUBLISH", "c", "m") {
		t.Error("held writes don't wait, or reads do")
	}
	e.Pause.whenOver(func() { woken++ })
	c.do("CLIENT", "PAUSE", "100000", "ALL")
	if !paused("GET", "k") {
		t.Error("CLIENT PAUSE ALL is nothing while writes are held")
	}
	e.ReleaseWrites()
	if woken != 1 || !paused("GET", "k") {
		t.Errorf("the end of one pause is that of the other; woken %d times", woken)
	}
	e.HoldWrites()
	e.Pause.Finish()
	if !paused("SET", "k", "v") || paused("GET", "k") {
		t.Error("CLIENT UNPAUSE ends what a failover has begun, or its own pause lasts")
	}
	e.ReleaseWrites()
	if paused("SET", "k", "v") {
		t.Error("writes are held for ever")
	}
	c.do("CLIENT", "PAUSE", "100000", "WRITE")
	c.do("CLIENT", "PAUSE", "0", "ALL")
	if !paused("GET", "k") {
		t.Error("a pause isn't made stricter by one that ends at once")
	}
}

// TestStopWaitsForWorkers stops an engine while a worker waits for a lock.
func TestStopWaitsForWorkers(t *testing.T) {
	e, _ := newTestEngine(t)
	stripe := e.Store.Stripe(0, []byte("k"))
	if e.Locks.TryExclusive(stripe, 1) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	s := NewSession(Nowhere{}, true)
	worked, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		e.Work(s, read(e, s, "SET", "k", "v"))
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

func TestPauseNeverGetsMilder(t *testing.T) {
	p := pause{lasts: condition{new(inUse), pausing}}
	mode := func() pauseMode { return pauseMode(p.mode.Load()) }
	later := time.Now().Add(time.Hour)
	p.Begin(PauseWrites, later)
	p.Begin(PauseEverything, time.Now())
	if mode() != PauseEverything || !p.end.Equal(later) {
		t.Errorf("mode %d until %v, want everything until %v", mode(), p.end, later)
	}
	p.Begin(PauseWrites, later.Add(time.Hour))
	if mode() != PauseEverything || !p.end.Equal(later.Add(time.Hour)) {
		t.Errorf("mode %d until %v", mode(), p.end)
	}
	p.over(later) // the timer of the shorter pause
	if mode() != PauseEverything {
		t.Error("a timer that no longer counts has ended the pause")
	}
	p.Finish()
	if mode() != pauseNothing {
		t.Error("the pause goes on")
	}
}

func TestPauseHolds(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	holds := func(mode pauseMode, request string) bool {
		engine.Pause.mode.Store(int32(mode))
		defer engine.Pause.mode.Store(int32(pauseNothing))
		return engine.holds(c.session, c.batch.Read(c.session, words(strings.Fields(request)...)))
	}
	for request, writes := range map[string]bool{"GET a": false, "SET a 1": true, "PFCOUNT a": true, "PUBLISH a b": true, "SORT a": true, "SORT_RO a": false,
		"SORT a STORE b": true, "CLIENT UNPAUSE": false, "EXEC": false} {
		if holds(PauseWrites, request) != writes || !holds(PauseEverything, request) {
			t.Errorf("%s: a pause of writes holds it: %v, of everything: %v", request, !writes, holds(PauseEverything, request))
		}
	}
	c.do("MULTI")
	c.do("SET", "a", "1")
	if !holds(PauseWrites, "EXEC") {
		t.Error("EXEC that writes is not held")
	}
	c.session.Become(KindMonitor)
	if holds(PauseEverything, "PING") {
		t.Error("a monitor is held")
	}
}

// TestPausedClientsAreBlocked: who waits for the end of a pause counts among the blocked clients
// until then. What waits is decided by the command, not by its words (compared with redis-server
// 7.0).
func TestPausedClientsAreBlocked(t *testing.T) {
	e, _ := newTestEngine(t)
	admin, c := newTestClient(t, e), newTestClient(t, e)
	e.Clients.Add(c.session)
	execute := func(w ...string) Outcome { // as a reactor does
		c.session.EndWait()
		outcome := c.batch.Execute(c.session, c.batch.Read(c.session, words(w...)))
		if err := c.batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.batch.Clear()
		if outcome == Waiting {
			e.BeginWait(c.session)
		}
		return outcome
	}
	blocked := func() bool { return strings.Contains(admin.do("INFO", "clients"), "\r\nblocked_clients:1\r\n") }
	admin.do("CLIENT", "PAUSE", "100000", "WRITE")
	for request, held := range map[string]bool{"SET k v": true, "SET k v BAD": true, "SORT l": true, "SORT_RO l": false, "SORT l STORE d": true,
		"PFCOUNT h": true, "PUBLISH c m": true, "BITFIELD k GET u8 0": true, "BITFIELD_RO k GET u8 0": false, "GETEX k": true, "GET k": false,
		"SET": false, "PING": false, "FLUSHDB": true} {
		if outcome := execute(strings.Fields(request)...); (outcome == Waiting) != held {
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
