package port

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// set gives a server strings: name, value, name, value …
func set(t *testing.T, c *resp.Connection, words ...string) {
	t.Helper()
	do(t, c, append([]string{"MSET"}, words...)...)
}

// expect checks the strings that a database has.
func expect(t *testing.T, s *launch.Server, database int, want map[string]string) {
	t.Helper()
	c := s.MustDial(t)
	do(t, c, "SELECT", strconv.Itoa(database))
	got := map[string]string{}
	for _, key := range do(t, c, "KEYS", "*").Strings() {
		if !strings.HasPrefix(key, "kedis:port:") {
			got[key] = string(do(t, c, "GET", key).Text)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("database %d has %v, expected %v", database, got, want)
	}
}

// until waits for something.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// reaches waits until the target has a string.
func reaches(t *testing.T, c *resp.Connection, key, value string) {
	t.Helper()
	until(t, key+" to be "+value, func() bool { return string(do(t, c, "GET", key).Text) == value })
}

// TestChoice moves some keys under other names, in the snapshot and in the stream.
func TestChoice(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	set(t, c, "user:1", "a", "user:2", "b", "user:tmp", "c", "cart:1", "d", "other", "e")
	do(t, c, "SELECT", "1")
	set(t, c, "user:1", "of 1")
	do(t, c, "SELECT", "2")
	set(t, c, "user:1", "of 2")
	do(t, d, "SELECT", "3")
	set(t, d, "mine", "x")
	p := startTool(t, t.TempDir(), port(from, to, "--db-map", "0:3,1:1", "--prefix", "user:", "--match", "c?rt:*", "--exclude", "*:tmp",
		"--rewrite-prefix", "user:=member:", "--until", "forever")...)
	p.says("has caught up")
	expect(t, to, 0, nil)
	expect(t, to, 1, map[string]string{"member:1": "of 1"})
	expect(t, to, 2, nil)
	expect(t, to, 3, map[string]string{"member:1": "a", "member:2": "b", "cart:1": "d", "mine": "x"})

	do(t, c, "SELECT", "0")
	set(t, c, "user:3", "f", "other", "g", "user:tmp", "h")
	do(t, c, "MULTI")
	do(t, c, "APPEND", "user:1", "a")
	do(t, c, "RENAME", "user:2", "user:5")
	do(t, c, "RENAME", "cart:1", "gone")
	do(t, c, "EXEC")
	do(t, c, "MOVE", "user:3", "2")
	do(t, c, "SET", "cart:2", "end")
	reaches(t, d, "cart:2", "end")
	expect(t, to, 3, map[string]string{"member:1": "aa", "member:5": "b", "mine": "x", "cart:2": "end"})
	do(t, c, "FLUSHDB") // of what was moved
	do(t, c, "SET", "cart:3", "end")
	reaches(t, d, "cart:3", "end")
	expect(t, to, 3, map[string]string{"mine": "x", "cart:3": "end"})
	startTool(t, t.TempDir(), verify(from, to, "--db-map", "0:3,1:1", "--prefix", "user:", "--match", "c?rt:*", "--exclude", "*:tmp",
		"--rewrite-prefix", "user:=member:", "--exclude", "mine")...).ends(0)

	// A value that comes from a key that is not moved can't be had.
	do(t, c, "SET", "elsewhere", "x")
	do(t, c, "RENAME", "elsewhere", "user:9")
	if output := p.ends(8); !strings.Contains(output, `"RENAME" "elsewhere" "user:9"`) {
		t.Errorf("said %s", output)
	}
}

// TestConflicts has a key on both sides.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		mode string
		code int
		want string
	}{{"replace", 0, "source+"}, {"skip", 0, "target"}, {"fail", 6, "target"}} {
		t.Run(c.mode, func(t *testing.T) {
			from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
			source, target := from.MustDial(t), to.MustDial(t)
			set(t, source, "both", "source", "one", "1")
			set(t, target, "both", "target")
			directory := t.TempDir()
			line := port(from, to, "--on-conflict", c.mode, "--until", "forever")
			p := startTool(t, directory, line...)
			if c.code == 0 {
				p.says("has caught up")
				p.kill() // the next run has to know which keys were the target's own
				p = startTool(t, directory, line...)
				p.says("going on")
				do(t, source, "APPEND", "both", "+")
				do(t, source, "SET", "one", "2")
				reaches(t, target, "one", "2")
				p.signal(syscall.SIGINT)
			}
			output := p.ends(c.code)
			if got := string(do(t, target, "GET", "both").Text); got != c.want {
				t.Errorf("the key is %q", got)
			}
			if c.mode == "skip" && !strings.Contains(output, "that the target had") {
				t.Errorf("the summary doesn't tell what was skipped: %s", output)
			}
		})
	}
}

// TestPasswords has users and passwords on both sides.
func TestPasswords(t *testing.T) {
	from, to := start(t, launch.MustOracle(t), "--requirepass", "one"), start(t, launch.MustUnderTest(t), "--requirepass", "two")
	c := from.MustDial(t)
	do(t, c, "AUTH", "one")
	do(t, c, "SET", "key", "value")
	do(t, c, "ACL", "SETUSER", "mover", "on", ">three", "~*", "+@all")
	for _, wrong := range []struct {
		code  int
		says  string
		words []string
	}{
		{5, "--to-auth", []string{"--from-auth", "one"}},
		{5, "--to-auth", []string{"--from-auth", "one", "--to-auth", "wrong"}},
		{4, "--from-auth", []string{"--to-auth", "two"}},
		{4, "--from-auth", []string{"--to-auth", "two", "--from-auth", "wrong"}},
		{4, "--from-auth", []string{"--to-auth", "two", "--from-user", "nobody", "--from-auth", "one"}},
	} {
		if output := startTool(t, t.TempDir(), port(from, to, wrong.words...)...).ends(wrong.code); !strings.Contains(output, wrong.says) {
			t.Errorf("%q: said %s", wrong.words, output)
		}
	}
	t.Setenv("KEDIS_FROM_AUTH", "one")
	t.Setenv("KEDIS_TO_AUTH", "two")
	startTool(t, t.TempDir(), port(from, to)...).ends(0)
	right := []string{"--from-user", "mover", "--from-auth", "three", "--to-user", "default", "--to-auth", "two"}
	startTool(t, t.TempDir(), port(from, to, right...)...).ends(0)
	startTool(t, t.TempDir(), verify(from, to, right...)...).ends(0)
}

// TestNoPassword has users who need none, beside a default user who may do nothing.
func TestNoPassword(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	do(t, from.MustDial(t), "SET", "key", "value")
	for _, s := range []*launch.Server{from, to} {
		c := s.MustDial(t)
		do(t, c, "ACL", "SETUSER", "mover", "on", "nopass", "~*", "&*", "+@all")
		do(t, c, "AUTH", "mover", "")
		do(t, c, "ACL", "SETUSER", "default", "-@all")
	}
	users := []string{"--from-user", "mover", "--to-user", "mover"}
	startTool(t, t.TempDir(), port(from, to, users...)...).ends(0)
	startTool(t, t.TempDir(), verify(from, to, users...)...).ends(0)
}

// TestDryRun counts and writes nothing.
func TestDryRun(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	fill(t, from, 500)
	directory := t.TempDir()
	output := startTool(t, directory, "port", "--from", from.Address, "--dry-run", "--prefix", "fill:").ends(0)
	for _, line := range []string{"string            550 keys", "list               50 keys", "all               800 keys"} {
		if !strings.Contains(output, line) {
			t.Errorf("no %q in\n%s", line, output)
		}
	}
	if left, err := os.ReadDir(directory); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestRate moves 300 keys at 400 a second: what it can't be is much faster.
func TestRate(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c := from.MustDial(t)
	for i := range 300 {
		do(t, c, "SET", "key"+strconv.Itoa(i), strings.Repeat("x", 1000))
	}
	for _, rate := range []string{"400keys", "0.4MB/s,100000keys/s"} {
		began := time.Now()
		startTool(t, t.TempDir(), port(from, to, "--rate", rate)...).ends(0)
		if took := time.Since(began); took < 600*time.Millisecond {
			t.Errorf("%s: took %v", rate, took)
		}
	}
	same(t, from, to)
}

// TestRefusals has everything that a move can't go on with; each is said clearly and has its exit
// code.
func TestRefusals(t *testing.T) {
	from := start(t, launch.MustOracle(t))
	c := from.MustDial(t)
	for i := range 100 {
		do(t, c, "SET", "key"+strconv.Itoa(i), strings.Repeat("x", 10000))
	}
	t.Run("Full", func(t *testing.T) {
		to := start(t, launch.MustOracle(t), "--maxmemory", "1500kb", "--maxmemory-policy", "noeviction")
		if output := startTool(t, t.TempDir(), port(from, to)...).ends(5); !strings.Contains(output, "is full") {
			t.Errorf("said %s", output)
		}
	})
	t.Run("Replica", func(t *testing.T) {
		to := start(t, launch.MustOracle(t))
		do(t, to.MustDial(t), "REPLICAOF", "127.0.0.1", "1")
		if output := startTool(t, t.TempDir(), port(from, to)...).ends(5); !strings.Contains(output, "is a replica") {
			t.Errorf("said %s", output)
		}
	})
	t.Run("BecomesReplica", func(t *testing.T) {
		to := start(t, launch.MustOracle(t))
		p := startTool(t, t.TempDir(), port(from, to, "--until", "forever")...)
		p.says("has caught up")
		do(t, to.MustDial(t), "REPLICAOF", "127.0.0.1", "1")
		do(t, c, "SET", "key1", "x")
		if output := p.ends(5); !strings.Contains(output, "READONLY") {
			t.Errorf("said %s", output)
		}
	})
	t.Run("NoServer", func(t *testing.T) {
		startTool(t, t.TempDir(), "port", "--from", from.Address, "--to", "127.0.0.1:1").ends(5)
		startTool(t, t.TempDir(), "port", "--from", "127.0.0.1:1", "--to", from.Address).ends(4)
	})
	t.Run("Type", func(t *testing.T) {
		do(t, c, "ZADD", "scores", "1", "a", "2", strings.Repeat("long", 100))
		to := start(t, launch.MustOracle(t), "--rename-command", "ZADD", "")
		output := startTool(t, t.TempDir(), port(from, to, "--prefix", "scores")...).ends(8)
		if !strings.Contains(output, "lacks a command") || !strings.Contains(output, `"scores"`) {
			t.Errorf("said %s", output)
		}
	})
	t.Run("Loop", func(t *testing.T) {
		if output := startTool(t, t.TempDir(), port(from, from)...).ends(2); !strings.Contains(output, "the same server") {
			t.Errorf("said %s", output)
		}
	})
	t.Run("Usage", func(t *testing.T) {
		for _, words := range [][]string{{}, {"--from", "x"}, {"--to", "x"}, {"--rate", "fast"}, {"--on-conflict", "x"}, {"--until", "x"}, {"--resync", "x"},
			{"--db", "x"}, {"--connections", "0"}, {"word"}} {
			if len(words) != 0 && words[0] != "--from" && words[0] != "--to" {
				words = append(words, "--from", from.Address, "--to", from.Address)
			}
			startTool(t, t.TempDir(), append([]string{"port"}, words...)...).ends(2)
		}
	})
	t.Run("Databases", func(t *testing.T) {
		to := start(t, launch.MustOracle(t), "--databases", "2")
		if output := startTool(t, t.TempDir(), port(from, to, "--db-map", "0:7")...).ends(5); !strings.Contains(output, "database 7") {
			t.Errorf("said %s", output)
		}
	})
}

// TestResync interrupts a move in the snapshot: what was written by then has to go, or to stay, as
// is asked for.
func TestResync(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	for i := range 200 {
		do(t, c, "SET", fmt.Sprintf("key%03d", i), "x")
	}
	do(t, d, "SET", "mine", "x")
	directory := t.TempDir()
	p := startTool(t, directory, port(from, to, "--rate", "20keys", "--on-conflict", "skip")...)
	until(t, "the first key", func() bool { n, _ := do(t, d, "DBSIZE").Integer(); return n > 2 })
	p.kill()
	do(t, c, "DEL", "key000", "key001", "key100")
	line := port(from, to, "--on-conflict", "skip")
	if output := startTool(t, directory, line...).ends(7); !strings.Contains(output, "--resync delete") {
		t.Errorf("said %s", output)
	}
	startTool(t, directory, port(from, to)...).ends(2) // other options than the move has begun with
	startTool(t, directory, append(line, "--resync", "delete")...).ends(0)
	do(t, c, "SET", "mine", "x")
	same(t, from, to)
	if left, err := filepath.Glob(filepath.Join(directory, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestKillInSnapshot kills the tool or either server in the snapshot, which has to be taken anew:
// the same command says so, and with --resync delete does so.
func TestKillInSnapshot(t *testing.T) {
	for _, pair := range pairs {
		for _, which := range []string{"Tool", "Source", "Target"} {
			t.Run(pair.name+which, func(t *testing.T) {
				t.Parallel()
				source, target := pair.from(t), pair.to(t)
				from, to := start(t, source, lasting(source)...), start(t, target, lasting(target)...)
				c, d := from.MustDial(t), to.MustDial(t)
				// Bytes that can't be compressed: with a small snapshot all of it would be in the
				// sockets before the kill.
				value := make([]byte, 100_000)
				rand.NewChaCha8([32]byte{}).Read(value)
				for i := range 200 {
					do(t, c, "SET", fmt.Sprintf("key%03d", i), string(value))
				}
				directory := t.TempDir()
				p := startTool(t, directory, port(from, to, "--rate", "20keys")...)
				until(t, "the first key", func() bool { n, _ := do(t, d, "DBSIZE").Integer(); return n > 1 })
				switch which {
				case "Tool":
					p.kill()
					p = startTool(t, directory, port(from, to)...)
				case "Source":
					from.Kill()
					from = restart(t, from)
				case "Target":
					to.Kill()
					to = restart(t, to)
				}
				if output := p.ends(7); !strings.Contains(output, "--resync delete") {
					t.Errorf("said %s", output)
				}
				do(t, from.MustDial(t), "DEL", "key000", "key001", "key100")
				startTool(t, directory, port(from, to, "--resync", "delete")...).ends(0)
				same(t, from, to)
			})
		}
	}
}

// TestResyncByItself loses the source in the snapshot, and takes it anew without being told again.
func TestResyncByItself(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	value := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(value)
	for i := range 200 {
		do(t, c, "SET", fmt.Sprintf("key%03d", i), string(value))
	}
	p := startTool(t, t.TempDir(), port(from, to, "--rate", "40keys", "--resync", "delete")...)
	until(t, "the first key", func() bool { n, _ := do(t, d, "DBSIZE").Integer(); return n > 1 })
	from.Kill()
	from = restart(t, from)
	do(t, from.MustDial(t), "DEL", "key000", "key001")
	if output := p.ends(0); !strings.Contains(output, "taking everything anew") {
		t.Errorf("said %s", output)
	}
	same(t, from, to)
}

// TestRefusedAtOnce has targets that refuse everything: nothing is left behind, and the same
// command succeeds later.
func TestRefusedAtOnce(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustOracle(t))
	d := to.MustDial(t)
	do(t, from.MustDial(t), "SET", "key", "value")
	do(t, d, "ACL", "SETUSER", "mover", "on", ">p", "~key", "+@all")
	directory := t.TempDir()
	line := port(from, to, "--to-user", "mover", "--to-auth", "p")
	refused := func(code int, says string, line []string) {
		t.Helper()
		if output := startTool(t, directory, line...).ends(code); !strings.Contains(output, says) {
			t.Errorf("said %s", output)
		}
		if left, err := filepath.Glob(filepath.Join(directory, "*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	refused(5, "NOPERM", line) // for the key that tells how far the move is
	do(t, d, "ACL", "SETUSER", "mover", "~kedis:port:*")
	do(t, d, "CONFIG", "SET", "maxmemory", "1")
	refused(5, "is full", line)
	do(t, d, "CONFIG", "SET", "maxmemory", "0")
	refused(5, "has no password", port(from, to, "--to-auth", "p"))
	startTool(t, directory, line...).ends(0)
	same(t, from, to)
}

// TestLostPosition has a source that no longer has its stream, and a target that has lost
// everything.
func TestLostPosition(t *testing.T) {
	from, to := start(t, launch.MustOracle(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	set(t, c, "a", "1", "b", "2")
	directory := t.TempDir()
	line := port(from, to, "--until", "forever")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	p.signal(syscall.SIGTERM)
	p.ends(3)
	do(t, c, "DEL", "a")
	do(t, c, "DEBUG", "CHANGE-REPL-ID")
	startTool(t, directory, line...).ends(7)
	p = startTool(t, directory, append(line, "--resync", "delete")...)
	p.says("has caught up")
	p.signal(syscall.SIGTERM)
	p.ends(3)
	do(t, d, "FLUSHALL")
	if output := startTool(t, directory, line...).ends(7); !strings.Contains(output, "has lost the key") {
		t.Errorf("said %s", output)
	}
	p = startTool(t, directory, append(line, "--resync", "keep")...)
	p.says("has caught up")
	p.signal(syscall.SIGINT)
	p.ends(0)
	same(t, from, to)
}

// TestPositionUnwritable takes the position file's directory away: no server is to blame.
func TestPositionUnwritable(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, directory := from.MustDial(t), filepath.Join(t.TempDir(), "positions")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	p := startTool(t, t.TempDir(), port(from, to, "--until", "forever", "--position", filepath.Join(directory, "p"), "--retry-for", "1s")...)
	p.says("has caught up")
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	do(t, c, "SET", "key", "value")
	if output := p.ends(1); !strings.Contains(output, "the position file") || strings.Contains(output, "trying again") {
		t.Errorf("said %s", output)
	}
}

// TestTwice runs the same command line a second time while the first one is at work.
func TestTwice(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d, directory := from.MustDial(t), to.MustDial(t), t.TempDir()
	p := startTool(t, directory, port(from, to, "--until", "forever")...)
	p.says("has caught up")
	if output := startTool(t, directory, port(from, to)...).ends(1); !strings.Contains(output, "in use by another process") {
		t.Errorf("said %s", output)
	}
	do(t, c, "INCR", "counter")
	do(t, c, "SET", "key", "end")
	reaches(t, d, "key", "end")
	expect(t, to, 0, map[string]string{"counter": "1", "key": "end"})
	p.signal(syscall.SIGINT)
	p.ends(0)
	if left, err := filepath.Glob(filepath.Join(directory, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
