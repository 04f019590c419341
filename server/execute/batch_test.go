package execute

import (
	"slices"
	"strings"
	"testing"

	"kedis/lock"
)

// TestRepeatedCommandsLock: commands of a batch that follow on the same one about the same key are
// covered by its lock, and only those.
func TestRepeatedCommandsLock(t *testing.T) {
	engine, _ := newTestEngine(t)
	first, second := engine.NewBatch(0), engine.NewBatch(1)
	s, other, far := NewSession(Nowhere{}, true), NewSession(Nowhere{}, true), NewSession(Nowhere{}, true)
	far.Database = 1
	execute := func(b *Batch, s *Session, command string) Outcome {
		t.Helper()
		b.Tick()
		return b.Execute(s, b.Read(s, words(strings.Split(command, " ")...)))
	}
	commit := func(b *Batch) {
		t.Helper()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
	}
	var want []uint32
	for _, step := range []struct {
		session  *Session
		command  string
		database int
		key      string // newly locked
	}{
		{s, "LPUSH a 1", 0, "a"}, {s, "LPUSH a 2", 0, ""}, {other, "LPUSH a 3 4", 0, ""}, {other, "RPUSH a 5", 0, ""},
		{far, "LPUSH a 1", 1, "a"}, {far, "LPUSH b 1", 1, "b"}, {s, "LPUSH b 1", 0, "b"}, {s, "LPUSH b 2", 0, ""},
		{s, "LPUSH b", 0, ""}, {s, "GET c", 0, ""}, {s, "LPUSH b 3", 0, ""}, {s, "LMOVE a b LEFT LEFT", 0, ""},
		{s, "LMOVE a c LEFT LEFT", 0, "c"},
	} {
		if outcome := execute(first, step.session, step.command); outcome != Done {
			t.Fatalf("%s: outcome %d", step.command, outcome)
		}
		if step.key != "" {
			want = append(want, engine.Store.Stripe(step.database, []byte(step.key)))
		}
		slices.Sort(want)
		if held := slices.Sorted(slices.Values(first.locks.exclusive)); !slices.Equal(held, want) {
			t.Fatalf("%s: stripes %d are held, want %d", step.command, held, want)
		}
	}
	if outcome := execute(second, s, "LPUSH a 6"); outcome != Waiting || s.Wait().Cause != ForLock {
		t.Errorf("a locked key: outcome %d", outcome)
	}
	execute(first, s, "LPUSH a 7")
	commit(first)
	if outcome := execute(second, s, "LPUSH a 8"); outcome != Done {
		t.Errorf("a key that was released: outcome %d", outcome)
	}
	if outcome := execute(first, other, "LPUSH a 9"); outcome != Waiting || other.Wait().Cause != ForLock {
		t.Errorf("a key that somebody else has got meanwhile: outcome %d", outcome)
	}
	commit(second)
	commit(first)
}

// TestRenounce ends waits for a lock: before it was granted, and behind that.
func TestRenounce(t *testing.T) {
	for name, granted := range map[string]bool{"before it was granted": false, "behind that": true} {
		t.Run(name, func(t *testing.T) {
			e, _ := newTestEngine(t)
			c := newTestClient(t, e)
			stripe := e.Store.Stripe(0, []byte("key"))
			const worker, another = 3, 4
			e.Locks.TryExclusive(stripe, worker)
			if outcome := c.batch.Execute(c.session, read(e, c.session, "set", "key", "value")); outcome != Waiting {
				t.Fatalf("the outcome is %d", outcome)
			}
			c.session.Wait().Begin(func() {})
			if granted {
				e.Locks.ReleaseExclusive(stripe, worker)
			}
			c.batch.Renounce(stripe)
			if err := c.batch.Commit(); err != nil {
				t.Fatal(err)
			}
			if !granted {
				e.Locks.ReleaseExclusive(stripe, worker)
			}
			if e.Locks.TryExclusive(stripe, another) != lock.Acquired {
				t.Error("the lock is not free")
			}
		})
	}
}
