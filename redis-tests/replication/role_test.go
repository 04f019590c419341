package replication

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// bothPrograms are Redis and Kedis, in this order.
func bothPrograms(t *testing.T) []launch.Program {
	return []launch.Program{launch.MustOracle(t), launch.MustUnderTest(t)}
}

// transcript is what a server was asked and has answered, without what differs from run to run.
type transcript struct {
	t     *testing.T
	lines []string
	ports map[string]string // of the servers, and how they are called
}

var numbers = regexp.MustCompile(`:\d{5}\b`)

func (r *transcript) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for port, name := range r.ports {
		text = strings.ReplaceAll(text, port, name)
	}
	r.lines = append(r.lines, numbers.ReplaceAllString(text, ":PORT"))
}

func (r *transcript) ask(c *resp.Connection, words ...string) {
	r.t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		r.t.Fatalf("%q: %v", words, err)
	}
	r.note("%s -> %s", resp.Line(words), reply)
}

// compare finds where two servers differ.
func compare(t *testing.T, redis, kedis *transcript) {
	t.Helper()
	for i, want := range redis.lines {
		if i >= len(kedis.lines) || kedis.lines[i] != want {
			t.Errorf("Redis: %s\nKedis: %s", want, kedis.lines[min(i, len(kedis.lines)-1)])
		}
	}
}

// fields are the words of a line of CLIENT LIST that have these names.
func fields(list []byte, names ...string) (found []string) {
	for word := range strings.FieldsSeq(string(list)) {
		if name, _, _ := strings.Cut(word, "="); slices.Contains(names, name) {
			found = append(found, word)
		}
	}
	return found
}

// TestRolesAsRedis takes a primary with a password and a replica through what operators and clients
// see of replication, and compares it with Redis.
func TestRolesAsRedis(t *testing.T) {
	var transcripts []*transcript
	for _, program := range bothPrograms(t) {
		var options []string
		if program.IsRedis {
			options = []string{"--repl-diskless-sync-delay", "0"}
		}
		primary := launch.ForTest(t, program, append(options, "--requirepass", "pw")...)
		replica := launch.ForTest(t, program, "--replica-announce-ip", "10.9.8.7", "--replica-announce-port", "9999", "--replica-priority", "42")
		r := &transcript{t: t, ports: map[string]string{strconv.Itoa(primary.Port): "PRIMARY", strconv.Itoa(replica.Port): "REPLICA"}}
		transcripts = append(transcripts, r)
		p, q := primary.MustDial(t), replica.MustDial(t)
		do(t, p, "AUTH", "pw")
		do(t, p, "SET", "a", "1")
		r.handshake(primary, replica, p, q)
		r.connections(replica, p, q)
		r.tooFewReplicas(p)
		r.orders(q, primary.Port)
		queued := r.queue(replica)
		primary.Kill()
		r.withoutPrimary(replica, q, queued)
		r.places(q)
	}
	compare(t, transcripts[0], transcripts[1])
}

// handshake follows without the password, with a wrong one and with the right one.
func (r *transcript) handshake(primary, replica *launch.Server, p, q *resp.Connection) {
	r.t.Helper()
	r.ask(q, "CONFIG", "SET", "masterauth", "wrong")
	r.ask(q, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	until(r.t, replica, "role", "slave")
	r.ask(q, "GET", "a")
	r.note("link %s", info(r.t, replica, "master_link_status"))
	r.ask(q, "CONFIG", "SET", "masterauth", "pw")
	until(r.t, replica, "master_link_status", "up")
	r.ask(q, "GET", "a")
	r.ask(q, "SET", "a", "2")
	role := do(r.t, q, "ROLE")
	r.note("role %s %s %s %s", role.Elements[0].Text, role.Elements[1].Text, role.Elements[2].Text, role.Elements[3].Text)
	eventually(r.t, "the primary tells of its replica", func() bool {
		role = do(r.t, p, "ROLE")
		return len(role.Elements[2].Elements) > 0
	})
	r.note("role %s, %s %s", role.Elements[0].Text, role.Elements[2].Elements[0].Elements[0].Text, role.Elements[2].Elements[0].Elements[1].Text)
	for _, field := range []string{"role", "master_host", "master_port", "master_sync_in_progress", "slave_priority", "slave_read_only",
		"replica_announced", "connected_slaves", "master_failover_state"} {
		r.note("%s %s", field, info(r.t, replica, field))
	}
	r.ask(q, "CONFIG", "SET", "replica-priority", "7")
	r.note("priority %s", info(r.t, replica, "slave_priority"))
}

// connections looks at both ends of the link among the clients, and closes them.
func (r *transcript) connections(replica *launch.Server, p, q *resp.Connection) {
	r.t.Helper()
	r.note("%s", fields(do(r.t, p, "CLIENT", "LIST", "TYPE", "replica").Text, "flags", "user"))
	r.note("%s", fields(do(r.t, q, "CLIENT", "LIST", "TYPE", "master").Text, "flags", "user", "db"))
	r.note("%s", fields(do(r.t, q, "CLIENT", "LIST", "TYPE", "replica").Text, "flags"))
	r.ask(q, "CLIENT", "KILL", "TYPE", "replica")
	r.ask(q, "CLIENT", "KILL", "TYPE", "pubsub")
	r.relinked(p, func() { r.ask(q, "CLIENT", "KILL", "TYPE", "master") })
	r.relinked(p, func() { r.ask(p, "CLIENT", "KILL", "TYPE", "slave") })
	do(r.t, q, "CLIENT", "KILL", "USER", "default") // how many those are is a matter of time
	// The link may have been up only because the replica had not noticed that it was cut.
	list := fields(do(r.t, q, "CLIENT", "LIST", "TYPE", "master").Text, "flags")
	for deadline := time.Now().Add(30 * time.Second); len(list) == 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		list = fields(do(r.t, q, "CLIENT", "LIST", "TYPE", "master").Text, "flags")
	}
	r.note("%s", list)
}

// relinked cuts the link and waits until the replica has come back to its primary.
func (r *transcript) relinked(p *resp.Connection, cut func()) {
	r.t.Helper()
	resumed := func() string {
		_, after, _ := strings.Cut(string(do(r.t, p, "INFO", "stats").Text), "sync_partial_ok:")
		count, _, _ := strings.Cut(after, "\r\n")
		return count
	}
	before := resumed()
	cut()
	for deadline := time.Now().Add(30 * time.Second); resumed() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatal("the link was cut, and the replica doesn't come back")
		}
	}
}

func (r *transcript) tooFewReplicas(p *resp.Connection) {
	r.t.Helper()
	r.ask(p, "CONFIG", "SET", "min-replicas-to-write", "2")
	for _, words := range [][]string{{"SET", "a", "1"}, {"INCR", "a"}, {"GET", "a"}, {"PUBLISH", "c", "m"}, {"FLUSHALL"}, {"NOSUCH"}, {"SET"}, {"PFCOUNT", "h"},
		{"MULTI"}, {"GET", "a"}, {"SET", "a", "1"}, {"EXEC"}, {"MULTI"}, {"GET", "a"}, {"EXEC"}} {
		r.ask(p, words...)
	}
	r.ask(p, "CONFIG", "SET", "min-replicas-max-lag", "0")
	r.ask(p, "SET", "a", "1")
	r.ask(p, "CONFIG", "SET", "min-replicas-max-lag", "10", "min-replicas-to-write", "0")
	r.ask(p, "SET", "a", "1")
}

// orders are commands to a replica that it refuses, or that change nothing.
func (r *transcript) orders(q *resp.Connection, primary int) {
	r.t.Helper()
	for _, words := range [][]string{
		{"REPLICAOF", "127.0.0.1", strconv.Itoa(primary)}, {"SLAVEOF", "127.0.0.1", strconv.Itoa(primary)}, {"REPLICAOF", "127.0.0.1", "x"},
		{"REPLICAOF", "127.0.0.1", "99999"}, {"REPLICAOF", "127.0.0.1", "-1"}, {"REPLICAOF", "127.0.0.1"}, {"REPLICAOF", "no", "two"},
		{"WAIT", "0", "0"}, {"CONFIG", "GET", "replicaof"}, {"CONFIG", "SET", "replicaof", "127.0.0.1 1"},
		{"MULTI"}, {"SET", "a", "1"}, {"EXEC"}, {"FLUSHALL"}, {"PFCOUNT", "h"}, {"EXPIRE", "a", "1"}, {"GETDEL", "a"}, {"SORT", "l", "STORE", "m"},
		{"SORT", "l"}, {"SET", "a"}} {
		r.ask(q, words...)
	}
}

// queue begins transactions on connections of their own.
func (r *transcript) queue(replica *launch.Server) (queued []*resp.Connection) {
	r.t.Helper()
	for _, commands := range [][][]string{{{"GET", "a"}}, {{"PING"}}, {{"PUBLISH", "c", "m"}}, {{"PUBLISH", "c", "m"}, {"PFCOUNT", "h"}}, {{"ECHO", "a"}}, {},
		{{"CONFIG", "SET", "replica-serve-stale-data", "yes"}, {"GET", "a"}}} {
		c := replica.MustDial(r.t)
		r.ask(c, "MULTI")
		for _, words := range commands {
			r.ask(c, words...)
		}
		queued = append(queued, c)
	}
	return queued
}

// places are those of primaries that can't be, or where none is.
func (r *transcript) places(q *resp.Connection) {
	r.t.Helper()
	for _, name := range []string{"REPLICAOF", "SLAVEOF"} {
		for _, port := range []string{"0", "-0", "-1", "65535", "65536", " 1", "1 ", "+1", "01", "", "abc", "1.0", "99999999999999999999", "0x10"} {
			r.ask(q, name, "localhost", port)
			r.ask(q, name, "LocalHost", port)
			r.ask(q, "CONFIG", "GET", "replicaof")
			r.ask(q, "REPLICAOF", "NO", "ONE")
		}
	}
	for _, words := range [][]string{{"no", "0"}, {"one", "no"}, {"no", "on"}, {"nO", "oNe"}, {`a"b`, "1"}, {`'`, "0"}, {"\\", "1"}, {"#", "1"}, {"\xff", "1"}} {
		r.ask(q, "REPLICAOF", words[0], words[1])
		r.ask(q, "CONFIG", "GET", "replicaof")
		r.ask(q, "REPLICAOF", "NO", "ONE")
	}
}

// withoutPrimary asks a replica that has lost its primary and may not answer with what is old, and
// promotes it.
func (r *transcript) withoutPrimary(replica *launch.Server, q *resp.Connection, queued []*resp.Connection) {
	r.t.Helper()
	until(r.t, replica, "master_link_status", "down")
	r.ask(q, "GET", "a")
	r.ask(q, "CONFIG", "SET", "replica-serve-stale-data", "no")
	for _, c := range queued {
		r.ask(c, "EXEC")
		r.ask(c, "EXEC")
		r.ask(c, "PING")
	}
	for _, words := range [][]string{{"GET", "a"}, {"SET", "a", "1"}, {"PING"}, {"ECHO", "a"}, {"SELECT", "1"}, {"SELECT", "0"}, {"PUBLISH", "c", "m"}, {"DBSIZE"},
		{"KEYS", "*"}, {"CLIENT", "SETNAME", "a"}, {"CONFIG", "GET", "port"}, {"WAIT", "0", "0"}, {"REPLCONF", "a", "b"}, {"FLUSHALL"}, {"MEMORY", "USAGE", "a"},
		{"OBJECT", "FREQ", "a"}, {"WATCH", "a"}, {"UNWATCH"}, {"DISCARD"}, {"MULTI"}, {"PING"}, {"EXEC"}, {"MULTI"}, {"GET", "a"}, {"EXEC"}, {"FAILOVER"},
		{"SCAN", "0"}, {"TYPE", "a"}, {"DUMP", "a"}, {"PUBSUB", "CHANNELS"}, {"SCRIPT", "KILL"}, {"NOSUCH"}, {"GET"}, {"LASTSAVE", "x"}, {"SLOWLOG", "RESET"},
		{"PSYNC", "?", "-1"}, {"SYNC"}} {
		r.ask(q, words...)
	}
	r.ask(q, "REPLICAOF", "NO", "ONE")
	r.ask(q, "GET", "a")
	r.ask(q, "SET", "a", "2")
	r.ask(q, "REPLICAOF", "NO", "ONE")
	r.note("role %s", info(r.t, replica, "role"))
}

// TestHostsThatAreNone: Redis takes these, and never connects.
func TestHostsThatAreNone(t *testing.T) {
	c := launch.ForTest(t, launch.MustUnderTest(t)).MustDial(t)
	for _, host := range []string{"", "two words", "line\n", "\v", "no\u00a0break", "\u2003"} {
		if reply, err := c.Do("REPLICAOF", host, "6379"); err != nil || reply.String() != "-ERR Invalid master host" {
			t.Errorf("REPLICAOF %q: %s, %v", host, reply, err)
		}
	}
}

// TestConfiguredRole has a replica by its configuration file, which CONFIG REWRITE keeps up to
// date. What was set last wins after a crash, whatever the file said before.
func TestConfiguredRole(t *testing.T) {
	program := launch.MustUnderTest(t)
	first, second := launch.ForTest(t, program), launch.ForTest(t, program)
	directory := t.TempDir()
	file := filepath.Join(directory, "kedis.conf")
	write(t, file, fmt.Sprintf("slaveof 127.0.0.1 %d\n", first.Port))
	program.Line = append(slices.Clone(program.Line), file)
	replica, err := program.Start(directory)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, replica) }()
	converge(t, first, replica)
	set := func(words ...string) { do(t, replica.MustDial(t), words...) }
	restarted := func(want *launch.Server) {
		t.Helper()
		replica.Kill()
		if replica, err = replica.Restart(); err != nil {
			t.Fatal(err)
		}
		if want != nil {
			until(t, replica, "master_port", strconv.Itoa(want.Port))
		} else if role := info(t, replica, "role"); role != "master" {
			t.Fatalf("the server is a %s", role)
		}
	}
	line := func(want string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := regexp.MustCompile(`(?m)^(slaveof|replicaof).*$`).FindString(string(text)); got != want {
			t.Fatalf("the file says %q, not %q", got, want)
		}
	}
	restarted(first)
	set("REPLICAOF", "127.0.0.1", strconv.Itoa(second.Port))
	restarted(second)
	set("CONFIG", "REWRITE")
	line(fmt.Sprintf("replicaof 127.0.0.1 %d", second.Port))
	restarted(second)
	set("REPLICAOF", "127.0.0.1", strconv.Itoa(first.Port))
	set("CONFIG", "REWRITE")
	set("REPLICAOF", "127.0.0.1", strconv.Itoa(second.Port))
	restarted(second)
	set("REPLICAOF", "NO", "ONE")
	restarted(nil)
	set("CONFIG", "REWRITE")
	line("")
	restarted(nil)
	write(t, file, fmt.Sprintf("replicaof 127.0.0.1 %d\n", first.Port))
	restarted(first)
}

// TestRoleBesideAFlag: what was set at run time wins over a flag of every start, though the file is
// written anew meanwhile.
func TestRoleBesideAFlag(t *testing.T) {
	program := launch.MustUnderTest(t)
	first := launch.ForTest(t, program)
	directory := t.TempDir()
	file := filepath.Join(directory, "kedis.conf")
	write(t, file, "hz 10\n")
	program.Line = append(slices.Clone(program.Line), file)
	server, err := program.Start(directory, "--replicaof", fmt.Sprintf("127.0.0.1 %d", first.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { launch.End(t, server) }()
	converge(t, first, server)
	c := server.MustDial(t)
	do(t, c, "REPLICAOF", "NO", "ONE")
	do(t, c, "CONFIG", "REWRITE")
	server.Kill()
	if server, err = server.Restart(); err != nil {
		t.Fatal(err)
	}
	if role := info(t, server, "role"); role != "master" {
		t.Errorf("the server is a %s", role)
	}
}

// TestLongerThanClientsMayWrite: what a replica lets its own clients write bounds nothing that its
// primary has.
func TestLongerThanClientsMayWrite(t *testing.T) {
	for name, program := range map[string]launch.Program{"Kedis": launch.MustUnderTest(t), "Redis": launch.MustOracle(t)} {
		t.Run(name, func(t *testing.T) {
			primary := launch.ForTest(t, program)
			replica := launch.ForTest(t, launch.MustUnderTest(t), "--proto-max-bulk-len", "1mb")
			c := primary.MustDial(t)
			large := strings.Repeat("x", 3<<20)
			do(t, c, "SET", "string", large)
			do(t, c, "HSET", "hash", "field", large)
			do(t, c, "RPUSH", "list", large, "b")
			do(t, replica.MustDial(t), "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
			converge(t, primary, replica)
			equal(t, primary, replica)
			copies := info(t, primary, "sync_full")
			do(t, c, "APPEND", "string", large)
			converge(t, primary, replica)
			equal(t, primary, replica)
			if now := info(t, primary, "sync_full"); now != copies {
				t.Errorf("the replica has taken all data %s times, and %s before: it didn't take the APPEND", now, copies)
			}
		})
	}
}

// TestUserOfPrimary follows a Redis as a user that may do nothing else.
func TestUserOfPrimary(t *testing.T) {
	primary := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0")
	c := primary.MustDial(t)
	do(t, c, "ACL", "SETUSER", "copier", "on", ">pw", "+psync", "+replconf", "+ping")
	do(t, c, "ACL", "SETUSER", "default", "off")
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masteruser", "copier", "--masterauth", "wrong")
	follow(t, replica, primary.Port)
	time.Sleep(100 * time.Millisecond)
	if got := info(t, replica, "master_link_status"); got != "down" {
		t.Fatalf("with a wrong password the link is %s", got)
	}
	do(t, replica.MustDial(t), "CONFIG", "SET", "masterauth", "pw")
	until(t, replica, "master_link_status", "up")
}

// TestSync attaches as replicas did before PSYNC.
func TestSync(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	do(t, c, "SET", "a", "1")
	d := newDialogue(t, dial(t, primary))
	d.send("SYNC\r\n")
	header, err := d.reader.ReadString('\n')
	for err == nil && header == "\n" {
		header, err = d.reader.ReadString('\n')
	}
	length, failed := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(header, "$"), "\r\n"))
	if err != nil || failed != nil {
		t.Fatalf("a snapshot begins with %q (%v)", header, err)
	}
	file := make([]byte, length)
	if _, err := io.ReadFull(d.reader, file); err != nil || !strings.HasPrefix(string(file), "REDIS0010") {
		t.Fatalf("the snapshot begins with %.20q (%v)", file, err)
	}
	do(t, c, "SELECT", "2")
	do(t, c, "SET", "b", "2")
	d.expect("SELECT", "2")
	d.expect("SET", "b", "2")
	until(t, primary, "connected_slaves", "1")
}

// TestScriptOutlivesRole has a primary become a replica while a script runs that has written: the
// script ends as it would have.
func TestScriptOutlivesRole(t *testing.T) {
	server := launch.ForTest(t, launch.MustUnderTest(t))
	c, writer := server.MustDial(t), server.MustDial(t)
	begin := func() {
		script := "redis.call('set', KEYS[1], '1') for i = 1, 200000000 do local x = i * i end return redis.call('set', KEYS[2], '1')"
		writer.Queue("EVAL", script, "2", "first", "last")
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	eventually(t, "a script that has written", func() bool {
		reply, err := c.Do("SCRIPT", "KILL")
		if err != nil {
			t.Fatal(err)
		}
		if reply.Is("OK") { // it had not written yet
			if _, err := writer.Read(); err != nil {
				t.Fatal(err)
			}
			begin()
		}
		return strings.HasPrefix(reply.String(), "-UNKILLABLE")
	})
	do(t, c, "REPLICAOF", "127.0.0.1", "1")
	if reply, err := writer.Read(); err != nil || !reply.Is("OK") {
		t.Fatalf("the script was answered %v, %v", reply, err)
	}
	if n, _ := do(t, c, "EXISTS", "first", "last").Integer(); n != 2 {
		t.Fatalf("of two keys there are %d", n)
	}
}

// TestGoodReplicasAreCountedAtOnce: a write is taken as soon as the replica is known to be online,
// and no longer than it is connected.
func TestGoodReplicasAreCountedAtOnce(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	expect(t, c, "+OK", "CONFIG", "SET", "min-replicas-to-write", "1")
	const refused = "-NOREPLICAS Not enough good replicas to write."
	expect(t, c, refused, "SET", "a", "1")
	for range 3 {
		follow(t, replica, primary.Port)
		online(t, primary, 1)
		expect(t, c, "+OK", "SET", "a", "1")
		expect(t, replica.MustDial(t), "+OK", "REPLICAOF", "NO", "ONE")
		until(t, primary, "connected_slaves", "0")
		expect(t, c, refused, "SET", "a", "1")
	}
	follow(t, replica, primary.Port)
	online(t, primary, 1)
	expect(t, c, "+OK", "CONFIG", "SET", "min-replicas-max-lag", "1")
	defer frozen(t, replica)()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		reply, err := c.Do("SET", "a", "1")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("writes are taken though the replica says nothing: %v", err)
		}
		if reply.IsError() {
			break
		}
	}
	expect(t, c, "+OK", "CONFIG", "SET", "min-replicas-max-lag", "1000")
	expect(t, c, "+OK", "SET", "a", "1")
}
