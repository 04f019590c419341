package execute

import "testing"

// One batch may hold the write of one session and the EXEC of another that watches the key: the
// watcher has to see the write although it is not committed yet.
func TestWatchSeesAWriteOfTheSameBatch(t *testing.T) {
	e, _ := newTestEngine(t)
	b := e.NewBatch(0)
	watcher, writer := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	execute := func(s *Session, request ...string) {
		t.Helper()
		b.Tick()
		if outcome := b.Execute(s, b.Read(s, words(request...))); outcome != Done {
			t.Fatalf("%q: %v", request, outcome)
		}
	}
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
