package command

import (
	"net"
	"testing"

	"kedis/server/execute"
)

// feeder lets every replica have the stream.
type feeder struct{ execute.Replication }

func (feeder) Sendable() error { return nil }

// detachable is a client's connection, which can be given away.
type detachable struct{ execute.Nowhere }

func (detachable) Detach(func(net.Conn)) {}

// TestNothingJoinsAStream: the connection is given away when PSYNC has run. What comes behind it in
// one batch, which a client that has begun to wait holds open, could have it executed again by a
// commit that fails.
func TestNothingJoinsAStream(t *testing.T) {
	for _, asks := range [][]string{{"PSYNC", "?", "-1"}, {"SYNC"}} {
		e, _ := newTestEngine(t)
		e.SetReplication(feeder{})
		b := e.NewBatch(0)
		run := func(s *Session, want execute.Outcome, line ...string) {
			t.Helper()
			if outcome := b.Execute(s, b.Read(s, words(line...))); outcome != want {
				t.Fatalf("%q: outcome %d, want %d", line, outcome, want)
			}
		}
		writer := e.NewClient(execute.Nowhere{})
		run(e.NewClient(execute.Nowhere{}), execute.Waiting, "BLPOP", "list", "0")
		run(e.NewClient(detachable{}), execute.Done, asks...)
		run(writer, execute.Separate, "SET", "key", "value")
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		b.Clear()
		run(writer, execute.Done, "SET", "key", "value")
	}
}
