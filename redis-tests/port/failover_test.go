package port

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
)

// TestFailover moves from a primary, and goes on from a replica that was promoted in its place. Of
// one that was promoted without what some keys of the target have, everything has to be taken anew.
func TestFailover(t *testing.T) {
	for name, program := range map[string]launch.Program{"Redis": launch.MustOracle(t), "Kedis": launch.MustUnderTest(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("whole", func(t *testing.T) { failOver(t, program, false) })
			t.Run("without its end", func(t *testing.T) { failOver(t, program, true) })
		})
	}
}

func failOver(t *testing.T, program launch.Program, lost bool) {
	primary, replica, to := start(t, program), start(t, program), start(t, launch.MustUnderTest(t))
	c, r, d := primary.MustDial(t), replica.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "before", "1")
	do(t, r, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	reaches(t, r, "before", "1")
	directory := t.TempDir()
	position := filepath.Join(directory, "position")
	line := port(primary, to, "--position", position)
	p := startTool(t, directory, append(line, "--until", "forever")...)
	p.says("has caught up")
	do(t, c, "SET", "noted", "1")
	reaches(t, r, "noted", "1")
	reaches(t, d, "noted", "1")
	marker := do(t, d, "KEYS", "kedis:port:*").Strings()[0]
	behind := string(do(t, d, "HGET", marker, "0").Text)
	if lost {
		do(t, r, "REPLICAOF", "NO", "ONE")
	}
	for i := range 20 {
		do(t, c, "SET", "key:"+strconv.Itoa(i), "former")
	}
	reaches(t, d, "key:19", "former")
	p.kill()
	if !lost {
		reaches(t, r, "key:19", "former")
		do(t, r, "REPLICAOF", "NO", "ONE")
	}
	// The tool may just have noted that all lanes are there. One is put back, as if it had not.
	do(t, d, "HSET", marker, "0", behind)
	for i := range 20 {
		do(t, r, "SET", "key:"+strconv.Itoa(i), "new")
	}

	state, err := os.ReadFile(position)
	if err != nil {
		t.Fatal(err)
	}
	promoted(t, position, state, primary, replica)
	line = port(replica, to, "--position", position)
	if lost {
		if output := startTool(t, directory, line...).ends(7); !strings.Contains(output, "in a failover") {
			t.Errorf("said %s", output)
		}
		line = append(line, "--resync", "delete")
	}
	output := startTool(t, directory, line...).ends(0)
	if !lost && !strings.Contains(output, "going on at position") {
		t.Errorf("said %s", output)
	}
	same(t, replica, to)
}

// promoted has a move that was at some state go on from the replica of its source.
func promoted(t *testing.T, position string, state []byte, primary, replica *launch.Server) {
	t.Helper()
	if err := os.WriteFile(position, bytes.ReplaceAll(state, []byte(primary.Address), []byte(replica.Address)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestClusterStartsOver has a cluster with some of what its source has lost in a failover, and an
// attempt to take everything anew that fails when the notes of how far the target was are gone.
func TestClusterStartsOver(t *testing.T) {
	primary, replica := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	first, second := startCluster(t)
	c, r := primary.MustDial(t), replica.MustDial(t)
	do(t, c, "SET", "{tag}before", "1")
	do(t, r, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	reaches(t, r, "{tag}before", "1")
	holder := first.MustDial(t)
	if slot, _ := do(t, holder, "CLUSTER", "KEYSLOT", "{tag}").Integer(); slot >= 8192 {
		holder = second.MustDial(t)
	}
	rights := func(words ...string) {
		for _, server := range []*launch.Server{first, second} {
			do(t, server.MustDial(t), append([]string{"ACL", "SETUSER", "mover"}, words...)...)
		}
	}
	rights("on", "nopass", "~*", "&*", "+@all")
	directory := t.TempDir()
	position := filepath.Join(directory, "position")
	more := []string{"--position", position, "--to-user", "mover"}
	p := startTool(t, directory, port(primary, first, append(more, "--until", "forever")...)...)
	p.says("has caught up")
	state, err := os.ReadFile(position)
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "REPLICAOF", "NO", "ONE")
	do(t, c, "SET", "{tag}lost", "1")
	reaches(t, holder, "{tag}lost", "1")
	p.kill()
	promoted(t, position, state, primary, replica)

	rights("resetkeys", "~kedis:port:*", "%R~*")
	line := port(replica, first, append(more, "--resync", "delete")...)
	if output := startTool(t, directory, line...).ends(5); !strings.Contains(output, "in a failover: taking everything anew") {
		t.Errorf("said %s", output)
	}
	rights("resetkeys", "~*")
	startTool(t, directory, line...).ends(0)
	if output := startTool(t, directory, verify(replica, first)...).ends(0); !strings.Contains(output, "1 keys are the same") {
		t.Errorf("said %s", output)
	}
}

// TestFlushIsLost has a target without keys that its source has again, since a FLUSHDB was lost in
// a failover. The target's note of how far it is tells nothing of what is removed key by key.
func TestFlushIsLost(t *testing.T) {
	primary, replica, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, r, d := primary.MustDial(t), replica.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "chosen", "1")
	do(t, r, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	reaches(t, r, "chosen", "1")
	directory := t.TempDir()
	position := filepath.Join(directory, "position")
	more := []string{"--position", position, "--prefix", "chosen"}
	p := startTool(t, directory, port(primary, to, append(more, "--until", "forever")...)...)
	p.says("has caught up")
	do(t, r, "REPLICAOF", "NO", "ONE")
	marker := do(t, d, "KEYS", "kedis:port:*").Strings()[0]
	behind := string(do(t, d, "HGET", marker, "0").Text)
	do(t, c, "MULTI")
	do(t, c, "FLUSHDB")
	do(t, c, "SET", "other", "1")
	do(t, c, "EXEC")
	until(t, "the key to be gone", func() bool { return do(t, d, "EXISTS", "chosen").String() == ":0" })
	p.kill()
	do(t, d, "HSET", marker, "0", behind, "1", behind, "2", behind, "3", behind) // as it was until the next note
	state, err := os.ReadFile(position)
	if err != nil {
		t.Fatal(err)
	}
	promoted(t, position, state, primary, replica)
	line := port(replica, to, more...)
	if output := startTool(t, directory, line...).ends(7); !strings.Contains(output, "in a failover") {
		t.Errorf("said %s", output)
	}
	startTool(t, directory, append(line, "--resync", "keep")...).ends(0)
	reaches(t, d, "chosen", "1")
}

// TestLibraryIsLost has a cluster with a library of functions that its source has lost in a
// failover.
func TestLibraryIsLost(t *testing.T) {
	primary, replica := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	first, _ := startCluster(t)
	c, r, d := primary.MustDial(t), replica.MustDial(t), first.MustDial(t)
	do(t, c, "SET", "before", "1")
	do(t, r, "REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port))
	reaches(t, r, "before", "1")
	directory := t.TempDir()
	position := filepath.Join(directory, "position")
	p := startTool(t, directory, port(primary, first, "--position", position, "--until", "forever")...)
	p.says("has caught up")
	do(t, r, "REPLICAOF", "NO", "ONE")
	offset := regexp.MustCompile(`"offset": \d+`)
	noted, err := os.ReadFile(position)
	if err != nil {
		t.Fatal(err)
	}
	do(t, c, "FUNCTION", "LOAD", library("lost", "lost", "return 1"))
	until(t, "the library", func() bool { return len(do(t, d, "FUNCTION", "LIST").Elements) > 0 })
	p.kill()
	state, err := os.ReadFile(position)
	if err != nil {
		t.Fatal(err)
	}
	// The tool may have noted since that it has come further.
	promoted(t, position, offset.ReplaceAll(state, offset.Find(noted)), primary, replica)
	line := port(replica, first, "--position", position)
	if output := startTool(t, directory, line...).ends(7); !strings.Contains(output, "in a failover") {
		t.Errorf("said %s", output)
	}
	startTool(t, directory, append(line, "--resync", "delete")...).ends(0)
	if left := do(t, d, "FUNCTION", "LIST").Elements; len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSourceRestartedTwice goes on from a Kedis whose history has changed twice, and that has lost
// nothing of what some keys of the target have.
func TestSourceRestartedTwice(t *testing.T) {
	from, to := start(t, launch.MustUnderTest(t)), start(t, launch.MustUnderTest(t))
	c, d := from.MustDial(t), to.MustDial(t)
	do(t, c, "SET", "before", "1")
	directory := t.TempDir()
	p := startTool(t, directory, port(from, to, "--until", "forever")...)
	p.says("has caught up")
	marker := do(t, d, "KEYS", "kedis:port:*").Strings()[0]
	behind := string(do(t, d, "HGET", marker, "0").Text)
	for i := range 20 {
		do(t, c, "SET", "key:"+strconv.Itoa(i), "1")
	}
	reaches(t, d, "key:19", "1")
	p.kill()
	// As if the tool had not noted yet that all lanes are there.
	do(t, d, "HSET", marker, "0", behind)
	for range 2 {
		if err := from.Shutdown(); err != nil {
			t.Fatal(err)
		}
		from = restart(t, from)
	}
	do(t, from.MustDial(t), "SET", "last", "1")
	if output := startTool(t, directory, port(from, to)...).ends(0); !strings.Contains(output, "going on at position") {
		t.Errorf("said %s", output)
	}
	if got := string(do(t, d, "GET", "last").Text); got != "1" {
		t.Errorf("what was written last is %q", got)
	}
}
