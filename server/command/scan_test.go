package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/resp"
	"kedis/redis-tests/seed"
)

// scanAll walks to the end, and returns how often each element came.
func scanAll(t *testing.T, client *testClient, between func(), words ...string) map[string]int {
	t.Helper()
	at := 1
	if !strings.EqualFold(words[0], "SCAN") {
		at = 2
	}
	seen := map[string]int{}
	for {
		cursor, elements := scanStep(t, client, words...)
		for _, element := range elements {
			seen[element]++
		}
		if cursor == "0" {
			return seen
		}
		words[at] = cursor
		between()
	}
}

func scanStep(t *testing.T, client *testClient, words ...string) (cursor string, elements []string) {
	t.Helper()
	reply, err := resp.NewReader(strings.NewReader(client.Do(words...)), 1<<20).ReadReply()
	if err != nil || len(reply.Elements) != 2 {
		t.Fatalf("%q: %+v, %v", words, reply, err)
	}
	for _, element := range reply.Elements[1].Elements {
		elements = append(elements, string(element.Text))
	}
	return string(reply.Elements[0].Text), elements
}

func TestScanWhileKeysComeAndGo(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 10))
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	for i := range 300 {
		client.Do("SET", fmt.Sprintf("key:%d", i), "v")
		client.Do("HSET", "hash", fmt.Sprintf("field:%d", i), strings.Repeat("v", 100))
	}
	disturb := func() {
		client.Do("SET", fmt.Sprintf("other:%d", random.IntN(1000)), "v")
		client.Do("SET", fmt.Sprintf("key:%d:other", random.IntN(1000)), "v")
		client.Do("DEL", fmt.Sprintf("key:%d:other", random.IntN(1000)))
	}
	for _, options := range [][]string{{}, {"MATCH", "key:*"}, {"COUNT", "1", "MATCH", "key:?"}, {"COUNT", "1000"}, {"COUNT", "7", "TYPE", "string"}} {
		seen := scanAll(t, client, disturb, append([]string{"SCAN", "0"}, options...)...)
		for i := range 10 {
			if key := fmt.Sprintf("key:%d", i); seen[key] != 1 {
				t.Errorf("SCAN %q: %q came %d times", options, key, seen[key])
			}
		}
	}
	seen := scanAll(t, client, disturb, "HSCAN", "hash", "0", "COUNT", "9")
	for i := range 300 {
		if field := fmt.Sprintf("field:%d", i); seen[field] != 1 {
			t.Errorf("HSCAN: %q came %d times", field, seen[field])
		}
	}
}

// TestUnknownCursorsBeginAnew: a cursor that is made up, of another database or of another
// collection misses nothing.
func TestUnknownCursorsBeginAnew(t *testing.T) {
	engine, _ := newTestEngine(t)
	client := newTestClient(t, engine)
	for i := range 100 {
		client.Do("SELECT", strconv.Itoa(i%2))
		client.Do("SET", fmt.Sprintf("key:%03d", i/2), "v")
	}
	client.Do("SELECT", "0")
	cursor, first := scanStep(t, client, "SCAN", "0")
	if _, next := scanStep(t, client, "SCAN", cursor); next[0] != "key:010" {
		t.Errorf("the second step begins with %q", next[0])
	}
	if _, again := scanStep(t, client, "SCAN", cursor); again[0] != "key:010" {
		t.Errorf("repeated, it begins with %q", again[0])
	}
	for _, made := range []string{"1", "18446744073709551615", "-1", cursor + "0"} {
		if _, got := scanStep(t, client, "SCAN", made); got[0] != first[0] {
			t.Errorf("SCAN %s begins with %q", made, got[0])
		}
	}
	client.Do("SELECT", "1")
	if _, got := scanStep(t, client, "SCAN", cursor); got[0] != first[0] {
		t.Errorf("in another database, it begins with %q", got[0])
	}
}

func TestCursorsAreBounded(t *testing.T) {
	var c cursors
	c.init()
	w := walk{database: 1}
	var issued []uint64
	for i := range maxCursors + 10 {
		issued = append(issued, c.step(w, 0, strconv.AppendInt(nil, int64(i), 10)))
	}
	if len(c.steps) != maxCursors {
		t.Errorf("%d cursors are remembered", len(c.steps))
	}
	for i, cursor := range issued {
		got, want := c.find(cursor, w), strconv.Itoa(i)
		if forgotten := i < 10; forgotten != (got == nil) || !forgotten && string(got) != want {
			t.Fatalf("cursor %d of %d: %q", i, len(issued), got)
		}
	}
	large := bytes.Repeat([]byte{'x'}, maxCursorBytes/2)
	for range 5 {
		c.step(w, 0, large)
	}
	if c.bytes > maxCursorBytes {
		t.Errorf("%d bytes are remembered", c.bytes)
	}
	huge := c.step(w, 0, bytes.Repeat(large, 3))
	if len(c.find(huge, w)) != 3*len(large) || len(c.steps) != 1 {
		t.Errorf("a cursor larger than the bound is not remembered alone: %d", len(c.steps))
	}
}

// TestLongWalksDoNotCrowdOutOthers: a walk is remembered by its last two cursors.
func TestLongWalksDoNotCrowdOutOthers(t *testing.T) {
	var c cursors
	c.init()
	slow := c.step(walk{database: 1}, 0, []byte("slow"))
	busy := walk{database: 2}
	var previous, cursor uint64
	for i := range 3 * maxCursors {
		previous, cursor = cursor, c.step(busy, cursor, strconv.AppendInt(nil, int64(i), 10))
	}
	if got := c.find(slow, walk{database: 1}); string(got) != "slow" {
		t.Errorf("the slow walk is at %q", got)
	}
	if c.find(previous, busy) == nil || c.find(cursor, busy) == nil {
		t.Error("the last step can't be repeated")
	}
	if len(c.steps) > 4 {
		t.Errorf("%d cursors are remembered of two walks", len(c.steps))
	}
	if end := c.step(busy, cursor, nil); end != 0 {
		t.Errorf("the end is cursor %d", end)
	}
}

func TestParseCursor(t *testing.T) {
	for word, want := range map[string]uint64{"": 0, "0": 0, "-0": 0, "+7": 7, "7\x00x": 7, "-1": 1<<64 - 1, "18446744073709551615": 1<<64 - 1} {
		if got, err := parseCursor([]byte(word)); got != want || err != nil {
			t.Errorf("%q: %d, %v; want %d", word, got, err, want)
		}
	}
	for _, word := range []string{"x", " 0", "0 ", "+", "-", "--1", "1.0", "0x1", "18446744073709551616", "1_0"} {
		if got, err := parseCursor([]byte(word)); err == nil {
			t.Errorf("%q: %d", word, got)
		}
	}
}
