package chaos

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kedis/redis-tests/differential"
	"kedis/redis-tests/resp"
)

// Load is what clients do to a primary, and to the replicas that are read from, during a round.
type Load struct {
	primary *Member
	usable  func(line []string) bool // of the generated commands
	timed   bool                     // fields of hashes expire
	random  *rand.Rand
	ending  atomic.Bool
	clients sync.WaitGroup
	written atomic.Int64 // commands that were answered

	mu     sync.Mutex
	open   map[*resp.Connection]struct{}
	failed error // what a client saw and must not
}

// StartLoad lets clients write to a primary until Stop. It may become a replica meanwhile, if so is
// said. Fields of hashes expire if timed says so.
func StartLoad(primary *Member, handsOver, timed bool, seed uint64, witnesses []*Witness) *Load {
	l := &Load{primary: primary, usable: usable, timed: timed, random: rand.New(rand.NewPCG(seed, 1)), open: map[*resp.Connection]struct{}{}}
	switch {
	case primary.isRedis() && handsOver:
		l.usable = usableOnReplica
	case primary.isRedis():
		l.usable = usableOnRedis
	}
	for i := range uint64(2) {
		generator := differential.NewGenerator(seed, i)
		l.client(func(c *resp.Connection) error { return l.mix(c, generator) })
	}
	random := rand.New(rand.NewPCG(seed, 2))
	l.client(func(c *resp.Connection) error { return l.grow(c, random) })
	for _, w := range witnesses {
		l.client(func(c *resp.Connection) error { return w.testify(c, l) })
	}
	return l
}

// Stop ends all clients and returns what they saw and must not.
func (l *Load) Stop() error {
	l.mu.Lock()
	l.ending.Store(true)
	for c := range l.open {
		_ = c.Close() // a client may be waiting for a server that is stopped
	}
	l.mu.Unlock()
	l.clients.Wait()
	return l.failed
}

// violation is an error that no fault explains.
type violation struct{ text string }

func (v violation) Error() string { return v.text }

func violationf(format string, arguments ...any) error {
	return violation{fmt.Sprintf(format, arguments...)}
}

// client runs what a client does, on a new connection to the primary whenever the former breaks.
func (l *Load) client(run func(*resp.Connection) error) {
	l.clients.Go(func() {
		for !l.ending.Load() {
			err := l.connected(run)
			var v violation
			if errors.As(err, &v) {
				l.fail(v)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func (l *Load) fail(v violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, v)
}

// connected runs on one connection.
func (l *Load) connected(run func(*resp.Connection) error) error {
	c, err := l.primary.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	l.mu.Lock()
	if l.ending.Load() {
		l.mu.Unlock()
		return nil
	}
	l.open[c] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
	}()
	return run(c)
}

// pause keeps the servers from having more to do than the machine can.
func pause(r *rand.Rand) { time.Sleep(time.Duration(r.IntN(6)) * time.Millisecond) }

// mix sends commands of all kinds with all their options and with mistakes, in pipelines.
func (l *Load) mix(c *resp.Connection, generator *differential.Generator) error {
	random := rand.New(rand.NewPCG(generator.Next().Random, 0))
	for !l.ending.Load() {
		count := 0
		for range 1 + random.IntN(60) {
			if line := generator.Next().Line; l.usable(line) {
				c.Queue(line...)
				count++
			}
		}
		if err := l.exchange(c, count); err != nil {
			return err
		}
		pause(random)
	}
	return nil
}

// usable tells whether a generated line is for this load. What is not makes even two Redis hold
// something else: what a range by name finds where scores differ depends on how a skiplist happens
// to be built, and a score of -0 is 0 in a listpack, and -0 in a skiplist.
func usable(line []string) bool {
	name := strings.ToLower(line[0])
	if name[:min(1, len(name))] == "z" && slices.ContainsFunc(line, negativeZero) {
		return false
	}
	weights := slices.IndexFunc(line, func(word string) bool { return strings.EqualFold(word, "weights") })
	if weights >= 0 && slices.ContainsFunc(line[weights:], makesNegativeZero) {
		return false
	}
	switch name {
	case "reset", "wait", "zremrangebylex", "flushall": // the last takes what the witnesses wrote
		return false
	case "zrangestore":
		return !slices.ContainsFunc(line, func(word string) bool { return strings.EqualFold(word, "bylex") })
	}
	return !strings.HasPrefix(name, "@") // the differential test's own doings
}

// usableOnRedis leaves out what Redis 7.0 doesn't tell its replicas: BITFIELD with OVERFLOW FAIL
// may make a key, or lengthen one.
func usableOnRedis(line []string) bool {
	fails := func(word string) bool { return strings.EqualFold(word, "fail") }
	return usable(line) && (!strings.EqualFold(line[0], "bitfield") || !slices.ContainsFunc(line, fails))
}

// usableOnReplica tells whether a line is also for a Redis that may be a replica by now: there,
// too, it stores in the key what PFCOUNT finds, and then holds something else than its primary.
func usableOnReplica(line []string) bool {
	return usableOnRedis(line) && !strings.EqualFold(line[0], "pfcount")
}

func negativeZero(word string) bool {
	f, err := strconv.ParseFloat(word, 64)
	return err == nil && f == 0 && math.Signbit(f)
}

// makesNegativeZero tells whether a score may become -0 when it is multiplied by a weight: 0 by a
// negative one, or a negative one by 0.
func makesNegativeZero(word string) bool {
	f, err := strconv.ParseFloat(word, 64)
	return err == nil && f <= 0
}

// exchange sends what was queued and takes the replies, whatever they are.
func (l *Load) exchange(c *resp.Connection, count int) error {
	if err := c.Flush(); err != nil {
		return err
	}
	for range count {
		if _, err := c.Read(); err != nil {
			return err
		}
	}
	l.written.Add(int64(count))
	return nil
}

// soonest is within how many milliseconds keys expire that do so during a round.
const soonest = 300

// grow makes large values and collections, lets some expire soon, and removes them.
func (l *Load) grow(c *resp.Connection, r *rand.Rand) error {
	for !l.ending.Load() {
		c.Queue("select", strconv.Itoa(r.IntN(4)))
		count := 1
		for range 1 + r.IntN(4) {
			if line := growth(r); l.timed && r.IntN(4) == 0 {
				c.Queue(times(r)...)
			} else {
				c.Queue(line...)
			}
			count++
		}
		if err := l.exchange(c, count); err != nil {
			return err
		}
		pause(r)
	}
	return nil
}

// times gives fields of large hashes times, most of which come soon, or takes them away.
func times(r *rand.Rand) []string {
	key, count := "large:hash"+strconv.Itoa(r.IntN(4)), 1+r.IntN(60)
	line := []string{"hpexpire", key, strconv.Itoa(1 + r.IntN(soonest)), "fields", strconv.Itoa(count)}
	switch r.IntN(8) {
	case 0:
		line = []string{"hpersist", key, "fields", strconv.Itoa(count)}
	case 1:
		line[2] = "1000000"
	case 2:
		return []string{"hsetex", "short:hash", "px", line[2], "fields", "1", strconv.Itoa(r.IntN(9)), "1"}
	case 3:
		return []string{"hincrby", "short:hash", strconv.Itoa(r.IntN(9)), "1"} // begins at 0 when the field has just expired
	}
	for range count {
		line = append(line, strings.Repeat(strconv.Itoa(r.IntN(3000)), 1+r.IntN(6)))
	}
	return line
}

func growth(r *rand.Rand) []string {
	key := func(kind string) string { return "large:" + kind + strconv.Itoa(r.IntN(4)) }
	kinds := []string{"string", "hash", "list", "set", "zset"}
	kind := kinds[r.IntN(len(kinds))]
	switch r.IntN(20) {
	case 0, 1, 2:
		return []string{"del", key(kind)}
	case 3, 4:
		return []string{"pexpire", key(kind), strconv.Itoa(1 + r.IntN(soonest))}
	case 5:
		return []string{"persist", key(kind)}
	case 6:
		return []string{"copy", key(kind), key(kind), "db", strconv.Itoa(r.IntN(4)), "replace"}
	case 7:
		return []string{"rename", key(kind), key(kind)}
	case 8, 9:
		return []string{"set", key("short"), "x", "px", strconv.Itoa(1 + r.IntN(soonest))}
	case 10:
		return []string{"incr", key("short")} // begins at 0 when the key has just expired
	case 11:
		return []string{"spop", key("set"), strconv.Itoa(r.IntN(50))}
	}
	return addition(r, kind, key(kind))
}

func addition(r *rand.Rand, kind, key string) []string {
	word := func() string { return strings.Repeat(strconv.Itoa(r.IntN(3000)), 1+r.IntN(6)) }
	if kind == "string" {
		return []string{"set", key, strings.Repeat(word(), 1+r.IntN(4000))}
	}
	line := []string{map[string]string{"hash": "hset", "list": "rpush", "set": "sadd", "zset": "zadd"}[kind], key}
	for range 1 + r.IntN(400) {
		switch kind {
		case "hash":
			line = append(line, word(), word())
		case "zset":
			line = append(line, strconv.Itoa(r.IntN(100)), word())
		default:
			line = append(line, word())
		}
	}
	return line
}
