package differential

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	seeds "kedis/redis-tests/seed"
)

var (
	commands = flag.Int("commands", 20_000, "how many random commands to send")
	seed     = flag.Uint64("seed", 0, "what they are made from; 0 is chosen as in other tests")
	crashes  = flag.Bool("crashes", true, "kill the server under test now and then and start it again on its data")
	redis72  = flag.Bool("redis72", false, "the server under test isn't Kedis but a Redis 7.2, to try the list of known differences on")
	shrink   = flag.Bool("shrink", true, "reduce a history that shows a difference")
)

const (
	epochSteps  = 20_000 // then both servers are emptied: a history that is to be reduced is never longer
	digestEvery = 1000
	crashEvery  = 3000
	largeEvery  = 300
)

// tiers are what the memory in front of RocksDB may be: as it is by default; so small that
// everything leaves it at once; nothing; and generations that go to RocksDB as tables. INFO tells
// whether the small ones were that.
var tiers = []tier{
	{"default", 1, nil, nil, nil, 0},
	{"tiny", 5, []string{"--generation-bytes", "1kb", "--memory-tier", "1mb", "--clean-cache-share", "1%", "--rocksdb-write-buffer-size", "1mb",
		"--rocksdb-block-cache", "1mb"}, []string{"tier_flushed_generations", "tier_rocksdb_reads"}, nil, 0},
	{"off", 5, []string{"--generation-bytes", "1kb", "--memory-tier", "0"}, []string{"tier_flushed_generations", "tier_rocksdb_reads"}, []string{"tier_hits"}, 0},
	{"tables", 5, []string{"--generation-bytes", "512kb", "--rocksdb-write-buffer-size", "1mb"}, []string{"tier_flushed_as_tables"}, nil, 600_000},
}

type tier struct {
	name           string
	share          int // of the commands: one in so many
	options        []string
	happens, never []string // what INFO counts
	large          int      // bytes of a value without which what is written isn't enough
}

func TestDifferential(t *testing.T) {
	if *seed == 0 {
		*seed = seeds.Of(t)
	}
	for _, tier := range tiers {
		t.Run(tier.name, func(t *testing.T) { compareServers(t, *commands/tier.share, tier) })
		if launch.MustUnderTest(t).IsRedis {
			return // which has no such tier
		}
	}
}

func compareServers(t *testing.T, commands int, tier tier) {
	t.Logf("seed %d, %d commands", *seed, commands)
	// How long a command takes is no part of what is compared.
	unlogged := []string{"--slowlog-log-slower-than", "-1"}
	oracle := launch.ForTest(t, launch.MustOracle(t), unlogged...)
	program := launch.MustUnderTest(t)
	underTest, err := program.Start(t.TempDir(), slices.Concat(tier.options, unlogged)...)
	if err != nil {
		t.Fatal(err)
	}
	driver := NewDriver(oracle, underTest)
	defer driver.Close()
	driver.Redis72 = *redis72
	// Another one than the first, when the driver has let it crash.
	defer func() { launch.End(t, driver.underTest.server) }()
	for epoch := uint64(0); int(epoch)*epochSteps < commands; epoch++ {
		steps := min(epochSteps, commands-int(epoch)*epochSteps)
		began := time.Now()
		if !runEpoch(t, driver, epoch, steps, tier) {
			return
		}
		t.Logf("epoch %d: %d commands in %v", epoch, steps, time.Since(began).Round(time.Millisecond))
	}
	for _, reason := range slices.Sorted(maps.Keys(driver.Hits)) {
		t.Logf("%7d × %s", driver.Hits[reason], reason)
	}
	if !program.IsRedis {
		tier.check(t, driver)
	}
}

// check looks whether the memory in front of RocksDB was what the tier's name says.
func (tier tier) check(t *testing.T, driver *Driver) {
	t.Helper()
	if err := driver.CountTier(); err != nil {
		t.Fatal(err)
	}
	for _, name := range tier.happens {
		if driver.Tier[name] == 0 {
			t.Errorf("INFO counts no %s", name)
		}
	}
	for _, name := range tier.never {
		if count, known := driver.Tier[name]; !known || count > 0 {
			t.Errorf("INFO counts %d %s", count, name)
		}
	}
	t.Log(driver.Tier)
}

// runEpoch runs one epoch; when the servers differ it reports how, and false.
func runEpoch(t *testing.T, driver *Driver, epoch uint64, count int, tier tier) bool {
	t.Helper()
	if err := driver.Begin(epoch); err != nil {
		t.Fatal(err)
	}
	steps := makeSteps(*seed, epoch, count, *crashes && !driver.underTest.server.Program.IsRedis, tier.large)
	done := 0
	for _, batch := range Batches(steps) {
		difference := driver.Do(batch)
		done += len(batch)
		if difference == nil {
			continue
		}
		t.Errorf("seed %d, epoch %d, step %d: %s\nthe last steps were\n%s", *seed, epoch, done, difference, history(steps[max(0, done-12):done]))
		if *shrink {
			report(t, driver, epoch, steps[:done])
		}
		return false
	}
	return true
}

// makeSteps makes the steps of an epoch, comparisons of digests and crashes between them, and a
// value of so many bytes now and then.
func makeSteps(seed, epoch uint64, count int, crashes bool, large int) []Step {
	generator := NewGenerator(seed, epoch)
	var steps []Step
	for i := 1; i <= count; i++ {
		steps = append(steps, generator.Next())
		if large > 0 && i%largeEvery == 0 {
			steps = append(steps, Step{Line: []string{"set", "large", strings.Repeat("x", large)}})
		}
		if crashes && i%crashEvery == 0 {
			steps = append(steps, Step{Line: []string{"@crash"}})
		}
		if i%digestEvery == 0 || i == count {
			steps = append(steps, Step{Line: []string{"@digest"}})
		}
	}
	return steps
}

func report(t *testing.T, driver *Driver, epoch uint64, steps []Step) {
	t.Helper()
	var last *Difference
	deadline := time.Now().Add(5 * time.Minute)
	driver.patience = impatience
	short := Shrink(steps, func(steps []Step) int {
		if time.Now().After(deadline) {
			return 0
		}
		n, difference := replay(t, driver, epoch, steps)
		if n > 0 {
			last = difference
		}
		return n
	})
	if last == nil {
		t.Errorf("the difference didn't show again when the history was repeated")
		return
	}
	t.Errorf("a short history with a difference (%s):\n%s\n%s", resp.Line(limitOptions(epoch)), history(short), last)
}

func replay(t *testing.T, driver *Driver, epoch uint64, steps []Step) (int, *Difference) {
	t.Helper()
	if err := driver.Begin(epoch); err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, batch := range Batches(steps) {
		difference := driver.Do(batch)
		done += len(batch)
		if difference != nil {
			return done, difference
		}
	}
	return 0, nil
}

func history(steps []Step) string {
	var b strings.Builder
	for _, step := range steps {
		fmt.Fprintf(&b, "    %s\n", line(step))
	}
	return b.String()
}
