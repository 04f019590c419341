package chaos

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	seeds "kedis/redis-tests/seed"
)

// TestTheFurthestIsPromoted: the replica that WAIT has counted is the candidate, also when it
// hasn't come back since the primary was killed, and the one that has lies behind.
func TestTheFurthestIsPromoted(t *testing.T) {
	t.Parallel()
	kedis := launch.MustUnderTest(t)
	c, err := NewCluster(seeds.Of(t), false, func() string { return dataDirectory(t) }, []launch.Program{kedis, kedis, kedis},
		func(*rand.Rand, launch.Program) []string { return patient })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Report())
		}
	}
	must(c.converge())
	must(c.configure(patient))
	former, behind, ahead := c.members[0], c.members[1], c.members[2]
	behind.link().Slow(3_000)
	connection, err := former.dial()
	must(err)
	defer connection.Close()
	_, err = connection.Must("set", "key", strings.Repeat("takes the slow link minutes ", 30_000))
	must(err)
	reply, err := connection.Must("wait", "1", "60000")
	must(err)
	if reply.String() != ":1" {
		t.Fatalf("WAIT answers %s", reply)
	}
	must(ahead.signal(syscall.SIGSTOP))
	former.kill()
	must(c.up(former))
	now, err := former.status()
	must(err)
	for deadline := time.Now().Add(answerTimeout); ; time.Sleep(10 * time.Millisecond) {
		s, err := behind.status()
		must(err)
		if s.history() == now.history() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the slow replica doesn't come back\n%s", c.Report())
		}
	}
	former.kill()
	best, _, err := c.candidate(former, now.history())
	must(err)
	if best != ahead {
		t.Errorf("%s is the candidate\n%s", best.name, c.Report())
	}
}

// TestWhoHoldsAPart: a replica that hasn't come back since its primary was killed, once or twice,
// holds a part of what that has, unless it has gone on in the history that the primary has left.
func TestWhoHoldsAPart(t *testing.T) {
	c := &Cluster{left: map[string]int64{}}
	for _, primary := range []map[string]string{
		{"master_replid": "b", "master_replid2": "a", "second_repl_offset": "101"},
		{"master_replid": "c", "master_replid2": "b", "second_repl_offset": "201"},
		{"master_replid": "c", "master_replid2": "0", "second_repl_offset": "-1"},
	} {
		if history, left := (status{primary}).former(); left > 0 {
			c.left[history] = left
		}
	}
	for _, replica := range []struct {
		history, position string
		isPart            bool
	}{
		{"c", "300", true}, {"b", "200", true}, {"b", "201", false}, {"a", "100", true}, {"a", "101", false}, {"0", "1", false}, {"stray", "100", false},
	} {
		s := status{map[string]string{"role": "slave", "master_replid": replica.history, "slave_repl_offset": replica.position}}
		if got := c.isPart(s, "c"); got != replica.isPart {
			t.Errorf("of history %s at %s: %v", replica.history, replica.position, got)
		}
	}
}

// TestWhatIsPromised: what WAIT has said holds as long as fewer replicas have lost what they had.
func TestWhatIsPromised(t *testing.T) {
	w := NewWitness("witness", 0, new(atomic.Int64))
	w.promises = []promise{{10, 3, 3}, {20, 1, 4}, {30, 0, 4}}
	for _, one := range []struct {
		strays       int64
		lost, number int
	}{{4, 0, 20}, {4, 1, 10}, {4, 2, 0}, {5, 0, 10}, {5, 1, 0}} {
		w.strays.Store(one.strays)
		if got := w.promised(one.lost); got != one.number {
			t.Errorf("when %d have strayed, and %d have lost what they had, %d is promised, and not %d", one.strays, one.lost, got, one.number)
		}
	}
}
