package replication

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// info is a field of a server's INFO stats or replication.
func info(t *testing.T, s *launch.Server, field string) string {
	t.Helper()
	c, err := s.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for line := range strings.SplitSeq(string(do(t, c, "INFO", "stats", "replication").Text), "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return value
		}
	}
	return ""
}

// until waits until a field of INFO replication has a value.
func until(t *testing.T, s *launch.Server, field, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for info(t, s, field) != want {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute %s is %q and not %q", field, info(t, s, field), want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// online waits until a primary knows so many replicas to have taken their snapshots.
func online(t *testing.T, primary *launch.Server, replicas int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for i := 0; i < replicas; {
		switch {
		case strings.Contains(info(t, primary, "slave"+strconv.Itoa(i)), "state=online"):
			i++
		case time.Now().After(deadline):
			t.Fatal("after a minute the replicas are not online")
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// counter increments a key until its writes are refused, and tells how often it was told that it
// had.
type counter struct {
	wait     sync.WaitGroup
	answered int64
	err      error
}

func count(t *testing.T, s *launch.Server, key string) *counter {
	connection := s.MustDial(t)
	c := new(counter)
	c.wait.Go(func() {
		for {
			reply, err := connection.Do("INCR", key)
			if err != nil {
				c.err = err
				return
			}
			n, ok := reply.Integer()
			if !ok {
				if !strings.HasPrefix(string(reply.Text), "READONLY") {
					c.err = fmt.Errorf("INCR: %s", reply.Text)
				}
				return
			}
			c.answered = n
		}
	})
	return c
}

// TestFailover changes roles under writes: none that was answered is lost, none is done twice,
// nobody needs a snapshot, and a second replica goes on.
func TestFailover(t *testing.T) {
	kedis, redis := launch.MustUnderTest, launch.MustOracle
	for _, pair := range []struct {
		name             string
		primary, replica func(testing.TB) launch.Program
		full             string // synchronizations of the former replica, as a primary
	}{{"KedisToKedis", kedis, kedis, "0"}, {"KedisToRedis", kedis, redis, "0"}, {"RedisToKedis", redis, kedis, "0"}} {
		t.Run(pair.name, func(t *testing.T) {
			var options []string
			if primary := pair.primary(t); primary.IsRedis {
				options = []string{"--repl-diskless-sync-delay", "0"}
			}
			primary, replica := launch.ForTest(t, pair.primary(t), options...), launch.ForTest(t, pair.replica(t))
			sibling := launch.ForTest(t, kedis(t))
			newWriter(t, primary, seeded(t)).write(t, 500)
			for _, s := range []*launch.Server{replica, sibling} {
				follow(t, s, primary.Port)
				converge(t, primary, s)
			}
			online(t, primary, 2)
			counters := []*counter{count(t, primary, "a"), count(t, primary, "b"), count(t, primary, "c")}
			c := primary.MustDial(t)
			for key := byte('a'); key <= 'c'; {
				if len(do(t, c, "GET", string(key)).Text) > 1 { // it has begun to count
					key++
				}
			}
			do(t, c, "FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port))
			until(t, primary, "role", "slave")
			until(t, primary, "master_failover_state", "no-failover")
			until(t, replica, "role", "master")
			for i, counter := range counters {
				counter.wait.Wait()
				if counter.err != nil {
					t.Fatal(counter.err)
				}
				got := string(do(t, replica.MustDial(t), "GET", string(rune('a'+i))).Text)
				if got != strconv.FormatInt(counter.answered, 10) {
					t.Fatalf("counter %d is %s, and its writer was told %d", i, got, counter.answered)
				}
			}
			newWriter(t, replica, seeded(t)).write(t, 500)
			for _, s := range []*launch.Server{primary, sibling} {
				converge(t, replica, s)
				equal(t, replica, s)
			}
			if stats := string(do(t, replica.MustDial(t), "INFO", "stats").Text); !strings.Contains(stats, "sync_full:0\r\n") {
				t.Fatalf("the former primary had to take all data: %s", stats)
			}
		})
	}
}

// frozen stops a server's process until the returned function is called.
func frozen(t *testing.T, s *launch.Server) (thaw func()) {
	t.Helper()
	if err := launch.Freeze(s.ProcessID()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Kill(s.ProcessID(), syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
}

// TestFailoverThatWaits has a replica that takes nothing in: a failover waits for it while writes
// wait, and is given up when its time is over, or when it is aborted.
func TestFailoverThatWaits(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	c, writer := primary.MustDial(t), primary.MustDial(t)
	do(t, c, "SET", "k", "1")
	converge(t, primary, replica)
	online(t, primary, 1)
	defer frozen(t, replica)()
	do(t, c, "SET", "k", "2")
	port := strconv.Itoa(replica.Port)
	for _, how := range []struct {
		begin []string
		end   []string
	}{
		{[]string{"FAILOVER", "TIMEOUT", "50"}, nil},
		{[]string{"FAILOVER", "TO", "127.0.0.1", port, "TIMEOUT", "50"}, nil},
		{[]string{"FAILOVER", "TO", "127.0.0.1", port}, []string{"FAILOVER", "ABORT"}},
		{[]string{"FAILOVER", "TIMEOUT", greatest}, []string{"FAILOVER", "ABORT"}},
	} {
		held := string(do(t, c, "GET", "k").Text)
		do(t, c, how.begin...)
		writer.Queue("INCR", "k")
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
		if how.end != nil {
			if got := info(t, primary, "master_failover_state"); got != "waiting-for-sync" {
				t.Fatalf("the failover's state is %q", got)
			}
			for _, refused := range [][]string{{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}} {
				if reply, err := c.Do(refused...); err != nil || string(reply.Text) != "ERR REPLICAOF not allowed while failing over." {
					t.Fatalf("%q: %q, %v", refused, reply.Text, err)
				}
			}
			if reply, err := c.Do("FAILOVER"); err != nil || string(reply.Text) != "ERR FAILOVER already in progress." {
				t.Fatalf("another FAILOVER: %q, %v", reply.Text, err)
			}
			if reply := do(t, c, "GET", "k"); string(reply.Text) != held {
				t.Fatalf("a write was not held: %q", reply.Text)
			}
			do(t, c, "CLIENT", "UNPAUSE") // it ends what CLIENT PAUSE began, and nothing else
			if reply := do(t, c, "GET", "k"); string(reply.Text) != held {
				t.Fatalf("CLIENT UNPAUSE has let a write in: %q", reply.Text)
			}
			do(t, c, how.end...)
		}
		until(t, primary, "master_failover_state", "no-failover")
		if got := info(t, primary, "role"); got != "master" {
			t.Fatalf("after %q the server is a %s", how.begin, got)
		}
		if reply, err := writer.Read(); err != nil || reply.IsError() {
			t.Fatalf("the write that was held: %q, %v", reply.Text, err)
		}
	}
}

// TestForcedFailover hands over to a replica that has not taken in all: what it lacks is kept
// beside the data of the former primary, which has what it has.
func TestForcedFailover(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	c := primary.MustDial(t)
	do(t, c, "SET", "k", "1")
	converge(t, primary, replica)
	online(t, primary, 1)
	thaw := frozen(t, replica)
	do(t, c, "SET", "only here", strings.Repeat("x", 32<<20)) // more than is on its way to it
	do(t, c, "FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port), "FORCE", "TIMEOUT", "10")
	until(t, primary, "master_failover_state", "failover-in-progress")
	if reply, err := c.Do("PSYNC", "?", "-1"); err != nil || string(reply.Text) != "NOMASTERLINK Can't SYNC while failing over" {
		t.Fatalf("PSYNC: %q, %v", reply.Text, err)
	}
	thaw()
	until(t, replica, "role", "master")
	until(t, primary, "master_failover_state", "no-failover")
	converge(t, replica, primary)
	expect(t, c, ":0", "EXISTS", "only here")
	if _, tail := kept(t, primary); !strings.Contains(tail, `"SET" "only here"`) {
		t.Errorf("what is kept is %.1000q", tail)
	}
	do(t, replica.MustDial(t), "SET", "k", "3")
	converge(t, replica, primary)
	equal(t, replica, primary)
}

// TestFailoverToNobody aborts a failover while the server is a replica of one that doesn't answer:
// it is the primary again, with all it had, and its replica goes on when it wakes up.
func TestFailoverToNobody(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	c := primary.MustDial(t)
	do(t, c, "SET", "k", "1")
	converge(t, primary, replica)
	replica.Kill()
	do(t, c, "SET", "k", "2")
	if reply, err := c.Do("FAILOVER"); err != nil || !reply.IsError() {
		// The primary may not have noticed yet that the replica is gone.
		do(t, c, "FAILOVER", "ABORT")
	}
	replica, err := replica.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, replica)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	online(t, primary, 1)
	frozen(t, replica)
	do(t, c, "SET", "k", "3")
	do(t, c, "FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port), "FORCE", "TIMEOUT", "10")
	until(t, primary, "master_failover_state", "failover-in-progress")
	if got := info(t, primary, "role"); got != "slave" {
		t.Fatalf("the server is a %s", got)
	}
	replica.Kill()
	do(t, c, "FAILOVER", "ABORT")
	if got := info(t, primary, "role"); got != "master" {
		t.Fatalf("after the abort the server is a %s", got)
	}
	do(t, c, "SET", "l", "4")
	replica, err = replica.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, replica)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	equal(t, primary, replica)
}

// TestFailoverBack asks a server that has handed over, to one that doesn't answer, to take over
// itself: that is the end of its own failover.
func TestFailoverBack(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	c := primary.MustDial(t)
	converge(t, primary, replica)
	online(t, primary, 1)
	history := info(t, primary, "master_replid")
	frozen(t, replica)
	do(t, c, "FAILOVER", "TO", "127.0.0.1", strconv.Itoa(replica.Port), "FORCE", "TIMEOUT", "10")
	until(t, primary, "master_failover_state", "failover-in-progress")
	if _, err := primary.MustDial(t).Do("PSYNC", history, "1", "FAILOVER"); err != nil {
		t.Fatal(err)
	}
	until(t, primary, "role", "master")
	until(t, primary, "master_failover_state", "no-failover")
	expect(t, c, "+OK", "SET", "k", "1")
	expect(t, c, "-ERR No failover in progress.", "FAILOVER", "ABORT")
}

// TestRefusedFailover compares what a primary with a replica answers to FAILOVER that can't be, and
// a replica to a PSYNC that wants to make it the primary.
func TestRefusedFailover(t *testing.T) {
	var answers [2][]string
	for i, program := range []launch.Program{launch.MustOracle(t), launch.MustUnderTest(t)} {
		var options []string
		if program.IsRedis {
			options = []string{"--repl-diskless-sync-delay", "0"}
		}
		primary, replica := launch.ForTest(t, program, options...), launch.ForTest(t, program)
		follow(t, replica, primary.Port)
		converge(t, primary, replica)
		until(t, primary, "connected_slaves", "1")
		c, d := primary.MustDial(t), replica.MustDial(t)
		ask := func(c *resp.Connection, words ...string) {
			reply, err := c.Do(words...)
			if err != nil {
				t.Fatalf("%q: %v", words, err)
			}
			answers[i] = append(answers[i], fmt.Sprintf("%q: %s", words, reply.Text))
		}
		ask(c, "FAILOVER", "ABORT")
		ask(c, "FAILOVER", "FORCE")
		ask(c, "FAILOVER", "FORCE", "TIMEOUT", "10")
		ask(c, "FAILOVER", "TO", "127.0.0.1", "1")
		ask(c, "FAILOVER", "TO", "nowhere", "1", "FORCE", "TIMEOUT", "10")
		ask(c, "FAILOVER", "TO", "nowhere", "1", "FORCE")
		ask(c, "PSYNC", strings.Repeat("0", 40), "1", "FAILOVER")
		ask(d, "FAILOVER")
		ask(d, "FAILOVER", "TO", "127.0.0.1", "1")
		ask(d, "PSYNC", strings.Repeat("0", 40), "1", "FAILOVER")
		ask(d, "PSYNC", strings.Repeat("0", 40), "1", "FAILOVER", "x")
		ask(d, "WAIT", "1", "1")
		if got := info(t, primary, "role") + info(t, replica, "role"); got != "masterslave" {
			t.Fatalf("the roles are %s", got)
		}
	}
	for i, want := range answers[0] {
		if got := answers[1][i]; got != want {
			t.Errorf("Redis answers %s\nKedis answers %s", want, got)
		}
	}
}

// TestTargetThatMisbehaves fails over to a scripted replica. One that refuses leaves the server the
// primary that it was. When the answer of one that takes over is lost, the server finds out that it
// has.
func TestTargetThatMisbehaves(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	c, s := primary.MustDial(t), newFalsePrimary(t)
	do(t, c, "SET", "k", "1")
	port := strconv.Itoa(s.port)
	failOver := func() (id string) {
		t.Helper()
		replica := newReader(t, primary, "listening-port", port, "capa", "psync2", "capa", "kedis-snapshot")
		for words := []string{""}; words[0] != "REPL_SNAPSHOT_COMPLETE"; {
			var err error
			if words, err = replica.request(); err != nil {
				t.Fatal(err)
			}
			if words[0] == "REPL_SNAPSHOT_COMPLETE" {
				id = words[1]
			}
		}
		acknowledge := func() error {
			_, err := io.WriteString(replica.conn, request("REPLCONF", "ACK", info(t, primary, "master_repl_offset")))
			return err
		}
		if err := acknowledge(); err != nil {
			t.Fatal(err)
		}
		until(t, primary, "connected_slaves", "1")
		for reply, err := c.Do("FAILOVER", "TO", "127.0.0.1", port); err != nil || reply.IsError(); reply, err = c.Do("FAILOVER", "TO", "127.0.0.1", port) {
			time.Sleep(10 * time.Millisecond) // the replica is not online yet
		}
		for info(t, primary, "master_failover_state") == "waiting-for-sync" {
			if acknowledge() != nil {
				break // it has handed over, and doesn't listen any more
			}
		}
		replica.conn.Close()
		return id
	}
	asked := func(takesOver bool, words ...string) *dialogue {
		t.Helper()
		d := s.accept()
		d.expect("REPLCONF", "listening-port")
		d.send("+OK\r\n")
		d.expect("REPLCONF", "capa")
		d.send("+OK\r\n")
		if got := d.expect(words...); (len(got) == 4 && got[3] == "FAILOVER") != takesOver {
			t.Fatalf("the server asks %q", got)
		}
		return d
	}

	id := failOver()
	asked(true, "PSYNC", id).send("-ERR I would rather not\r\n")
	until(t, primary, "role", "master")
	until(t, primary, "master_failover_state", "no-failover")
	do(t, c, "SET", "k", "2")

	id = failOver()
	asked(true, "PSYNC", id).conn.Close()
	asked(true, "PSYNC", id).send("-ERR PSYNC FAILOVER can't be sent to a master.\r\n")
	d := asked(false, "PSYNC")
	until(t, primary, "master_failover_state", "no-failover")
	d.send("+CONTINUE " + otherID + "\r\n")
	until(t, primary, "master_link_status", "up")
	if got := info(t, primary, "role") + " " + info(t, primary, "master_replid"); got != "slave "+otherID {
		t.Fatalf("the server is a %s", got)
	}
}
