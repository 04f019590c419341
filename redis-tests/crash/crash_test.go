package crash

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/lookup"
	"kedis/redis-tests/resp"
	seeds "kedis/redis-tests/seed"
)

var (
	rounds = flag.Int("rounds", 0, "how many kills, over all set-ups; 0 is the short form of all tests here")
	seed   = flag.Uint64("seed", 0, "what the load is made from; 0 is chosen as in other tests. The moments of the kills are chance in any case")
)

const shortRounds = 12

// smallCollections let collections move between their encodings all the time.
var smallCollections = []string{"--hash-max-listpack-entries", "4", "--set-max-intset-entries", "4", "--set-max-listpack-entries", "4",
	"--zset-max-listpack-entries", "4", "--list-max-listpack-size", "4", "--stream-node-max-entries", "4"}

// setups are the options that the load runs with.
var setups = []struct {
	name    string
	options []string
}{
	{"defaults", nil},
	// Everything is evicted all the time: a generation holds a few records, RocksDB's files and the
	// log's segments are small.
	{"tiny", append([]string{"--generation-bytes", "1kb", "--memory-tier", "1mb", "--clean-cache-share", "1%", "--rocksdb-write-buffer-size", "1mb",
		"--rocksdb-block-cache", "1mb", "--rocksdb-target-file-size", "1mb", "--binlog-segment-size", "1mb", "--binlog-retention-size", "1mb",
		"--persist-log-size", "1mb", "--persist-interval", "1s", "--hz", "100"}, smallCollections...)},
	// Nothing is kept in memory that RocksDB has.
	{"off", []string{"--memory-tier", "0", "--generation-bytes", "1kb"}},
	{"always", []string{"--appendfsync", "always", "--binlog-segment-size", "1mb", "--generation-bytes", "64kb", "--persist-log-size", "1mb"}},
	// Generations go to RocksDB as tables.
	{"tables", []string{"--generation-bytes", "1mb", "--rocksdb-write-buffer-size", "1mb", "--rocksdb-target-file-size", "1mb"}},
}

// loadSeed is what the load of a test is made from.
func loadSeed(t *testing.T) uint64 {
	if *seed != 0 {
		return *seed
	}
	return seeds.Of(t)
}

func TestKilledUnderLoad(t *testing.T) {
	count := *rounds
	if count == 0 {
		count = shortRounds
	}
	first := loadSeed(t)
	t.Logf("seed %d, %d rounds", first, count)
	met := map[string]int{}
	for i, setup := range setups {
		share := count / len(setups)
		if i < count%len(setups) {
			share++
		}
		t.Run(setup.name, func(t *testing.T) { killRepeatedly(t, share, first+uint64(i), setup.options, met) })
	}
	t.Logf("met were %v", met)
	for _, what := range meetings {
		if count >= longRounds && met[what] == 0 && !launch.MustUnderTest(t).IsRedis {
			t.Errorf("nothing has met %s", what)
		}
	}
}

// load is a server, the writers that use it, and what it was killed in.
type load struct {
	t       *testing.T
	random  *rand.Rand
	server  *launch.Server
	writers []*Writer
	killed  atomic.Bool
	met     map[string]int
}

func killRepeatedly(t *testing.T, count int, seed uint64, options []string, met map[string]int) {
	server, err := launch.MustUnderTest(t).Start(t.TempDir(), options...)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, random: rand.New(rand.NewPCG(seed, 0)), server: server, writers: newWriters(seed, true), met: met}
	// Another one than the first, when it has been killed.
	defer func() { launch.End(t, l.server) }()
	for round := range count {
		if err := l.round(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round < count-1 && l.random.IntN(8) > 0 {
			continue
		}
		if err := l.restoreCheckpoint(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	units := 0
	for _, w := range l.writers {
		units += w.acknowledged
	}
	if units == 0 {
		t.Error("nothing was ever acknowledged")
	}
	t.Logf("%d kills, %d units acknowledged", count, units)
}

// newWriters returns writers that share databases, owners that flush and swap theirs, and one of
// large collections.
func newWriters(seed uint64, timed bool) []*Writer {
	var writers []*Writer
	add := func(prefix string, databases []int, owner bool, depth, largest int) {
		name := fmt.Sprintf("writer %d (%q in %v)", len(writers), prefix, databases)
		writers = append(writers, NewWriter(name, seed+uint64(len(writers))<<32, prefix, databases, owner, timed, depth, largest))
	}
	add("a:", []int{0, 1}, false, 30, 700)
	add("b:", []int{0, 1}, false, 30, 700)
	add("c:", []int{0}, false, 1, 40)
	add("", []int{2, 3, 4}, true, 30, 700)
	add("", []int{5, 6}, true, 4, 40)
	add("large:", []int{0, 1}, false, 1, 12_000)
	return writers
}

// round runs the load, kills the server, starts it again and compares.
func (l *load) round() error {
	l.killed.Store(false)
	ended := make(chan error, len(l.writers))
	for _, w := range l.writers {
		connection, err := l.server.Dial()
		if err != nil {
			return err
		}
		defer connection.Close()
		go func() { ended <- w.Run(connection, &l.killed) }()
	}
	saved, err := l.beginSaving()
	if err != nil {
		return err
	}
	l.awaitMoment()
	l.killed.Store(true)
	l.server.Kill()
	killedAt := time.Now()
	failed := <-saved
	for range l.writers {
		failed = errors.Join(failed, <-ended)
	}
	if failed != nil {
		return failed
	}
	l.noteMet()
	if err := l.restart(); err != nil {
		return err
	}
	// So that it is certain which keys have expired.
	time.Sleep(time.Until(killedAt.Add((longestExpiry + 5) * time.Millisecond)))
	return l.check()
}

// restart starts the server. Now and then it is killed while it recovers, once or several times,
// and stopped and started again before anything else comes: a stop keeps what a kill doesn't.
func (l *load) restart() error {
	for l.random.IntN(3) == 0 {
		if err := l.killWhileStarting(); err != nil {
			return err
		}
	}
	if err := l.start(); err != nil || l.random.IntN(3) > 0 {
		return err
	}
	if err := l.server.Shutdown(); err != nil {
		return err
	}
	return l.start()
}

func (l *load) start() error {
	restarted, err := l.server.Restart()
	if err != nil {
		return err
	}
	l.server = restarted
	return nil
}

func (l *load) check() error {
	connection, err := l.server.Dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	var databases []int
	for _, w := range l.writers {
		databases = append(databases, w.databases...)
	}
	slices.Sort(databases)
	now := time.Now().UnixMilli()
	data, err := ReadData(connection, slices.Compact(databases))
	if err != nil {
		return err
	}
	var wrong []error
	for _, w := range l.writers {
		wrong = append(wrong, w.Settle(data.part(w), now))
	}
	wrong = append(wrong, lookup.Everything(connection, slices.Max(databases)+1))
	if l.random.IntN(6) == 0 {
		wrong = append(wrong, l.flushAll(connection))
	}
	if strangers := data.strangers(l.writers); len(strangers) > 0 {
		wrong = append(wrong, fmt.Errorf("keys that nobody wrote: %q", strangers))
	}
	return errors.Join(wrong...)
}

// flushAll empties all databases, between two loads; the next kill must not bring anything back.
func (l *load) flushAll(connection *resp.Connection) error {
	if _, err := connection.Must("flushall"); err != nil {
		return err
	}
	for _, w := range l.writers {
		w.state = NewState(w.databases)
	}
	return nil
}
