package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// TestReplicaShowsItsStream compares what a replica shows of the commands that its primary sends
// with what a Redis does: MONITOR, SLOWLOG, and the counts of commands.
func TestReplicaShowsItsStream(t *testing.T) {
	programs := bothPrograms(t)
	redis, kedis := shownOfStream(t, programs[0]), shownOfStream(t, programs[1])
	if !slices.Equal(redis, kedis) {
		t.Errorf("Redis:\n%s\nKedis:\n%s", strings.Join(redis, "\n"), strings.Join(kedis, "\n"))
	}
}

func shownOfStream(t *testing.T, program launch.Program) (shown []string) {
	t.Helper()
	sent := []string{"set", "multi", "incr", "rpush", "exec", "publish"}
	var options []string
	if program.IsRedis {
		options = []string{"--repl-diskless-sync-delay", "0"}
	}
	primary, replica := launch.ForTest(t, program, options...), launch.ForTest(t, program)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	q, monitor := replica.MustDial(t), replica.MustDial(t)
	do(t, q, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	do(t, q, "CONFIG", "RESETSTAT")
	do(t, monitor, "MONITOR")
	p := primary.MustDial(t)
	for _, line := range []string{"SET key value", "MULTI", "INCR number", "RPUSH list a b", "EXEC", "PUBLISH channel message", "SET last value"} {
		do(t, p, strings.Fields(line)...)
	}

	who := fmt.Sprintf("127.0.0.1:%d", primary.Port)
	for last := false; !last; {
		line, err := monitor.Read()
		if err != nil {
			t.Fatal(err)
		}
		_, request, _ := strings.Cut(strings.ToLower(string(line.Text)), " ")
		if slices.ContainsFunc(sent, func(name string) bool { return strings.Contains(request, fmt.Sprintf("] %q", name)) }) {
			shown = append(shown, "MONITOR: "+strings.Replace(request, who, "primary", 1))
		}
		last = strings.Contains(request, `"last"`)
	}
	converge(t, primary, replica)
	for _, entry := range slices.Backward(do(t, q, "SLOWLOG", "GET", "-1").Elements) {
		words := entry.Elements[3].Strings()
		if slices.Contains(sent, strings.ToLower(words[0])) {
			client := strings.Replace(string(entry.Elements[4].Text), who, "primary", 1)
			shown = append(shown, fmt.Sprintf("SLOWLOG: %s of %s", strings.ToLower(strings.Join(words, " ")), client))
		}
	}
	counts := string(do(t, q, "INFO", "commandstats").Text)
	for _, name := range sent {
		_, calls, _ := strings.Cut(counts, "cmdstat_"+name+":calls=")
		calls, _, _ = strings.Cut(calls, ",")
		shown = append(shown, "calls of "+name+": "+calls)
	}
	for i, part := range do(t, q, "LATENCY", "HISTOGRAM", "set", "incr").Elements {
		if i%2 == 1 { // behind the name
			part = part.Elements[1]
		}
		shown = append(shown, "LATENCY: "+part.String())
	}
	return shown
}
