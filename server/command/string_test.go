package command

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/internal/oracle"
	"kedis/internal/resp"
	"kedis/redis-tests/seed"
	"kedis/server/enginetest"
	"kedis/storage"
	"kedis/storage/layout"
)

// aTime is a time that depends on the clock.
var aTime = regexp.MustCompile(`\b1[7-9]\d{11}\b`)

// TestStringEffects: what goes to the log must be the same whenever and wherever it is repeated.
func TestStringEffects(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for _, c := range []struct{ before, command, effects string }{
		{"", "SET k v", "SET k v"},
		{"", "SET k v NX GET", "SET k v"},
		{"SET k old", "SET k v XX KEEPTTL", "SET k v KEEPTTL"},
		{"", "SET k v KEEPTTL", "SET k v KEEPTTL"},
		{"SET k old", "SET k v NX", ""},
		{"", "SET k v XX EX 100", ""},
		{"", "SET k v EX 100", "SET k v PXAT *"},
		{"", "SET k v NX PX 100000", "SET k v PXAT *"},
		{"", "SET k v EXAT 4102444800", "SET k v PXAT 4102444800000"},
		{"", "SET k v PXAT 4102444800001 GET", "SET k v PXAT 4102444800001"},
		{"SET k old", "SET k v PXAT 1", "DEL k"},
		{"", "SET k v PXAT 1", ""},
		{"SET k old", "SET k v IFEQ old", "SET k v"},
		{"SET k old", "SET k v IFEQ other", ""},
		{"SET k old", "SET k v IFNE other KEEPTTL", "SET k v KEEPTTL"},
		{"", "SET k v IFNE other PXAT 4102444800001", "SET k v PXAT 4102444800001"},
		{"SET k old", "SET k v IFDNE 0123456789abcdef GET", "SET k v"},
		{"SET k v", "DELEX k", "DEL k"},
		{"SET k v", "DELEX k IFEQ v", "DEL k"},
		{"SET k v", "DELEX k IFNE v", ""},
		{"", "DELEX k", ""},
		{"SET k v", "DELIFEQ k v", "DEL k"},
		{"SET k v", "DELIFEQ k w", ""},
		{"", "MSETEX 2 k v l w", "MULTI; SET k v; SET l w; EXEC"},
		{"", "MSETEX 2 k v l w NX PXAT 4102444800001", "MULTI; SET k v PXAT 4102444800001; SET l w PXAT 4102444800001; EXEC"},
		{"SET l old", "MSETEX 2 k v l w NX", ""},
		{"SET l old", "MSETEX 1 l w XX KEEPTTL", "SET l w KEEPTTL"},
		{"SET l old", "MSETEX 2 k v l w PXAT 1", "DEL l"},
		{"", "SETEX k 100 v", "SET k v PXAT *"},
		{"", "PSETEX k 100000 v", "SET k v PXAT *"},
		{"", "SETNX k v", "SETNX k v"},
		{"SET k old", "SETNX k v", ""},
		{"", "GETSET k v", "SET k v"},
		{"SET k v", "GETDEL k", "DEL k"},
		{"", "GETDEL k", ""},
		{"SET k v", "GETEX k", ""},
		{"SET k v", "GETEX k PERSIST", ""},
		{"SETEX k 100 v", "GETEX k PERSIST", "PERSIST k"},
		{"SET k v", "GETEX k EX 100", "PEXPIREAT k *"},
		{"SET k v", "GETEX k PXAT 4102444800001", "PEXPIREAT k 4102444800001"},
		{"SET k v", "GETEX k EXAT 1", "DEL k"},
		{"", "GETEX k EX 100", ""},
		{"", "MSET k v l w", "MSET k v l w"},
		{"", "MSETNX k v l w", "MSETNX k v l w"},
		{"SET l v", "MSETNX k v l w", ""},
		{"", "INCR k", "INCR k"},
		{"", "DECRBY k 5", "DECRBY k 5"},
		{"SET k 10", "INCRBYFLOAT k 0.5", "SET k 10.5 KEEPTTL"},
		{"SET k v", "INCRBYFLOAT k 0.5", ""},
		{"", "APPEND k v", "APPEND k v"},
		{"", "SETRANGE k 5 v", "SETRANGE k 5 v"},
		{"", "SETRANGE k 5 ", ""},
		{"", "SETBIT k 5 1", "SETBIT k 5 1"},
		{"APPEND k v", "BITOP NOT d k", "BITOP NOT d k"},
		{"", "BITOP NOT d k", ""},
		{"", "BITFIELD k SET u8 0 5 INCRBY u8 0 1", "BITFIELD k SET u8 0 5 INCRBY u8 0 1"},
		{"SET k v", "BITFIELD k GET u8 0", ""},
		{"", "PFADD k a b", "PFADD k a b"},
		{"PFADD k a b", "PFADD k b a", ""},
		{"PFADD k a b", "PFCOUNT k", "PFCOUNT k"},
		{"PFADD k a b", "PFCOUNT k l", ""},
		{"PFADD k a b", "PFMERGE l k", "PFMERGE l k"},
		{"PFADD k a b", "PFDEBUG TODENSE k", "PFDEBUG TODENSE k"},
		{"PFADD k a b", "PFDEBUG GETREG k", "PFDEBUG GETREG k"},
		{"PFADD k a b", "PFDEBUG ENCODING k", ""},
		{"PFADD k a b", "BITOP AND k none", "BITOP AND k none"},
	} {
		client.Flush()
		if c.before != "" {
			client.Do(strings.Split(c.before, " ")...)
		}
		log.Content = nil
		client.Do(strings.Split(c.command, " ")...)
		got := aTime.ReplaceAllString(strings.Join(enginetest.Requests(t, log.Content), "; "), "*")
		if got != c.effects {
			t.Errorf("%q after %q: effect %q, want %q", c.command, c.before, got, c.effects)
		}
	}
}

// TestExpiredStrings: a command that writes says that what it found has expired.
func TestExpiredStrings(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	applier := engine.NewLogApplier() // for which nothing expires
	for _, c := range []struct{ command, reply, effects string }{
		{"GET k", "$-1\r\n", ""},
		{"PFCOUNT k", ":0\r\n", "DEL k"},
		{"PFCOUNT k l", ":0\r\n", "DEL k"},
		{"APPEND k v", ":1\r\n", "MULTI; DEL k; APPEND k v; EXEC"},
		{"GETDEL k", "$-1\r\n", "DEL k"},
		{"GETEX k EX 10", "$-1\r\n", "DEL k"},
		{"SET k v XX GET EX 10", "$-1\r\n", "DEL k"},
		{"SETNX k v", ":1\r\n", "MULTI; DEL k; SETNX k v; EXEC"},
		{"INCR k", ":1\r\n", "MULTI; DEL k; INCR k; EXEC"},
		{"SPOP k", "$-1\r\n", "DEL k"},
		{"SREM k m", ":0\r\n", "DEL k"},
		{"SADD k m", ":1\r\n", "MULTI; DEL k; SADD k m; EXEC"},
		{"SUNIONSTORE d k", ":0\r\n", "DEL k"},
		{"SUNIONSTORE k d", ":0\r\n", "DEL k"},
		{"RENAME k d", "-ERR no such key\r\n", ""},
	} {
		client.Flush()
		effect := resp.AppendRequest(nil, words("SET", "k", "v", "PXAT", "1000")...)
		log.Length += int64(len(effect))
		if err := applier.Replay(0, effect, log.Position(), time.Now()); err != nil {
			t.Fatal(err)
		}
		log.Content = nil
		reply := client.Do(strings.Split(c.command, " ")...)
		if got := strings.Join(enginetest.Requests(t, log.Content), "; "); reply != c.reply || got != c.effects {
			t.Errorf("%q: reply %q, effects %q; want %q, %q", c.command, reply, got, c.reply, c.effects)
		}
	}
}

// TestStringReplay applies the log of random commands to a second store, which must then hold the
// same strings, with the same expiries and encodings.
func TestStringReplay(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 3))
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for range 3000 {
		client.Do(randomStringCommand(random)...)
	}
	replica, _ := newTestEngine(t)
	if err := replica.NewLogApplier().Replay(0, log.Content, log.Position(), time.Now()); err != nil {
		t.Fatal(err)
	}
	got, want := stringsOf(t, replica), stringsOf(t, engine)
	if !maps.Equal(got, want) {
		t.Errorf("the replica has\n%q, want\n%q", got, want)
	}
}

func randomStringCommand(random *rand.Rand) []string {
	key := func() string { return string(rune('a' + random.IntN(6))) }
	n := func() string { return strconv.Itoa(random.IntN(100)) }
	h := func() string { return "h" + strconv.Itoa(random.IntN(3)) }
	commands := [][]string{
		{"SET", key(), n()}, {"SET", key(), n(), "EX", "1000", "GET"}, {"SET", key(), n(), "KEEPTTL", "XX"},
		{"SETEX", key(), "1000", n()}, {"SETNX", key(), n()}, {"MSET", key(), n(), key(), n()}, {"MSETNX", key(), n(), key(), n()},
		{"GETSET", key(), n()}, {"APPEND", key(), n()}, {"SETRANGE", key(), n(), n()}, {"INCR", key()}, {"DECRBY", key(), n()},
		{"INCRBYFLOAT", key(), "0." + n()}, {"SETBIT", key(), n(), "1"}, {"SETBIT", key(), n(), "0"},
		{"BITFIELD", key(), "INCRBY", "i7", n(), n(), "OVERFLOW", "FAIL", "INCRBY", "u5", n(), n()},
		{"BITOP", "XOR", key(), key(), key()}, {"BITOP", "NOT", key(), key()},
		{"PFADD", h(), n(), n()}, {"PFCOUNT", h()}, {"PFMERGE", h(), h(), h()}, {"PFDEBUG", "TODENSE", h()},
	}
	return commands[random.IntN(len(commands))]
}

// stringsOf are the strings of database 0: expiry, encoding and value of each.
func stringsOf(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	found := map[string]string{}
	txn := e.Store.NewTxn()
	txn.Begin(storage.Mode{Applying: true}, 0, 0)
	err := txn.DB(0).Keys(nil, func(key []byte, m *layout.Metadata) bool {
		found[string(key)] = fmt.Sprintf("%d %s %q", m.ExpireMs, storage.StringEncoding(m), m.Value)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestStringEncodings runs sequences of commands on Redis too, and compares replies and what OBJECT
// ENCODING answers after each.
func TestStringEncodings(t *testing.T) {
	redis := oracle.Start(t)
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	x44, x45 := strings.Repeat("x", 44), strings.Repeat("x", 45)
	empty := "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff"
	for i, sequence := range [][][]string{
		{{"SET", "k", "12"}, {"APPEND", "k", ""}, {"INCR", "k"}, {"APPEND", "k", "3"}, {"SET", "k", x44}, {"SET", "k", x45}},
		{{"APPEND", "k", "12"}, {"SETRANGE", "k", "0", ""}, {"SETRANGE", "k", "0", "3"}, {"GETSET", "k", "3"}, {"GETSET", "k", "x"}},
		{{"APPEND", "k", x45}, {"GETEX", "k", "EX", "1000"}, {"SETRANGE", "k", "0", "y"}},
		{{"SETRANGE", "k", "0", "12"}, {"GETEX", "k", "EX", "1000"}, {"SETNX", "k", "1"}, {"DECR", "k"}, {"GETEX", "k", "PERSIST"}},
		{{"SETBIT", "k", "3", "0"}, {"SET", "k", "abc", "KEEPTTL"}, {"GETBIT", "k", "1"}, {"SETBIT", "k", "1", "1"}, {"INCR", "k"}},
		{{"SET", "k", "12"}, {"BITFIELD", "k", "GET", "u8", "0"}, {"BITFIELD", "k", "OVERFLOW", "FAIL", "INCRBY", "u8", "0", "999"}},
		{{"SETEX", "k", "1000", "12"}, {"BITFIELD", "k", "SET", "u8", "0", "50"}, {"PSETEX", "k", "100000", "12"}},
		{{"MSET", "k", "12", "s", "abc"}, {"BITOP", "OR", "k", "s"}, {"MSETNX", "k", "1"}, {"SET", "k", "12345678901234567890"}},
		{{"PFADD", "k", "a"}, {"SET", "k", empty}, {"PFCOUNT", "k"}, {"SET", "k", empty}, {"PFADD", "k"}, {"PFMERGE", "k"}},
		{{"SET", "k", "1.5"}, {"INCRBYFLOAT", "k", "0.25"}, {"MGET", "k"}, {"SET", "k", "00"}, {"SET", "k", "-0"}, {"SET", "k", "-1"}},
	} {
		redis.Do("FLUSHALL")
		client.Flush()
		for j, command := range sequence {
			want := []any{redis.Do(toAny(command)...), redis.Do("OBJECT", "ENCODING", "k")}
			reply, err := resp.NewReader(strings.NewReader(client.Do(command...)), 1<<20).ReadReply()
			if err != nil {
				t.Fatal(err)
			}
			k, err := engine.Store.NewTxn().DB(0).Lookup([]byte("k"))
			if err != nil {
				t.Fatal(err)
			}
			if got := []any{plain(reply), storage.StringEncoding(&k.Metadata)}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("sequence %d, step %d %q: %v, want %v", i, j, command, got, want)
			}
		}
	}
}

func toAny(w []string) []any {
	a := make([]any, len(w))
	for i := range w {
		a[i] = w[i]
	}
	return a
}

// plain is a reply as package oracle has it.
func plain(r resp.Reply) any {
	switch {
	case r.Err() != nil:
		return oracle.Error(r.Text)
	case r.Kind == resp.KindInteger:
		return r.Integer
	case r.Null:
		return nil
	case r.Kind == resp.KindArray:
		elements := make([]any, len(r.Elements))
		for i := range r.Elements {
			elements[i] = plain(r.Elements[i])
		}
		return elements
	}
	return string(r.Text)
}

// TestUnchangedStringsAreNotWatched: a SETBIT that sets what is set already lets EXEC go on.
func TestUnchangedStringsAreNotWatched(t *testing.T) {
	engine, _ := newTestEngine(t)
	client, other := newTestClient(t, engine), newTestClient(t, engine)
	for command, want := range map[string]string{"SETBIT k 1 1": "*0\r\n", "SETBIT k 1 0": "*-1\r\n", "APPEND k ": "*-1\r\n"} {
		other.Do("SET", "k", "a")
		client.Do("WATCH", "k")
		client.Do("MULTI")
		other.Do(strings.Split(command, " ")...)
		if got := client.Do("EXEC"); got != want {
			t.Errorf("EXEC after %q: %q, want %q", command, got, want)
		}
	}
}

// TestCountsWithoutALog: PFCOUNT is a read while the log takes nothing, also of what has expired.
func TestCountsWithoutALog(t *testing.T) {
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	client.Do("PFADD", "h", "a", "b")
	effect := resp.AppendRequest(nil, words("SET", "gone", "v", "PXAT", "1000")...)
	log.Length += int64(len(effect))
	if err := engine.NewLogApplier().Replay(0, effect, log.Position(), time.Now()); err != nil {
		t.Fatal(err)
	}
	log.Fail = errors.New("no space")
	if got := client.Do("PFCOUNT", "h"); got != ":2\r\n" {
		t.Errorf("PFCOUNT: %q", got)
	}
	if got := client.Do("PFCOUNT", "gone"); got != ":0\r\n" {
		t.Errorf("PFCOUNT of an expired key: %q", got)
	}
	if got := client.Do("PFADD", "h", "c"); !strings.HasPrefix(got, "-MISCONF") {
		t.Errorf("PFADD: %q", got)
	}
}

// TestLargeStringsLeaveTheReactor: what goes over many megabytes runs on a worker.
func TestLargeStringsLeaveTheReactor(t *testing.T) {
	engine, log := newTestEngine(t)
	log.Discard = true
	client := newTestClient(t, engine)
	large := strings.Repeat("\xff", 12<<20)
	client.Do("MSET", "large", large, "k1", large[:100<<10], "k2", large[:1000])
	for _, command := range [][]string{
		{"SET", "k", large}, {"APPEND", "large", large}, {"SETRANGE", "large", "1", large}, {"GET", "large"}, {"DUMP", "large"},
		{"BITCOUNT", "large"}, {"BITPOS", "large", "0"}, {"BITOP", "NOT", "d", "large"}, {"COPY", "large", "copy"},
		{"LCS", "k1", "k2", "LEN"}, {"PFSELFTEST"},
	} {
		before := engine.Statistics.Offloads.Load()
		if reply := client.Do(command...); reply[0] == '-' {
			t.Errorf("%.40q: %q", command, reply)
		}
		if engine.Statistics.Offloads.Load() != before+1 {
			t.Errorf("%.40q ran on the reactor", command)
		}
	}
	for _, command := range [][]string{
		{"APPEND", "large", "x"}, {"SETRANGE", "large", "0", "x"}, {"SETBIT", "large", "5", "1"}, {"BITFIELD", "large", "SET", "u8", "0", "7"},
		{"BITCOUNT", "large", "1", "1000"}, {"BITPOS", "large", "0"}, {"GETRANGE", "large", "-10", "-1"}, {"RENAME", "large", "other"}, {"DEL", "other"},
	} {
		before := engine.Statistics.Offloads.Load()
		if reply := client.Do(command...); reply[0] == '-' {
			t.Errorf("%.40q: %q", command, reply)
		}
		if engine.Statistics.Offloads.Load() != before {
			t.Errorf("%.40q left the reactor", command)
		}
	}
}

// TestLCSOfTooLongStringsReadsNone: strings whose table would be too large are refused by their
// lengths. One that is long and another that is empty have a small table, and are read by a worker.
func TestLCSOfTooLongStringsReadsNone(t *testing.T) {
	engine, log := newTestEngine(t)
	log.Discard = true
	client := newTestClient(t, engine)
	client.Do("SET", "large", strings.Repeat("x", 12<<20))
	for _, request := range []struct {
		words  string
		reply  string
		leaves bool
	}{
		{"LCS large large", respError(errLCSTooLarge), false},
		{"LCS large large IDX WITHMATCHLEN", respError(errLCSTooLarge), false},
		{"LCS large large LEN IDX", respError(errLCSBoth), false},
		{"LCS large none LEN", ":0\r\n", true},
	} {
		before := engine.Statistics.Offloads.Load()
		if reply := client.Do(strings.Fields(request.words)...); reply != request.reply {
			t.Errorf("%s: %q", request.words, reply)
		}
		if left := engine.Statistics.Offloads.Load() != before; left != request.leaves {
			t.Errorf("%s left the reactor: %v", request.words, left)
		}
	}
}

func respError(e Error) string { return "-" + string(e) + "\r\n" }

func TestBetween(t *testing.T) {
	redis := oracle.Start(t)
	redis.Do("SET", "k", "abcde")
	redis.Do("SET", "empty", "")
	bounds := []int64{-1 << 63, -100, -6, -5, -2, -1, 0, 1, 4, 5, 6, 100, 1<<63 - 1}
	for _, key := range []string{"k", "empty"} {
		value := []byte(redis.Do("GET", key).(string))
		for start := range slices.Values(bounds) {
			for end := range slices.Values(bounds) {
				from, to := between(len(value), start, end)
				if got, want := string(value[from:to]), redis.Do("GETRANGE", key, start, end); got != want {
					t.Errorf("%q from %d to %d: %q, want %q", value, start, end, got, want)
				}
			}
		}
	}
}
