package execute

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"

	"kedis/internal/resp"
	"kedis/lock"
)

// TestReplicationWaitsForScripts: while a script runs, who wants all databases for replication
// keeps nobody out, and need not wait to the end.
func TestReplicationWaitsForScripts(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	script := &longRequest{}
	e.long.running[1] = script
	ctx, cancel := context.WithCancel(context.Background())
	admitted := make(chan func())
	go func() { admitted <- e.Exclude(ctx) }()
	for closing := 0; closing == 0; {
		e.long.mu.Lock()
		closing = e.long.closing
		e.long.mu.Unlock()
	}
	if reply := c.do("get", "key"); reply != "$-1\r\n" {
		t.Errorf("a reader is answered %q", reply)
	}
	cancel()
	if admit := <-admitted; admit != nil || e.long.closing != 0 {
		t.Errorf("who has given up has kept others out, or still wants to: %d", e.long.closing)
	}
	go func() { admitted <- e.Exclude(context.Background()) }()
	e.long.mu.Lock()
	delete(e.long.running, 1)
	e.long.changed.Broadcast()
	e.long.mu.Unlock()
	admit := <-admitted
	if e.Gate.TryEnter(0) {
		t.Error("the gate is open")
	}
	admit()
	if reply := c.do("set", "key", "1"); reply != "+OK\r\n" || e.long.closing != 0 {
		t.Errorf("behind it a write is answered %q, and %d want all databases", reply, e.long.closing)
	}
}

// TestStoppedApplierWaitsForNoScript stops what applies a FLUSHALL beside a script.
func TestStoppedApplierWaitsForNoScript(t *testing.T) {
	e, _ := newTestEngine(t)
	e.SetReplica(true, false)
	e.long.running[1] = &longRequest{}
	here, there := net.Pipe()
	defer there.Close()
	f := e.NewStreamApplier(here, 0)
	defer f.Close()
	applied := make(chan error)
	go func() { applied <- f.Apply(words("flushall"), resp.AppendRequest(nil, words("flushall")...)) }()
	f.Stop()
	if err := <-applied; !errors.Is(err, ErrStopped) {
		t.Fatalf("it is applied: %v", err)
	}
	if newTestClient(t, e).do("get", "key") != "$-1\r\n" {
		t.Error("a reader is kept out")
	}
}

// TestScriptsHoldUpOthersWithTheirLocks: a script that waits for another one's lock has not begun.
func TestScriptsHoldUpOthersWithTheirLocks(t *testing.T) {
	e, _ := newTestEngine(t)
	const stripe, other = 7, lock.Owner(1)
	e.Locks.TryExclusive(stripe, other)
	e.withToken(e.scripts.take(), e.newBatch(0, e.scripts.door, 0, e.Store.NewTxn()), func(b *Batch) {
		b.plan.Long, b.plan.Writes = true, true
		b.plan.Lock(stripe, true)
		turn := make(chan error)
		go func() { turn <- b.awaitTurn() }()
		script := &longRequest{}
		e.long.mu.Lock()
		for len(e.long.running) == 0 {
			e.long.mu.Unlock()
			runtime.Gosched()
			e.long.mu.Lock()
		}
		script.began = e.Elapsed()
		e.long.running[other] = script
		if e.long.first() != script {
			t.Error("who wants all databases waits for a script that has no locks yet")
		}
		e.long.mu.Unlock()
		released := e.Elapsed()
		e.Locks.ReleaseExclusive(stripe, other)
		if err := <-turn; err != nil {
			t.Fatal(err)
		}
		if script, since := e.behind(b.locks.lockWait(stripe)); script != b.long.entered || since < released {
			t.Errorf("the script has its lock since %v, and has it since %v as others see it", released, since)
		}
		b.leaveLong()
		b.giveUp()
	})
}
