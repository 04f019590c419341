package server

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"kedis/internal/psync"
	"kedis/lock"
	"kedis/server/execute"
)

// silentReplica is a primary's part in replication, whose only replica acknowledges when the test
// says so.
type silentReplica struct {
	execute.Replication
	mu           sync.Mutex
	acknowledged int64
	asking       []func()
}

func (*silentReplica) HasReplicas() bool    { return true }
func (*silentReplica) Online() int          { return 1 }
func (*silentReplica) Counts() psync.Counts { return psync.Counts{} }

func (s *silentReplica) Reached(int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acknowledged
}

func (s *silentReplica) WhenAcknowledged(_ int64, _ func(psync.Acknowledged) bool, done func(psync.Acknowledged)) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = append(s.asking, func() { done(psync.Acknowledged{Replicas: 1}) })
	return func() {}
}

// acknowledge has the replica acknowledge everything.
func (s *silentReplica) acknowledge(position int64) {
	s.mu.Lock()
	asking := s.asking
	s.acknowledged, s.asking = position, nil
	s.mu.Unlock()
	for _, tell := range asking {
		tell()
	}
}

// startSynchronous starts a server whose replies wait for a replica, without end.
func startSynchronous(t *testing.T) (*running, *silentReplica) {
	t.Helper()
	replica := &silentReplica{}
	r := startPrepared(t, func(r *running) { r.engine.SetReplication(replica) }, "synchronous-replicas", "1", "synchronous-timeout", "0")
	return r, replica
}

// TestWorkersWaitForHeldReplies: a worker writes to the replies of a session, so it doesn't begin
// while they are held back.
func TestWorkersWaitForHeldReplies(t *testing.T) {
	r, replica := startSynchronous(t)
	client := r.dialRaw()
	client.send("SET key value\r\nKEYS *\r\nPING\r\n")
	r.wantSome("holds its reply back, and has a request wait", func(c *connection) bool { return c.held && c.pending != nil })
	if !r.look(func(c *connection) bool { return !c.working }) {
		t.Error("a worker has the session while its replies are held back")
	}
	replica.acknowledge(r.engine.Store.Position())
	for _, line := range []string{"+OK", "*1", "$3", "key", "+PONG"} {
		client.wantLine(line)
	}
}

// TestNothingIsHeldForWhoIsGone: what is held back without end doesn't keep connections that are
// closed.
func TestNothingIsHeldForWhoIsGone(t *testing.T) {
	r, replica := startSynchronous(t)
	first, second, third := r.dialRaw(), r.dialRaw(), r.dialRaw()
	for i, client := range []*rawClient{first, second, third} {
		client.send("SET key value\r\n")
		eventually(t, "the reply is held back", func() bool { return r.heldReplies() == i+1 })
	}
	first.reset()
	eventually(t, "the first is gone", func() bool { return r.heldReplies() == 2 })
	third.reset()
	eventually(t, "the last is gone", func() bool { return r.heldReplies() == 1 })
	replica.acknowledge(r.engine.Store.Position())
	second.wantLine("+OK")
}

// TestHeldReplyIsOverdueBeforeAnother gives up a reply in time behind one that is held without end.
func TestHeldReplyIsOverdueBeforeAnother(t *testing.T) {
	r, replica := startSynchronous(t)
	reactors := r.bothReactors()
	first, second := r.dial(), r.dial()
	for _, c := range []*client{first, second} {
		c.want("+PONG", "ping")
	}
	moveAll(reactors[0], reactors[1])
	first.Queue("set", "key", "value")
	if err := first.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first reply is held back", func() bool { return r.heldReplies() == 1 })
	if err := r.config.Set([][2]string{{"synchronous-timeout", "1"}}); err != nil {
		t.Fatal(err)
	}
	if reply := second.do("set", "key", "another"); !strings.HasPrefix(reply, "-NOREPLICAS Too few") {
		t.Errorf("the second reply is %s", reply)
	}
	replica.acknowledge(r.engine.Store.Position())
	if reply, err := first.Read(); err != nil || reply.String() != "+OK" {
		t.Errorf("the first reply is %s (%v)", reply, err)
	}
}

// heldReplies is how many replies wait for replicas.
func (r *running) heldReplies() (count int) {
	for _, reactor := range r.bothReactors() {
		counted := make(chan int)
		reactor.post(func() {
			held := 0
			for _, q := range reactor.awaited {
				held += len(q.replies)
			}
			counted <- held
		})
		count += <-counted
	}
	return count
}

// TestBusyBehindAScriptThatQueued: who waits for a lock behind a script is answered BUSY when the
// script has got it and runs for ever.
func TestBusyBehindAScriptThatQueued(t *testing.T) {
	r := startServer(t, "busy-reply-threshold", "1")
	const worker = 3
	stripe := r.stripe("key")
	script, waiter, other := r.dial(), r.dial(), r.dial()
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	alone := r.engine.Locks.Peek(stripe)
	long := strings.Repeat(" ", 40<<10) // a worker compiles it, and runs it at once
	script.begin("eval", "while true do end"+long, "1", "key")
	eventually(t, "the script queues for the lock", func() bool { return r.engine.Locks.Peek(stripe) != alone })
	waiter.begin("set", "key", "value")
	eventually(t, "another one waits behind it", func() bool { return r.sharedWaits() == 1 })
	r.engine.Locks.ReleaseExclusive(stripe, worker)
	if reply, err := waiter.Read(); err != nil || !strings.HasPrefix(reply.String(), "-BUSY") {
		t.Errorf("the other one is answered %s (%v)", reply, err)
	}
	eventually(t, "the script is killed", func() bool { return other.do("script", "kill") == "+OK" })
}

// TestTurnBehindScripts: who waits for a key behind a script has his turn before those who come
// later.
func TestTurnBehindScripts(t *testing.T) {
	r := startServer(t, "busy-reply-threshold", "0")
	const worker, later = 3, 4
	stripe := r.stripe("key")
	script, waiter := r.dial(), r.dial()
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	alone := r.engine.Locks.Peek(stripe)
	long := strings.Repeat(" ", 40<<10) // a worker compiles it, and runs it at once
	script.begin("eval", "return redis.call('incr', KEYS[1])"+long, "1", "key")
	eventually(t, "the script queues for the lock", func() bool { return r.engine.Locks.Peek(stripe) != alone })
	waiter.begin("get", "key")
	eventually(t, "another one waits behind it", func() bool { return r.sharedWaits() == 1 })
	granted := make(chan struct{})
	r.engine.Locks.Wait(stripe, later, func(uint32) { close(granted) })
	r.engine.Locks.ReleaseExclusive(stripe, worker)
	script.wantNext(":1")
	waiter.wantNext(`"1"`) // though "later" gives the lock back only below
	<-granted
	r.engine.Locks.ReleaseExclusive(stripe, later)
}

// TestNoTransactionBehindBusy: EXEC that finds out only while it runs that a script is in its way,
// and for too long, has ended its transaction as any EXEC that is refused.
func TestNoTransactionBehindBusy(t *testing.T) {
	r := startServer(t, "busy-reply-threshold", "1")
	script, client := r.dial(), r.dial()
	script.begin("eval", "while true do end", "1", "key")
	eventually(t, "the script has run for too long", func() bool { return strings.HasPrefix(client.do("get", "key"), "-BUSY") })
	client.want("+OK", "multi")
	client.want("+QUEUED", "incr", "count")
	client.want("+QUEUED", "eval", "return redis.call('incr', ARGV[1])", "0", "key")
	if reply := client.do("exec"); !strings.HasPrefix(reply, "-EXECABORT Transaction discarded because of: BUSY") {
		t.Errorf("EXEC is answered %s", reply)
	}
	client.want("+PONG", "ping")
	client.want("nil", "get", "count")
	client.want("+OK", "script", "kill")
}

// TestScriptThatGaveItsLocksBack: a script that waits for a key which it didn't declare holds up
// nobody, however long ago it has begun. It keeps the key that it declared if that is first in the
// order of locks.
func TestScriptThatGaveItsLocksBack(t *testing.T) {
	const worker, threshold = 3, 500 * time.Millisecond
	behindScript := func(t *testing.T, keeps bool) {
		r := startServer(t, "busy-reply-threshold", strconv.FormatInt(threshold.Milliseconds(), 10))
		declared, further := "a", "b"
		if first := r.stripe(declared) < r.stripe(further); first != keeps {
			declared, further = further, declared
		}
		stripe := r.stripe(further)
		if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
			t.Fatal("somebody holds the lock")
		}
		alone := r.engine.Locks.Peek(stripe)
		script, reader, whole := r.dial(), r.dial(), r.dial()
		long := strings.Repeat(" ", 40<<10) // a worker compiles it, and runs it at once
		script.begin("eval", "return redis.call('incr', ARGV[1])"+long, "1", declared, further)
		eventually(t, "the script waits", func() bool { return r.engine.Locks.Peek(stripe) != alone })
		time.Sleep(threshold)
		whole.begin("flushall")
		reader.begin("get", declared)
		if !keeps {
			reader.wantNext("nil")
		}
		time.Sleep(tickInterval)
		r.engine.Locks.ReleaseExclusive(stripe, worker)
		if keeps {
			reader.wantNext("nil")
		}
		script.wantNext(":1")
		whole.wantNext("+OK")
	}
	t.Run("it keeps a key", func(t *testing.T) { behindScript(t, true) })
	t.Run("it keeps none", func(t *testing.T) { behindScript(t, false) })
}

func (r *running) stripe(key string) uint32 { return r.engine.Store.Stripe(0, []byte(key)) }

// begin sends a request.
func (c *client) begin(words ...string) {
	c.t.Helper()
	c.Queue(words...)
	if err := c.Flush(); err != nil {
		c.t.Fatal(err)
	}
}

// wantNext expects the reply to the request that was sent first.
func (c *client) wantNext(want string) {
	c.t.Helper()
	if reply, err := c.Read(); err != nil || reply.String() != want {
		c.t.Errorf("%s (%v), want %s", reply, err, want)
	}
}

// TestStopEndsWaitsForLocks: a lock that a client waits for when the server stops is free for
// workers.
func TestStopEndsWaitsForLocks(t *testing.T) {
	r := startServer(t)
	const worker, another = 3, 4
	stripe := r.stripe("key")
	if r.engine.Locks.TryExclusive(stripe, worker) != lock.Acquired {
		t.Fatal("somebody holds the lock")
	}
	r.dialRaw().send("SET key value\r\n")
	eventually(t, "the request waits", func() bool { return r.sharedWaits() == 1 })
	if err := r.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.engine.Locks.ReleaseExclusive(stripe, worker)
	eventually(t, "the lock is free", func() bool { return r.engine.Locks.TryExclusive(stripe, another) == lock.Acquired })
	r.engine.Locks.ReleaseExclusive(stripe, another)
}

// TestStopGivesUp: a reactor that the disk never answers holds up no stop.
func TestStopGivesUp(t *testing.T) {
	r := startServer(t)
	r.wantErr = ErrStuck
	r.dial().do("PING")
	stuck, comesBack := make(chan struct{}), make(chan struct{})
	defer close(comesBack) // then Stop can succeed
	r.mu.Lock()
	for _, reactor := range r.reactors {
		reactor.post(func() { stuck <- struct{}{}; <-comesBack })
		break
	}
	r.mu.Unlock()
	<-stuck
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Stop(ctx); err != context.Canceled {
		t.Errorf("Stop returns %v", err)
	}
	select {
	case <-r.ran:
	case <-time.After(patience):
		t.Error("Run waits for the reactor")
	}
}

// TestZonesAreNotShared: gnet writes to the memory of an address's zone when the connection is
// gone.
func TestZonesAreNotShared(t *testing.T) {
	const zone = "eth0"
	a := &net.TCPAddr{Zone: zone}
	if ownZone(a); a.Zone != zone || unsafe.StringData(a.Zone) == unsafe.StringData(zone) {
		t.Error("the zone is in memory that others have")
	}
}
