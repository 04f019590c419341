package execute

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/server/enginetest"
	"kedis/storage"
	"kedis/storage/layout"
)

// executesOn returns what executes requests in a batch.
func executesOn(t *testing.T, b *Batch) func(s *Session, request ...string) {
	return func(s *Session, request ...string) {
		t.Helper()
		b.Tick()
		if outcome := b.Execute(s, b.Read(s, words(request...))); outcome != Done {
			t.Fatalf("%q: %v", request, outcome)
		}
	}
}

// One batch may hold the write of one session and the EXEC of another that watches the key: the
// watcher has to see the write although it is not committed yet.
func TestWatchSeesAWriteOfTheSameBatch(t *testing.T) {
	e, _ := newTestEngine(t)
	b := e.NewBatch(0)
	watcher, writer := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	execute := executesOn(t, b)
	commit := func() {
		t.Helper()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	execute(writer, "SET", "stock", "1")
	commit()
	execute(watcher, "WATCH", "stock")
	execute(watcher, "GET", "stock")
	execute(watcher, "MULTI")
	execute(watcher, "DECR", "stock")
	commit()
	watcher.Reply.Reset()
	execute(writer, "DECR", "stock")
	execute(watcher, "EXEC")
	commit()
	if reply := string(watcher.Reply.Bytes()); reply != "*-1\r\n" {
		t.Fatalf("EXEC answered %q although the watched key had changed", reply)
	}
	// What is watched after a write of the same batch is not changed by that write's commit.
	execute(writer, "SET", "stock", "5")
	execute(watcher, "WATCH", "stock")
	commit()
	watcher.Reply.Reset()
	execute(watcher, "MULTI")
	execute(watcher, "GET", "stock")
	execute(watcher, "EXEC")
	commit()
	if reply := string(watcher.Reply.Bytes()); reply != "+OK\r\n+QUEUED\r\n*1\r\n$1\r\n5\r\n" {
		t.Fatalf("got %q", reply)
	}
}

// An EXEC whose commit has failed is executed again, and doesn't watch its keys any more: they may
// have changed meanwhile.
func TestRepeatedExecWatches(t *testing.T) {
	e, log := newTestEngine(t)
	b := e.NewBatch(0)
	watcher, writer := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	execute := executesOn(t, b)
	commit := func() error {
		err := b.Commit()
		if err != nil {
			b.Undo(err)
		}
		b.Clear()
		return err
	}
	transact := func() {
		t.Helper()
		for _, request := range []string{"MULTI", "DBSIZE", "EXEC"} {
			execute(watcher, request)
		}
	}
	execute(watcher, "WATCH", "stock")
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	watcher.Reply.Reset()
	execute(writer, "SET", "other", "1")
	transact()
	log.Fail = errors.New("no room")
	if commit() == nil {
		t.Fatal("the commit succeeded")
	}
	log.Fail, writer.Refuse, watcher.Refuse = nil, nil, nil
	execute(writer, "SET", "stock", "1")
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+OK\r\n+QUEUED\r\n*-1\r\n", "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n"} {
		transact()
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		if reply := string(watcher.Reply.Bytes()); reply != want {
			t.Fatalf("got %q, want %q", reply, want)
		}
		watcher.Reply.Reset()
	}
}

// TestExecTakenBackWatches: an EXEC that is taken back, since the destination of a client that it
// serves is locked, is executed again, and its watched keys are as they were.
func TestExecTakenBackWatches(t *testing.T) {
	e, _ := newTestEngine(t)
	b, other := e.NewBatch(0), e.NewBatch(1)
	s, waiter, holder := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	commit := func(b *Batch) {
		t.Helper()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	if outcome := b.Execute(waiter, b.Read(waiter, words("BLMOVE", "src", "dst", "LEFT", "LEFT", "0"))); outcome != Waiting {
		t.Fatalf("BLMOVE: outcome %d", outcome)
	}
	commit(b)
	execute := executesOn(t, b)
	for _, request := range [][]string{{"WATCH", "watched"}, {"MULTI"}, {"LPUSH", "src", "v"}, {"UNWATCH"}} {
		execute(s, request...)
		commit(b)
	}
	s.Reply.Reset()
	executesOn(t, other)(holder, "LPUSH", "dst", "x")
	exec := b.Read(s, words("EXEC"))
	if outcome := b.Execute(s, exec); outcome != Waiting || s.Wait().Cause != ForLock {
		t.Fatalf("EXEC while the destination is locked: outcome %d", outcome)
	}
	commit(b)
	commit(other)
	if outcome := b.Execute(s, exec); outcome != Done {
		t.Fatalf("EXEC: outcome %d", outcome)
	}
	commit(b)
	if reply := string(s.Reply.Bytes()); reply != "*2\r\n:1\r\n+OK\r\n" {
		t.Errorf("EXEC: %q", reply)
	}
	if s.watching.Load() != 0 {
		t.Error("EXEC leaves keys watched")
	}
}

// TestExecWithoutSelect: when SELECT is refused at EXEC, what was queued behind it runs in another
// database than was planned, and waits for who has the lock there.
func TestExecWithoutSelect(t *testing.T) {
	e, _ := newTestEngine(t)
	admin, c, other := newTestClient(t, e), newTestClient(t, e), e.NewBatch(1)
	admin.do("ACL", "SETUSER", "alice", "on", "nopass", "+@all", "~*")
	for _, request := range []string{"AUTH alice x", "MULTI", "SELECT 1", "INCR k"} {
		c.do(strings.Fields(request)...)
	}
	admin.do("ACL", "SETUSER", "alice", "-select")
	executesOn(t, other)(NewSession(Nowhere{}, true), "SET", "k", "5")
	exec := read(e, c.session, "EXEC")
	if outcome := c.batch.Execute(c.session, exec); outcome != Waiting {
		t.Errorf("EXEC while the key is locked: outcome %d", outcome)
	}
	for _, b := range []*Batch{c.batch, other} {
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	e.Work(c.session, exec)
	reply := string(c.session.Reply.Bytes())
	if !strings.HasPrefix(reply, "*2\r\n-NOPERM ") || !strings.HasSuffix(reply, "\r\n:6\r\n") {
		t.Errorf("EXEC: %q", reply)
	}
}

// TestExecCannotRead: an EXEC that can't read a watched key ends the transaction. The next requests
// aren't queued, and a second EXEC doesn't run the queue without the watch.
func TestExecCannotRead(t *testing.T) {
	e, _ := newTestEngine(t)
	addTestCommand(e, Command{Name: "damage", Flags: Write, Run: func(c *Invocation) error {
		c.Reply.OK()
		return c.DB.Save(c.Args[1], storage.Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Listpack})
	}})
	c := newTestClient(t, e)
	c.do("WATCH", "k")
	c.do("MULTI")
	c.do("SET", "other", "v")
	newTestClient(t, e).do("DAMAGE", "k")
	for _, want := range []string{"-ERR ", "-ERR EXEC without MULTI"} {
		if reply := c.do("EXEC"); !strings.HasPrefix(reply, want) || c.session.Transaction.Active {
			t.Errorf("EXEC: %q, want %q", reply, want)
		}
	}
}

// TestExecKeepsRunning: behind a command with effects outside of the transaction an EXEC isn't
// taken back, not on a worker either, to which somebody else's lock comes in between.
func TestExecKeepsRunning(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), e.NewBatch(1)
	waiter, holder := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	if outcome := c.batch.Execute(waiter, c.batch.Read(waiter, words("BLMOVE", "src", "dst", "LEFT", "LEFT", "0"))); outcome != Waiting {
		t.Fatalf("BLMOVE: outcome %d", outcome)
	}
	c.do("MULTI")
	c.do("CLIENT", "GETNAME")
	c.do("CLIENT", "SETNAME", "name")
	c.do("LPUSH", "src", "v")
	executesOn(t, other)(holder, "LPUSH", "dst", "x")
	committed := make(chan error, 1)
	go func() {
		for e.Statistics.Offloads.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond) // by now it has met the lock; if not, the outcome is the same
		committed <- other.Commit()
	}()
	if reply := c.do("EXEC"); reply != "*3\r\n$-1\r\n+OK\r\n:1\r\n" {
		t.Errorf("EXEC: %q", reply)
	}
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if reply := c.do("LRANGE", "dst", "0", "-1"); reply != "*2\r\n$1\r\nv\r\n$1\r\nx\r\n" {
		t.Errorf("served: %q", reply)
	}
}

// failsLog has nothing come into the log from its end on.
type failsLog struct {
	Nowhere
	log *enginetest.Log
}

func (p failsLog) Close() { p.log.Fail = errors.New("no room") }

// TestExecOnWorkerWithoutCommit: an EXEC that a worker has run, and whose commit has failed, ends
// the transaction as one on a reactor does.
func TestExecOnWorkerWithoutCommit(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	killed := e.NewClient(failsLog{log: log})
	e.Clients.Add(killed)
	c.do("WATCH", "k")
	c.do("MULTI")
	c.do("SET", "k", "v")
	c.do("CLIENT", "KILL", "ID", strconv.FormatInt(killed.ID, 10))
	if reply := c.do("EXEC"); !strings.HasPrefix(reply, "-EXECABORT Transaction discarded because of: MISCONF") {
		t.Errorf("EXEC: %q", reply)
	}
	log.Fail = nil
	if reply := c.do("GET", "k"); reply != "$-1\r\n" || c.session.watching.Load() != 0 {
		t.Errorf("afterwards: %q, watching %d keys", reply, c.session.watching.Load())
	}
}

// TestUnsubscribeBesideAFailedCommit: what a session has stopped listening to is told once, though
// the commit of what stands around it in a pipeline fails.
func TestUnsubscribeBesideAFailedCommit(t *testing.T) {
	e, log := newTestEngine(t)
	b := e.NewBatch(0)
	s := e.NewClient(Nowhere{})
	commit := func() {
		if err := b.Commit(); err != nil {
			b.Undo(err)
		}
		b.Clear()
	}
	execute := executesOn(t, b)
	execute(s, "HELLO", "3")
	execute(s, "SUBSCRIBE", "a")
	commit()
	s.Reply.Reset()
	execute(s, "SET", "k", "v")
	unsubscribe := b.Read(s, words("UNSUBSCRIBE"))
	if outcome := b.Execute(s, unsubscribe); outcome != Separate {
		t.Fatalf("UNSUBSCRIBE joins what may have to be repeated: outcome %d", outcome)
	}
	commit()
	s.Reply.Reset()
	if outcome := b.Execute(s, unsubscribe); outcome != Done {
		t.Fatalf("UNSUBSCRIBE: outcome %d", outcome)
	}
	execute(s, "PUNSUBSCRIBE")
	set := b.Read(s, words("SET", "k", "v"))
	if outcome := b.Execute(s, set); outcome != Separate {
		t.Fatalf("what may have to be repeated joins UNSUBSCRIBE: outcome %d", outcome)
	}
	commit()
	if outcome := b.Execute(s, set); outcome != Done {
		t.Fatalf("SET: outcome %d", outcome)
	}
	log.Fail = errors.New("no room")
	commit()
	if reply := string(s.Reply.Bytes()); reply != ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n>3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n" {
		t.Errorf("got %q", reply)
	}
}
