package port

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"kedis/redis-tests/launch"
)

// startCluster starts two servers that make up a cluster: the first has the lower half of the
// slots.
func startCluster(t *testing.T) (first, second *launch.Server) {
	t.Helper()
	options := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "5000"}
	first, second = start(t, launch.MustOracle(t), options...), start(t, launch.MustOracle(t), options...)
	one, other := first.MustDial(t), second.MustDial(t)
	do(t, one, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	do(t, other, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	do(t, other, "CLUSTER", "SET-CONFIG-EPOCH", "2")
	do(t, one, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(second.Port))
	until(t, "the cluster to be whole", func() bool {
		return strings.Contains(string(do(t, one, "CLUSTER", "INFO").Text), "cluster_state:ok") &&
			strings.Contains(string(do(t, other, "CLUSTER", "INFO").Text), "cluster_state:ok") &&
			strings.Count(string(do(t, one, "CLUSTER", "NODES").Text), "connected") == 2
	})
	return first, second
}

// TestCluster moves into a cluster, under writes, is killed and goes on.
func TestCluster(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c := from.MustDial(t)
	for i := range 300 {
		n := strconv.Itoa(i)
		do(t, c, "SET", "string:"+n, n)
		do(t, c, "RPUSH", "list:"+n, n, "b")
	}
	directory := t.TempDir()
	line := port(from, first, "--until", "forever")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	for round := range 3 {
		for i := range 300 {
			n := strconv.Itoa(i)
			do(t, c, "APPEND", "string:"+n, "+")
			do(t, c, "RPUSH", "list:"+n, strconv.Itoa(round))
			do(t, c, "MULTI")
			do(t, c, "INCR", "counter:"+n)
			do(t, c, "MSET", "a:"+n, "1", "b:"+n, "2")
			do(t, c, "DEL", "a:"+n, "c:"+n)
			do(t, c, "EXEC")
			if i == 150 {
				p.kill()
				p = startTool(t, directory, line...)
			}
		}
	}
	p.says("has caught up") // before it is up, a signal would kill it
	p.signal(syscall.SIGINT)
	p.ends(0)
	if output := startTool(t, t.TempDir(), verify(from, first)...).ends(0); !strings.Contains(output, "1200 keys are the same") {
		t.Errorf("said %s", output)
	}
	for _, s := range []*launch.Server{first, second} {
		if left := do(t, s.MustDial(t), "KEYS", "kedis:*").Strings(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// TestClusterFlush goes on before a FLUSHALL that the target has, and what came behind it.
func TestClusterFlush(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, _ := startCluster(t)
	c := from.MustDial(t)
	do(t, c, "SET", "before", "1")
	directory := t.TempDir()
	line := port(from, first, "--until", "forever", "--position", "here")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	noted := filepath.Join(directory, "here")
	position, err := os.ReadFile(noted)
	if err != nil {
		t.Fatal(err)
	}
	do(t, c, "FLUSHALL")
	for i := range 50 {
		do(t, c, "SET", "key:"+strconv.Itoa(i), "1")
	}
	until(t, "the keys to be there", func() bool {
		p := startTool(t, t.TempDir(), verify(from, first)...)
		<-p.exited
		return p.command.ProcessState.ExitCode() == 0
	})
	p.kill()
	if err := os.WriteFile(noted, position, 0o600); err != nil {
		t.Fatal(err)
	}
	p = startTool(t, directory, line...)
	p.says("has caught up")
	p.signal(syscall.SIGINT)
	p.ends(0)
	if output := startTool(t, t.TempDir(), verify(from, first)...).ends(0); !strings.Contains(output, "50 keys are the same") {
		t.Errorf("said %s", output)
	}
}

// TestClusterMoved gives a slot to the other master between two writes to it.
func TestClusterMoved(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c, one, other := from.MustDial(t), first.MustDial(t), second.MustDial(t)
	do(t, c, "SET", "elsewhere", "1")
	p := startTool(t, t.TempDir(), port(from, first, "--until", "forever")...)
	p.says("has caught up")
	slot, _ := do(t, one, "CLUSTER", "KEYSLOT", "key").Integer()
	number := strconv.FormatInt(slot, 10)
	owner, heir := one, other
	if slot >= 8192 {
		owner, heir = other, one
	}
	id := string(do(t, heir, "CLUSTER", "MYID").Text)
	do(t, heir, "CLUSTER", "SETSLOT", number, "NODE", id)
	do(t, owner, "CLUSTER", "SETSLOT", number, "NODE", id)
	do(t, c, "INCR", "key")
	do(t, c, "INCR", "key")
	until(t, "the key", func() bool { return string(do(t, heir, "GET", "key").Text) == "2" })
	// Across slots there is no such thing as a RENAME.
	do(t, c, "RENAME", "key", "another")
	if output := p.ends(8); !strings.Contains(output, "in several slots") {
		t.Errorf("said %s", output)
	}
}

// TestClusterAsk moves keys of a slot that goes from one master to the other: new keys are the
// heir's already, and what has keys on both has to wait.
func TestClusterAsk(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c, one, other := from.MustDial(t), first.MustDial(t), second.MustDial(t)
	for i := range 100 {
		n := strconv.Itoa(i)
		do(t, c, "SET", "{tag}string:"+n, n)
		do(t, c, "RPUSH", "{tag}list:"+n, n, strings.Repeat("long", 100), "b")
		do(t, c, "SET", "string:"+n, n, "EX", "10000")
	}
	do(t, c, "SET", "{tag}there", "new")
	slot, _ := do(t, one, "CLUSTER", "KEYSLOT", "{tag}").Integer()
	number := strconv.FormatInt(slot, 10)
	owner, heir, heirPort := one, other, second.Port
	if slot >= 8192 {
		owner, heir, heirPort = other, one, first.Port
	}
	ownerID, heirID := string(do(t, owner, "CLUSTER", "MYID").Text), string(do(t, heir, "CLUSTER", "MYID").Text)
	do(t, owner, "SET", "{tag}there", "old")
	do(t, heir, "CLUSTER", "SETSLOT", number, "IMPORTING", ownerID)
	do(t, owner, "CLUSTER", "SETSLOT", number, "MIGRATING", heirID)

	p := startTool(t, t.TempDir(), port(from, first, "--until", "forever")...)
	p.says("has caught up")
	if n, _ := do(t, heir, "CLUSTER", "COUNTKEYSINSLOT", number).Integer(); n != 200 {
		t.Errorf("the slot has %d keys at its heir", n)
	}
	if value := string(do(t, owner, "GET", "{tag}there").Text); value != "new" {
		t.Errorf("the key that its owner had is %q", value)
	}
	do(t, c, "INCR", "{tag}string:1") // together with the note of how far the move is, which is at neither
	do(t, c, "INCR", "string:1")
	do(t, owner, "MIGRATE", "127.0.0.1", strconv.Itoa(heirPort), "{tag}there", "0", "5000")
	do(t, heir, "CLUSTER", "SETSLOT", number, "NODE", heirID)
	do(t, owner, "CLUSTER", "SETSLOT", number, "NODE", heirID)
	until(t, "the counter", func() bool { return string(do(t, heir, "GET", "{tag}string:1").Text) == "2" })
	p.signal(syscall.SIGINT)
	p.ends(0)
	if output := startTool(t, t.TempDir(), verify(from, first)...).ends(0); !strings.Contains(output, "301 keys are the same") {
		t.Errorf("said %s", output)
	}
}

// TestClusterNobodyServes has a slot that is promised to another master and never arrives there.
func TestClusterNobodyServes(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c, one, other := from.MustDial(t), first.MustDial(t), second.MustDial(t)
	directory := t.TempDir()
	line := port(from, first, "--until", "forever", "--retry-for", "100ms")
	do(t, c, "SET", "elsewhere", "1")
	p := startTool(t, directory, line...)
	p.says("has caught up")
	slot, _ := do(t, one, "CLUSTER", "KEYSLOT", "counter").Integer()
	number := strconv.FormatInt(slot, 10)
	owner, heir := one, other
	if slot >= 8192 {
		owner, heir = other, one
	}
	do(t, owner, "CLUSTER", "SETSLOT", number, "MIGRATING", string(do(t, heir, "CLUSTER", "MYID").Text))
	do(t, heir, "CLUSTER", "SETSLOT", number, "IMPORTING", string(do(t, owner, "CLUSTER", "MYID").Text))
	do(t, c, "INCR", "counter")
	if output := p.ends(5); !strings.Contains(output, "doesn't serve the key now") {
		t.Errorf("said %s", output)
	}
	do(t, owner, "CLUSTER", "SETSLOT", number, "STABLE")
	p = startTool(t, directory, line...)
	p.says("going on at position")
	until(t, "the counter", func() bool { return string(do(t, owner, "GET", "counter").Text) == "1" })
	p.signal(syscall.SIGINT)
	p.ends(0)
}

// TestClusterDatabases has keys in a database that a cluster doesn't have.
func TestClusterDatabases(t *testing.T) {
	from := start(t, launch.MustUnderTest(t))
	first, _ := startCluster(t)
	c := from.MustDial(t)
	do(t, c, "SELECT", "1")
	do(t, c, "SET", "key", "1")
	if output := startTool(t, t.TempDir(), port(from, first)...).ends(8); !strings.Contains(output, "only database 0") {
		t.Errorf("said %s", output)
	}
	startTool(t, t.TempDir(), port(from, first, "--db-map", "1:0")...).ends(0)
	startTool(t, t.TempDir(), verify(from, first, "--db-map", "1:0")...).ends(0)
}
