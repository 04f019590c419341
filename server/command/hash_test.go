package command

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kedis/redis-tests/seed"
	"kedis/server/enginetest"
	"kedis/storage"
	"kedis/storage/layout"
)

// effectCase is a command after another one, and what goes to the log then.
type effectCase struct{ before, command, effects string }

// checkEffects runs cases one by one, each on an empty database. chance replaces what is picked by
// chance.
func checkEffects(t *testing.T, chance *regexp.Regexp, cases []effectCase) {
	t.Helper()
	engine, log := newTestEngine(t)
	client := newTestClient(t, engine)
	for _, c := range cases {
		client.Flush()
		for before := range strings.SplitSeq(c.before, "; ") {
			if before != "" {
				client.Do(strings.Split(before, " ")...)
			}
		}
		log.Content = nil
		client.Do(strings.Split(c.command, " ")...)
		got := chance.ReplaceAllString(strings.Join(enginetest.Requests(t, log.Content), "; "), "*")
		if got != c.effects {
			t.Errorf("%q after %q: effect %q, want %q", c.command, c.before, got, c.effects)
		}
	}
}

func TestHashEffects(t *testing.T) {
	checkEffects(t, aTime, []effectCase{
		{"", "HSET h f v g w", "HSET h f v g w"},
		{"HSET h f v", "HSET h f v", "HSET h f v"},
		{"", "HSET h f", ""},
		{"", "HMSET h f v", "HMSET h f v"},
		{"", "HSETNX h f v", "HSETNX h f v"},
		{"HSET h f v", "HSETNX h f w", ""},
		{"", "HINCRBY h f 5", "HINCRBY h f 5"},
		{"HSET h f v", "HINCRBY h f 5", ""},
		{"HSET h f 0.1", "HINCRBYFLOAT h f 0.2", "HSET h f 0.3"},
		{"HSET h f v", "HINCRBYFLOAT h f 0.2", ""},
		{"HSET h f v g w", "HDEL h f missing", "HDEL h f missing"},
		{"HSET h f v", "HDEL h missing", ""},
		{"", "HDEL h f", ""},
		{"HSET h f v", "HGETALL h", ""},
		{"SET h v", "HSET h f v", ""},
	})
}

// TestHashesAndSetsReplay applies the log of random commands to a second store, which must then
// hold the same.
func TestHashesAndSetsReplay(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 3))
	engine, log := newTestEngine(t)
	if err := engine.Config.Set([][2]string{{"hash-max-listpack-entries", "8"}, {"set-max-intset-entries", "8"},
		{"set-max-listpack-entries", "12"}}); err != nil {
		t.Fatal(err)
	}
	client := newTestClient(t, engine)
	for range 3000 {
		client.Do(randomElementCommand(random)...)
	}
	replica, _ := newTestEngine(t)
	if err := replica.NewLogApplier().Replay(0, log.Content, log.Position(), time.Now()); err != nil {
		t.Fatal(err)
	}
	got, want := collectionsOf(t, replica), collectionsOf(t, engine)
	if !maps.Equal(got, want) || len(want) == 0 {
		t.Errorf("the replica has\n%v, want\n%v", got, want)
	}
}

func randomElementCommand(random *rand.Rand) []string {
	h := func() string { return "h" + strconv.Itoa(random.IntN(3)) }
	s := func() string { return "s" + strconv.Itoa(random.IntN(4)) }
	n := func() string { return strconv.Itoa(random.IntN(30)) }
	m := func() string { return string(rune('a' + random.IntN(26))) }
	commands := [][]string{
		{"HSET", h(), n(), m(), n(), n()}, {"HMSET", h(), m(), n()}, {"HSETNX", h(), m(), m()}, {"HINCRBY", h(), n(), n()},
		{"HINCRBYFLOAT", h(), n(), "0." + n()}, {"HDEL", h(), n(), m(), n()}, {"HDEL", h(), m()},
		{"SADD", s(), n(), m(), n()}, {"SADD", s(), n(), n(), n(), n()}, {"SREM", s(), n(), m()}, {"SMOVE", s(), s(), n()},
		{"SPOP", s()}, {"SPOP", s(), n()}, {"SINTERSTORE", s(), s(), s()}, {"SUNIONSTORE", s(), s(), s()}, {"SDIFFSTORE", s(), s(), s()},
		{"EXPIRE", s(), "1000"}, {"EXPIRE", h(), "1000"},
	}
	return commands[random.IntN(len(commands))]
}

// collectionsOf are the hashes and sets of database 0: expiry and elements of each.
func collectionsOf(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	found := map[string]string{}
	txn := e.Store.NewTxn()
	txn.Begin(storage.Mode{Applying: true}, 0, 0)
	err := txn.DB(0).Keys(nil, func(key []byte, m *layout.Metadata) bool {
		elements := map[string]string{} // which are printed in order
		_, err := txn.DB(0).ScanElements(storage.Key{Metadata: *m, Exists: true}, storage.ScanStep{Count: 1000},
			func(element, value []byte) { elements[string(element)] = string(value) })
		if err != nil {
			t.Fatal(err)
		}
		found[string(key)] = fmt.Sprint(m.ExpireMs, elements)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestSamplesEnd: only the client's word says how large a sample with repetition becomes.
func TestSamplesEnd(t *testing.T) {
	engine, _ := newTestEngine(t)
	if err := engine.Config.Set([][2]string{{"proto-max-bulk-len", "1mb"}}); err != nil {
		t.Fatal(err)
	}
	client := newTestClient(t, engine)
	client.Do("HSET", "h", "f", "v")
	client.Do("SADD", "s", "m")
	client.Do("ZADD", "z", "1", "m")
	for _, command := range []string{"HRANDFIELD h -9223372036854775807", "HRANDFIELD h -4611686018427387903 WITHVALUES",
		"SRANDMEMBER s -9223372036854775807", "ZRANDMEMBER z -9223372036854775807", "ZRANDMEMBER z -4611686018427387903 WITHSCORES"} {
		if reply := client.Do(strings.Split(command, " ")...); reply != "-"+string(errSampleReply)+"\r\n" {
			t.Errorf("%s: %.100q", command, reply)
		}
	}
	for _, command := range []string{"SRANDMEMBER s -100000", "ZRANDMEMBER z -100000"} {
		if reply := client.Do(strings.Split(command, " ")...); reply != "*100000\r\n"+strings.Repeat("$1\r\nm\r\n", 100000) {
			t.Errorf("%s: %.100q", command, reply)
		}
	}
	if err := engine.Config.Set([][2]string{{"proto-max-bulk-len", strconv.Itoa(math.MaxInt)}}); err != nil {
		t.Fatal(err)
	}
	if reply := client.Do("HRANDFIELD", "h", "-1"); reply != "*1\r\n$1\r\nf\r\n" {
		t.Errorf("HRANDFIELD h -1 without a limit: %.100q", reply)
	}
}
