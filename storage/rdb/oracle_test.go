package rdb

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/oracle"
)

// redis is a redis-server whose commands mustn't fail.
type redis struct {
	*oracle.Server
	t   testing.TB
	dir string
}

// startRedis starts a redis-server. It loads dump.rdb if dir has one.
func startRedis(t testing.TB, dir string, options ...string) redis {
	t.Helper()
	options = append([]string{"--dir", dir, "--enable-debug-command", "yes"}, options...)
	return redis{oracle.Start(t, options...), t, dir}
}

// must sends a command and returns its reply.
func (r redis) must(args ...any) any {
	r.t.Helper()
	reply := r.Do(args...)
	if err, failed := reply.(oracle.Error); failed {
		r.t.Fatalf("%.200q: %v", args, err)
	}
	return reply
}

func (r redis) dump(key any) []byte {
	r.t.Helper()
	payload, ok := r.must("DUMP", key).(string)
	if !ok {
		r.t.Fatalf("%s doesn't exist", key)
	}
	return []byte(payload)
}

// fill makes keys of all kinds and forms. In those with names that start with "list" the way in
// which Redis divides them into nodes depends on the order of insertions; "listr" are RPUSHed.
func (r redis) fill(random *rand.Rand) {
	for i := range 60 {
		n := 1 + random.Intn(1<<random.Intn(10))
		suffix := fmt.Sprint(i)
		r.must("SET", "string"+suffix, randomString(random))
		for range n {
			member := append(randomString(random), suffix...)
			r.Send("RPUSH", "listr"+suffix, randomString(random))
			r.Send([]string{"LPUSH", "RPUSH"}[random.Intn(2)], "list"+suffix, randomString(random))
			r.Send("SADD", "set"+suffix, member)
			r.Send("SADD", "numbers"+suffix, random.Int63()>>(1+random.Intn(62))-1000)
			r.Send("HSET", "hash"+suffix, member, randomString(random))
			r.Send("HSET", "small"+suffix, random.Intn(300), random.NormFloat64())
			r.Send("ZADD", "zset"+suffix, random.NormFloat64(), member)
			r.Send("ZADD", "scores"+suffix, random.Intn(20)-10, random.Intn(100))
		}
		r.drain(8 * n)
	}
	r.must("ZADD", "infinite", "inf", "a", "-inf", "b", "0", "c", "-0", "d", "1e300", "e", "0.1", "f")
	r.must("RPUSH", "listr-large", bytes.Repeat([]byte("large "), 3000), "small", bytes.Repeat([]byte("l"), 9000))
}

// drain receives the replies to n commands.
func (r redis) drain(n int) {
	r.t.Helper()
	for range n {
		if err, failed := r.Receive().(oracle.Error); failed {
			r.t.Fatal(err)
		}
	}
}

// keys returns all keys, in order.
func (r redis) keys() []string {
	var names []string
	for _, key := range r.must("KEYS", "*").([]any) {
		names = append(names, key.(string))
	}
	slices.Sort(names)
	return names
}

// contents asks Redis for what elements returns of a value.
func (r redis) contents(key string, kind Kind) []string {
	r.t.Helper()
	switch kind {
	case String:
		return []string{fmt.Sprintf("%q", r.must("GET", key))}
	case List:
		return quote(r.must("LRANGE", key, 0, -1))
	case Set:
		return quote(r.must("SMEMBERS", key))
	}
	var lines []string
	pairs := r.must("HGETALL", key).([]any)
	for i := 0; i < len(pairs); i += 2 {
		lines = append(lines, fmt.Sprintf("%q: %q", pairs[i], pairs[i+1]))
	}
	return lines
}

func quote(reply any) []string {
	var lines []string
	for _, element := range reply.([]any) {
		lines = append(lines, fmt.Sprintf("%q", element))
	}
	return lines
}

// What Redis dumps is read; what was read is written again as the same bytes; and Redis restores
// what we wrote as the same value.
func TestDumpsOfRedis(t *testing.T) {
	const seed = 11
	r := startRedis(t, t.TempDir())
	r.fill(rand.New(rand.NewSource(seed)))
	var d Decoder
	p := NewPayloadWriter()
	for _, key := range r.keys() {
		dump := r.dump(key)
		v, err := d.Payload(dump)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, key, err)
		}
		p.Begin(nil)
		if err := reencode(&p.Encoder, v); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, key, err)
		}
		payload, err := p.Finish()
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, key, err)
		}
		divided := strings.HasPrefix(key, "list") && !strings.HasPrefix(key, "listr")
		if !divided && !bytes.Equal(payload, dump) {
			t.Errorf("seed %d: %s (%s): written\n%.600x, dumped\n%.600x", seed, key, v.Type, payload, dump)
		}
		r.must("RESTORE", "copy", 0, payload, "REPLACE")
		digests := r.must("DEBUG", "DIGEST-VALUE", key, "copy").([]any)
		if digests[0] != digests[1] {
			t.Errorf("seed %d: %s (%s): restored as something else", seed, key, v.Type)
		}
	}
}

// Every element is what Redis itself says it is.
func TestElementsOfDumps(t *testing.T) {
	const seed = 12
	r := startRedis(t, t.TempDir())
	r.fill(rand.New(rand.NewSource(seed)))
	for _, key := range r.keys() {
		v, got := read(t, r.dump(key))
		if v.Kind.String() != r.must("TYPE", key) {
			t.Errorf("seed %d: %s is read as a %s", seed, key, v.Kind)
		}
		if v.Kind == SortedSet {
			continue // TestScoresOfDumps
		}
		if want := r.contents(key, v.Kind); !slices.Equal(got, want) {
			t.Errorf("seed %d: %s: got %.300q, want %.300q", seed, key, got, want)
		}
	}
}

// A score that was read finds the member that has exactly this one.
func TestScoresOfDumps(t *testing.T) {
	r := startRedis(t, t.TempDir())
	r.fill(rand.New(rand.NewSource(13)))
	for _, key := range r.keys() {
		v, err := new(Decoder).Payload(r.dump(key))
		if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if err != nil || v.Kind != SortedSet {
			continue
		}
		n := 0
		for ; v.Next() && n < 50; n++ {
			score := fmt.Sprintf("%.17g", v.Element.Score)
			found := quote(r.must("ZRANGEBYSCORE", key, score, score))
			if !slices.Contains(found, fmt.Sprintf("%q", v.Element.Bytes)) {
				t.Errorf("%s: %q hasn't score %s", key, v.Element.Bytes, score)
			}
		}
		if card := r.must("ZCARD", key); card != int64(v.Count) || n == 0 {
			t.Errorf("%s: %d members instead of %d", key, v.Count, card)
		}
	}
}

// Redis takes the form of a list that needs no second walk for the same list.
func TestPlainList(t *testing.T) {
	r := startRedis(t, t.TempDir())
	elements := []string{"a", "17", strings.Repeat("x", 9000), "b"}
	payload := write(t, func(e *Encoder) {
		e.BeginPlainList(uint64(len(elements)))
		for _, s := range elements {
			e.ListElement([]byte(s))
			r.must("RPUSH", "want", s)
		}
		e.End()
	})
	r.must("RESTORE", "got", 0, payload)
	if digests := r.must("DEBUG", "DIGEST-VALUE", "want", "got").([]any); digests[0] != digests[1] {
		t.Fatal("another list")
	}
}

// A file that Redis saved is read, written by us, and loaded by another Redis: no digest differs.
func TestFileThroughRedis(t *testing.T) {
	const seed = 14
	first := startRedis(t, t.TempDir())
	first.fill(rand.New(rand.NewSource(seed)))
	first.must("PEXPIREAT", "string1", 4000000000000)
	first.must("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 7 end)")
	first.must("SELECT", 9)
	first.must("SET", "other", "database", "PXAT", 4000000000123)
	first.must("SAVE")
	saved, err := os.ReadFile(filepath.Join(first.dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	second := startRedis(t, rewrite(t, saved))
	waitLoaded(second)
	if want, got := first.must("DEBUG", "DIGEST"), second.must("DEBUG", "DIGEST"); got != want {
		t.Errorf("seed %d: digest %v, want %v", seed, got, want)
	}
	if got := second.must("FCALL", "f", 0); got != int64(7) {
		t.Errorf("the function returns %v", got)
	}
	if got := second.must("PEXPIRETIME", "string1"); got != int64(4000000000000) {
		t.Errorf("expires at %v", got)
	}
}

// waitLoaded waits until the server has loaded its file; it may accept connections before.
func waitLoaded(r redis) {
	for {
		if reply := fmt.Sprint(r.Do("PING")); !strings.HasPrefix(reply, "LOADING") {
			return
		}
	}
}

// rewrite writes an RDB file with the contents of another to a new directory.
func rewrite(t *testing.T, saved []byte) (dir string) {
	dir = t.TempDir()
	file, err := os.Create(filepath.Join(dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(file, Redis70)
	r, err := NewReader(bytes.NewReader(saved), 0)
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := r.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = copyRecord(w, record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if r.Offset() != int64(len(saved)) {
		t.Errorf("%d bytes of %d were read", r.Offset(), len(saved))
	}
	return dir
}

func copyRecord(w *Writer, record *Record) error {
	switch record.Kind {
	case RecordAux:
		w.Aux(string(record.Name), string(record.Data))
	case RecordDatabase:
		w.Database(record.Database)
	case RecordSizes:
		w.Sizes(record.Keys, record.Expires)
	case RecordFunction:
		w.Function(record.Data)
	case RecordKey:
		w.Key(record.Key, record.ExpireMs)
		return reencode(&w.Encoder, record.Value)
	}
	return nil
}

// A stream's parts are what Redis says they are.
func TestStreamOfRedis(t *testing.T) {
	r := startRedis(t, t.TempDir(), "--stream-node-max-entries", "3")
	for _, command := range []string{
		"XADD s 1-1 a 1 b 2", "XADD s 1-2 a x b -70000", "XADD s 2-0 other 3", "XADD s 5-5 a 1 b 2",
		"XADD s 6-0 a 1 b 2", "XADD s 7-0 a 1 b 2", "XDEL s 1-2", "XDEL s 7-0",
		"XGROUP CREATE s g1 0", "XGROUP CREATE s g2 $ ENTRIESREAD 4",
		"XREADGROUP GROUP g1 alice COUNT 2 STREAMS s >", "XREADGROUP GROUP g1 bob COUNT 1 STREAMS s >",
		"XGROUP CREATECONSUMER s g2 carol",
		"XCLAIM s g1 alice 0 1-1 TIME 1700000000000 RETRYCOUNT 5", "XCLAIM s g1 alice 0 2-0 TIME 1700000000001 RETRYCOUNT 6",
		"XCLAIM s g1 bob 0 5-5 TIME 1700000000002 RETRYCOUNT 7",
	} {
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		r.must(args...)
	}
	v, got := read(t, r.dump("s"))
	for i, text := range got { // the consumers' times are those of the test
		if before, _, found := strings.Cut(text, " seen "); found {
			got[i] = before
		}
	}
	want := []string{
		`entry 1-1 ["a" "1" "b" "2"]`, `entry 2-0 ["other" "3"]`, `entry 5-5 ["a" "1" "b" "2"]`, `entry 6-0 ["a" "1" "b" "2"]`,
		"totals 4 last 7-0 first 1-1 deleted 7-0 added 6",
		"group g1 last 5-5 read -1",
		"pending 1-1 delivered 5 at 1700000000000", "pending 2-0 delivered 6 at 1700000000001", "pending 5-5 delivered 7 at 1700000000002",
		"consumer alice", "owns 1-1", "owns 2-0", "consumer bob", "owns 5-5",
		"group g2 last 7-0 read 4",
		"consumer carol",
	}
	if v.Kind != Stream || !slices.Equal(got, want) {
		t.Fatalf("got %q\nwant %q", got, want)
	}
	// In a file, what isn't read of it is passed over.
	r.must("SET", "t", "after")
	r.must("SAVE")
	saved, err := os.ReadFile(filepath.Join(r.dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	if err := readFile(saved, func(record *Record) error {
		if record.Kind == RecordKey {
			keys++
		}
		return nil
	}); err != nil || keys != 2 {
		t.Fatal(keys, err)
	}
}

// TestStreamNodesWithoutEntries: a copy of a stream has the nodes whose entries are all deleted.
// Redis leaves one when it trims up to an entry that was deleted before.
func TestStreamNodesWithoutEntries(t *testing.T) {
	r := startRedis(t, t.TempDir(), "--stream-node-max-entries", "3")
	for key, entries := range map[string]int{"emptied": 3, "shortened": 7} {
		for ms := 1; ms <= entries; ms++ {
			r.must("XADD", key, fmt.Sprintf("%d-0", ms), "field", "value")
		}
		r.must("XDEL", key, "3-0")
		r.must("XTRIM", key, "MINID", "3-0")
		payload := r.dump(key)
		v, err := new(Decoder).Payload(payload)
		if err != nil {
			t.Fatal(err)
		}
		r.must("RESTORE", "copy", 0, write(t, func(e *Encoder) {
			if err := v.CopyTo(e); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}), "REPLACE")
		for _, about := range [][]any{{"XINFO", "STREAM"}, {"DEBUG", "DIGEST-VALUE"}} {
			if want, got := r.must(append(about, key)...), r.must(append(about, "copy")...); !reflect.DeepEqual(got, want) {
				t.Errorf("%s of a copy of %s: %v, expected %v", about[1], key, got, want)
			}
		}
	}
}

// A score that is text is the number that it is to Redis, however it is written.
func TestScoresAsText(t *testing.T) {
	r := startRedis(t, t.TempDir())
	for _, text := range []string{"0x10", "0X1p3", "0x1.8", "0x.8p1", "0x1P+2", "0x1p-1074", "0x20000000000001", "0x1p99999", "+5", "-0", ".5", "5.", "1e3",
		"inf", "-inf", "+Inf", "infinity", "017", "1e400", "-1e400", "1e-400", "2.4e-324", "9007199254740993"} {
		old := append([]byte{byte(typeZSet), 1, 1, 'm', byte(len(text))}, text...)
		for form, payload := range map[string][]byte{"a length and text": seal(old), "a listpack": seal(packedBody(typeZSetListpack, pack("m", text)))} {
			r.must("RESTORE", "key", 0, payload, "REPLACE")
			want, err := strconv.ParseFloat(fmt.Sprint(r.must("ZSCORE", "key", "m")), 64)
			if err != nil {
				t.Fatal(err)
			}
			v, err := new(Decoder).Payload(payload)
			if err != nil || !v.Next() {
				t.Errorf("%s in %s is no score (%v), and %v in Redis", text, form, err, want)
				continue
			}
			if v.Element.Score != want {
				t.Errorf("%s in %s is read as %v, by Redis as %v", text, form, v.Element.Score, want)
			}
		}
	}
	for _, text := range []string{"nan", "1_000", "0b11", "0o17"} { // the last three are other numbers to Go
		if v, err := new(Decoder).Payload(seal(packedBody(typeZSetListpack, pack("m", text)))); err == nil && v.Next() {
			t.Errorf("%s is read as %v", text, v.Element.Score)
		}
	}
}
