package execute

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"kedis/server/enginetest"
)

// TestTrackingClientsLeaveNoSession: what a client has read is remembered when it is gone, but not
// the client with its buffers.
func TestTrackingClientsLeaveNoSession(t *testing.T) {
	e, _ := newTestEngine(t)
	stays := newTestClient(t, e) // else the table is cleared
	stays.do("HELLO", "3")
	stays.do("CLIENT", "TRACKING", "ON")
	stays.do("GET", "hot")
	var gone []weak.Pointer[Session]
	for range 100 {
		c := newTestClient(t, e)
		c.do("HELLO", "3")
		c.do("CLIENT", "TRACKING", "ON")
		c.do("GET", "hot")
		gone = append(gone, weak.Make(c.session))
		e.Disconnect(c.session)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		kept := 0
		for _, session := range gone {
			if session.Value() != nil {
				kept++
			}
		}
		if kept == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions of clients that are gone are kept", kept)
		}
	}
	if items := e.Caching.Statistics().Items; items == 0 || items > 3 {
		t.Errorf("%d readers are remembered, of whom one is there", items)
	}
	stays.do("SET", "hot", "value")
	if items := e.Caching.Statistics().Items; items != 0 {
		t.Errorf("%d readers are remembered of a key that has changed", items)
	}
}

// TestRedirectToAClientThatQuits: a client that has been answered +OK isn't told any more, even if
// its connection is still open.
func TestRedirectToAClientThatQuits(t *testing.T) {
	e, _ := newTestEngine(t)
	told, tracks, writes := newTestClient(t, e), newTestClient(t, e), newTestClient(t, e)
	e.Clients.Add(told.session)
	redirect := []string{"CLIENT", "TRACKING", "ON", "REDIRECT", strconv.FormatInt(told.session.ID, 10)}
	tracks.do(redirect...)
	tracks.do("GET", "key")
	told.do("QUIT")
	writes.do("SET", "key", "value")
	if !tracks.session.TrackingBroken() {
		t.Error("a client that has quit was told")
	}
	if got := writes.do(redirect...); !strings.Contains(got, "redirect to does not exist") {
		t.Errorf("redirecting to it is answered %q", got)
	}
}

// TestTrackingBeginsInATransaction: what EXEC reads from a view behind CLIENT TRACKING is not
// cached without the server's knowing.
func TestTrackingBeginsInATransaction(t *testing.T) {
	e, _ := newTestEngine(t)
	var told strings.Builder
	b, s := e.NewBatch(0), e.NewClient(sending{sent: &told})
	execute := executesOn(t, b)
	for _, request := range []string{"HELLO 3", "MULTI", "CLIENT TRACKING ON", "GET key"} {
		execute(s, strings.Split(request, " ")...)
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	if outcome := e.Work(s, read(e, s, "EXEC")); outcome != Done {
		t.Fatal(outcome)
	}
	newTestClient(t, e).do("SET", "key", "value")
	if !strings.Contains(told.String(), "invalidate\r\n*1\r\n$3\r\nkey\r\n") {
		t.Errorf("the client was told %q", &told)
	}
}

// TestRepeatedReadsTakeNoMemory: a request that reads a key again and again, behind a write or from
// a view, notes it once.
func TestRepeatedReadsTakeNoMemory(t *testing.T) {
	e, _ := newTestEngine(t)
	var told strings.Builder
	b, s := e.NewBatch(0), e.NewClient(sending{sent: &told})
	noted := 0
	addTestCommand(e, Command{Name: "noted", Run: func(c *Invocation) error {
		noted = len(c.batch.running.reads)
		c.Reply.OK()
		return nil
	}})
	execute := executesOn(t, b)
	end := func() {
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	execute(s, "HELLO", "3")
	execute(s, "CLIENT", "TRACKING", "ON")
	end()
	execute(s, "SET", "key", "1")
	for range 100 {
		execute(s, "GET", "key")
	}
	execute(s, "NOTED")
	end()
	if noted != 1 || told.Len() > 0 {
		t.Errorf("behind a write %d reads are noted, and the client is told %q", noted, &told)
	}

	execute(s, "CLIENT", "TRACKING", "OFF")
	end()
	execute(s, "MULTI")
	execute(s, "CLIENT", "TRACKING", "ON")
	for range 100 {
		execute(s, "GET", "new")
	}
	end()
	if outcome := e.Work(s, read(e, s, "EXEC")); outcome != Done {
		t.Fatal(outcome)
	}
	if strings.Count(told.String(), "invalidate\r\n*1\r\n$3\r\nnew\r\n") != 1 {
		t.Errorf("of what it reads from a view the client is told %q", &told)
	}
}

// TestLoopThatIsTakenBack: a change by another client isn't taken for that of a client which isn't
// told of its own, and whose request was taken back ahead of it in the same batch.
func TestLoopThatIsTakenBack(t *testing.T) {
	e, _ := newTestEngine(t)
	var told strings.Builder
	b, other, s := e.NewBatch(0), e.NewBatch(1), e.NewClient(sending{sent: &told})
	writer, holder := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	commit := func() {
		t.Helper()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	newTestClient(t, e).beginToWait("BLMOVE", "src", "dst", "LEFT", "LEFT", "0")
	execute := executesOn(t, b)
	for _, request := range []string{"HELLO 3", "CLIENT TRACKING ON NOLOOP", "GET key"} {
		execute(s, strings.Fields(request)...)
		commit()
	}
	executesOn(t, other)(holder, "LPUSH", "dst", "x")
	if outcome := b.Execute(s, b.Read(s, words("LPUSH", "src", "v"))); outcome != Waiting {
		t.Fatalf("LPUSH while the destination is locked: outcome %d", outcome)
	}
	execute(writer, "SET", "key", "value")
	commit()
	if !strings.Contains(told.String(), "invalidate\r\n*1\r\n$3\r\nkey\r\n") {
		t.Errorf("the client was told %q", &told)
	}
	if err := other.Commit(); err != nil {
		t.Fatal(err)
	}
}

// TestNobodyExpires: that a key had expired is no change of the client whose command removes it.
func TestNobodyExpires(t *testing.T) {
	for _, mode := range []string{"NOLOOP", "BCAST NOLOOP"} {
		e, log := newTestEngine(t)
		expire(t, e, log, "key")
		var told strings.Builder
		c := &testClient{t, e, e.NewBatch(0), e.NewClient(sending{sent: &told})}
		for _, request := range []string{"HELLO 3", "CLIENT TRACKING ON " + mode, "GET key", "COPY key other"} {
			c.do(strings.Fields(request)...)
		}
		if strings.Count(told.String(), "invalidate\r\n*1\r\n$3\r\nkey\r\n") != 1 {
			t.Errorf("%s: the client is told %q", mode, &told)
		}
	}
}

// TestTrackingBesideAFailedCommit: who begins to track, or to listen, is answered once as if the
// commit of what stands in front of that in a pipeline hadn't failed, and so are the requests
// between.
func TestTrackingBesideAFailedCommit(t *testing.T) {
	const refused = "-MISCONF Errors writing to the log: storage: no room\r\n"
	for _, pipeline := range []struct {
		requests []string
		replies  string
	}{
		{[]string{"SET k v", "CLIENT TRACKING ON BCAST PREFIX a", "SET k v"}, refused + "+OK\r\n" + refused},
		{[]string{"CLIENT TRACKING ON BCAST PREFIX a", "SET k v"}, "+OK\r\n" + refused},
		{[]string{"SET k v", "GET k", "SUBSCRIBE x y"},
			refused + "$-1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\ny\r\n:2\r\n"},
		{[]string{"SET k v", "SUBSCRIBE x", "PSUBSCRIBE y"},
			refused + "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$10\r\npsubscribe\r\n$1\r\ny\r\n:2\r\n"},
	} {
		e, log := newTestEngine(t)
		b, s := e.NewBatch(0), e.NewClient(Nowhere{})
		executePipeline(t, b, log, s, pipeline.requests...)
		if reply := string(s.Reply.Bytes()); reply != pipeline.replies {
			t.Errorf("%q are answered\n%q, not\n%q", pipeline.requests, reply, pipeline.replies)
		}
	}
}

// executePipeline executes requests as a reactor does: together, unless one has to stand alone, and
// again when the commit has failed, as each does that has something for the log.
func executePipeline(t *testing.T, b *Batch, log *enginetest.Log, s *Session, requests ...string) {
	t.Helper()
	var again, queue []*Request
	for _, request := range requests {
		queue = append(queue, b.Read(s, words(strings.Fields(request)...)))
	}
	commit := func() {
		log.Fail = errors.New("no room")
		err := b.Commit()
		log.Fail = nil
		if err != nil && b.Undo(err) {
			for _, executed := range b.Members()[0].Executed {
				again = append(again, b.Again(s, executed))
			}
		}
		b.Clear()
	}
	for len(again)+len(queue) > 0 {
		from := &again
		if len(again) == 0 {
			from, s.Refuse = &queue, nil
		}
		b.Tick()
		switch outcome := b.Execute(s, (*from)[0]); outcome {
		case Done:
			if *from = (*from)[1:]; len(again)+len(queue) == 0 {
				commit()
			}
		case Separate:
			commit()
		default:
			t.Fatalf("%q: outcome %d", (*from)[0].Args, outcome)
		}
	}
}

// TestCachingChosenBesideAFailedCommit: what CLIENT CACHING has chosen holds for the next command
// also when that is executed again.
func TestCachingChosenBesideAFailedCommit(t *testing.T) {
	e, log := newTestEngine(t)
	var told strings.Builder
	b, s, other := e.NewBatch(0), e.NewClient(sending{sent: &told}), newTestClient(t, e)
	executePipeline(t, b, log, s, "HELLO 3", "CLIENT TRACKING ON OPTIN", "CLIENT CACHING YES")
	execute := executesOn(t, b)
	execute(s, "GET", "key")
	execute(s, "SET", "other", "value")
	log.Fail = errors.New("no room")
	if err := b.Commit(); err == nil || !b.Undo(err) {
		t.Fatal("the commit didn't fail")
	}
	b.Clear()
	log.Fail = nil
	other.do("SET", "key", "1")
	execute(s, "GET", "key")
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Clear()
	other.do("SET", "key", "2")
	if n := strings.Count(told.String(), "invalidate\r\n*1\r\n$3\r\nkey\r\n"); n != 2 {
		t.Errorf("of two changes behind its reads the client is told %d", n)
	}
}

// whenSent calls a function when something is sent for the first time.
type whenSent struct {
	Nowhere
	once *sync.Once
	call func()
}

func (p whenSent) Send([]byte, func() bool) { p.once.Do(p.call) }

// TestChangesOfOneNameInTwoDatabases: who isn't told of a change of his own misses none that
// somebody else makes at the same time of the key with the same name in another database.
func TestChangesOfOneNameInTwoDatabases(t *testing.T) {
	e, _ := newTestEngine(t)
	other := newTestClient(t, e)
	other.batch = e.NewBatch(1)
	other.do("SELECT", "1")
	first := &testClient{t, e, e.NewBatch(0), e.NewClient(whenSent{once: new(sync.Once), call: func() { other.do("SET", "key", "other") }})}
	var told strings.Builder
	c := &testClient{t, e, first.batch, e.NewClient(sending{sent: &told})}
	for _, request := range []string{"HELLO 3", "CLIENT TRACKING ON", "GET key"} {
		first.do(strings.Fields(request)...)
	}
	for _, request := range []string{"HELLO 3", "CLIENT TRACKING ON NOLOOP", "GET key", "SET key value"} {
		c.do(strings.Fields(request)...)
	}
	if strings.Count(told.String(), "invalidate\r\n*1\r\n$3\r\nkey\r\n") != 1 {
		t.Errorf("the client is told %q", &told)
	}
}
