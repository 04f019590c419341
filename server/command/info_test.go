package command

import (
	"strings"
	"testing"
)

// TestPassesAreCounted: INFO tells of a reactor's passes and of the time that commands took of
// them; workers have none.
func TestPassesAreCounted(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	c.Do("SET", "key", "value")
	c.Do("GET", "key")
	c.Do("MULTI")
	c.Do("SET", "key", "other")
	c.Do("EXEC")
	c.Do("KEYS", "*") // on a worker
	s := &e.Statistics
	if s.Passes.Sum() != 5 {
		t.Errorf("%d passes", s.Passes.Sum())
	}
	if of, all := s.PassedCommands.Sum(), s.PassTime.Sum(); of <= 0 || of > all {
		t.Errorf("commands took %d ns of %d", of, all)
	}
	if stats := c.Do("INFO", "stats"); !strings.Contains(stats, "\r\neventloop_cycles:5\r\n") {
		t.Errorf("INFO tells %q", stats)
	}
	c.Do("CONFIG", "RESETSTAT")
	if cycles := s.Passes.Sum(); cycles != 1 { // its own
		t.Errorf("%d passes after RESETSTAT", cycles)
	}
}
