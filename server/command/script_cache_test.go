package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/server/execute"
)

// TestLoadBesideEvaluationStays: a script that SCRIPT LOAD brings stays, though EVAL has brought it
// while it was compiled.
func TestLoadBesideEvaluationStays(t *testing.T) {
	engine, _ := newTestEngine(t)
	s := &keptBy(engine).scripts
	digits := scriptDigest([]byte("return 1"))
	var compiled [2]*knownScript
	for i := range compiled {
		var err error
		if compiled[i], err = s.prepare(string(digits[:]), []byte("return 1")); err != nil {
			t.Fatal(err)
		}
	}
	s.put(compiled[0], false)
	if known := s.put(compiled[1], true); known != compiled[0] || known.element != nil || s.used.Len() != 0 {
		t.Errorf("it may go: %v, %d may", known.element, s.used.Len())
	}
}

// TestLongTextsAreCompiledByWorkers: a reactor runs them where they were compiled before.
func TestLongTextsAreCompiledByWorkers(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	comment := "--" + strings.Repeat("x", longText) + "\n"
	digits := scriptDigest([]byte(comment + "return 1"))
	c.Do("script", "load", comment+"return 1")
	c.Do("function", "load", "#!lua name=a\n"+comment+"redis.register_function('shared', function() return 1 end)")
	c.Do("function", "load", "#!lua name=b\n"+comment+"local n = 0 redis.register_function('pinned', function() n = n + 1 return 1 end)")
	for _, request := range [][]string{{"evalsha", string(digits[:]), "0"}, {"fcall", "shared", "0"}, {"fcall", "pinned", "0"}} {
		pool := keptBy(e).scripts.pool
		used, err := pool.Get() // so that another one is made
		if err != nil {
			t.Fatal(err)
		}
		for run, want := range []int64{1, 0} {
			before := e.Statistics.Offloads.Load()
			if reply := c.Do(request...); reply != ":1\r\n" {
				t.Errorf("%q: %q", request, reply)
			}
			if workers := e.Statistics.Offloads.Load() - before; workers != want {
				t.Errorf("%q: workers ran it %d times in run %d, want %d", request, workers, run, want)
			}
		}
		pool.Put(used)
	}
}

// TestScriptsInExecLeaveReactors: EXEC compiles long texts on a worker, and goes on there when many
// short scripts have taken long.
func TestScriptsInExecLeaveReactors(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	comment := "--" + strings.Repeat("x", longText) + "\n"
	const some = "for i = 1, 40000 do end return 1"
	digits := scriptDigest([]byte(some))
	c.Do("script", "load", some)
	c.Do("function", "load", "#!lua name=l\nredis.register_function('f', function() "+some+" end)")
	for name, test := range map[string]struct {
		times   int
		request []string
		reply   string
	}{
		"Text":     {1, []string{"eval", comment + "return 1", "0"}, ":1"},
		"Load":     {1, []string{"script", "load", comment + "return 2"}, "$40"},
		"Scripts":  {200, []string{"eval", some, "0"}, ":1"},
		"SHA":      {200, []string{"evalsha", string(digits[:]), "0"}, ":1"},
		"Function": {200, []string{"fcall", "f", "0"}, ":1"},
	} {
		c.Do("multi")
		for range test.times {
			c.Do(test.request...)
		}
		before := e.Statistics.Offloads.Load()
		reply := c.Do("exec")
		if head := fmt.Sprintf("*%d\r\n%s\r\n", test.times, test.reply); !strings.HasPrefix(reply, head) {
			t.Errorf("%s: %.100q", name, reply)
		}
		if e.Statistics.Offloads.Load() == before {
			t.Errorf("%s: a reactor has run it", name)
		}
	}
}

// TestReadOnlyScriptsSeeOneMoment: a script that goes to a worker reads of a key that it has not
// declared what was committed, though others are writing to it.
func TestReadOnlyScriptsSeeOneMoment(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), newTestClient(t, e)
	const members = 20000
	for from := 0; from < members; from += 1000 {
		add := []string{"sadd", "set"}
		for i := range 1000 {
			add = append(add, fmt.Sprintf("member:%d", from+i))
		}
		c.Do(add...)
	}
	c.Do("srandmember", "set") // its order is in memory
	for _, line := range []string{"return #redis.call('smembers','set')", "for i = 1, 500 do redis.call('smembers','set') end return redis.call('scard','set')"} {
		request := c.Batch.Read(c.Session, words("eval_ro", line, "0"))
		c.Batch.Tick()
		if outcome := c.Batch.Execute(c.Session, request); outcome != execute.Waiting {
			t.Fatalf("the outcome is %d", outcome)
		}
		if err := c.Batch.Commit(); err != nil {
			t.Fatal(err)
		}
		c.Batch.Clear()
		other.Batch.Tick()
		if outcome := other.Batch.Execute(other.Session, other.Batch.Read(other.Session, words("sadd", "set", line))); outcome != execute.Done {
			t.Fatalf("SADD: the outcome is %d", outcome)
		}
		e.Work(c.Session, request)
		if reply, want := string(c.Session.Reply.Bytes()), fmt.Sprintf(":%d\r\n", members); reply != want {
			t.Errorf("%s: %q, want %q", line, reply, want)
		}
		c.Session.Reply.Reset()
		if err := other.Batch.Commit(); err != nil {
			t.Fatal(err)
		}
		other.Batch.Clear()
		other.Session.Reply.Reset()
		other.Do("srem", "set", line)
	}
}

// TestReadOnlyScriptsInExecHoldUpNobody: EXEC of a script that only reads, and goes on for ever,
// reads a view as the script by itself does.
func TestReadOnlyScriptsInExecHoldUpNobody(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), newTestClient(t, e)
	other.Do("set", "key", "1")
	c.Do("multi")
	c.Do("eval_ro", "while true do redis.call('get', 'key') end", "0")
	exec := c.Batch.Read(c.Session, words("exec"))
	c.Batch.Tick()
	if outcome := c.Batch.Execute(c.Session, exec); outcome != execute.Waiting {
		t.Fatalf("EXEC: the outcome is %d", outcome)
	}
	if err := c.Batch.Commit(); err != nil {
		t.Fatal(err)
	}
	c.Batch.Clear()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Work(c.Session, exec)
	}()
	running := &keptBy(e).scripts.running
	onWorker := func() bool {
		running.mu.Lock()
		defer running.mu.Unlock()
		return len(running.scripts) > 0
	}
	for deadline := time.Now().Add(30 * time.Second); !onWorker(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the script doesn't run")
		}
	}
	other.Batch.Tick()
	if outcome := other.Batch.Execute(other.Session, other.Batch.Read(other.Session, words("set", "key", "2"))); outcome != execute.Done {
		t.Errorf("SET: the outcome is %d", outcome)
	}
	if err := other.Batch.Commit(); err != nil {
		t.Fatal(err)
	}
	other.Batch.Clear()
	other.Session.Reply.Reset()
	if reply := other.Do("script", "kill"); reply != "+OK\r\n" {
		t.Errorf("SCRIPT KILL: %s", reply)
	}
	<-ended
}

// TestReplacedFunctionsArePaused: a function that is replaced by one that writes, while a call is
// queued, waits for the end of a pause.
func TestReplacedFunctionsArePaused(t *testing.T) {
	e, _ := newTestEngine(t)
	c, other := newTestClient(t, e), newTestClient(t, e)
	const head = "#!lua name=l\nredis.register_function{function_name='f', "
	other.Do("function", "load", head+"callback=function() return 1 end, flags={'no-writes'}}")
	c.Do("multi")
	c.Do("fcall", "f", "1", "key")
	other.Do("function", "load", "replace", head+"callback=function(keys) return redis.call('set', keys[1], 'v') end}")
	other.Do("client", "pause", "1000000", "write")
	c.Batch.Tick()
	if outcome := c.Batch.Execute(c.Session, c.Batch.Read(c.Session, words("exec"))); outcome != execute.Waiting || c.Session.Wait().Cause != execute.ForPause {
		t.Errorf("EXEC: the outcome is %d: %s", outcome, c.Session.Reply.Bytes())
	}
	other.Do("client", "unpause")
}

// TestScriptsDontPileUp: what a script says, and publishes, is bounded as what it writes.
func TestScriptsDontPileUp(t *testing.T) {
	e, _ := newTestEngine(t)
	var said strings.Builder
	e.Logger = hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Info})
	c, listener := newTestClient(t, e), newTestClient(t, e)
	listener.Do("subscribe", "channel")
	c.Set("script-write-limit", "1000")
	if reply := c.Do("eval", "for i = 1, 2000 do redis.call('publish', 'channel', 'message') end", "0"); !strings.Contains(reply, "script-write-limit") {
		t.Errorf("2000 messages: %s", reply)
	}
	if reply := c.Do("eval", "for i = 1, 1000 do redis.call('publish', 'channel', 'message') end return 1", "0"); reply != ":1\r\n" {
		t.Errorf("1000 messages: %s", reply)
	}
	reply := c.Do("eval", "for i = 1, 1500 do redis.log(redis.LOG_NOTICE, 'line ' .. i) redis.log(redis.LOG_DEBUG, 'nothing') end "+
		"for i = 1, 2000 do redis.call('publish', 'channel', 'message') end --"+strings.Repeat("x", longText), "0") // on a worker, which takes it back
	if lines := strings.Count(said.String(), "line "); !strings.HasPrefix(reply, "-") || lines != 1024 || strings.Contains(said.String(), "nothing") {
		t.Errorf("%s: %d lines are in the log", reply, lines)
	}
	said.Reset()
	if c.Do("eval", "for i = 1, 1500 do redis.log(redis.LOG_NOTICE, 'line ' .. i) end", "0"); strings.Count(said.String(), "line ") != 1500 {
		t.Errorf("%d lines are in the log", strings.Count(said.String(), "line "))
	}
}

// followed is the part in replication of a server that has a replica.
type followed struct{ execute.Replication }

func (followed) HasReplicas() bool { return true }

// TestMessagesOfScriptsDontPileUp: what a script leaves without writing anything, for replicas, for
// who listens and for who is told of keys, is bounded by its size.
func TestMessagesOfScriptsDontPileUp(t *testing.T) {
	e, _ := newTestEngine(t)
	c, listener := newTestClient(t, e), newTestClient(t, e)
	e.SetReplication(followed{})
	listener.Do("subscribe", "heard")
	c.Set("notify-keyspace-events", "Em")
	c.Set("script-write-limit", "1000")
	for _, call := range []string{"'publish', 'channel', ARGV[1]", "'spublish', 'channel', ARGV[1]", "'publish', 'heard', ARGV[1]", "'get', ARGV[1]"} {
		for calls, refused := range map[string]bool{"20": false, "200": true} {
			reply := c.Do("eval", "for i = 1, "+calls+" do redis.call("+call+") end return 1", "0", strings.Repeat("x", 10<<10))
			if strings.Contains(reply, "script-write-limit") != refused || !refused && reply != ":1\r\n" {
				t.Errorf("%s calls of %s: %s", calls, call, reply)
			}
		}
	}
	if reply := c.Do("eval", "for i = 1, 30000 do redis.call('publish', 'channel', 'message') end", "0"); !strings.Contains(reply, "script-write-limit") {
		t.Errorf("short messages: %s", reply)
	}
}

// TestLongRecordsOfScriptsDontPileUp: what a script writes is bounded by its size, too, but a short
// value may be written again and again.
func TestLongRecordsOfScriptsDontPileUp(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	c.Set("script-write-limit", "200") // 3.2 MB
	for _, call := range []string{"'set', 'string' .. i, ARGV[1]", "'rpush', 'list', ARGV[1]", "'hset', 'hash', i, ARGV[1]", "'xadd', 'stream', '*', 'f', ARGV[1]"} {
		for calls, refused := range map[string]bool{"10": false, "30": true} {
			reply := c.Do("eval", "redis.call('flushall') for i = 1, "+calls+" do redis.call("+call+") end return 1", "0", strings.Repeat("x", 100<<10))
			if strings.Contains(reply, "script-write-limit") != refused || !refused && reply != ":1\r\n" {
				t.Errorf("%s calls of %s: %s", calls, call, reply)
			}
		}
	}
	c.Do("setbit", "bits", "128000", "1") // 16 KB in one record
	if reply := c.Do("eval", "for i = 1, 190 do redis.call('setbit', 'bits', i, 1) end return 1", "0"); reply != ":1\r\n" {
		t.Errorf("a short string: %s", reply)
	}
}

// TestStagedValuesOfScriptsDontPileUp: what a script writes ahead of its commit is bounded as what
// waits for it.
func TestStagedValuesOfScriptsDontPileUp(t *testing.T) {
	e, _ := newTestEngine(t)
	c := newTestClient(t, e)
	value := strings.Repeat("x", 6<<20)
	c.Do("set", "long", value)
	payload := c.Do("dump", "long") // some hundred kilobytes
	payload = strings.TrimSuffix(payload[strings.Index(payload, "\n")+1:], "\r\n")
	for call, argument := range map[string]string{
		"'set', 'other' .. i, ARGV[1]":         value,
		"'copy', 'long', 'other' .. i":         "",
		"'bitop', 'not', 'other' .. i, 'long'": "",
		"'restore', 'other' .. i, 0, ARGV[1]":  payload,
		"'append', 'other' .. i, ARGV[1]":      value,
	} {
		c.Set("script-write-limit", "2000") // 32 MB
		for calls, refused := range map[string]bool{"2": false, "8": true} {
			reply := c.Do("eval", "for i = 1, "+calls+" do redis.call("+call+") end return redis.call('dbsize')", "0", argument)
			if strings.Contains(reply, "script-write-limit") != refused || !refused && !strings.HasPrefix(reply, ":") {
				t.Errorf("%s calls of %s: %s", calls, call, reply)
			}
			c.Do("eval", "for i = 1, 8 do redis.call('del', 'other' .. i) end", "0")
		}
	}
}

// onWrite is called for each line of a log.
type onWrite func()

func (f onWrite) Write(line []byte) (int, error) {
	f()
	return len(line), nil
}

// TestReplicasLostWithinExec: EXEC is refused for want of replicas as a whole, or not at all.
func TestReplicasLostWithinExec(t *testing.T) {
	e, _ := newTestEngine(t)
	e.Logger = hclog.New(&hclog.LoggerOptions{Output: onWrite(func() { e.SetGoodReplicas(0) })})
	e.SetGoodReplicas(1)
	c := newTestClient(t, e)
	c.Set("min-replicas-to-write", "1")
	for _, request := range [][]string{{"multi"}, {"set", "a", "1"},
		// It goes to a worker, where scripts that say so much are heard at once.
		{"eval", "redis.call('keys', '*') for i = 1, 2000 do redis.log(redis.LOG_WARNING, 'lost') end return 1", "0"},
		{"eval", "return redis.call('set', 'b', '1')", "0"}, {"eval", "#!lua\nreturn redis.call('set', 'c', '1')", "0"}} {
		c.Do(request...)
	}
	if reply := c.Do("exec"); reply != "*4\r\n+OK\r\n:1\r\n+OK\r\n+OK\r\n" {
		t.Errorf("EXEC: %q", reply)
	}
	if reply := c.Do("set", "d", "1"); !strings.HasPrefix(reply, "-NOREPLICAS") {
		t.Errorf("SET behind it: %q", reply)
	}
}
