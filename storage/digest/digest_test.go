package digest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

// A twin writes random keys to the oracle and digests them here. Nothing is ever changed again, so
// that what it was told to write is what is there.
type twin struct {
	t      *testing.T
	server *oracle.Server
	random *rand.Rand
	seed   uint64
	sent   int
}

func newTwin(t *testing.T) *twin {
	seed := seed.Of(t)
	return &twin{
		t:      t,
		server: oracle.Start(t, "--enable-debug-command", "yes", "--databases", "300"),
		random: rand.New(rand.NewPCG(seed, 0)),
		seed:   seed,
	}
}

// send queues a command of which only errors are of interest, which settle finds.
func (w *twin) send(command ...any) {
	w.server.Send(command...)
	w.sent++
}

func (w *twin) settle() {
	w.t.Helper()
	for ; w.sent > 0; w.sent-- {
		if err, ok := w.server.Receive().(oracle.Error); ok {
			w.t.Fatalf("seed %d: %v", w.seed, err)
		}
	}
}

// bytes returns an integer, a short or a long string, empty ones too.
func (w *twin) bytes() []byte {
	if w.random.IntN(3) == 0 {
		return strconv.AppendInt(nil, int64(w.random.Uint64())>>w.random.IntN(64), 10)
	}
	size := w.random.IntN(10)
	if w.random.IntN(30) == 0 {
		size = w.random.IntN(300)
	}
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(w.random.Uint32())
	}
	return content
}

func (w *twin) score() float64 {
	switch w.random.IntN(6) {
	case 0:
		return float64(int64(w.random.Uint64()) >> w.random.IntN(64))
	case 1:
		return []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1e17, 1e16, 1e-4, 1e-5,
			math.MaxFloat64, math.SmallestNonzeroFloat64, 123456789012345678, 0.1, 1e100}[w.random.IntN(13)]
	case 2:
		return w.random.NormFloat64()
	case 3:
		return float64(w.random.IntN(100000)) / 100
	}
	for {
		if score := math.Float64frombits(w.random.Uint64()); !math.IsNaN(score) {
			return score
		}
	}
}

// size returns a number of elements on either side of where encodings change.
func (w *twin) size() int {
	if w.random.IntN(4) == 0 {
		return 1 + w.random.IntN(700)
	}
	return 1 + w.random.IntN(20)
}

// write creates a key of a random kind and adds its parts to all of the digests.
func (w *twin) write(key []byte, digests ...*Value) {
	kind := []Kind{String, List, Set, SortedSet, Hash, Stream}[w.random.IntN(6)]
	*digests[0], *digests[1] = NewKey(key, kind), NewValue(kind)
	each := func(add func(v *Value)) {
		for _, v := range digests {
			add(v)
		}
	}
	switch kind {
	case String:
		content := w.bytes()
		w.send("SET", key, content)
		each(func(v *Value) {
			err := v.String(func(write func(part []byte)) error {
				write(content[:len(content)/2])
				write(content[len(content)/2:])
				return nil
			})
			if err != nil {
				w.t.Fatal(err)
			}
		})
	case List:
		for range w.size() {
			element := w.bytes()
			w.send("RPUSH", key, element)
			each(func(v *Value) { v.Element(element) })
		}
	case Stream:
		w.writeStream(key, each)
	default:
		w.writeUnordered(key, kind, each)
	}
	if w.random.IntN(3) == 0 {
		w.send("PEXPIRE", key, 1_000_000_000+w.random.IntN(1000))
		each((*Value).Expires)
	}
}

func (w *twin) writeUnordered(key []byte, kind Kind, each func(func(*Value))) {
	intset := w.random.IntN(2) == 0
	seen := map[string]bool{}
	for range w.size() {
		member, value, score := w.bytes(), w.bytes(), w.score()
		if kind == Set && intset {
			member = strconv.AppendInt(nil, int64(w.random.Uint64()), 10)
		}
		if seen[string(member)] {
			continue
		}
		seen[string(member)] = true
		switch kind {
		case Set:
			w.send("SADD", key, member)
			each(func(v *Value) { v.Member(member) })
		case SortedSet:
			if score == 0 {
				score = 0 // no minus: a listpack forgets it, see TestScores
			}
			w.send("ZADD", key, strconv.FormatFloat(score, 'g', -1, 64), member)
			each(func(v *Value) { v.Scored(member, score) })
		case Hash:
			w.send("HSET", key, member, value)
			each(func(v *Value) { v.Field(member, value) })
		}
	}
}

func (w *twin) writeStream(key []byte, each func(func(*Value))) {
	var milliseconds, sequence uint64 = 0, 0
	for range w.size() {
		milliseconds += w.random.Uint64N(2) * w.random.Uint64N(1<<50)
		sequence += 1 + w.random.Uint64N(1<<40)
		command := []any{"XADD", key, fmt.Sprintf("%d-%d", milliseconds, sequence)}
		var fields [][2][]byte
		for range 1 + w.random.IntN(3) {
			fields = append(fields, [2][]byte{w.bytes(), w.bytes()})
		}
		for _, field := range fields {
			command = append(command, field[0], field[1])
		}
		w.send(command...)
		if w.random.IntN(5) == 0 {
			w.send("XDEL", key, command[2])
			continue
		}
		each(func(v *Value) {
			v.Entry(milliseconds, sequence)
			for _, field := range fields {
				v.EntryField(field[0], field[1])
			}
		})
	}
}

func TestAgainstRedis(t *testing.T) {
	w := newTwin(t)
	var dataset Dataset
	for i := range 120 {
		number := []int{0, 1, 7, 255, 299}[w.random.IntN(5)]
		key := fmt.Append(w.bytes(), i)
		w.send("SELECT", number)
		var named, unnamed Value
		w.write(key, &named, &unnamed)
		w.settle()
		reply := w.server.Do("DEBUG", "DIGEST-VALUE", key).([]any)
		if got := unnamed.Sum().String(); got != reply[0] {
			t.Fatalf("seed %d: a %v in %v: %v, want %v", w.seed, w.server.Do("TYPE", key),
				w.server.Do("OBJECT", "ENCODING", key), got, reply[0])
		}
		dataset.Add(number, named.Sum())
		if got, want := dataset.Sum().String(), w.server.Do("DEBUG", "DIGEST"); got != want {
			t.Fatalf("seed %d: after %d keys: %v, want %v", w.seed, i+1, got, want)
		}
	}
}

// TestZero is what Redis shows for nothing.
func TestZero(t *testing.T) {
	server := newTwin(t).server
	if got, want := (&Dataset{}).Sum().String(), server.Do("DEBUG", "DIGEST"); got != want {
		t.Errorf("no keys: %v, want %v", got, want)
	}
	if got, want := (Sum{}).String(), server.Do("DEBUG", "DIGEST-VALUE", "missing").([]any)[0]; got != want {
		t.Errorf("a missing key: %v, want %v", got, want)
	}
}

// TestScores holds many scores against Redis's digest of them. A listpack keeps whole numbers as
// integers, which have no -0; a skiplist keeps every score as it is.
func TestScores(t *testing.T) {
	w := newTwin(t)
	for encoding, entries := range map[string]int{"listpack": 128, "skiplist": 0} {
		w.server.Do("CONFIG", "SET", "zset-max-listpack-entries", entries)
		for range 300 {
			score := w.score()
			w.server.Do("DEL", "key")
			w.server.Do("ZADD", "key", strconv.FormatFloat(score, 'g', -1, 64), "member")
			if got := w.server.Do("OBJECT", "ENCODING", "key"); got != encoding {
				t.Fatalf("encoding %v, want %v", got, encoding)
			}
			stored := score
			if score == 0 && encoding == "listpack" {
				stored = 0
			}
			value := NewValue(SortedSet)
			value.Scored([]byte("member"), stored)
			if got, want := value.Sum().String(), w.server.Do("DEBUG", "DIGEST-VALUE", "key").([]any)[0]; got != want {
				t.Errorf("seed %d: %v: score %v as %q: %v, want %v", w.seed, encoding, score, appendScore(nil, stored), got, want)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	field, content := []byte("field"), []byte("value")
	value := NewKey(field, SortedSet)
	if allocations := testing.AllocsPerRun(100, func() {
		value.Scored(field, 1.5e-7)
		value.Field(field, content)
		value.Entry(1, 2)
	}); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkField(b *testing.B) {
	field, content := []byte("field"), make([]byte, 100)
	value := NewValue(Hash)
	for b.Loop() {
		value.Field(field, content)
	}
}
