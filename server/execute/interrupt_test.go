package execute

import (
	"strings"
	"testing"
)

// A transaction that a stop of the server ends leaves nothing behind, neither here nor in the log.
func TestInterruptedTransaction(t *testing.T) {
	e, log := newTestEngine(t)
	c := newTestClient(t, e)
	for _, line := range [][]string{{"multi"}, {"set", "a", "1"}, {"keys", "*"}, {"set", "b", "2"}} {
		c.do(line...)
	}
	e.Store.Interrupt()
	if reply := c.do("exec"); !strings.HasPrefix(reply, "-ERR internal error") || strings.Contains(reply, "+OK") {
		t.Errorf("the reply is %q", reply)
	}
	if len(log.Content) > 0 {
		t.Errorf("the log holds %q", log.Content)
	}
}
