package replication

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"kedis/redis-tests/launch"
)

// withKeys starts a primary with so many keys of a kilobyte.
func withKeys(t *testing.T, keys int) *launch.Server {
	t.Helper()
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	do(t, primary.MustDial(t), "DEBUG", "POPULATE", strconv.Itoa(keys), "key", "1024")
	return primary
}

// TestPromotedWhileAdopting makes a replica a primary as soon as it shows the data of a full
// synchronization, writes to it, and kills it: all data and the write are there.
func TestPromotedWhileAdopting(t *testing.T) {
	const keys = 30000
	primary := withKeys(t, keys)
	for range rounds() {
		replica := launch.ForTest(t, launch.MustUnderTest(t), "--appendfsync", "always")
		c := replica.MustDial(t)
		follow(t, replica, primary.Port)
		for deadline := time.Now().Add(time.Minute); string(do(t, c, "DBSIZE").Text) != strconv.Itoa(keys); {
			if time.Now().After(deadline) {
				t.Fatal("the data never came")
			}
		}
		do(t, c, "REPLICAOF", "NO", "ONE")
		do(t, c, "SET", "own", "1")
		replica.Kill()
		restarted, err := replica.Restart()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { launch.End(t, restarted) })
		c = restarted.MustDial(t)
		expect(t, c, `"1"`, "GET", "own")
		expect(t, c, fmt.Sprintf(":%d", keys+1), "DBSIZE")
		restarted.Kill()
	}
}

// TestReloadWhileLoading has a replica read its data anew in the midst of a full synchronization,
// which goes on behind it, as a Redis does.
func TestReloadWhileLoading(t *testing.T) {
	s := newFalsePrimary(t)
	replica := launch.ForTest(t, launch.MustUnderTest(t), "--masterauth", "secret")
	c := replica.MustDial(t)
	do(t, c, "SET", "old", "1")
	follow(t, replica, s.port)
	d := s.accept()
	d.reach(stepPsync)
	body := rdbFile("\xfe\x00"+rdbString("new", "1")+rdbString("old", "2"), noChecksum)
	d.send(fmt.Sprintf("+FULLRESYNC %s 5000\r\n$%d\r\n", otherID, len(body)))
	sent := 0
	for _, upTo := range []int{11, 20, len(body) - 9, len(body) - 1} {
		d.send(body[sent:upTo])
		sent = upTo
		until(t, replica, "master_sync_read_bytes", strconv.Itoa(sent))
		expect(t, c, "+OK", "DEBUG", "RELOAD")
		expect(t, c, `"1"`, "GET", "old")
	}
	d.send(body[sent:])
	d.expect("REPLCONF", "ACK", "5000")
	expect(t, c, `["1" "2"]`, "MGET", "new", "old")
	expect(t, c, "+OK", "DEBUG", "RELOAD")
	expect(t, c, `["1" "2"]`, "MGET", "new", "old")
}

// TestReloadsWhileLoading has a replica read its data anew again and again while it takes a large
// snapshot.
func TestReloadsWhileLoading(t *testing.T) {
	primary := withKeys(t, 30000)
	replica := launch.ForTest(t, launch.MustUnderTest(t))
	c := replica.MustDial(t)
	follow(t, replica, primary.Port)
	for deadline := time.Now().Add(time.Minute); info(t, replica, "master_link_status") != "up"; {
		expect(t, c, "+OK", "DEBUG", "RELOAD")
		if time.Now().After(deadline) {
			t.Fatal("the data never came")
		}
	}
	converge(t, primary, replica)
	expect(t, c, do(t, primary.MustDial(t), "DEBUG", "DIGEST").String(), "DEBUG", "DIGEST")
	if got := info(t, primary, "sync_full"); got != "1" {
		t.Errorf("%s snapshots were sent", got)
	}
}
