package crash

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// pairScript writes two keys that belong together, which nobody declares, and something between
// them that takes a while.
const pairScript = `redis.call("set", "pair:" .. ARGV[1] .. ":a", ARGV[2])
for i = 1, 20 do redis.call("hset", "between:" .. ARGV[1], i, ARGV[2]) end
redis.call("set", "pair:" .. ARGV[1] .. ":b", ARGV[2])
return ARGV[2]`

// TestKilledInScripts kills the server in the midst of scripts: each is there as a whole or not at
// all, and what was answered is there.
func TestKilledInScripts(t *testing.T) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Another one than the first, when it has been killed.
	defer func() { launch.End(t, server) }()
	const writers = 8
	answered := make([]int, writers)
	for round := range 4 {
		write := func(c *resp.Connection, writer, n int) error {
			_, err := c.Must("EVAL", pairScript, "0", strconv.Itoa(writer), strconv.Itoa(n))
			return err
		}
		writeUntilKilled(t, server, answered, time.Duration(40*round)*time.Millisecond, write)
		if server, err = server.Restart(); err != nil {
			t.Fatal(err)
		}
		checkScripts(t, server, answered)
	}
}

// writeUntilKilled has each writer write one version after the other, and kills the server a while
// after some were answered. It notes the last that was answered to each. Until it is killed the
// server has to answer.
func writeUntilKilled(t *testing.T, server *launch.Server, answered []int, while time.Duration, write func(c *resp.Connection, writer, version int) error) {
	t.Helper()
	const enough = 20
	var answers atomic.Int64
	var killed atomic.Bool
	var group sync.WaitGroup
	for writer := range answered {
		c := server.MustDial(t)
		group.Go(func() {
			for version := answered[writer] + 1; ; version++ {
				if err := write(c, writer, version); err != nil {
					if !killed.Load() {
						t.Error(err)
					}
					return
				}
				answered[writer] = version
				answers.Add(1)
			}
		})
	}
	for deadline := time.Now().Add(30 * time.Second); answers.Load() < enough && !t.Failed(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d were answered", answers.Load())
		}
	}
	time.Sleep(while)
	killed.Store(true)
	server.Kill()
	group.Wait()
}

func checkScripts(t *testing.T, server *launch.Server, answered []int) {
	t.Helper()
	c := server.MustDial(t)
	for writer := range answered {
		key := "pair:" + strconv.Itoa(writer)
		reply, err := c.Do("EVAL", `return {redis.call("get", ARGV[1] .. ":a") or "0", redis.call("get", ARGV[1] .. ":b") or "0", unpack(redis.call("hvals", ARGV[2]))}`, "0",
			key, "between:"+strconv.Itoa(writer))
		if err != nil || reply.IsError() {
			t.Fatal(err, reply)
		}
		values := strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "").Replace(reply.String()))
		first, _ := strconv.Atoi(values[0])
		for _, value := range values {
			if value != values[0] {
				t.Errorf("writer %d: half of a script: %s", writer, reply)
				break
			}
		}
		if first < answered[writer] {
			t.Errorf("writer %d: %d was answered, %d is there", writer, answered[writer], first)
		}
		answered[writer] = first
	}
}

// TestStoppedInScripts stops the server while a script has written half of what it is to write, by
// itself and in a transaction: nothing of that is there.
func TestStoppedInScripts(t *testing.T) {
	const script = `redis.call("set", "half", "1") while true do end`
	for name, requests := range map[string][][]string{
		"EVAL": {{"EVAL", script, "0"}},
		"EXEC": {{"MULTI"}, {"SET", "before", "1"}, {"EVAL", script, "0"}, {"SET", "behind", "1"}, {"EXEC"}},
	} {
		for _, signal := range []bool{true, false} {
			t.Run(name+", signal: "+strconv.FormatBool(signal), func(t *testing.T) {
				t.Parallel()
				server, err := launch.MustUnderTest(t).Start(t.TempDir(), "--busy-reply-threshold", "1")
				if err != nil {
					t.Fatal(err)
				}
				stopInScript(t, server, requests, signal)
				if server, err = server.Restart(); err != nil {
					t.Fatal(err)
				}
				defer server.Kill()
				if reply, err := server.MustDial(t).Do("EXISTS", "half", "before", "behind"); err != nil || reply.String() != ":0" {
					t.Errorf("%s keys are there (%v)", reply, err)
				}
			})
		}
	}
}

// stopInScript sends requests, and stops the server, by a signal or else by SHUTDOWN, when their
// script holds its key.
func stopInScript(t *testing.T, server *launch.Server, requests [][]string, signal bool) {
	t.Helper()
	c, other := server.MustDial(t), server.MustDial(t)
	for _, request := range requests {
		c.Queue(request...)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); ; {
		reply, err := other.Do("GET", "half")
		if err != nil || time.Since(begun) > 10*time.Second {
			t.Fatal(reply, err)
		}
		if strings.Contains(reply.String(), "BUSY") {
			break
		}
	}
	if !signal {
		other.Queue("SHUTDOWN", "NOSAVE")
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
		ends(t, server)
	}
	// The process has ended: Shutdown checks that its exit code was 0.
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
}
