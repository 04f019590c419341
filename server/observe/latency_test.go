package observe

import (
	"strings"
	"testing"
	"time"

	"kedis/internal/metrics"
	"kedis/internal/oracle"
)

func TestDrawLatency(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var samples []metrics.LatencySample
	for i, ms := range []int{10, 20, 30, 40, 50, 60, 70, 80} {
		ago := []time.Duration{50 * time.Hour, 3 * time.Hour, 61 * time.Minute, 59 * time.Minute, 2 * time.Minute, 59 * time.Second, 12 * time.Second, 0}[i]
		samples = append(samples, metrics.LatencySample{Time: now.Add(-ago), Latency: time.Duration(ms) * time.Millisecond})
	}
	want := strings.Join([]string{
		"command - high 80 ms, low 10 ms (all time high 90 ms)",
		strings.Repeat("-", 80),
		"      o#",
		"    _#||",
		"  _#||||",
		"_o||||||",
		"        ",
		"23152510",
		"dhh9m92s",
		"   m ss ",
		"",
	}, "\n")
	got := drawLatency("command", samples, 90*time.Millisecond, now)
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDrawLatencyAsRedis draws what redis-server has recorded, and holds it against its own
// drawing.
func TestDrawLatencyAsRedis(t *testing.T) {
	t.Parallel()
	redis := oracle.Start(t, "--enable-debug-command", "yes", "--latency-monitor-threshold", "5")
	for i, seconds := range []string{"0.02", "0.09", "0.01", "0.05"} {
		if i > 0 {
			time.Sleep(time.Second) // of each second there is one sample
		}
		redis.Do("DEBUG", "SLEEP", seconds)
		drawn := drawnByRedis(t, redis)
		if got := drawn.again(); got != drawn.text {
			t.Errorf("after %d samples:\n%s\nRedis draws:\n%s", i+1, got, drawn.text)
		}
	}
	redis.Do("LATENCY", "RESET") // the worst of all times is forgotten with it
	redis.Do("DEBUG", "SLEEP", "0.01")
	drawn := drawnByRedis(t, redis)
	if got := drawn.again(); got != drawn.text {
		t.Errorf("after a reset:\n%s\nRedis draws:\n%s", got, drawn.text)
	}
}

// latencyDrawing is what redis-server draws, and what it draws it from.
type latencyDrawing struct {
	samples []metrics.LatencySample
	worst   time.Duration
	now     time.Time
	text    string
}

func (d latencyDrawing) again() string { return drawLatency("command", d.samples, d.worst, d.now) }

// coarse is more than time(2), which redis-server asks, is behind: the kernel moves it on with each
// tick.
const coarse = 20 * time.Millisecond

// drawnByRedis asks until the answers are all of the same second.
func drawnByRedis(t *testing.T, redis *oracle.Server) latencyDrawing {
	t.Helper()
	for {
		before := time.Now().Add(-coarse).Unix()
		latest := redis.Do("LATENCY", "LATEST").([]any)[0].([]any)
		history := redis.Do("LATENCY", "HISTORY", "command").([]any)
		text := redis.Do("LATENCY", "GRAPH", "command").(string)
		now := time.Now()
		if now.Unix() != before {
			continue
		}
		d := latencyDrawing{worst: milliseconds(latest[3]), now: now, text: text}
		for _, sample := range history {
			pair := sample.([]any)
			d.samples = append(d.samples, metrics.LatencySample{Time: time.Unix(pair[0].(int64), 0), Latency: milliseconds(pair[1])})
		}
		return d
	}
}

func milliseconds(n any) time.Duration { return time.Duration(n.(int64)) * time.Millisecond }
