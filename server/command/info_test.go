package command

import (
	"strings"
	"testing"
)

// TestPassesAreCounted: INFO tells of a reactor's passes and of the time that commands took of them; workers have none.
func TestPassesAreCounted(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	c.do("SET", "key", "value")
	c.do("GET", "key")
	c.do("MULTI")
	c.do("SET", "key", "other")
	c.do("EXEC")
	c.do("KEYS", "*") // on a worker
	s := &e.Statistics
	if s.passes.Sum() != 5 {
		t.Errorf("%d passes", s.passes.Sum())
	}
	if of, all := s.passedCommands.Sum(), s.passTime.Sum(); of <= 0 || of > all {
		t.Errorf("commands took %d ns of %d", of, all)
	}
	if stats := c.do("INFO", "stats"); !strings.Contains(stats, "\r\neventloop_cycles:5\r\n") {
		t.Errorf("INFO tells %q", stats)
	}
	c.do("CONFIG", "RESETSTAT")
	if cycles := s.passes.Sum(); cycles != 1 { // its own
		t.Errorf("%d passes after RESETSTAT", cycles)
	}
}
