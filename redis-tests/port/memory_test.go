package port

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

var megabytes = flag.Int("megabytes", 150, "how large the collections of TestMemory are")

// TestMemory moves large collections, of which the tool must never have more than some pieces in
// memory.
func TestMemory(t *testing.T) {
	if launch.RaceDetector {
		t.Skip("the race detector takes many times the memory and the time of what it watches")
	}
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	const piece = 1000 // elements that one script makes: a server must not be silent for long
	script := `local letters = {}
		for i = 1, 10000 do
			letters[i] = string.char(math.random(0, 255)) -- or a stream's payload would be small
		end
		local value = table.concat(letters)
		for i = ARGV[1], ARGV[1] + ARGV[2] - 1 do
			redis.call("HSET", "hash", i, i .. value)
			redis.call("XADD", "stream:" .. math.floor(i / 400), "*", "field", value)
			if i % 10 == 0 then
				redis.call("RPUSH", "list", i .. value)
				redis.call("SADD", "set", i .. value)
				redis.call("ZADD", "zset", i, i .. value)
				redis.call("XADD", "stream", "*", "field", value)
			end
		end`
	c := from.MustDial(t)
	for i := 0; i < *megabytes*100*10/13; i += piece {
		do(t, c, "EVAL", script, "0", strconv.Itoa(i), strconv.Itoa(piece))
	}
	p := startTool(t, t.TempDir(), port(from, to)...)
	p.limit = time.Hour
	peak := launch.PeakMemory(p.command.Process.Pid, p.exited)
	p.ends(0)
	same(t, from, to)
	const least, limit = 10 << 20, 100 << 20
	if t.Logf("%d MB moved with %d MB of memory", *megabytes, peak>>20); peak < least || peak > limit {
		t.Errorf("took %d MB", peak>>20)
	}
}
