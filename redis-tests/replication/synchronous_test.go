package replication

import (
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

var sentinelFailovers = flag.Int("sentinel-failovers", 1, "how often Sentinels exchange the primary")

// synchronized is a primary whose replies wait for its only replica.
func synchronized(t *testing.T, replica launch.Program, options ...string) (*launch.Server, *launch.Server) {
	t.Helper()
	primary := launch.ForTest(t, launch.MustUnderTest(t), options...)
	r := launch.ForTest(t, replica)
	follow(t, r, primary.Port)
	converge(t, primary, r)
	online(t, primary, 1)
	do(t, primary.MustDial(t), "CONFIG", "SET", "synchronous-replicas", "1")
	return primary, r
}

// sent sends a request whose reply is read later.
func sent(t *testing.T, s *launch.Server, words ...string) *resp.Connection {
	t.Helper()
	c := s.MustDial(t)
	c.Queue(words...)
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	return c
}

// answers reads the reply to what was sent.
func answers(t *testing.T, c *resp.Connection, want string) {
	t.Helper()
	reply, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.String(); got != want {
		t.Errorf("the reply is %s, expected %s", got, want)
	}
}

// TestRepliesWaitForReplicas: while the replica takes nothing in, whoever would see an
// unacknowledged write waits, and nobody else.
func TestRepliesWaitForReplicas(t *testing.T) {
	for name, program := range map[string]launch.Program{"Kedis": launch.MustUnderTest(t), "Redis": launch.MustOracle(t)} {
		t.Run(name, func(t *testing.T) {
			primary, replica := synchronized(t, program)
			c := primary.MustDial(t)
			do(t, c, "MSET", "a", "1", "other", "1")
			do(t, c, "RPUSH", "list", "1")
			listener := primary.MustDial(t)
			do(t, listener, "SUBSCRIBE", "news")
			blocked := sent(t, primary, "BLPOP", "queue", "0")
			blockedClients(t, primary, 1)
			thaw := frozen(t, replica)
			waiting := map[*resp.Connection]string{sent(t, primary, "SET", "a", "2"): "+OK"}
			asking := primary.MustDial(t)
			eventually(t, "the write", func() bool {
				return strings.Contains(string(do(t, asking, "INFO", "commandstats").Text), "cmdstat_set:calls=1,")
			})
			waiting[sent(t, primary, "EVAL", "return redis.call('get','a')", "0")] = `"2"`
			waiting[sent(t, primary, "RPUSH", "queue", "x")] = ":1"
			// Whom a message reaches is no data; the message waits.
			expect(t, primary.MustDial(t), ":1", "PUBLISH", "news", "hello")
			blockedClients(t, primary, 0)
			// Each sees what wasn't acknowledged.
			waiting[sent(t, primary, "GET", "a")] = `"2"`
			waiting[sent(t, primary, "SETNX", "a", "3")] = ":0"
			waiting[sent(t, primary, "DBSIZE")] = ":3"
			waiting[blocked] = resp.Reply{Kind: resp.Array, Elements: []resp.Reply{{Kind: resp.BulkString, Text: []byte("queue")}, {Kind: resp.BulkString, Text: []byte("x")}}}.String()
			// Others don't.
			quick := primary.MustDial(t)
			expect(t, quick, `"1"`, "GET", "other")
			expect(t, quick, "+PONG", "PING")
			expect(t, quick, `"1"`, "LINDEX", "list", "0")
			expect(t, quick, "+OK", "MULTI")
			silent(t, append(slices.Collect(maps.Keys(waiting)), listener)...)
			thaw()
			for connection, want := range waiting {
				answers(t, connection, want)
			}
			answers(t, listener, resp.Reply{Kind: resp.Array, Elements: []resp.Reply{{Kind: resp.BulkString, Text: []byte("message")},
				{Kind: resp.BulkString, Text: []byte("news")}, {Kind: resp.BulkString, Text: []byte("hello")}}}.String())
		})
	}
}

// TestAskedOnce: a Kedis that was asked for an acknowledgement is not asked again for each write, a
// Redis is.
func TestAskedOnce(t *testing.T) {
	const writes, getAck = 200, len("*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n")
	for name, program := range map[string]launch.Program{"Kedis": launch.MustUnderTest(t), "Redis": launch.MustOracle(t)} {
		t.Run(name, func(t *testing.T) {
			primary, _ := synchronized(t, program)
			c := primary.MustDial(t)
			do(t, c, "SELECT", "1")
			do(t, c, "SET", "key", "value")
			before := positionOf(t, primary)
			for range writes {
				do(t, c, "SET", "key", "value")
			}
			asked := (positionOf(t, primary) - before - writes*len("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n")) / getAck
			if often := asked > writes/2; often != (name == "Redis") {
				t.Errorf("asked %d times for %d writes", asked, writes)
			}
		})
	}
}

// positionOf is how far a server's log is.
func positionOf(t *testing.T, s *launch.Server) int {
	t.Helper()
	position, err := strconv.Atoi(info(t, s, "master_repl_offset"))
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// blockedClients waits until so many clients of a server are blocked.
func blockedClients(t *testing.T, s *launch.Server, number int) {
	t.Helper()
	c := s.MustDial(t)
	line := "blocked_clients:" + strconv.Itoa(number) + "\r\n"
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(string(do(t, c, "INFO", "clients").Text), line); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %d clients are blocked", number)
		}
	}
}

// silent checks that nothing comes to anybody for a moment.
func silent(t *testing.T, connections ...*resp.Connection) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	for _, c := range connections {
		c.SetTimeout(10 * time.Millisecond)
		if reply, err := c.Read(); err == nil {
			t.Errorf("%s came too early", reply)
		}
		c.SetTimeout(30 * time.Second)
	}
}

// wantEnded checks that a server has ended a connection: on one that it keeps an answer comes, and
// on one that it forgot nothing in time.
func wantEnded(t *testing.T, c *resp.Connection) {
	t.Helper()
	c.SetTimeout(30 * time.Second)
	reply, err := c.Do("PING")
	var wait net.Error
	if err == nil || errors.As(err, &wait) && wait.Timeout() {
		t.Errorf("the connection goes on: %s, %v", reply, err)
	}
}

// TestUnknownOutcome: a reply that isn't acknowledged in time is an error, and the connection ends.
// Without replicas nothing is written at all. A client may wait for a number of its own.
func TestUnknownOutcome(t *testing.T) {
	primary, replica := synchronized(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	do(t, c, "SET", "a", "1")
	thaw := frozen(t, replica)
	do(t, c, "CONFIG", "SET", "synchronous-timeout", "100")
	slow := sent(t, primary, "SET", "a", "2")
	answers(t, slow, "-NOREPLICAS Too few replicas have acknowledged in time. Writes that were not acknowledged may or may not last.")
	wantEnded(t, slow)
	own := primary.MustDial(t)
	expect(t, own, "+OK", "CLIENT", "REPLICAS", "0")
	expect(t, own, `"2"`, "GET", "a")
	do(t, c, "CONFIG", "SET", "synchronous-timeout", "10000")
	thaw()
	expect(t, c, `"2"`, "GET", "a")
	replica.Kill()
	until(t, primary, "connected_slaves", "0")
	expect(t, c, "-NOREPLICAS Not enough replicas are connected to acknowledge the write.", "SET", "a", "3")
	expect(t, c, `"2"`, "GET", "a")
	expect(t, c, "-ERR the number of replicas is not from 0 to 1000, nor DEFAULT", "CLIENT", "REPLICAS", "-1")
	do(t, c, "CONFIG", "SET", "synchronous-replicas", "0")
	expect(t, c, "+OK", "SET", "a", "3")
	expect(t, c, "+OK", "CLIENT", "REPLICAS", "1")
	expect(t, c, "-NOREPLICAS Not enough replicas are connected to acknowledge the write.", "SET", "a", "4")
	expect(t, c, "+OK", "CLIENT", "REPLICAS", "DEFAULT")
	expect(t, c, "+OK", "SET", "a", "4")
}

// TestOwnNumberBehindAWrite: a write waits for the number of replicas that its client had asked for
// by then, whatever the client asks for behind it in the same packet.
func TestOwnNumberBehindAWrite(t *testing.T) {
	primary, replica := synchronized(t, launch.MustUnderTest(t))
	do(t, primary.MustDial(t), "CONFIG", "SET", "synchronous-replicas", "0")
	thaw := frozen(t, replica)
	waiting := map[*resp.Connection][]string{}
	for behind, replies := range map[string][]string{
		"CLIENT REPLICAS DEFAULT":            {"+OK"},
		"CLIENT REPLICAS 0":                  {"+OK"},
		"RESET":                              {"+RESET"},
		"MULTI\r\nCLIENT REPLICAS 0\r\nEXEC": {"+OK", "+QUEUED", "[+OK]"},
	} {
		c := primary.MustDial(t)
		expect(t, c, "+OK", "CLIENT", "REPLICAS", "1")
		c.QueueRaw([]byte("SET a 1\r\n" + behind + "\r\n"))
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		waiting[c] = append([]string{"+OK"}, replies...)
	}
	silent(t, slices.Collect(maps.Keys(waiting))...)
	thaw()
	for c, replies := range waiting {
		for _, want := range replies {
			answers(t, c, want)
		}
		expect(t, c, "+OK", "SET", "a", "2")
	}
}

// TestSlowReplica: a replica that is stopped most of the time is waited for.
func TestSlowReplica(t *testing.T) {
	primary, replica := synchronized(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
	defer end() // before the server is killed, whose number may be another process's then
	go func() {
		defer close(stopped)
		for {
			_ = launch.Freeze(replica.ProcessID())
			time.Sleep(30 * time.Millisecond)
			_ = syscall.Kill(replica.ProcessID(), syscall.SIGCONT)
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	for i := range 30 {
		expect(t, c, "+OK", "SET", "a", strconv.Itoa(i))
	}
	end()
	if got := do(t, replica.MustDial(t), "GET", "a").String(); got != `"29"` {
		t.Errorf("the replica has %s", got)
	}
}

// smallDisk is a directory on a file system of 64 MB; the test is skipped where none can be
// mounted.
func smallDisk(t *testing.T) string {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		launch.Skip(t, "a tmpfs can't be mounted here (%v): a full disk isn't tested", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// TestReplicaWithoutRoom: a replica whose disk can't hold the primary's data keeps its own, and
// takes the primary's as soon as there are fewer.
func TestReplicaWithoutRoom(t *testing.T) {
	program := launch.MustUnderTest(t)
	primary := launch.ForTest(t, program)
	replica, err := program.Start(smallDisk(t), "--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, replica) })
	source, own := primary.MustDial(t), replica.MustDial(t)
	do(t, own, "SET", "own", "1")
	value, random := make([]byte, 100_000), rand.NewChaCha8([32]byte{byte(seed.Of(t))})
	for i := range 800 {
		random.Read(value)
		do(t, source, "SET", "value:"+strconv.Itoa(i), string(value))
	}
	follow(t, replica, primary.Port)
	eventually(t, "the replica tries again", func() bool {
		attempts, _ := strconv.Atoi(info(t, primary, "sync_full"))
		return attempts >= 3
	})
	expect(t, own, `"1"`, "GET", "own")
	do(t, source, "FLUSHALL")
	do(t, source, "SET", "few", "1")
	converge(t, primary, replica)
	expect(t, own, `"1"`, "GET", "few")
}

// TestReplicaWithAFullDisk: it holds up nobody beyond the time-out, and goes on when there is room.
func TestReplicaWithAFullDisk(t *testing.T) {
	disk := smallDisk(t)
	program := launch.MustUnderTest(t)
	primary := launch.ForTest(t, program)
	directory := filepath.Join(disk, "data")
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	replica, err := program.Start(directory, "--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { launch.End(t, replica) })
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	online(t, primary, 1)
	c := primary.MustDial(t)
	do(t, c, "CONFIG", "SET", "synchronous-replicas", "1")
	do(t, c, "SET", "before", "1")
	room := make([]byte, 60<<20)
	for ; len(room) > 0 && os.WriteFile(filepath.Join(disk, "filler"), room, 0o600) != nil; room = room[1<<20:] {
	}
	do(t, c, "CONFIG", "SET", "synchronous-timeout", "1000")
	value, refused := strings.Repeat("v", 100_000), 0
	for range 200 {
		writer := primary.MustDial(t)
		reply, err := writer.Do("SET", "a", value)
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if !reply.IsError() {
			continue
		}
		if !strings.HasPrefix(reply.String(), "-NOREPLICAS ") {
			t.Fatalf("a write is answered %s", reply)
		}
		refused++
		expect(t, c, `"1"`, "GET", "before")
		if refused == 3 {
			break
		}
	}
	if refused == 0 {
		t.Error("the disk never was full")
	}
	logs(t, replica, "no space left on device")
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		writer := primary.MustDial(t)
		reply, err := writer.Do("SET", "a", "after")
		if err == nil && !reply.IsError() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with room again a write is answered %s, %v", reply, err)
		}
	}
}

// TestLoweredWhileWaiting: replies and messages that wait for a replica leave when none is waited
// for any more.
func TestLoweredWhileWaiting(t *testing.T) {
	primary, replica := synchronized(t, launch.MustUnderTest(t))
	listener, admin := primary.MustDial(t), primary.MustDial(t)
	do(t, listener, "SUBSCRIBE", "news")
	defer frozen(t, replica)()
	publisher := sent(t, primary, "PUBLISH", "news", "hello")
	silent(t, listener)
	do(t, admin, "CONFIG", "SET", "synchronous-replicas", "0")
	answers(t, publisher, ":1")
	answers(t, listener, resp.Reply{Kind: resp.Array, Elements: []resp.Reply{{Kind: resp.BulkString, Text: []byte("message")},
		{Kind: resp.BulkString, Text: []byte("news")}, {Kind: resp.BulkString, Text: []byte("hello")}}}.String())
}

// TestOtherNumberWhileWaiting: replies that wait are judged by the number of replicas that is asked
// for by then.
func TestOtherNumberWhileWaiting(t *testing.T) {
	primary, first := synchronized(t, launch.MustUnderTest(t))
	second := launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, second, primary.Port)
	converge(t, primary, second)
	online(t, primary, 2)
	admin := primary.MustDial(t)
	thawFirst, thawSecond := frozen(t, first), frozen(t, second)
	waiting := sent(t, primary, "SET", "a", "1")
	silent(t, waiting)
	do(t, admin, "CONFIG", "SET", "synchronous-replicas", "2")
	thawFirst()
	silent(t, waiting)
	thawSecond()
	answers(t, waiting, "+OK")

	thawSecond = frozen(t, second)
	defer thawSecond()
	waiting = sent(t, primary, "SET", "a", "2")
	silent(t, waiting)
	do(t, admin, "CONFIG", "SET", "synchronous-replicas", "1")
	answers(t, waiting, "+OK")
}

// TestDeposedWhileWaiting: replies that wait when the server becomes a replica are errors.
func TestDeposedWhileWaiting(t *testing.T) {
	primary, replica := synchronized(t, launch.MustUnderTest(t))
	defer frozen(t, replica)()
	waiting := sent(t, primary, "SET", "a", "2")
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(string(do(t, primary.MustDial(t), "CLIENT", "LIST").Text), "cmd=set"); {
		if time.Now().After(deadline) {
			t.Fatal("the write doesn't come")
		}
	}
	do(t, primary.MustDial(t), "REPLICAOF", "127.0.0.1", "1")
	answers(t, waiting, "-NOREPLICAS Too few replicas have acknowledged in time. Writes that were not acknowledged may or may not last.")
}

// TestTailIsKept: what a former primary has written and its new primary hasn't got is kept as a
// log.
func TestTailIsKept(t *testing.T) {
	program := launch.MustUnderTest(t)
	p := part(t, program, program)
	do(t, p.former.MustDial(t), "SET", "only here", "1")
	do(t, p.former.MustDial(t), "RPUSH", "list", "of the former")
	follow(t, p.former, p.promoted.Port)
	converge(t, p.promoted, p.former)
	equal(t, p.promoted, p.former)
	directory, output := kept(t, p.former)
	if !strings.Contains(output, `"SET" "only here" "1"`) {
		t.Errorf("the log's end is %q", output)
	}
	if strings.Count(output, "\n") > 4 {
		t.Errorf("more is told to be new than was: %q", output)
	}
	// The new primary can have it, too, behind what it has.
	d := p.promoted.MustDial(t)
	for name, flags := range map[string][]string{"import": {"import", directory, "--to"}, "port": {"port", "--from", directory, "--to"}} {
		do(t, d, "DEL", "only here", "list")
		do(t, d, "RPUSH", "list", "of both")
		moved, err := exec.Command(program.Line[0], append(flags, p.promoted.Address, "--on-conflict", "replace")...).CombinedOutput()
		if got := do(t, d, "GET", "only here").String(); err != nil || got != `"1"` {
			t.Errorf("after %s the key is %s: %v: %s", name, got, err, moved)
		}
		if got := do(t, d, "LRANGE", "list", "0", "-1").Strings(); !slices.Equal(got, []string{"of both", "of the former"}) {
			t.Errorf("after %s the list is %q", name, got)
		}
	}
	former, err := func() (*launch.Server, error) { p.former.Kill(); return p.former.Restart() }()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, former)
	if _, err := os.Stat(directory); err != nil {
		t.Errorf("a start has removed it: %v", err)
	}
}

// TestSentinelsVerdict: a primary that authenticated Sentinels call replaced follows by itself, and
// one that others speak of, or that was detached, doesn't. Sentinels are played.
func TestSentinelsVerdict(t *testing.T) {
	program := launch.MustUnderTest(t)
	primary := launch.ForTest(t, program, "--sentinel-quorum", "2", "--sentinel-user", "sentinel", "--requirepass", "secret")
	other := launch.ForTest(t, program)
	admin := primary.MustDial(t)
	do(t, admin, "AUTH", "secret")
	do(t, admin, "ACL", "SETUSER", "sentinel", "on", ">watch", "+publish", "allchannels")
	hello := func(c *resp.Connection, sentinel string, port int, epoch int64) {
		t.Helper()
		do(t, c, "PUBLISH", "__sentinel__:hello", strings.Join([]string{"127.0.0.1", "26379", sentinel, "7", "it", "127.0.0.1", strconv.Itoa(port), strconv.FormatInt(epoch, 10)}, ","))
	}
	one, two := primary.MustDial(t), primary.MustDial(t)
	for _, c := range []*resp.Connection{one, two} {
		do(t, c, "AUTH", "sentinel", "watch")
	}
	hello(one, "a", primary.Port, 3)
	hello(one, "a", other.Port, 3) // not higher
	hello(two, "b", other.Port, 3)
	hello(admin, "c", other.Port, 4) // not a Sentinel
	hello(admin, "d", other.Port, 4)
	hello(one, "a", other.Port, 4)
	hello(one, "b", other.Port, 4) // the same client
	hello(one, "a", other.Port, 5)
	hello(two, "a", other.Port, 5) // the same Sentinel
	role := func() string { return do(t, admin, "ROLE").Strings()[0] }
	if got := role(); got != "master" || strings.Contains(primary.Output(), "Sentinels have made another server the primary") {
		t.Fatalf("the server is a %s", got)
	}
	hello(one, "b", other.Port, 5)
	for deadline := time.Now().Add(30 * time.Second); role() != "slave"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server doesn't follow")
		}
	}
	do(t, admin, "REPLICAOF", "NO", "ONE") // detached: the epoch is known
	hello(one, "a", other.Port, 5)
	hello(two, "b", other.Port, 5)
	if err := primary.Shutdown(); err != nil { // which waits for what Sentinels have set off
		t.Fatal(err)
	}
	if followed := strings.Count(primary.Output(), "Sentinels have made another server the primary"); followed != 1 {
		t.Errorf("the server has followed %d times", followed)
	}
	again, err := primary.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, again)
	admin = again.MustDial(t)
	do(t, admin, "AUTH", "secret")
	if got := role(); got != "master" {
		t.Errorf("the detached server is a %s", got)
	}
	if text, err := os.ReadFile(filepath.Join(again.Directory, "sentinel-epoch")); err != nil || string(text) != "5\n" {
		t.Errorf("the epoch is %q, %v", text, err)
	}
}

// TestSentinelFailoversOfIdleData has Sentinels exchange the primary again and again. Those that
// were replaced follow on what they hear, and no failover costs a snapshot.
func TestSentinelFailoversOfIdleData(t *testing.T) {
	if testing.Short() {
		t.Skip("each failover takes seconds")
	}
	w := watch(t, launch.MustUnderTest(t), 3, "--sentinel-quorum", "2", "--sentinel-user", "sentinel")
	for range *sentinelFailovers {
		primary, full := w.current(), w.snapshotsSent()
		for _, s := range w.sentinels {
			w.eventually("the Sentinels know both replicas", func() bool { return w.primary(s)["num-slaves"] == "2" && w.primary(s)["flags"] == "master" })
		}
		w.eventually("Sentinel takes the order", func() bool {
			reply, err := w.sentinels[0].MustDial(t).Do("SENTINEL", "FAILOVER", "it")
			if err != nil {
				t.Fatal(err)
			}
			return !reply.IsError()
		})
		elected := w.elected(primary)
		for _, s := range w.servers {
			if s != elected {
				converge(t, elected, s)
				equal(t, elected, s)
			}
		}
		if now := w.snapshotsSent(); now != full {
			t.Errorf("%d snapshots were sent", now-full)
		}
		if !strings.Contains(primary.Output(), "Sentinels have made another server the primary") {
			t.Error("the replaced primary waited for REPLICAOF")
		}
	}
}

func (w *watched) snapshotsSent() (sum int) {
	for _, s := range w.servers {
		full, _ := syncs(w.t, s)
		sum += full
	}
	return sum
}

// current is the primary as the first Sentinel knows it.
func (w *watched) current() *launch.Server {
	port := w.primary(w.sentinels[0])["port"]
	at := slices.IndexFunc(w.servers, func(s *launch.Server) bool { return strconv.Itoa(s.Port) == port })
	if at < 0 {
		w.t.Fatalf("the Sentinels' primary is on port %s", port)
	}
	return w.servers[at]
}
