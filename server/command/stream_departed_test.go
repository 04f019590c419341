package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"kedis/storage"
	"kedis/storage/layout"
	"kedis/ttl"
)

// deliverMany adds entries to the stream "s", and delivers all to consumers of the group "g" in
// turns.
func (c *testClient) deliverMany(entries int, consumers ...string) {
	c.T.Helper()
	c.Do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
	for i := range entries {
		c.Do("XADD", "s", fmt.Sprint(i+1), "f", "v")
		c.Do("XREADGROUP", "GROUP", "g", consumers[i%len(consumers)], "COUNT", "1", "STREAMS", "s", ">")
	}
}

// TestConsumersOfManyAreRemovedInSteps: what was pending for a consumer is gone at once for
// everybody, and its records in steps that leave no effect. An entry of it may come to be pending
// again meanwhile, and a consumer of the same name be another one.
func TestConsumersOfManyAreRemovedInSteps(t *testing.T) {
	engine, log := newTestEngine(t)
	c := newTestClient(t, engine)
	const entries = 4000
	c.deliverMany(entries, "gone", "stays")
	log.Content = nil
	c.want("DELCONSUMER", fmt.Sprintf(":%d\r\n", entries/2), "XGROUP", "DELCONSUMER", "s", "g", "gone")
	c.want("XPENDING", fmt.Sprintf("*4\r\n:%d\r\n$3\r\n2-0\r\n$6\r\n4000-0\r\n*1\r\n*2\r\n$5\r\nstays\r\n$4\r\n2000\r\n", entries/2), "XPENDING", "s", "g")
	c.want("XACK", ":0\r\n", "XACK", "s", "g", "1", "3")
	c.want("XCLAIM", "*1\r\n$3\r\n3-0\r\n", "XCLAIM", "s", "g", "gone", "0", "3", "FORCE", "JUSTID")
	effects := len(log.Content)
	gone := engine.Departures()
	for steps := 0; ; steps++ {
		due, err := gone.Due(0, ttl.Due{}, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(due) == 0 {
			if steps == 0 {
				t.Fatal("there is nothing to be removed")
			}
			break
		}
		if _, err := gone.Remove(0, due); err != nil {
			t.Fatal(err)
		}
	}
	if len(log.Content) != effects {
		t.Errorf("what leaves nothing to see is in the log: %q", log.Content[effects:])
	}
	c.want("XPENDING", fmt.Sprintf("*4\r\n:%d\r\n$3\r\n2-0\r\n$6\r\n4000-0\r\n*2\r\n*2\r\n$4\r\ngone\r\n$1\r\n1\r\n*2\r\n$5\r\nstays\r\n$4\r\n2000\r\n", entries/2+1), "XPENDING", "s", "g")
	c.want("DELCONSUMER", ":1\r\n", "XGROUP", "DELCONSUMER", "s", "g", "gone")
	c.want("DELCONSUMER", ":2000\r\n", "XGROUP", "DELCONSUMER", "s", "g", "stays")
	c.want("XPENDING", "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n", "XPENDING", "s", "g")
}

// TestGroupsAreNotedAgain: a step that fails with one group has done nothing for those before it.
func TestGroupsAreNotedAgain(t *testing.T) {
	engine, _ := newTestEngine(t)
	c := newTestClient(t, engine)
	c.deliverMany(2002, "gone", "stays")
	c.Do("XGROUP", "DELCONSUMER", "s", "g", "gone")
	c.Do("RENAME", "s", "t") // of "s" nothing is left
	c.Do("XPENDING", "t", "g")
	gone := engine.Departures()
	due, err := gone.Due(0, ttl.Due{}, 0, 10)
	if err != nil || len(due) != 2 {
		t.Fatalf("due are %v, %v", due, err)
	}
	loseOwned(t, engine, "t")
	if _, err := gone.Remove(0, due); err == nil {
		t.Fatal("entries were removed that were lost")
	}
	if again, err := gone.Due(0, ttl.Due{}, 0, 10); err != nil || len(again) != 2 {
		t.Errorf("due are %v again, %v", again, err)
	}
}

// loseOwned loses the records of what is pending for the consumers of a stream's groups.
func loseOwned(t *testing.T, engine *Engine, key string) {
	t.Helper()
	txn := engine.Store.NewTxn()
	txn.Begin(storage.Mode{Writing: true}, 1, 0)
	k, err := txn.DB(0).Lookup([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	lower := layout.AppendElementKey(nil, layout.KindStreamPendingFor, k.ID, nil)
	it := txn.Iterate(txn.Namespace(0), lower, layout.Successor(nil, lower), storage.IteratorOptions{KeysOnly: true})
	for it.Next() {
		it.Fail(txn.Delete(txn.Namespace(0), it.Key()))
	}
	if err := errors.Join(it.Close(), engine.Store.Commit(txn)); err != nil {
		t.Fatal(err)
	}
}

func (c *testClient) want(what, reply string, words ...string) {
	c.T.Helper()
	if got := c.Do(words...); got != reply {
		c.T.Fatalf("%s: %q, want %q", what, got[:min(len(got), 300)], reply)
	}
}

// TestIndexOfManyIsMadeInSteps: the first CLAIM of a large group makes its index in several
// commits, and claims what has been pending for longest of all of it. Inside of a transaction it is
// made at once. (Who waits is in redis-tests/scripts/streams_since.txt.)
func TestIndexOfManyIsMadeInSteps(t *testing.T) {
	for _, nested := range []bool{false, true} {
		engine, log := newTestEngine(t)
		c := newTestClient(t, engine)
		const entries = 3*indexedPerStep + 10
		c.deliverMany(entries, "a", "b")
		c.Do("XCLAIM", "s", "g", "a", "0", fmt.Sprint(entries), "IDLE", "9000000", "JUSTID")
		effects, commits := len(log.Content), engine.Store.Counters().Commits.Load()
		request := []string{"XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "CLAIM", "8000000", "STREAMS", "s", ">"}
		if nested {
			c.Do("MULTI")
			c.Do(request...)
			request = []string{"EXEC"}
		}
		if reply := c.Do(request...); !strings.Contains(reply, fmt.Sprintf("\r\n$6\r\n%d-0\r\n", entries)) {
			t.Errorf("nested %v: %q", nested, reply)
		}
		made := engine.Store.Counters().Commits.Load() - commits
		if !nested && made < entries/indexedPerStep || nested && made != 1 {
			t.Errorf("nested %v: %d commits", nested, made)
		}
		if text := string(log.Content[effects:]); strings.Count(text, "XCLAIM") != 1 {
			t.Errorf("effects %q", text)
		}
	}
}
