package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/launch"
	"kedis/redis-tests/resp"
)

const databases = 4 // that are written to

// soonest is within how many milliseconds keys expire that do so in a test.
const soonest = 30

// do sends a request that has to succeed.
func do(t *testing.T, c *resp.Connection, words ...string) resp.Reply {
	t.Helper()
	reply, err := c.Must(words...)
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	return reply
}

// content is all data of a server: for each key of each database its type, value and expiry.
func content(t *testing.T, s *launch.Server) map[string]string {
	t.Helper()
	c := s.MustDial(t)
	all := map[string]string{}
	for database := range databases {
		do(t, c, "SELECT", strconv.Itoa(database))
		for _, key := range do(t, c, "KEYS", "*").Strings() {
			kind := string(do(t, c, "TYPE", key).Text)
			expiry := do(t, c, "PEXPIRETIME", key).Text
			all[fmt.Sprintf("%d/%s", database, key)] = fmt.Sprintf("%s %s %q", kind, expiry, value(t, c, kind, key))
		}
	}
	return all
}

func value(t *testing.T, c *resp.Connection, kind, key string) []string {
	t.Helper()
	switch kind {
	case "string":
		return []string{string(do(t, c, "GET", key).Text)}
	case "list":
		return do(t, c, "LRANGE", key, "0", "-1").Strings()
	case "set":
		return slices.Sorted(slices.Values(do(t, c, "SMEMBERS", key).Strings()))
	case "zset":
		return do(t, c, "ZRANGE", key, "0", "-1", "WITHSCORES").Strings()
	case "hash":
		var fields []string
		pairs := do(t, c, "HGETALL", key).Strings()
		for i := 0; i < len(pairs); i += 2 {
			fields = append(fields, pairs[i]+"="+pairs[i+1])
		}
		slices.Sort(fields)
		return append(fields, described(t, c, key, launch.DescribeTimes))
	case "stream":
		return []string{do(t, c, "XRANGE", key, "-", "+").String(), described(t, c, key, launch.DescribeStream)}
	}
	t.Fatalf("key %q is a %s", key, kind)
	return nil
}

func described(t *testing.T, c *resp.Connection, key string, describe func(*resp.Connection, string) (string, error)) string {
	t.Helper()
	text, err := describe(c, key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// equal compares the data of two servers.
func equal(t *testing.T, a, b *launch.Server) {
	t.Helper()
	time.Sleep(2 * soonest * time.Millisecond)
	left, right := content(t, a), content(t, b)
	if len(left) == 0 {
		t.Fatal("there is no data to compare")
	}
	for key, value := range left {
		if right[key] != value {
			t.Fatalf("key %s: %.300s on one server, %.300s on the other", key, value, right[key])
		}
	}
	if len(left) != len(right) {
		t.Fatalf("%d keys on one server, %d on the other", len(left), len(right))
	}
}

// writer sends random writes.
type writer struct {
	random  *rand.Rand
	c       *resp.Connection
	lasting bool // no key expires: a primary writes nothing by itself later
}

func newWriter(t *testing.T, s *launch.Server, random *rand.Rand) *writer {
	return &writer{random: random, c: s.MustDial(t)}
}

// write sends n random writes, some of them in transactions. Errors of type are part of the mix.
func (w *writer) write(t *testing.T, n int) {
	t.Helper()
	count, open := 0, false
	send := func(words ...string) {
		w.c.Queue(words...)
		count++
	}
	for i := range n {
		switch {
		case !open && w.random.IntN(40) == 0:
			send("MULTI")
			open = true
		case open && w.random.IntN(6) == 0:
			send("EXEC")
			open = false
		}
		send(w.command()...)
		if i%50 == 49 || i == n-1 {
			if open {
				send("EXEC")
				open = false
			}
			if err := w.c.Flush(); err != nil {
				t.Fatal(err)
			}
			for ; count > 0; count-- {
				if _, err := w.c.Read(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func (w *writer) command() []string {
	r := w.random
	key := func(kind string) string { return kind + strconv.Itoa(r.IntN(20)) }
	word := func() string {
		if r.IntN(10) == 0 {
			return strings.Repeat(strconv.Itoa(r.IntN(10)), 50+r.IntN(100))
		}
		return "w" + strconv.Itoa(r.IntN(500))
	}
	number := func() string { return strconv.Itoa(r.IntN(1000)) }
	// Nothing may expire while data is compared.
	soonOrLate := func() string {
		if w.lasting || r.IntN(2) > 0 {
			return strconv.Itoa(1000_000 + r.IntN(soonest))
		}
		return strconv.Itoa(1 + r.IntN(soonest))
	}
	commands := []func() []string{
		func() []string { return []string{"SET", key("string"), word()} },
		func() []string { return []string{"SET", key("string"), word(), "PX", soonOrLate()} },
		func() []string { return []string{"INCRBYFLOAT", key("float"), "0.1"} },
		func() []string { return []string{"INCR", key("counter")} },
		func() []string { return []string{"APPEND", key("string"), word()} },
		func() []string { return []string{"RPUSH", key("list"), word(), word()} },
		func() []string { return []string{"LPOP", key("list")} },
		func() []string { return []string{"LPUSH", key("list"), word()} },
		func() []string { return []string{"SADD", key("set"), word(), number()} },
		func() []string { return []string{"SPOP", key("set")} },
		func() []string { return []string{"SADD", key("intset"), number()} },
		func() []string { return []string{"HSET", key("hash"), word(), word()} },
		func() []string { return []string{"HINCRBY", key("hashnumbers"), number(), number()} },
		func() []string { return []string{"HDEL", key("hash"), word()} },
		func() []string { return []string{"ZADD", key("zset"), number(), word()} },
		func() []string { return []string{"ZINCRBY", key("zset"), "1.5", word()} },
		func() []string { return []string{"ZPOPMIN", key("zset")} },
		func() []string { return []string{"DEL", key("list"), key("set"), key("string")} },
		func() []string { return []string{"PEXPIRE", key("hash"), soonOrLate()} },
		func() []string { return []string{"PEXPIRE", key("zset"), soonOrLate()} },
		func() []string { return []string{"PERSIST", key("hash")} },
		func() []string { return []string{"RENAME", key("list"), key("list")} },
		func() []string { return []string{"SELECT", strconv.Itoa(r.IntN(databases))} },
	}
	switch r.IntN(300) {
	case 0:
		return []string{"FLUSHDB"}
	case 1:
		return []string{"SWAPDB", strconv.Itoa(r.IntN(databases)), strconv.Itoa(r.IntN(databases))}
	}
	return commands[r.IntN(len(commands))]()
}
