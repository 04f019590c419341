package execute

import (
	"strings"
	"testing"
)

// TestQuotaAcrossSwaps: what RocksDB hasn't got yet of a database's keys counts where they are,
// wherever SWAPDB brings them, and until FLUSHDB takes them away.
func TestQuotaAcrossSwaps(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	if err := e.BeginLimits(); err != nil {
		t.Fatal(err)
	}
	used := func() map[int]int64 {
		bytes := map[int]int64{}
		e.DatabaseLimitUses(func(database int, use LimitUse) { bytes[database] = use.UsedBytes })
		return bytes
	}
	is := func(when string, third, fourth int64) {
		t.Helper()
		for range 2 {
			if err := e.limits.measure(*e.limits.databases.Load()); err != nil {
				t.Fatal(err)
			}
			if got := used(); got[3] != third || got[4] != fourth {
				t.Errorf("%s the databases take %d and %d bytes, want %d and %d", when, got[3], got[4], third, fourth)
			}
		}
	}
	do := func(want string, words ...string) {
		t.Helper()
		if got := c.do(words...); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", words[0], got, want)
		}
	}
	do("+OK", "CONFIG", "SET", "database-limit", "3 bytes 1mb 4 bytes 1mb")
	do("+OK", "SELECT", "3")
	value := strings.Repeat("x", 600_000)
	do("+OK", "SET", "k", value)
	bytes := used()[3]
	is("at first", bytes, 0)
	do("+OK", "SWAPDB", "3", "4")
	is("once swapped", 0, bytes)
	do("+OK", "SWAPDB", "4", "5") // which has no limit
	is("when another one has the key", 0, 0)
	do("+OK", "SWAPDB", "5", "3")
	is("when it is back", bytes, 0)
	do("-QUOTA database 3", "SET", "l", value)
	do("+OK", "FLUSHDB")
	is("when it is gone", 0, 0)
	do("+OK", "SET", "k", value)
	is("when it is there again", bytes, 0)
}
