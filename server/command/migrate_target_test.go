package command

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"
)

// stopDeadline is how long something may take that doesn't wait for others.
const stopDeadline = 60 * time.Second

// within fails the test when a channel isn't closed before the deadline.
func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(stopDeadline):
		t.Fatal(what)
	}
}

// awaitReached fails the test when something isn't reached before the deadline.
func awaitReached(t *testing.T, reached func() bool, what string) {
	t.Helper()
	for began := time.Now(); !reached(); runtime.Gosched() {
		if time.Since(began) > stopDeadline {
			t.Fatal(what)
		}
	}
}

// isWaitedFor reports whether somebody waits for a stripe.
func isWaitedFor(e *Engine, stripe uint32) bool {
	const holder = 16 // the upper bits of a stripe's word
	return e.Locks.Peek(stripe)&(1<<holder-1) != 0
}

// work runs a request on a goroutine of its own.
func work(c *testClient, line ...string) (done <-chan struct{}) {
	request, ended := c.Batch.Read(c.Session, words(line...)), make(chan struct{})
	go func() {
		defer close(ended)
		c.Engine.Work(c.Session, request)
	}()
	return ended
}

// TestStopEndsMigrateBehindScript: MIGRATE waits for a key that a script without end holds.
func TestStopEndsMigrateBehindScript(t *testing.T) {
	e, _ := newTestEngine(t)
	defer keptBy(e).scripts.stop() // when the engine hasn't
	newTestClient(t, e).Do("set", "key", "1")
	stripe := e.Store.Stripe(0, []byte("key"))
	script := work(newTestClient(t, e), "eval", "while true do end", "1", "key")
	awaitReached(t, func() bool { return e.Locks.Holder(stripe) != 0 }, "the script has no lock")
	migrate := work(newTestClient(t, e), "migrate", "127.0.0.1", "1", "key", "0", "1000")
	awaitReached(t, func() bool { return isWaitedFor(e, stripe) }, "MIGRATE doesn't wait")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if !e.Stop() {
			t.Error("something still runs")
		}
	}()
	within(t, stopped, "the engine doesn't stop")
	within(t, script, "the script goes on")
	within(t, migrate, "MIGRATE goes on")
}

// TestMigrateBehindLockEndsWithStop: it gives up its wait, whatever becomes of the lock.
func TestMigrateBehindLockEndsWithStop(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	const other = 1000
	stripe := e.Store.Stripe(0, []byte("key"))
	e.Locks.TryExclusive(stripe, other)
	migrate := work(c, "migrate", "127.0.0.1", "1", "key", "0", "1000")
	awaitReached(t, func() bool { return isWaitedFor(e, stripe) }, "MIGRATE doesn't wait")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		e.Stop()
	}()
	within(t, migrate, "MIGRATE goes on")
	within(t, stopped, "the engine doesn't stop")
	if reply := string(c.Session.Reply.Bytes()); reply != "-"+errMigrateStopped.Error()+"\r\n" {
		t.Errorf("it is answered %q", reply)
	}
	if e.Locks.Peek(stripe) != other<<16 {
		t.Error("it has left something in the queue of the lock")
	}
}

// TestStopEndsConnecting: a target that never says a word in the handshake holds up no stop.
func TestStopEndsConnecting(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var p targets
	p.init()
	end, _ := p.begin()
	connected := make(chan error, 1)
	go func() {
		defer end()
		_, err := p.take(destination{host: host, port: port, timeout: time.Hour, encryption: &tls.Config{ServerName: host}})
		connected <- err
	}()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	p.stop()
	select {
	case err := <-connected:
		if err == nil {
			t.Error("it is connected")
		}
	case <-time.After(stopDeadline):
		t.Fatal("it is still connecting")
	}
	if !p.ended(stopDeadline) {
		t.Error("it hasn't ended")
	}
	to := destination{host: host, port: port, timeout: time.Hour}
	if conn, err := to.dial(p.stopped, listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("it connects again")
	}
}
