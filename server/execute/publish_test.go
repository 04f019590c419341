package execute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"kedis/internal/resp"
)

// TestSlowPatternsOfNobody: a message isn't matched with a pattern that nobody listens to any more,
// and counts as long as it waits for that.
func TestSlowPatternsOfNobody(t *testing.T) {
	e, _ := newTestEngine(t)
	listener := e.NewClient(Nowhere{})
	e.Listeners.Add(listener, PatternKind, "*"+strings.Repeat("a", 1<<20)+"b*")
	busy := make(chan struct{})
	e.Listeners.slow.do(func() { <-busy }, 0)
	channel := []byte(strings.Repeat("a", 2<<20)) // ten minutes and more
	if sent := e.announceTo(nil, channel, []byte("message"), dispatch{engine: e}); len(sent) != 0 {
		t.Errorf("%d messages are sent at once", len(sent))
	}
	if waiting := e.Listeners.Unmatched(); waiting < int64(len(channel)) {
		t.Errorf("%d bytes wait", waiting)
	}
	e.Listeners.Forget(listener)
	close(busy)
	for deadline := time.Now().Add(20 * time.Second); e.Listeners.Unmatched() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is matched with what nobody listens to")
		}
	}
}

// TestPublishWhileTheLogTakesNothing: a message whose effect the log hasn't taken is told without
// one, and the publisher answered.
func TestPublishWhileTheLogTakesNothing(t *testing.T) {
	e, log := newTestEngine(t)
	e.SetReplication(oneReplica{})
	told := new(strings.Builder)
	listener := e.NewClient(sending{sent: told})
	e.Listeners.Add(listener, ChannelKind, "channel")
	c := newTestClient(t, e)
	request := func() Outcome { return c.batch.Execute(c.session, read(e, c.session, "PUBLISH", "channel", "once")) }
	if outcome := request(); outcome != Done {
		t.Fatal(outcome)
	}
	log.Fail = errors.New("ENOSPC")
	err := c.batch.Commit()
	if err == nil {
		t.Fatal("the commit succeeded")
	}
	if !c.batch.Undo(err) {
		t.Error("it isn't executed again")
	}
	c.batch.Clear()
	if outcome := request(); outcome != Done {
		t.Fatal(outcome)
	}
	if err := c.batch.Commit(); err != nil {
		t.Fatal(err)
	}
	c.batch.Clear()
	if reply := string(c.session.Reply.Bytes()); reply != ":1\r\n" {
		t.Errorf("the reply is %q", reply)
	}
	if n := strings.Count(told.String(), "once"); n != 1 {
		t.Errorf("it is told %d times", n)
	}
}

// TestAStartPublishesNothing: what the log has of messages was told when they were published.
func TestAStartPublishesNothing(t *testing.T) {
	e, log := newTestEngine(t)
	told := new(strings.Builder)
	listener := e.NewClient(sending{sent: told})
	e.Listeners.Add(listener, ChannelKind, "channel")
	record := resp.AppendRequest(nil, words("PUBLISH", "channel", "formerly")...)
	log.Length += int64(len(record))
	if err := e.NewLogApplier().Replay(0, record, log.Length, time.Now()); err != nil {
		t.Fatal(err)
	}
	if told.Len() > 0 {
		t.Errorf("%q is told", told)
	}
}
