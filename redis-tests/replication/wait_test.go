package replication

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

// expect asks a server, and compares the reply as text.
func expect(t *testing.T, c *resp.Connection, want string, words ...string) {
	t.Helper()
	reply, err := c.Do(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	if got := reply.String(); got != want {
		t.Errorf("%q: %s, expected %s", words, got, want)
	}
}

func pair(here, replicas int) string {
	return resp.Reply{Kind: resp.Array, Elements: []resp.Reply{
		{Kind: resp.Integer, Text: []byte(strconv.Itoa(here))}, {Kind: resp.Integer, Text: []byte(strconv.Itoa(replicas))}}}.String()
}

// TestWaitAOF has a replica that tells what is on its disk, and, of Redis 7.0, one that doesn't.
// The replies are those of Redis 7.2's documentation and of its tests (tests/unit/wait.tcl).
func TestWaitAOF(t *testing.T) {
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	at := []string{"--replicaof", "127.0.0.1 " + strconv.Itoa(primary.Port)}
	replica := launch.ForTest(t, launch.MustUnderTest(t), at...)
	launch.ForTest(t, launch.MustOracle(t), at...)
	online(t, primary, 2)
	c := primary.MustDial(t)

	for words, want := range map[[3]string]string{
		{"2", "0", "0"}:  "-ERR value is out of range, value must between 0 and 1",
		{"-1", "0", "0"}: "-ERR value is out of range, value must between 0 and 1",
		{"x", "0", "0"}:  "-ERR value is not an integer or out of range",
		{"1", "-1", "0"}: "-ERR value is out of range, must be positive",
		{"1", "x", "0"}:  "-ERR value is out of range, must be positive",
		{"1", "0", "-1"}: "-ERR timeout is negative",
		{"1", "0", "x"}:  "-ERR timeout is not an integer or out of range",
	} {
		reply, err := c.Do("WAITAOF", words[0], words[1], words[2])
		if err != nil || "-"+string(reply.Text) != want {
			t.Errorf("%v: %s, %v", words, reply, err)
		}
	}
	reply, err := replica.MustDial(t).Do("WAITAOF", "0", "0", "0")
	if err != nil || string(reply.Text) != "ERR WAITAOF cannot be used with replica instances. "+
		"Please also note that writes to replicas are just local and are not propagated." {
		t.Errorf("%s, %v", reply, err)
	}

	do(t, c, "INCR", "n")
	expect(t, c, pair(1, 1), "WAITAOF", "1", "1", "0")
	expect(t, c, pair(1, 1), "WAITAOF", "0", "2", "100") // there is none but this one that tells
	do(t, c, "CONFIG", "SET", "appendfsync", "no")
	do(t, c, "INCR", "n")
	expect(t, c, pair(0, 1), "WAITAOF", "0", "1", "0")
	expect(t, c, pair(0, 1), "WAITAOF", "1", "0", "50")
	expect(t, primary.MustDial(t), pair(1, 2), "WAITAOF", "1", "0", "0") // it hasn't written
	do(t, c, "CONFIG", "SET", "appendfsync", "always")
	do(t, c, "INCR", "n")
	expect(t, c, pair(1, 1), "WAITAOF", "1", "1", "0")
}

// untilBlocked waits until so many clients wait in blocking commands.
func untilBlocked(t *testing.T, c *resp.Connection, clients int) {
	t.Helper()
	want := fmt.Sprintf("blocked_clients:%d\r\n", clients)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(string(do(t, c, "INFO", "clients").Text), want); {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute there is no %q", want)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestUnblocked ends the waiting of WAIT, as CLIENT UNBLOCK and a change of roles do in Redis.
func TestUnblocked(t *testing.T) {
	for _, program := range bothPrograms(t) {
		server := launch.ForTest(t, program)
		c := server.MustDial(t)
		wait := func() (*resp.Connection, string) {
			blocked := server.MustDial(t)
			id := string(do(t, blocked, "CLIENT", "ID").Text)
			do(t, blocked, "SET", "k", "1")
			blocked.Queue("WAIT", "3", "0")
			if err := blocked.Flush(); err != nil {
				t.Fatal(err)
			}
			untilBlocked(t, c, 1)
			return blocked, id
		}
		ends := func(blocked *resp.Connection, want string) {
			t.Helper()
			reply, err := blocked.Read()
			if err != nil || string(reply.Text) != want {
				t.Errorf("Redis %v: %s, %v; expected %s", program.IsRedis, reply, err, want)
			}
			untilBlocked(t, c, 0)
		}
		blocked, id := wait()
		if flags := fields(do(t, c, "CLIENT", "LIST", "ID", id).Text, "flags"); len(flags) != 1 || flags[0] != "flags=b" {
			t.Errorf("Redis %v: %s", program.IsRedis, flags)
		}
		expect(t, c, ":1", "CLIENT", "UNBLOCK", id)
		ends(blocked, "0")
		expect(t, c, ":0", "CLIENT", "UNBLOCK", id)
		blocked, id = wait()
		expect(t, c, ":1", "CLIENT", "UNBLOCK", id, "ERROR")
		ends(blocked, "UNBLOCKED client unblocked via CLIENT UNBLOCK")
		blocked, _ = wait()
		do(t, c, "REPLICAOF", "127.0.0.1", "1")
		ends(blocked, "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
		wantEnded(t, blocked)
	}
}

// TestUnblockedByAnotherPrimary ends the waiting of a replica's client when it is to follow another
// primary, and not when the link to its own is lost and taken up again.
func TestUnblockedByAnotherPrimary(t *testing.T) {
	for _, program := range bothPrograms(t) {
		primary, replica := launch.ForTest(t, program), launch.ForTest(t, program)
		c, d := primary.MustDial(t), replica.MustDial(t)
		do(t, c, "XADD", "s", "1-1", "f", "v")
		follow(t, replica, primary.Port)
		converge(t, primary, replica)
		blocked := replica.MustDial(t)
		wait := func() {
			blocked.Queue("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
			if err := blocked.Flush(); err != nil {
				t.Fatal(err)
			}
			untilBlocked(t, d, 1)
		}
		wait()
		expect(t, c, ":1", "CLIENT", "KILL", "TYPE", "replica")
		do(t, c, "XADD", "s", "2-1", "f", "v")
		converge(t, primary, replica)
		if reply, err := blocked.Read(); err != nil || !strings.Contains(reply.String(), "2-1") {
			t.Fatalf("Redis %v: when the link is taken up again: %s, %v", program.IsRedis, reply, err)
		}
		wait()
		do(t, d, "REPLICAOF", "127.0.0.1", "1")
		reply, err := blocked.Read()
		if want := "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"; err != nil || string(reply.Text) != want {
			t.Errorf("Redis %v: %s, %v", program.IsRedis, reply, err)
		}
		wantEnded(t, blocked)
	}
}

// TestWaitCoversWhatIsCommittedAside freezes a replica that has everything, and writes with
// commands that commit on their own: WAIT must not say that the replica has that.
func TestWaitCoversWhatIsCommittedAside(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	target := launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	online(t, primary, 1)
	do(t, primary.MustDial(t), "MSET", "one", "1", "two", "2", "prefix:three", "3")
	for _, words := range [][]string{
		{"MIGRATE", "127.0.0.1", strconv.Itoa(target.Port), "one", "0", "60000"},
		{"MIGRATE", "127.0.0.1", strconv.Itoa(target.Port), "", "0", "60000", "KEYS", "two", "none"},
		{"MIGRATE", "127.0.0.1", strconv.Itoa(target.Port), "prefix:", "0", "60000", "USE_PREFIX"},
		{"DEBUG", "POPULATE", "2"},
	} {
		converge(t, primary, replica)
		c := primary.MustDial(t)
		thaw := frozen(t, replica)
		expect(t, c, "+OK", words...)
		expect(t, c, ":0", "WAIT", "1", "50")
		thaw()
		expect(t, c, ":1", "WAIT", "1", "0")
	}
}
