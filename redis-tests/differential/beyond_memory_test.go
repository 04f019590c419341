package differential

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kedis/redis-tests/launch"
	seeds "kedis/redis-tests/seed"
)

// The collections of TestBeyondMemory have so many elements, each in records of some 150 bytes.
const beyondElements = 40_000

// TestBeyondMemory asks for parts of collections that are spread over dozens of table files. Memory
// holds a few blocks of them. So most walks read one file from the disk, and go on in the next.
func TestBeyondMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(seeds.Of(t), 0))
	files := []string{"--generation-bytes", "64kb", "--rocksdb-write-buffer-size", "1mb", "--rocksdb-block-cache", "1mb", "--rocksdb-target-file-size", "1mb",
		"--rocksdb-compression", "none", "--rocksdb-bottommost-compression", "none"}
	for _, memory := range []string{"0", "1mb"} {
		t.Run(memory, func(t *testing.T) {
			oracle := launch.ForTest(t, launch.MustOracle(t))
			underTest, err := launch.MustUnderTest(t).Start(t.TempDir(), append(files, "--memory-tier", memory)...)
			if err != nil {
				t.Fatal(err)
			}
			driver := NewDriver(oracle, underTest)
			defer driver.Close()
			defer func() { launch.End(t, driver.underTest.server) }()
			if err := driver.Begin(0); err != nil {
				t.Fatal(err)
			}
			do := func(line ...string) {
				t.Helper()
				if difference := driver.Do([]Step{{Line: line}}); difference != nil {
					t.Fatal(difference)
				}
			}
			fillBeyond(random, do)
			do("@crash") // so that nothing is left in memory
			defer keepCold(t, underTest.Directory)()
			for range 1000 {
				do(beyondRequest(random)...)
			}
			for _, walk := range [][]string{{"@hscan", "hash"}, {"@sscan", "set"}, {"@zscan", "board"}, {"@scan", "count", "100"}, {"hgetall", "hash"}, {"getrange", "string", "0", "-1"}, {"xrange", "stream", "-", "+"}, {"zrevrange", "board", "0", "-1"}, {"lrange", "list", "0", "-1"}} {
				do(walk...)
			}
			do("@digest")
			tier{happens: []string{"tier_flushed_generations", "tier_rocksdb_reads"}}.check(t, driver)
		})
	}
}

// keepCold has the kernel forget table files again and again, until the function that it returns is
// called: who reads them waits for the disk.
func keepCold(t *testing.T, directory string) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			tables, err := filepath.Glob(filepath.Join(directory, "db", "*.sst"))
			if err != nil {
				t.Error(err)
			}
			for _, table := range tables {
				if file, err := os.Open(table); err == nil { // it may be gone
					if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
						t.Error(err)
					}
					file.Close()
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// fillBeyond fills the collections in a random order, so that their records overlap in RocksDB's
// levels.
func fillBeyond(random *rand.Rand, do func(...string)) {
	const together = 500
	order := random.Perm(beyondElements)
	do("setrange", "string", "3000000", "end")
	for len(order) > 0 {
		hash, set, board, list := []string{"hset", "hash"}, []string{"sadd", "set"}, []string{"zadd", "board"}, []string{"rpush", "list"}
		places, keys := []string{"geoadd", "places"}, []string{"mset"}
		for n, i := range order[:together] {
			if n%10 == 0 {
				at := strconv.Itoa(beyondElements - len(order) + n + 1)
				do("xadd", "stream", at+"-1", "field", beyondValue(random), "number", at)
				do("setrange", "string", strconv.Itoa(random.IntN(3_000_000)), beyondValue(random))
			}
			places = append(places, strconv.Itoa(i%360-180), strconv.Itoa(i%170-85), beyondElement(i))
			keys = append(keys, beyondElement(i), beyondValue(random))
			hash = append(hash, beyondElement(i), beyondValue(random))
			set = append(set, beyondElement(i))
			board = append(board, strconv.Itoa(i/3), beyondElement(i))
			list = append(list, beyondValue(random))
		}
		order = order[together:]
		for _, line := range [][]string{hash, set, board, list, places, keys} {
			do(line...)
		}
	}
}

func beyondElement(i int) string { return fmt.Sprintf("element %06d %0100d", i*7919%beyondElements, i) }

func beyondValue(random *rand.Rand) string {
	return fmt.Sprintf("%016x%0100d", random.Uint64(), random.IntN(1000))
}

// beyondRequest reads a part of a collection, mostly; or changes one.
func beyondRequest(random *rand.Rand) []string {
	at := random.IntN(beyondElements)
	count := 1 << random.IntN(12)
	number, last, few := strconv.Itoa(at), strconv.Itoa(at+count), strconv.Itoa(count)
	low, high := strconv.Itoa(at/3), strconv.Itoa((at+count)/3)
	element, other := beyondElement(at), beyondElement(random.IntN(beyondElements))
	if random.IntN(100) == 0 { // to compare picks takes all of a collection
		return [][]string{{"hrandfield", "hash", "-" + few}, {"srandmember", "set", few}, {"zrandmember", "board", few, "withscores"}, {"spop", "set"}}[random.IntN(4)]
	}
	lines := [][]string{
		{"zrange", "board", number, last}, {"zrevrange", "board", number, last, "withscores"},
		{"zrangebyscore", "board", low, "+inf", "limit", "0", few}, {"zrevrangebyscore", "board", low, "-inf", "limit", "0", few},
		{"zrangebyscore", "board", low, high, "limit", few, "10"}, {"zcount", "board", low, high},
		{"zrangebyscore", "places", strconv.FormatUint(random.Uint64N(1<<52), 10), "+inf", "limit", "0", few}, {"zpopmin", "places", few},
		{"geosearch", "places", "fromlonlat", strconv.Itoa(at%360 - 180), strconv.Itoa(at%170 - 85), "byradius", strconv.Itoa(count), "km", "asc"},
		{"xrange", "stream", number, last}, {"xrevrange", "stream", last, "-", "count", few}, {"xread", "count", few, "streams", "stream", number},
		{"xtrim", "stream", "minid", low}, {"xdel", "stream", number + "-1"},
		{"getrange", "string", strconv.Itoa(50 * at), strconv.Itoa(50 * (at + count))}, {"bitcount", "string", strconv.Itoa(50 * at), strconv.Itoa(60 * at)},
		{"setrange", "string", strconv.Itoa(50 * at), element}, {"mget", element, other, "nothing"}, {"del", element}, {"exists", element, other},
		{"sinter", "set", "few"}, {"sadd", "few", element, other}, {"zinter", "2", "board", "few"}, {"zrangestore", "part", "board", number, last},
		{"zrank", "board", element}, {"zrevrank", "board", element}, {"zmscore", "board", element, other},
		{"lrange", "list", number, last}, {"lindex", "list", number}, {"lpos", "list", "nothing", "maxlen", few},
		{"hmget", "hash", element, other, "nothing"}, {"hstrlen", "hash", element}, {"smismember", "set", element, other, "nothing"},
		{"zpopmin", "board", few}, {"zpopmax", "board", few}, {"lpop", "list", few}, {"rpop", "list", "3"},
		{"hset", "hash", element, "changed"}, {"hdel", "hash", element, other}, {"sadd", "set", element}, {"srem", "set", element, other},
		{"zadd", "board", high, element, low, other}, {"zrem", "board", element}, {"zremrangebyrank", "board", number, strconv.Itoa(at + 30)},
		{"rpush", "list", element, other}, {"lpush", "list", element}, {"lset", "list", strconv.Itoa(at / 4), "changed"},
	}
	return lines[random.IntN(len(lines))]
}
