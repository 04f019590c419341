package command

import (
	"strings"
	"testing"
)

// TestHostilePatternsGoToWorkers: what takes many steps to be matched isn't matched on a reactor,
// and has the same reply.
func TestHostilePatternsGoToWorkers(t *testing.T) {
	e, _ := newTestEngine(t)
	c, listener := newTestClient(t, e), newTestClient(t, e)
	name := strings.Repeat("a", 1<<14)
	pattern := "*" + strings.Repeat("?", 1<<13) + "*b"
	c.Do("SET", name, "v")
	c.Do("HSET", "hash", name, "v", "b", "w")
	listener.Do("PSUBSCRIBE", pattern)
	listener.Do("SUBSCRIBE", name)
	for _, request := range []struct {
		words []string
		reply string
	}{
		{[]string{"SCAN", "0", "MATCH", pattern}, "*2\r\n$1\r\n0\r\n*0\r\n"},
		{[]string{"HSCAN", "hash", "0", "MATCH", pattern}, "*2\r\n$1\r\n0\r\n*0\r\n"},
		{[]string{"KEYS", pattern}, "*0\r\n"},
		{[]string{"PUBSUB", "CHANNELS", pattern}, "*0\r\n"},
		{[]string{"PUBLISH", strings.Repeat("b", 1<<14), "message"}, ":1\r\n"},
	} {
		before := e.Statistics.Offloads.Load()
		if reply := c.Do(request.words...); reply != request.reply {
			t.Errorf("%s: %q", request.words[0], reply)
		}
		if e.Statistics.Offloads.Load() == before {
			t.Errorf("%s ran on the reactor", request.words[0])
		}
	}
}
