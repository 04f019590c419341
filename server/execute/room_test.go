package execute

import (
	"runtime"
	"testing"
	"weak"
)

// TestLargeRoomGoesWithItsRequest: a script may make many large requests, and what none of them has
// left must not stay until the script ends.
func TestLargeRoomGoesWithItsRequest(t *testing.T) {
	e, _ := newTestEngine(t)
	var first weak.Pointer[byte]
	addTestCommand(e, Command{Name: "rooms", Run: func(c *Invocation) error {
		memory, list := c.Room(1<<20, 1)
		first = weak.Make(&memory[0])
		list[0] = memory
		memory, list = c.Room(1<<20, 1)
		list[0] = memory
		runtime.GC()
		if first.Value() != nil {
			t.Error("the first request's room is kept")
		}
		c.Reply.Integer(1)
		return nil
	}})
	if got := newTestClient(t, e).do("rooms"); got != ":1\r\n" {
		t.Errorf("answered %q", got)
	}
}
