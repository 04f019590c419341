package execute

import (
	"errors"
	"net"
	"strings"
	"testing"

	"kedis/internal/resp"
)

// TestNoEffectIsPassedOver: one that isn't carried out, since it can't be together with the others
// of its record, ends the repeating as one that fails does, and takes back the record.
func TestNoEffectIsPassedOver(t *testing.T) {
	engine, log := newTestEngine(t)
	addTestCommand(engine, Command{Name: "alone", Arity: 1, Flags: NoBatch, Run: func(c *Invocation) error {
		c.Reply.OK()
		return nil
	}})
	record := resp.AppendRequest(nil, words("set", "a", "1")...)
	record = resp.AppendRequest(record, words("alone")...)
	log.Length += int64(len(record))
	if err := engine.NewLogApplier().Replay(0, record, log.Length); !errors.Is(err, errNotCarriedOut) {
		t.Errorf("the record is applied: %v", err)
	}
	if reply := newTestClient(t, engine).do("get", "a"); reply != "$-1\r\n" {
		t.Errorf("half of the record was applied: %q", reply)
	}
}

// TestUnconfiguredDatabase: nothing goes to another database in place of one that was selected with
// another configuration, whose log or stream goes on without a SELECT.
func TestUnconfiguredDatabase(t *testing.T) {
	for _, selected := range []int{16, 17} {
		e, log := newTestEngine(t)
		here, there := net.Pipe()
		defer there.Close()
		replay := func(lines ...string) error {
			var record []byte
			for _, line := range lines {
				record = resp.AppendRequest(record, words(strings.Fields(line)...)...)
			}
			log.Length += int64(len(record))
			return e.NewLogApplier().Replay(selected, record, log.Length)
		}
		follow := func(lines ...string) error {
			f := e.NewStreamApplier(here, selected)
			defer f.Close()
			for _, line := range lines {
				if err := f.Apply(words(strings.Fields(line)...), []byte(line)); err != nil {
					return err
				}
			}
			return f.Commit()
		}
		for name, apply := range map[string]func(lines ...string) error{"log": replay, "stream": follow} {
			const want = "only 16 databases are configured"
			if err := apply("SET a 1"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: a write to database %d: %v", name, selected, err)
			}
			if err := apply("MULTI", "SET a 1", "EXEC"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: a transaction in database %d: %v", name, selected, err)
			}
			if err := apply("PING", "MULTI", "SELECT 2", "SET a "+name, "EXEC"); err != nil {
				t.Errorf("%s: a write to database 2: %v", name, err)
			}
			c := newTestClient(t, e)
			c.session.SetDatabase(2)
			if reply := c.do("get", "a"); !strings.Contains(reply, name) {
				t.Errorf("%s: GET in database 2: %q", name, reply)
			}
		}
		if txn := e.Store.NewTxn(); txn.Keys(txn.Namespace(e.Store.Libraries())) > 0 {
			t.Error("the database of libraries has a key")
		}
	}
}
