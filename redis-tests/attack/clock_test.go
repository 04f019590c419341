package attack

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/resp"
)

// TestClockThatJumps has the clock jump by hours and years, both ways, while keys that expire are
// written, read, waited for and swept. What doesn't expire stays, what does is gone when the clock
// says so, and nobody waits for the clock to come back.
func TestClockThatJumps(t *testing.T) {
	v := newTarget(t)
	c, waiter := v.MustDial(t), v.MustDial(t)
	must := func(words ...string) resp.Reply {
		reply, err := c.Must(words...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	const hour = time.Hour
	for round := range 10 * *scale {
		must("debug", "set-clock", "0")
		key := fmt.Sprint("key", round)
		must("set", key, "v", "ex", "3600")
		must("set", key+"short", "v", "px", "1")
		must("set", key+"stays", "v")
		waiter.Queue("blpop", "nothing", "0.05")
		if err := waiter.Flush(); err != nil {
			t.Fatal(err)
		}
		skew := []time.Duration{2 * hour, -2 * hour, 24 * 365 * hour, -24 * 365 * hour, -20 * 365 * 24 * hour}[v.random.IntN(5)]
		must("debug", "set-clock", strconv.FormatInt(skew.Milliseconds(), 10))
		wanted := ":1"
		if skew > 0 {
			wanted = ":0"
		}
		if got := must("exists", key).String(); got != wanted {
			t.Errorf("with the clock %v ahead EXISTS answers %s, want %s", skew, got, wanted)
		}
		if got := must("exists", key+"stays").String(); got != ":1" {
			t.Errorf("with the clock %v ahead a key without expiry is gone", skew)
		}
		must("set", key+"other", "v", "ex", "3600")
		if left, ok := must("pttl", key+"other").Integer(); !ok || left < 3_500_000 || left > 3_600_000 {
			t.Errorf("with the clock %v ahead a key that expires in an hour has %d ms left", skew, left)
		}
		if reply, err := waiter.Read(); err != nil || reply.String() != "*-1" && reply.String() != "(nil)" && len(reply.Elements) > 0 {
			t.Errorf("a client that waits 50 ms is answered %s (%v)", reply, err)
		}
	}
	must("debug", "set-clock", "0")
	v.survives()
}
