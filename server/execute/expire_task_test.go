package execute

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"kedis/lock"
	"kedis/server/enginetest"
	"kedis/storage"
	"kedis/ttl"
)

// expire makes keys whose time has come long ago.
func expire(t *testing.T, engine *Engine, log *enginetest.Log, keys ...string) {
	t.Helper()
	applier := engine.NewLogApplier() // for which nothing expires
	for _, key := range keys {
		effect := fmt.Appendf(nil, "*5\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\nv\r\n$4\r\nPXAT\r\n$4\r\n1000\r\n", len(key), key)
		log.Length += int64(len(effect))
		if err := applier.Replay(0, effect, log.Length, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	log.Content = nil
}

func mustBeDue(t *testing.T, index ttl.Index, want ...string) []ttl.Due {
	t.Helper()
	now := time.Now().UnixMilli()
	due, err := index.Due(0, ttl.Due{}, now, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range due {
		found = append(found, string(d.Key))
	}
	if strings.Join(found, " ") != strings.Join(want, " ") {
		t.Fatalf("due are %q, want %q", found, want)
	}
	if count, err := index.CountDue(0, ttl.Due{}, now, 1<<20); err != nil || count != len(want) {
		t.Fatalf("counted %d (%v), want %d", count, err, len(want))
	}
	return due
}

// TestExpiredKeysAreRemovedAtOnce: one commit takes many keys. One that somebody has locked is
// left, and one that lives on by now, too.
func TestExpiredKeysAreRemovedAtOnce(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	expiries := engine.Expiries()
	expire(t, engine, log, "a", "b", "c", "d")
	due := mustBeDue(t, expiries, "a", "b", "c", "d")
	client.do("SET", "c", "alive") // which removes what was there first
	log.Content = nil
	const other = lock.Owner(1000)
	if engine.Locks.TryShared(engine.Store.Stripe(0, []byte("b")), other) != lock.Acquired {
		t.Fatal("the lock is held by somebody")
	}
	commits := engine.Store.Counters().Commits.Load()
	step, err := expiries.Remove(0, due)
	if err != nil || step.Seen != 4 || step.Removed != 2 || len(step.Busy) != 1 || string(step.Busy[0].Key) != "b" {
		t.Fatalf("%+v (%v)", step, err)
	}
	if got := strings.Join(enginetest.Requests(t, log.Content), "; "); got != "DEL a; DEL d" {
		t.Errorf("effects %q", got)
	}
	if got := engine.Store.Counters().Commits.Load() - commits; got != 1 {
		t.Errorf("%d commits", got)
	}
	engine.Locks.ReleaseShared(engine.Store.Stripe(0, []byte("b")))
	if step, err = expiries.Remove(0, step.Busy); err != nil || step.Removed != 1 {
		t.Fatalf("%+v (%v)", step, err)
	}
	mustBeDue(t, expiries)
	if keys, expires := engine.Store.Size(0); keys != 1 || expires != 0 {
		t.Errorf("%d keys, %d expire", keys, expires)
	}
	if reply := client.do("GET", "c"); reply != "$5\r\nalive\r\n" {
		t.Errorf("GET: %q", reply)
	}
}

// TestNothingIsRemovedWhileTheLogTakesNothing: the sweeper comes back to it.
func TestNothingIsRemovedWhileTheLogTakesNothing(t *testing.T) {
	engine, log := newTestEngine(t)
	expiries := engine.Expiries()
	expire(t, engine, log, "a", "b")
	due := mustBeDue(t, expiries, "a", "b")
	log.Fail = fmt.Errorf("the disk is full")
	if expiries.Ready() {
		t.Error("keys are to be removed while the log takes nothing")
	}
	if step, err := expiries.Remove(0, due); step.Seen != 0 || err != nil {
		t.Errorf("%+v (%v)", step, err)
	}
	log.Fail = nil
	mustBeDue(t, expiries, "a", "b")
	if step, err := expiries.Remove(0, due); step.Removed != 2 || err != nil {
		t.Errorf("%+v (%v)", step, err)
	}
}

// TestNothingIsRemovedBesideAChangeOfDatabases: the sweeper doesn't wait at a gate that is closed.
func TestNothingIsRemovedBesideAChangeOfDatabases(t *testing.T) {
	engine, log := newTestEngine(t)
	expiries := engine.Expiries()
	expire(t, engine, log, "a")
	due := mustBeDue(t, expiries, "a")
	open := engine.Gate.Close(func() {})
	if step, err := expiries.Remove(0, due); step.Seen != 0 || err != nil {
		t.Errorf("%+v (%v)", step, err)
	}
	mustBeDue(t, expiries)
	open()
	mustBeDue(t, expiries, "a")
}

// TestACountEndsWhenDatabasesAreToChange: everybody waits for who is inside of a gate that is about
// to be closed.
func TestACountEndsWhenDatabasesAreToChange(t *testing.T) {
	engine, log := newTestEngine(t)
	expiries, now := engine.newExpiries(), time.Now().UnixMilli()
	expire(t, engine, log, "a", "b")
	closed := make(chan func())
	count, err := expiries.count(now, func(txn *storage.Txn) (int, error) {
		go func() { closed <- engine.Gate.Close(runtime.Gosched) }()
		for !engine.Gate.Closed().Load() {
			runtime.Gosched()
		}
		return txn.DB(0).CountDue(ttl.Due{}, now, 1<<20)
	})
	if count != 0 || err != nil {
		t.Errorf("it went on, and counted %d (%v)", count, err)
	}
	(<-closed)()
	mustBeDue(t, expiries, "a", "b")
}
