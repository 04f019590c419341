package port

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
	"kedis/redis-tests/seed"
)

const databases = 3 // that are written to

// seeded makes a source of chance whose seed a failure tells.
func seeded(t *testing.T) *rand.Rand {
	seed := seed.Of(t)
	return rand.New(rand.NewPCG(seed, 0))
}

// fill gives a server keys of every type, small ones and some with many elements, as Redis makes
// them and Kedis.
func fill(t *testing.T, s *launch.Server, keys int) {
	t.Helper()
	c := s.MustDial(t)
	count := 0
	send := func(words ...string) {
		c.Queue(words...)
		if count++; count == 500 {
			drain(t, c, count)
			count = 0
		}
	}
	for i := range keys {
		n := strconv.Itoa(i)
		send("SET", "fill:string:"+n, strings.Repeat(n, 1+i%50))
		if i%10 == 0 {
			send("SET", "fill:expiring:"+n, n, "EX", "100000")
			send("RPUSH", "fill:list:"+n, n, "b", "c")
			send("SADD", "fill:set:"+n, n, "member", "2")
			send("SADD", "fill:intset:"+n, n, "1", "2")
			send("HSET", "fill:hash:"+n, "field", n, "other", "value")
			send("ZADD", "fill:zset:"+n, n, "member", "1.5", "other", "-inf", "least")
		}
		m := strconv.Itoa(i % 1000)
		send("RPUSH", "large:list", strings.Repeat("e", i%100))
		send("SADD", "large:set", "member"+n)
		send("HSET", "large:hash", "field"+n, strings.Repeat(m, 3))
		send("ZADD", "large:zset", m+"."+n, "member"+n)
	}
	send("SELECT", "1")
	send("SET", "of database 1", "x")
	send("SELECT", "0")
	drain(t, c, count)
}

func drain(t *testing.T, c *resp.Connection, count int) {
	t.Helper()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range count {
		if _, err := c.Read(); err != nil {
			t.Fatal(err)
		}
	}
}

// writers write to a server until they are stopped, with a connection each.
type writers struct {
	stopped atomic.Bool
	running sync.WaitGroup
	written atomic.Int64
}

// startWriters begins to write. When lenient, a server that goes away is waited for.
func startWriters(t *testing.T, s *launch.Server, random *rand.Rand, n int, lenient bool) *writers {
	w := &writers{}
	for range n {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		w.running.Add(1)
		go func() {
			defer w.running.Done()
			for !w.stopped.Load() {
				if err := w.write(s, r); err != nil {
					if !lenient {
						t.Errorf("writing: %v", err)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		}()
	}
	t.Cleanup(w.stop)
	return w
}

func (w *writers) stop() {
	w.stopped.Store(true)
	w.running.Wait()
}

// wait waits until so many more commands were written.
func (w *writers) wait(t *testing.T, more int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for until := w.written.Load() + more; w.written.Load() < until; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the writers don't get on")
		}
	}
}

func (w *writers) write(s *launch.Server, r *rand.Rand) error {
	c, err := s.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	for !w.stopped.Load() {
		n, multi := 1+r.IntN(30), false
		count := 0
		send := func(words ...string) {
			c.Queue(words...)
			count++
		}
		for range n {
			if r.IntN(20) == 0 {
				if multi {
					send("EXEC")
				} else {
					send("MULTI")
				}
				multi = !multi
			}
			send(randomWrite(r)...)
		}
		if multi {
			send("EXEC")
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range count {
			if _, err := c.Read(); err != nil {
				return err
			}
		}
		w.written.Add(int64(count))
		// A target that was built with the race detector must be able to catch up with a Redis.
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Microsecond)
	}
	return nil
}

// randomWrite is one write of the mix. Some are errors, of type for example.
func randomWrite(r *rand.Rand) []string {
	key := func(kind string) string { return kind + ":" + strconv.Itoa(r.IntN(40)) }
	word := func() string {
		if r.IntN(10) == 0 {
			return strconv.Itoa(r.IntN(40))
		}
		if r.IntN(10) == 0 {
			return strings.Repeat(strconv.Itoa(r.IntN(10)), 50+r.IntN(100))
		}
		return "w" + strconv.Itoa(r.IntN(500))
	}
	number := func() string { return strconv.Itoa(r.IntN(1000)) }
	// Keys whose life is prolonged just before it ends are what a target must not lose.
	life := func() string { return strconv.Itoa(1 + r.IntN(60) + r.IntN(2)*1000_000) }
	switch r.IntN(33) {
	case 0, 1:
		return []string{"SET", key("string"), word()}
	case 2:
		return []string{"SET", key("string"), word(), "PX", life()}
	case 3:
		return []string{"INCRBYFLOAT", key("float"), "0.1"}
	case 4, 5:
		return []string{"INCR", key("counter")}
	case 6:
		return []string{"APPEND", key("string"), word()}
	case 7, 8:
		return []string{"RPUSH", key("list"), word(), word()}
	case 9:
		return []string{"LPOP", key("list")}
	case 10:
		return []string{"LPUSH", key("list"), word()}
	case 11:
		return []string{"SADD", key("set"), word(), number()}
	case 12:
		return []string{"SPOP", key("set")}
	case 13:
		return []string{"HSET", key("hash"), word(), word()}
	case 14:
		return []string{"HINCRBY", key("numbers"), number(), number()}
	case 15:
		return []string{"ZADD", key("zset"), number(), word()}
	case 16:
		return []string{"ZINCRBY", key("zset"), "1.5", word()}
	case 17:
		return []string{"ZPOPMIN", key("zset")}
	case 18:
		return []string{"DEL", key("list"), key("set"), key("string")}
	case 19:
		return []string{"PEXPIRE", key("hash"), life()}
	case 20:
		return []string{"PEXPIRE", key("counter"), life()}
	case 21:
		return []string{"PERSIST", key("hash")}
	case 22:
		return []string{"RENAME", key("list"), key("list")}
	case 23:
		return []string{"SMOVE", key("set"), key("set"), word()}
	case 24:
		return []string{"SUNIONSTORE", key("set"), key("set"), key("set")}
	case 25:
		return []string{"LMOVE", key("list"), key("list"), "LEFT", "RIGHT"}
	case 26:
		return []string{"MSET", key("string"), word(), key("string"), word()}
	case 27:
		return []string{"COPY", key("hash"), key("hash"), "DB", strconv.Itoa(r.IntN(databases)), "REPLACE"}
	case 28:
		return []string{"GETEX", key("string"), "PX", life()}
	case 29:
		return []string{"MOVE", key("zset"), strconv.Itoa(r.IntN(databases))}
	case 30:
		// What it gets are other keys, of all lanes.
		return []string{"SORT", key("set"), "ALPHA", "GET", "#", "GET", "string:*", "STORE", key("list")}
	case 31:
		return []string{"SELECT", strconv.Itoa(r.IntN(databases))}
	}
	if r.IntN(100) == 0 {
		return [][]string{{"FLUSHDB"}, {"SWAPDB", strconv.Itoa(r.IntN(databases)), strconv.Itoa(r.IntN(databases))}}[r.IntN(2)]
	}
	return []string{"SETRANGE", key("string"), number(), word()}
}
