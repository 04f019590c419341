package port

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// pairs are from where to where data is moved.
var pairs = []struct {
	name     string
	from, to func(testing.TB) launch.Program
}{
	{"RedisToKedis", launch.MustOracle, launch.MustUnderTest},
	{"KedisToKedis", launch.MustUnderTest, launch.MustUnderTest},
	{"KedisToRedis", launch.MustUnderTest, launch.MustOracle},
}

// start starts a server of a kind; a Redis sends its snapshot at once.
func start(t *testing.T, program launch.Program, options ...string) *launch.Server {
	t.Helper()
	if program.IsRedis {
		options = append(options, "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb")
	}
	return launch.ForTest(t, program, options...)
}

// TestPort moves data under writes, and lets go when the writers have stopped.
func TestPort(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			random := seeded(t)
			from, to := start(t, pair.from(t)), start(t, pair.to(t))
			fill(t, from, 3000)
			w := startWriters(t, from, random, 3, false)
			p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
			p.says("has caught up")
			w.wait(t, 5000)
			w.stop()
			p.signal(syscall.SIGINT)
			p.ends(0)
			same(t, from, to)
			startTool(t, t.TempDir(), verify(from, to)...).ends(0)
			if left, err := filepath.Glob(filepath.Join(p.command.Dir, "*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestConditionsOfExpiries: an expiry that the source took, because it comes earlier or later than
// another one, the target takes, though it holds back those that come soon.
func TestConditionsOfExpiries(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	const far = "4102444800000"
	set(t, c, "earlier", "1", "later", "1")
	do(t, c, "PEXPIREAT", "earlier", far)
	do(t, c, "EXPIRE", "later", "100000")
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
	p.says("has caught up")
	do(t, c, "EXPIRE", "earlier", "100000", "LT")
	do(t, c, "PEXPIREAT", "later", far, "GT")
	set(t, c, "end", "1")
	reaches(t, d, "end", "1")
	p.signal(syscall.SIGINT)
	p.ends(0)
	for _, key := range []string{"earlier", "later"} {
		if got, want := do(t, d, "PEXPIRETIME", key).String(), do(t, c, "PEXPIRETIME", key).String(); got != want {
			t.Errorf("%s expires at %s, and not at %s", key, got, want)
		}
	}
}

// TestFieldsAreHeld: no field of a hash expires at the target while data are moved, whichever way
// it has come there; when the move ends, each has its time.
func TestFieldsAreHeld(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	const farAway = 500 * 31556952000 // ms
	times := func(c *resp.Connection) (all []int64) {
		for _, key := range []string{"snapshot", "stream", "restored", "large"} {
			for _, reply := range do(t, c, "HPEXPIRETIME", key, "FIELDS", "2", "a", "b").Elements {
				ms, err := strconv.ParseInt(strings.TrimPrefix(reply.String(), ":"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, ms)
			}
		}
		return all
	}
	large := []string{"HSET", "large", "a", "1"}
	for i := range 2000 {
		large = append(large, "field:"+strconv.Itoa(i), "1")
	}
	do(t, c, large...)
	do(t, c, "HSET", "large", "b", "1")
	for _, key := range []string{"snapshot", "stream", "payload"} {
		do(t, c, "HSET", key, "a", "1", "b", "2")
	}
	for _, key := range []string{"snapshot", "large", "payload"} {
		do(t, c, "HEXPIRE", key, "100000", "FIELDS", "1", "a")
	}
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
	p.says("has caught up")
	do(t, c, "HEXPIRE", "stream", "200000", "NX", "FIELDS", "1", "a")
	do(t, c, "RESTORE", "restored", "0", string(do(t, c, "DUMP", "payload").Text))
	set(t, c, "end", "1")
	reaches(t, d, "end", "1")
	for i, ms := range times(d) {
		if expires := i%2 == 0; expires != (ms > time.Now().UnixMilli()+farAway) {
			t.Errorf("time %d is %d", i, ms)
		}
	}
	startTool(t, t.TempDir(), verify(from, to)...).ends(0)
	p.signal(syscall.SIGINT)
	p.ends(0)
	if got, want := times(d), times(c); !slices.Equal(got, want) {
		t.Errorf("the times are %d, and not %d", got, want)
	}
}

// TestFarExpiries: times that are a thousand years away, or what else looks held, stay as they are,
// of what is moved and of what the target has.
func TestFarExpiries(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			from, to := start(t, pair.from(t)), start(t, pair.to(t))
			c, d := from.MustDial(t), to.MustDial(t)
			times := func() (all []string) {
				for _, ask := range []struct {
					at  *resp.Connection
					key string
				}{{c, "moved"}, {c, "streamed"}, {d, "moved"}, {d, "streamed"}, {d, "bystander"}, {d, "both"}} {
					all = append(all, do(t, ask.at, "PEXPIRETIME", ask.key).String())
				}
				return all
			}
			const year = "31536000000" // of ms, where seconds are meant
			likeHeld := strconv.FormatInt(6_000_000_000_000_000+time.Now().UnixMilli(), 10)
			set(t, c, "moved", "1", "streamed", "1", "both", "1")
			set(t, d, "bystander", "1", "both", "own")
			do(t, c, "EXPIRE", "moved", year)
			do(t, d, "EXPIRE", "bystander", year)
			do(t, d, "PEXPIREAT", "both", likeHeld)
			p := startTool(t, t.TempDir(), port(from, to, "--until", "forever", "--on-conflict", "skip")...)
			p.says("has caught up")
			do(t, c, "EXPIRE", "streamed", year)
			set(t, c, "end", "1")
			reaches(t, d, "end", "1")
			before := times()
			p.signal(syscall.SIGINT)
			p.ends(0)
			if after := times(); !slices.Equal(before, after) || after[0] != after[2] || after[1] != after[3] || after[5] != ":"+likeHeld {
				t.Errorf("the times were %q, and are %q", before, after)
			}
		})
	}
}

// TestFarFieldTimes is the same for fields.
func TestFarFieldTimes(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	for _, s := range []*resp.Connection{c, d} {
		do(t, s, "HSET", "hash", "a", "1", "b", "1")
		do(t, s, "HEXPIRE", "hash", "31536000000", "FIELDS", "1", "a")
	}
	do(t, d, "RENAME", "hash", "bystander")
	bystander := do(t, d, "HPEXPIRETIME", "bystander", "FIELDS", "1", "a").String()
	startTool(t, t.TempDir(), port(from, to)...).ends(0)
	if got := do(t, d, "HPEXPIRETIME", "bystander", "FIELDS", "1", "a").String(); got != bystander {
		t.Errorf("the bystander's field expires at %s, and not at %s", got, bystander)
	}
	if got, want := do(t, d, "HPEXPIRETIME", "hash", "FIELDS", "1", "a").String(), do(t, c, "HPEXPIRETIME", "hash", "FIELDS", "1", "a").String(); got != want {
		t.Errorf("the field expires at %s, and not at %s", got, want)
	}
}

// TestKeptExpiries takes everything anew and keeps a key that the source has no longer: its expiry
// is put right, too, though this attempt has held none.
func TestKeptExpiries(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "kept", "1", "EX", "1000")
	want := do(t, c, "PEXPIRETIME", "kept").String()
	directory := t.TempDir()
	line := port(from, to, "--resync", "keep")
	p := startTool(t, directory, append(line, "--until", "forever")...)
	p.says("has caught up")
	p.kill()
	from.Kill()
	restart(t, from) // with another history, and no data
	startTool(t, directory, line...).ends(0)
	if got := do(t, d, "PEXPIRETIME", "kept").String(); got != want {
		t.Errorf("the key expires at %s, and not at %s", got, want)
	}
}

// lasting are options with which a Redis that is killed comes back with what it had.
func lasting(program launch.Program) []string {
	if program.IsRedis {
		return []string{"--appendonly", "yes"}
	}
	return nil
}

// TestKill kills the tool, the target and the source, one after the other, under writes, and goes
// on.
func TestKill(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			random := seeded(t)
			source, target := pair.from(t), pair.to(t)
			from, to := start(t, source, lasting(source)...), start(t, target, lasting(target)...)
			fill(t, from, 1000)
			w := startWriters(t, from, random, 3, true)
			directory := t.TempDir()
			line := port(from, to, "--until", "forever")
			p := startTool(t, directory, line...)
			p.says("has caught up")
			for range 3 {
				w.wait(t, 1000)
				p.kill()
				p = startTool(t, directory, line...)
				p.says("going on at position")
			}
			w.wait(t, 1000)
			to.Kill()
			w.wait(t, 1000)
			to = restart(t, to)
			p.says("going on at position")
			w.wait(t, 1000)
			from.Kill()
			from = restart(t, from)
			if source.IsRedis { // begins a new history
				if output := p.ends(7); !strings.Contains(output, "no longer has its stream") {
					t.Errorf("said %s", output)
				}
				p = startTool(t, directory, append(line, "--resync", "delete")...)
				p.says("has caught up")
			} else {
				p.says("going on at position")
			}
			w.wait(t, 1000)
			w.stop()
			p.signal(syscall.SIGINT)
			p.ends(0)
			same(t, from, to)
			startTool(t, t.TempDir(), verify(from, to)...).ends(0)
		})
	}
}

// restart starts a killed server again where it was.
func restart(t *testing.T, s *launch.Server) *launch.Server {
	t.Helper()
	again, err := s.RestartInPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, again) })
	return again
}

// TestTargetGoesBack kills a Redis, which comes back with what it had on its disk, and the move
// with it.
func TestTargetGoesBack(t *testing.T) {
	random := seeded(t)
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	fill(t, from, 200)
	w := startWriters(t, from, random, 2, false)
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
	p.says("has caught up")
	w.wait(t, 1000)
	do(t, to.MustDial(t), "SAVE")
	w.wait(t, 1000)
	to.Kill()
	to = restart(t, to)
	p.says("going on at position")
	w.wait(t, 1000)
	w.stop()
	p.signal(syscall.SIGINT)
	p.ends(0)
	same(t, from, to)
}

// TestStreams moves streams with their groups and pending entries, and tells of functions, which it
// doesn't move.
func TestStreams(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustOracle(t))
	c, d := from.MustDial(t), to.MustDial(t)
	for i := range 300 {
		do(t, c, "XADD", "stream", "*", "field", strconv.Itoa(i), "other", "value")
	}
	do(t, c, "XTRIM", "stream", "MAXLEN", "250")
	do(t, c, "XGROUP", "CREATE", "stream", "group", "0")
	do(t, c, "XGROUP", "CREATE", "stream", "idle", "$")
	do(t, c, "XREADGROUP", "GROUP", "group", "reader", "COUNT", "10", "STREAMS", "stream", ">")
	do(t, c, "XREADGROUP", "GROUP", "group", "another", "COUNT", "5", "STREAMS", "stream", ">")
	do(t, c, "XADD", "empty", "1-1", "a", "b")
	do(t, c, "XDEL", "empty", "1-1")
	do(t, c, "FUNCTION", "LOAD", "#!lua name=library\nredis.register_function('f', function() return 1 end)")
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever", "--exclude", "nothing")...)
	p.says("has caught up")
	do(t, c, "XADD", "stream", "*", "live", "1") // a command that the source tells the keys of, should Kedis not know it
	do(t, c, "XACK", "stream", "group", "1-1")
	do(t, c, "SET", "end", "1")
	reaches(t, d, "end", "1")
	p.signal(syscall.SIGINT)
	if output := p.ends(0); !strings.Contains(output, "skipped: 1, libraries of functions") {
		t.Errorf("said %s", output)
	}
	same(t, from, to)
	for _, words := range [][]string{{"XINFO", "GROUPS", "stream"}, {"XPENDING", "stream", "group"}, {"XINFO", "GROUPS", "empty"}, {"XLEN", "stream"}} {
		if left, right := do(t, c, words...), do(t, d, words...); fmt.Sprint(left) != fmt.Sprint(right) {
			t.Errorf("%q: %v and %v", words, left, right)
		}
	}
}

// TestBusy has either server run a script for so long that it answers nothing else.
func TestBusy(t *testing.T) {
	from, to := start(t, launch.MustOracle(t), "--busy-reply-threshold", "1"), start(t, launch.MustOracle(t), "--busy-reply-threshold", "1")
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "key", "value")
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
	p.says("has caught up")
	for i, server := range []*launch.Server{from, to} {
		script := server.MustDial(t)
		script.Queue("EVAL", "while true do end", "0")
		if err := script.Flush(); err != nil {
			t.Fatal(err)
		}
		if server == to {
			do(t, c, "SET", "key", "while it is busy")
		}
		p.says("trying again")
		do(t, server.MustDial(t), "SCRIPT", "KILL")
		p.says("going on at")
		do(t, c, "SET", "key", strconv.Itoa(i))
		reaches(t, d, "key", strconv.Itoa(i))
	}
	p.signal(syscall.SIGINT)
	p.ends(0)
	same(t, from, to)
}
