package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// ownFields are those that Redis doesn't have.
var ownFields = []string{"master_sync_keys", "master_sync_total_keys", "snapshot0"}

// fieldNames are the fields of INFO replication, in their order, and what stands in those that
// don't differ from run to run.
func fieldNames(t *testing.T, s *launch.Server) (names []string) {
	t.Helper()
	telling := []string{"role", "connected_slaves", "master_link_status", "master_sync_in_progress", "master_sync_total_bytes", "master_sync_read_bytes",
		"master_sync_left_bytes", "master_sync_perc", "slave_priority", "slave_read_only", "replica_announced", "master_failover_state"}
	for line := range strings.SplitSeq(string(do(t, s.MustDial(t), "INFO", "replication").Text), "\r\n") {
		name, _, _ := strings.Cut(line, ":")
		switch {
		case slices.Contains(ownFields, name):
		case slices.Contains(telling, name):
			names = append(names, line)
		default:
			names = append(names, name)
		}
	}
	return names
}

// half shakes hands with a replica and sends it half a snapshot.
func (d *dialogue) half(length, sent int) {
	d.t.Helper()
	for {
		words, err := d.request()
		if err != nil {
			d.t.Fatal(err)
		}
		switch strings.ToUpper(words[0]) {
		case "PING":
			d.send("+PONG\r\n")
		case "PSYNC":
			body := rdbFile("\xfe\x00"+strings.Repeat(rdbString("new", "1"), length), noChecksum)
			d.send(fmt.Sprintf("+FULLRESYNC %s 5000\r\n$%d\r\n%s", otherID, length, body[:sent]))
			return
		default:
			d.send("+OK\r\n")
		}
	}
}

// TestInfoAsRedis compares INFO replication of a primary and of a replica in all states, and what
// the connection of a replica is in CLIENT LIST.
func TestInfoAsRedis(t *testing.T) {
	var seen [2]map[string][]string
	for i, program := range bothPrograms(t) {
		seen[i] = map[string][]string{}
		note := func(state string, s *launch.Server) { seen[i][state] = fieldNames(t, s) }
		var options []string
		if program.IsRedis {
			options = []string{"--repl-diskless-sync-delay", "0"}
		}
		primary, replica := launch.ForTest(t, program, options...), launch.ForTest(t, program)
		note("primary alone", primary)
		do(t, primary.MustDial(t), "CONFIG", "SET", "min-replicas-to-write", "1")
		follow(t, replica, primary.Port)
		converge(t, primary, replica)
		online(t, primary, 1)
		c := primary.MustDial(t)
		connection := func() []string {
			return fields(do(t, c, "CLIENT", "LIST", "TYPE", "replica").Text, "flags", "cmd", "user", "db", "resp", "events", "idle")
		}
		for deadline := time.Now().Add(30 * time.Second); !slices.Contains(connection(), "cmd=replconf") && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(1500 * time.Millisecond) // a replica speaks once a second
		seen[i]["a replica's connection"] = slices.DeleteFunc(connection(), func(word string) bool { return word == "idle=0" || word == "idle=1" })
		note("primary", primary)
		note("replica", replica)
		primary.Kill()
		until(t, replica, "master_link_status", "down")
		note("replica without primary", replica)
		s := newFalsePrimary(t)
		follow(t, replica, s.port)
		d := s.accept()
		note("replica in its handshake", replica)
		d.half(10_000, 5000)
		until(t, replica, "master_sync_read_bytes", "5000")
		note("replica with half a snapshot", replica)
		do(t, replica.MustDial(t), "REPLICAOF", "NO", "ONE")
		note("promoted", replica)
	}
	for state, want := range seen[0] {
		if got := seen[1][state]; !slices.Equal(got, want) {
			t.Errorf("%s:\nRedis %q\nKedis %q", state, want, got)
		}
	}
}
