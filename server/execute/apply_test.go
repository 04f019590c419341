package execute

import (
	"errors"
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
