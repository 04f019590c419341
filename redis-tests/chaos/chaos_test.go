package chaos

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	seeds "kedis/redis-tests/seed"
)

var (
	minutes = flag.Float64("minutes", 0, "how long each test goes on; 0 is the short form")
	seed    = flag.Uint64("seed", 0, "what load and faults are made from; 0 is chosen as in other tests")
)

// shortRounds are what the short form has of rounds, and how long each is.
const (
	shortRounds   = 2
	shortDuration = 1500 * time.Millisecond
)

func seeded(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = seeds.Of(t)
	}
	t.Logf("seed %d", s)
	return rand.New(rand.NewPCG(s, uint64(len(t.Name()))))
}

var redisOptions = []string{"--repl-diskless-sync-delay", "0", "--repl-backlog-size", "128mb"}

// lastingOptions are for a Kedis that keeps enough of its log for whoever was away.
var lastingOptions = [][]string{
	nil,
	nil,
	// Everything goes to RocksDB at once, and collections move between their encodings all the
	// time.
	{"--generation-bytes", "1kb", "--memory-tier", "1mb", "--clean-cache-share", "1%", "--rocksdb-write-buffer-size", "1mb", "--rocksdb-block-cache", "1mb",
		"--binlog-segment-size", "1mb", "--persist-log-size", "1mb", "--persist-interval", "1s", "--hz", "100",
		"--hash-max-listpack-entries", "4", "--set-max-intset-entries", "4", "--set-max-listpack-entries", "4", "--zset-max-listpack-entries", "4",
		"--list-max-listpack-size", "4"},
	{"--appendfsync", "always", "--repl-diskless-sync", "no"},
}

// forgetfulOptions are for one whose log is short: replicas that were away need all data.
var forgetfulOptions = [][]string{
	{"--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb", "--persist-log-size", "1mb", "--persist-interval", "1s", "--replica-log-limit", "4mb"},
}

// trusting are options with which a Redis that knows that fields expire never takes all data anew
// to show it.
func trusting(options [][]string) (list [][]string) {
	for _, some := range options {
		list = append(list, slices.Concat(some, []string{"--replica-field-expiry", "trust"}))
	}
	return list
}

// topology is who is there, and who follows whom.
type topology struct {
	programs []launch.Program // the first is the primary
	chained  bool
	options  [][]string // that each Kedis may have
}

func (p topology) draw(r *rand.Rand, program launch.Program) []string {
	if program.IsRedis {
		return slices.Concat(timing, redisOptions)
	}
	return slices.Concat(timing, p.options[r.IntN(len(p.options))])
}

// dataDirectory makes a directory for a member, which stays when the test fails: the report names
// it.
func dataDirectory(t *testing.T) string {
	path, err := os.MkdirTemp("", "kedis-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// run makes rounds until the time is over.
func run(t *testing.T, p topology, round func(c *Cluster, duration time.Duration) error) {
	random := seeded(t)
	c, err := NewCluster(random.Uint64(), p.chained, func() string { return dataDirectory(t) }, p.programs, p.draw)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.converge()
	end := time.Now().Add(time.Duration(*minutes * float64(time.Minute)))
	for err == nil && (*minutes == 0 && c.round < shortRounds || *minutes > 0 && time.Now().Before(end)) {
		duration := shortDuration
		if *minutes > 0 {
			duration = time.Duration(500+random.IntN(8000)) * time.Millisecond
		}
		err = round(c, duration)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, c.Report())
	}
	if c.testified == 0 {
		t.Error("no witness was ever answered")
	}
	t.Logf("%d rounds, %d requests answered, %d changes of the primary, over which %d promises of WAIT were kept; all were equal after %v at most",
		c.round, c.requests, c.changes, c.promised, c.slowest.Round(time.Millisecond))
}

func TestChaos(t *testing.T) {
	kedis, redis := launch.MustUnderTest(t), launch.MustOracle(t)
	run(t, topology{[]launch.Program{kedis, kedis, kedis, redis}, false, slices.Concat(lastingOptions, forgetfulOptions)}, (*Cluster).Round)
}

// TestChaosOfFieldTimes is TestChaos without a Redis, since 7.0 doesn't know that fields of hashes
// expire. The others have them in their load when KEDIS_ORACLE names a newer one.
func TestChaosOfFieldTimes(t *testing.T) {
	kedis := launch.MustUnderTest(t)
	run(t, topology{[]launch.Program{kedis, kedis, kedis}, false, slices.Concat(lastingOptions, forgetfulOptions)}, (*Cluster).Round)
}

// TestKedisAndRedis lets Kedis and Redis follow each other, in both directions and in a chain.
// After a cut link they go on where they are.
func TestKedisAndRedis(t *testing.T) {
	kedis, redis := launch.MustUnderTest(t), launch.MustOracle(t)
	for _, c := range []struct {
		name     string
		programs []launch.Program
	}{
		{"KedisToRedis", []launch.Program{kedis, redis}},
		{"RedisToKedis", []launch.Program{redis, kedis}},
		{"RedisToKedisToRedis", []launch.Program{redis, kedis, redis}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run(t, topology{c.programs, true, trusting(lastingOptions)}, (*Cluster).Links)
		})
	}
}
