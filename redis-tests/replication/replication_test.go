package replication

import (
	"math/rand/v2"
	"strings"
	"testing"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/seed"
)

// seeded makes a source of chance whose seed a failure tells.
func seeded(t *testing.T) *rand.Rand {
	seed := seed.Of(t)
	return rand.New(rand.NewPCG(seed, 0))
}

// pairs are who is the primary of whom.
var pairs = []struct {
	name             string
	primary, replica func(testing.TB) launch.Program
	options          []string // of the primary
}{
	{"RedisFollowsKedis", launch.MustUnderTest, launch.MustOracle, nil},
	{"RedisFollowsKedisByFile", launch.MustUnderTest, launch.MustOracle, []string{"--repl-diskless-sync", "no"}},
	{"KedisFollowsRedis", launch.MustOracle, launch.MustUnderTest, []string{"--repl-diskless-sync-delay", "0"}},
	{"KedisFollowsRedisByFile", launch.MustOracle, launch.MustUnderTest, []string{"--repl-diskless-sync", "no"}},
	{"KedisFollowsKedis", launch.MustUnderTest, launch.MustUnderTest, nil},
}

// rounds is how often a link is cut.
func rounds() int {
	if testing.Short() {
		return 1
	}
	return 4
}

// TestStream attaches a replica to a primary with data, under writes, and cuts the link again and
// again.
func TestStream(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			random := seeded(t)
			primary := launch.ForTest(t, pair.primary(t), pair.options...)
			replica := launch.ForTest(t, pair.replica(t))
			w := newWriter(t, primary, random)
			w.write(t, 3000)
			p := newProxy(t, primary.Address)
			follow(t, replica, p.port)
			w.write(t, 2000)
			converge(t, primary, replica)
			equal(t, primary, replica)
			for range rounds() {
				w.write(t, 300)
				p.cut()
				w.write(t, 700)
			}
			converge(t, primary, replica)
			equal(t, primary, replica)
			once(t, pair.name, primary)
		})
	}
}

// once checks that there was one full synchronization: all others went on where they were.
func once(t *testing.T, name string, primary *launch.Server) {
	t.Helper()
	if info := string(do(t, primary.MustDial(t), "INFO", "stats").Text); !strings.Contains(info, "sync_full:1\r\n") {
		t.Fatalf("%s: %s", name, info)
	}
}

// TestKilledReplica kills a Kedis that follows, and finds it going on after its restart without a
// snapshot.
func TestKilledReplica(t *testing.T) {
	random := seeded(t)
	primary := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "64mb")
	replica := launch.ForTest(t, launch.MustUnderTest(t))
	w := newWriter(t, primary, random)
	w.write(t, 1000)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	for range rounds() {
		w.write(t, 1000)
		replica.Kill()
		w.write(t, 500)
		var err error
		if replica, err = replica.Restart(); err != nil {
			t.Fatal(err)
		}
		defer launch.End(t, replica)
		if reply, err := replica.MustDial(t).Do("SET", "own", "1"); err != nil || !strings.HasPrefix(string(reply.Text), "READONLY") {
			t.Fatalf("a restarted replica answers a write with %q (%v)", reply.Text, err)
		}
	}
	converge(t, primary, replica)
	equal(t, primary, replica)
	once(t, "killed replica", primary)
}

// TestKilledPrimary kills a Kedis that is followed by a Redis and by a Kedis; both go on with what
// it has after its restart.
func TestKilledPrimary(t *testing.T) {
	random := seeded(t)
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	redis, kedis := launch.ForTest(t, launch.MustOracle(t)), launch.ForTest(t, launch.MustUnderTest(t))
	p := newProxy(t, primary.Address)
	newWriter(t, primary, random).write(t, 1000)
	for _, replica := range []*launch.Server{redis, kedis} {
		follow(t, replica, p.port)
		converge(t, primary, replica)
	}
	primary.Kill()
	primary, err := primary.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, primary)
	p.redirect(primary.Address)
	newWriter(t, primary, random).write(t, 1000)
	for _, replica := range []*launch.Server{redis, kedis} {
		converge(t, primary, replica)
		equal(t, primary, replica)
	}
	if strings.Contains(primary.Output(), "a snapshot was sent") {
		t.Fatalf("a replica had to take all data:\n%s", primary.Output())
	}
}

// TestChainAndPromotion follows a Redis with a Kedis, that with a Redis; the Kedis is promoted, and
// the former primary comes back as its replica.
func TestChainAndPromotion(t *testing.T) {
	random := seeded(t)
	first := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0")
	middle := launch.ForTest(t, launch.MustUnderTest(t))
	last := launch.ForTest(t, launch.MustOracle(t))
	w := newWriter(t, first, random)
	w.write(t, 1000)
	follow(t, middle, first.Port)
	converge(t, first, middle)
	follow(t, last, middle.Port)
	w.write(t, 1000)
	converge(t, first, middle)
	converge(t, first, last)
	equal(t, first, last)

	do(t, middle.MustDial(t), "REPLICAOF", "NO", "ONE")
	w = newWriter(t, middle, random)
	w.write(t, 1000)
	converge(t, middle, last)
	equal(t, middle, last)
	if n := strings.Count(middle.Output(), "a snapshot was sent"); n != 1 {
		t.Fatalf("the replica of the promoted one had to take all data (%d snapshots):\n%s", n, middle.Output())
	}

	follow(t, first, middle.Port)
	w.write(t, 500)
	converge(t, middle, first)
	equal(t, middle, first)
}

// TestWait promotes a replica of a primary that was killed right after WAIT: all that WAIT spoke of
// is there.
func TestWait(t *testing.T) {
	random := seeded(t)
	primary := launch.ForTest(t, launch.MustUnderTest(t))
	replica := launch.ForTest(t, launch.MustUnderTest(t))
	c := primary.MustDial(t)
	if reply := do(t, c, "WAIT", "1", "10"); string(reply.Text) != "0" {
		t.Fatalf("WAIT without replicas answers %q", reply.Text)
	}
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	newWriter(t, primary, random).write(t, 2000)
	do(t, c, "SET", "last", "1")
	if reply := do(t, c, "WAIT", "1", "0"); string(reply.Text) != "1" {
		t.Fatalf("WAIT answers %q", reply.Text)
	}
	want, _ := position(t, primary)
	primary.Kill()
	do(t, replica.MustDial(t), "REPLICAOF", "NO", "ONE")
	if got, _ := position(t, replica); got < want {
		// What asks the replica for its position counts too, and is nothing that could be lost.
		const ask = int64(len("*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"))
		if want-got > ask {
			t.Fatalf("the promoted replica is at %d, and WAIT had spoken of %d", got, want)
		}
	}
	if reply := do(t, replica.MustDial(t), "GET", "last"); string(reply.Text) != "1" {
		t.Fatalf("the last write before WAIT is lost: %q", reply.Text)
	}
}

// TestDivergedHistory writes to a replica that was promoted and to its former primary: who comes
// back takes all data, and nothing of what it had remains.
func TestDivergedHistory(t *testing.T) {
	random := seeded(t)
	primary, replica := launch.ForTest(t, launch.MustUnderTest(t)), launch.ForTest(t, launch.MustUnderTest(t))
	newWriter(t, primary, random).write(t, 500)
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	do(t, replica.MustDial(t), "REPLICAOF", "NO", "ONE")
	newWriter(t, primary, random).write(t, 500)
	newWriter(t, replica, random).write(t, 500)
	follow(t, primary, replica.Port)
	converge(t, replica, primary)
	equal(t, replica, primary)
	if !strings.Contains(primary.Output(), "a full synchronization is complete") {
		t.Fatalf("two histories were taken for one:\n%s", primary.Output())
	}
	primary.Kill()
	primary, err := primary.Restart()
	if err != nil {
		t.Fatal(err)
	}
	defer launch.End(t, primary)
	converge(t, replica, primary)
	equal(t, replica, primary)
}

// TestDivergedData follows a Redis whose data become others than its replicas': BITFIELD of Redis
// 7.0 creates a key for an increment that overflows and fails, and tells nobody. When an effect
// fails because of that, all data are taken anew; a replica never goes on beside it.
func TestDivergedData(t *testing.T) {
	primary, replica := launch.ForTest(t, launch.MustOracle(t), "--repl-diskless-sync-delay", "0"), launch.ForTest(t, launch.MustUnderTest(t))
	follow(t, replica, primary.Port)
	converge(t, primary, replica)
	c := primary.MustDial(t)
	do(t, c, "BITFIELD", "bits", "OVERFLOW", "FAIL", "INCRBY", "u2", "100", "5")
	do(t, c, "RENAMENX", "bits", "renamed")
	do(t, c, "SET", "key", "behind it")
	converge(t, primary, replica)
	equal(t, primary, replica)
	if output := replica.Output(); !strings.Contains(output, "the data here are not the primary's") {
		t.Errorf("Redis told its replicas of the key: this test shows nothing\n%s", output)
	}
}
