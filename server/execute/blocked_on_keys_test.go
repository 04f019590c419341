package execute

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/storage/layout"
)

// atOnce fails a test when something computes for as long as it does if its steps grow with the
// square of manyNames.
func atOnce(t *testing.T, what string, do func()) {
	t.Helper()
	began := computed(t)
	do()
	if took := computed(t) - began; took > 10*time.Second {
		t.Errorf("%s took %v", what, took)
	}
}

// computed is the time for which the process has computed: on a busy machine as on an idle one.
func computed(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

const manyNames = 150_000

// withMany are the words of a command with many names. Behind each stand the words of behind, and
// at the end those of further.
func withMany(command, behind []string, further ...string) []string {
	words := append(make([]string, 0, 2*manyNames), command...)
	for i := range manyNames {
		words = append(append(words, "name:"+strconv.Itoa(i)), behind...)
	}
	return append(words, further...)
}

// beginToWait has a client wait for others.
func (c *testClient) beginToWait(w ...string) {
	c.t.Helper()
	request := read(c.engine, c.session, w...)
	c.batch.Tick()
	outcome := c.batch.Execute(c.session, request)
	if err := c.batch.Commit(); err != nil {
		c.t.Fatal(err)
	}
	c.batch.Clear()
	switch {
	case outcome == Separate: // a part of it is committed now
		c.batch.Execute(c.session, request)
	case outcome == Waiting && c.session.Wait().Cause == ForWorker:
		c.engine.Work(c.session, request)
	}
	if !c.session.Waiting() || c.session.Wait().Blocked == nil {
		c.t.Fatalf("%s doesn't wait for others: outcome %d", w[0], outcome)
	}
	c.engine.BeginWait(c.session)
}

// TestWaitForManyKeys: how long it takes to begin to wait for keys, or to find out that somebody
// waits for them, grows with their number, and not with its square. All that while they are locked.
func TestWaitForManyKeys(t *testing.T) {
	e, _ := newTestEngine(t)
	waiter, other := newTestClient(t, e), newTestClient(t, e)
	atOnce(t, "to wait for many keys", func() { waiter.beginToWait(withMany([]string{"BLPOP"}, nil, "name:0", "0")...) })
	if keys, _ := e.Blocking.Count(); keys != manyNames {
		t.Errorf("somebody waits for %d keys", keys)
	}
	atOnce(t, "to set keys that somebody waits for", func() { other.do(withMany([]string{"MSET"}, []string{"value"})...) })
	if waiter.session.Wait().Blocked.Ended() {
		t.Error("a string ended the wait for a list")
	}
	waiter.session.EndWait()
	if keys, _ := e.Blocking.Count(); keys != 0 {
		t.Errorf("when nobody waits any more, somebody waits for %d keys", keys)
	}
}

// TestWaitForOneKeyTwice: a client that names a key twice waits for it once.
func TestWaitForOneKeyTwice(t *testing.T) {
	e, _ := newTestEngine(t)
	waiter, other := newTestClient(t, e), newTestClient(t, e)
	other.do("XGROUP", "CREATE", "a", "group", "$", "MKSTREAM")
	other.do("XGROUP", "CREATE", "b", "group", "$", "MKSTREAM")
	wait := func() {
		waiter.beginToWait("XREADGROUP", "GROUP", "group", "me", "BLOCK", "0", "STREAMS", "a", "b", "a", "b", "a", ">", ">", ">", ">", ">")
	}
	wait()
	if keys, gone := e.Blocking.Count(); keys != 2 || gone != 2 {
		t.Errorf("it waits for %d keys, and for the end of %d", keys, gone)
	}
	waiter.session.EndWait()
	if keys, gone := e.Blocking.Count(); keys != 0 || gone != 0 {
		t.Errorf("afterwards somebody waits for %d keys, and for the end of %d", keys, gone)
	}
	wait()
	other.do("DEL", "b")
	if !waiter.session.Wait().Blocked.Ended() {
		t.Error("it isn't told that the stream is gone")
	}
	waiter.session.EndWait()
}

// wakes counts how often a client that waits is woken.
type wakes struct {
	Nowhere
	count *int
}

func (w wakes) Unblock(*Blocked) { *w.count++ }

// TestGroupsWakeNobody: what changes but what groups of a stream know isn't tried on those who wait
// for its entries. The end of their group is.
func TestGroupsWakeNobody(t *testing.T) {
	e, _ := newTestEngine(t)
	woken := 0
	waiter, other := newTestClient(t, e), newTestClient(t, e)
	waiter.session = e.NewClient(wakes{count: &woken})
	other.do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	other.do("XADD", "s", "1-1", "f", "v")
	other.do("XREADGROUP", "GROUP", "g", "other", "STREAMS", "s", ">")
	waiter.beginToWait("XREADGROUP", "GROUP", "g", "waiter", "BLOCK", "0", "STREAMS", "s", ">")
	for _, request := range []string{
		"XREADGROUP GROUP g other STREAMS s >",
		"XCLAIM s g third 0 1-1",
		"XACK s g 1-1",
		"XGROUP CREATECONSUMER s g fourth",
		"XGROUP CREATE s h 0",
		"XGROUP SETID s g 0",
	} {
		other.do(strings.Fields(request)...)
		if woken != 0 {
			t.Fatalf("%s: the client was woken %d times", request, woken)
		}
	}
	other.do("XGROUP", "DESTROY", "s", "g")
	if woken != 1 || !waiter.session.Wait().Blocked.Ended() {
		t.Errorf("at the end of the group the client was woken %d times", woken)
	}
	waiter.session.EndWait()
}

// TestEndWhileReserved: what ends a client's wait while somebody is about to serve it ends it when
// the client isn't served after all, and else is forgotten.
func TestEndWhileReserved(t *testing.T) {
	key := watchedKey{0, "list"}
	ends := map[string]func(s *Session) bool{
		"CLIENT UNBLOCK":       func(s *Session) bool { return s.Unblock(nil) },
		"CLIENT UNBLOCK ERROR": func(s *Session) bool { return s.Unblock(Error("UNBLOCKED by a test")) },
		"the end of its input": func(s *Session) bool { s.HangUp(); return true },
	}
	for what, end := range ends {
		e, _ := newTestEngine(t)
		waiter := newTestClient(t, e)
		waiter.beginToWait("BLPOP", "list", "0")
		blocked := waiter.session.Wait().Blocked
		e.Blocking.reserve(key, layout.List, nil)
		if !end(waiter.session) || blocked.Ended() {
			t.Fatalf("%s of a client that is being served is refused, or ends its wait at once", what)
		}
		blocked.release()
		if !blocked.Ended() || e.Blocking.anybody(key, nil) || end(waiter.session) && what != "the end of its input" {
			t.Errorf("%s is lost when the client isn't served after all", what)
		}

		waiter.session.EndWait()
		waiter = newTestClient(t, e)
		waiter.beginToWait("BLPOP", "list", "0")
		blocked = waiter.session.Wait().Blocked
		e.Blocking.reserve(key, layout.List, nil)
		end(waiter.session)
		(&served{blocked: blocked, reply: []byte("*0\r\n")}).tell(0)
		waiter.session.Reply.Reset()
		if !waiter.batch.Answered(waiter.session, blocked.request, blocked) || string(waiter.session.Reply.Bytes()) != "*0\r\n" {
			t.Errorf("%s of a client that was served answers %q", what, waiter.session.Reply.Bytes())
		}
	}
}

// reserve has somebody have a client that waits for a list reserved.
func (c *testClient) reserve(list string) *Blocked {
	c.t.Helper()
	place := c.engine.Blocking.reserve(watchedKey{0, list}, layout.List, nil)
	if place == nil || place.blocked.session != c.session {
		c.t.Fatalf("the client isn't the first that waits for %s", list)
	}
	return place.blocked
}

// wantServed waits until a client's wait has ended with a reply.
func (c *testClient) wantServed(want string) {
	c.t.Helper()
	blocked := c.session.Wait().Blocked
	for deadline := time.Now().Add(time.Minute); !blocked.Ended(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("nobody serves the client")
		}
	}
	if string(blocked.reply) != want {
		c.t.Errorf("it was served with %q", blocked.reply)
	}
	c.session.EndWait()
}

// TestMissedWhileReserved: a key that was filled while somebody had a client reserved with another
// one is offered to the client, when that didn't serve it.
func TestMissedWhileReserved(t *testing.T) {
	e, _ := newTestEngine(t)
	first, second, other := newTestClient(t, e), newTestClient(t, e), newTestClient(t, e)
	first.beginToWait("BLPOP", "a", "b", "0")
	second.beginToWait("BLPOP", "c", "b", "0")
	reserved := []*Blocked{second.reserve("c"), first.reserve("a")}
	other.do("RPUSH", "b", "x", "y")
	e.Pause.Begin(PauseWrites, time.Now().Add(time.Hour))
	for _, blocked := range reserved {
		blocked.release()
	}
	time.Sleep(2 * offerLater)
	for _, blocked := range reserved {
		if blocked.Ended() {
			t.Error("a client is served during a pause")
		}
	}
	e.Pause.Finish()
	first.wantServed("*2\r\n$1\r\nb\r\n$1\r\nx\r\n")
	second.wantServed("*2\r\n$1\r\nb\r\n$1\r\ny\r\n")
}

// TestMissedWhileLocked: what a client has missed is offered to it for as long as somebody has what
// it takes to serve it. What it is served with is given to the next one.
func TestMissedWhileLocked(t *testing.T) {
	e, _ := newTestEngine(t)
	mover, taker, other := newTestClient(t, e), newTestClient(t, e), newTestClient(t, e)
	mover.beginToWait("BLMOVE", "a", "b", "LEFT", "LEFT", "0")
	taker.beginToWait("BLPOP", "b", "0")
	blocked := mover.reserve("a")
	other.do("RPUSH", "a", "x")
	holder := e.NewBatch(0)
	destination := wantedLock{e.Store.Stripe(0, []byte("b")), true}
	if !holder.locks.try(destination) {
		t.Fatal("the destination is locked")
	}
	blocked.release()
	time.Sleep(2 * offerLater)
	if blocked.Ended() {
		t.Error("a client is served with a key that is locked")
	}
	holder.locks.release()
	mover.wantServed("$1\r\nx\r\n")
	taker.wantServed("*2\r\n$1\r\nb\r\n$1\r\nx\r\n")
}
