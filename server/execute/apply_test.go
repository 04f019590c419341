package execute

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

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
	if err := engine.NewLogApplier().Replay(0, record, log.Length, time.Now()); !errors.Is(err, errNotCarriedOut) {
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
			return e.NewLogApplier().Replay(selected, record, log.Length, time.Now())
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

// TestRelativeTimesInTheLog: what was relative to the time at which it came, as primaries before
// Redis 7.0 send it, is repeated as of that, and gives no whole life from the start on.
func TestRelativeTimesInTheLog(t *testing.T) {
	written := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	for _, effect := range []string{
		"EXPIRE k 7200", "PEXPIRE k 7200000", "SETEX k 7200 v", "PSETEX k 7200000 v", "SET k v EX 7200", "SET k v PX 7200000",
		"GETEX k EX 7200", "RESTORE k 7200000 * REPLACE", "MULTI;EXPIRE k 7200;EXEC",
	} {
		e, log := newTestEngine(t)
		client := newTestClient(t, e)
		client.do("SET", "k", "v")
		_, payload, _ := strings.Cut(strings.TrimSuffix(client.do("DUMP", "k"), "\r\n"), "\r\n")
		var record []byte
		for command := range strings.SplitSeq(effect, ";") {
			args := strings.Fields(command)
			if at := slices.Index(args, "*"); at >= 0 {
				args[at] = payload
			}
			record = resp.AppendRequest(record, words(args...)...)
		}
		log.Length += int64(len(record))
		if err := e.NewLogApplier().Replay(0, record, log.Length, written); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(":%d\r\n", written.Add(2*time.Hour).UnixMilli())
		if got := client.do("PEXPIRETIME", "k"); got != want {
			t.Errorf("%s: the key expires at %q, want %q", effect, got, want)
		}
	}
}
