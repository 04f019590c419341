package execute

import "testing"

// TestLargeGarbage: what large requests leave is collected once, when none of them runs any more.
func TestLargeGarbage(t *testing.T) {
	var w largeWork
	var ends []func()
	for range 2 {
		w.whenRoom(collectFrom/2+1, func(giveBack func()) { ends = append(ends, giveBack) })
	}
	ends[0]()
	if w.collect(); w.left == 0 {
		t.Error("collected beside a large request")
	}
	ends[1]()
	if w.left < collectFrom {
		t.Errorf("%d bytes are left", w.left)
	}
	if w.collect(); w.left != 0 {
		t.Errorf("%d bytes are left after they were collected", w.left)
	}
}

// TestLargeReplyIsGarbageWhenItIsGone: its request has ended long before.
func TestLargeReplyIsGarbageWhenItIsGone(t *testing.T) {
	for name, end := range map[string]func(*Engine, *Session){"sent": (*Engine).ReleaseReply, "lost": (*Engine).Disconnect} {
		e, _ := newTestEngine(t)
		s := e.NewClient(Nowhere{})
		s.Reply.Bulk(make([]byte, collectFrom))
		giveBack := e.large.take(1) // nothing is collected meanwhile
		if e.large.left != 0 {
			t.Fatalf("%s: %d bytes are left beforehand", name, e.large.left)
		}
		end(e, s)
		if e.large.left < collectFrom || s.Reply.Len() > 0 {
			t.Errorf("%s: %d bytes are left, the reply has %d", name, e.large.left, s.Reply.Len())
		}
		e.ReleaseReply(s)
		if e.large.left >= 2*collectFrom {
			t.Errorf("%s: it was counted twice", name)
		}
		giveBack()
	}
}

// TestLeave: what is left of requests inside of others counts only if it was long.
func TestLeave(t *testing.T) {
	e, _ := newTestEngine(t)
	defer e.large.take(1)() // nothing is collected meanwhile
	if e.Leave(fromLarge - 1); e.large.left != 0 {
		t.Errorf("%d bytes are left", e.large.left)
	}
	if e.Leave(fromLarge); e.large.left != fromLarge {
		t.Errorf("%d bytes are left, want %d", e.large.left, fromLarge)
	}
}
