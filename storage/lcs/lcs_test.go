package lcs

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

// randomPair returns two strings of a few different bytes, sometimes with a part in common.
func randomPair(random *rand.Rand, limit int) (a, b []byte) {
	alphabet := 1 + random.IntN(5)
	if random.IntN(4) == 0 {
		alphabet = 256
	}
	pick := func() []byte {
		s := make([]byte, random.IntN(limit+1))
		for i := range s {
			s[i] = byte(random.IntN(alphabet))
		}
		return s
	}
	common := pick()
	a, b = pick(), pick()
	if random.IntN(2) == 0 {
		a, b = slices.Concat(a, common), slices.Concat(b, common, pick())
	}
	return a, b
}

// naiveMatches fills the table of lengths and walks back through it.
func naiveMatches(a, b []byte) (matches []Match, length int) {
	table := make([][]int, len(a)+1)
	table[0] = make([]int, len(b)+1)
	for i := range a {
		table[i+1] = make([]int, len(b)+1)
		for j := range b {
			table[i+1][j+1] = max(table[i][j+1], table[i+1][j])
			if a[i] == b[j] {
				table[i+1][j+1] = table[i][j] + 1
			}
		}
	}
	joins := false
	for i, j := len(a), len(b); i > 0 && j > 0; {
		switch {
		case a[i-1] == b[j-1]:
			i, j = i-1, j-1
			if joins {
				last := &matches[len(matches)-1]
				*last = Match{i, j, last.Length + 1}
			} else {
				matches = append(matches, Match{i, j, 1})
			}
			joins = true
			continue
		case table[i-1][j] > table[i][j-1]:
			i--
		default:
			j--
		}
		joins = false
	}
	return matches, table[len(a)][len(b)]
}

func TestAgainstNaive(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 1500 {
		a, b := randomPair(random, 100)
		want, length := naiveMatches(a, b)
		got, n := Matches(a, b, 0)
		if n != length || !slices.Equal(got, want) || Length(a, b) != length {
			t.Fatalf("seed %d: %q and %q:\n%v, %d\nwant\n%v, %d", seed, a, b, got, n, want, length)
		}
		var sequence []byte
		for _, match := range slices.Backward(want) {
			sequence = append(sequence, a[match.A:match.A+match.Length]...)
		}
		if got := Sequence(a, b); !bytes.Equal(got, sequence) {
			t.Fatalf("seed %d: %q and %q: %q, want %q", seed, a, b, got, sequence)
		}
	}
}

func reply(matches []Match, length int) []any {
	list := []any{}
	for _, m := range matches {
		list = append(list, []any{
			[]any{int64(m.A), int64(m.A + m.Length - 1)},
			[]any{int64(m.B), int64(m.B + m.Length - 1)},
			int64(m.Length),
		})
	}
	return []any{"matches", list, "len", int64(length)}
}

func TestAgainstRedis(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	server := oracle.Start(t)
	for range 400 {
		a, b := randomPair(random, 150)
		minimum := random.IntN(6) - 1
		server.Send("MSET", "a", a, "b", b)
		server.Send("LCS", "a", "b")
		server.Send("LCS", "a", "b", "LEN")
		server.Send("LCS", "a", "b", "IDX", "WITHMATCHLEN", "MINMATCHLEN", minimum)
		server.Receive()
		if got, want := string(Sequence(a, b)), server.Receive(); got != want {
			t.Fatalf("seed %d: %q and %q: %q, want %q", seed, a, b, got, want)
		}
		if got, want := Length(a, b), server.Receive(); int64(got) != want {
			t.Fatalf("seed %d: %q and %q: %d, want %v", seed, a, b, got, want)
		}
		got, want := reply(Matches(a, b, minimum)), server.Receive()
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %q and %q, minimum %d: %v, want %v", seed, a, b, minimum, got, want)
		}
	}
}

// TestTableSize looks for the sizes on either side of Redis's limit.
func TestTableSize(t *testing.T) {
	server := oracle.Start(t)
	const limit = 1 << 20
	server.Do("CONFIG", "SET", "proto-max-bulk-len", limit)
	for _, size := range [][2]int{{511, 511}, {512, 511}, {511, 512}, {512, 512}, {0, limit/4 - 1}, {0, limit / 4}, {limit/8 - 1, 1}, {limit / 8, 1}} {
		server.Do("MSET", "a", make([]byte, size[0]), "b", make([]byte, size[1]))
		_, refused := server.Do("LCS", "a", "b", "LEN").(oracle.Error)
		if got := TableSize(size[0], size[1]) > limit; got != refused {
			t.Errorf("sizes %v: %d bytes, but Redis refuses them: %v", size, TableSize(size[0], size[1]), refused)
		}
	}
	if got := TableSize(math.MaxInt, math.MaxInt); got != math.MaxUint64 {
		t.Errorf("the largest sizes: %d", got)
	}
}

// TestMemory measures what is allocated, down to strings of one byte.
func TestMemory(t *testing.T) {
	for _, size := range [][2]int{{1, 1 << 20}, {1 << 20, 1}, {1 << 20, 2}, {3000, 3000}, {1 << 16, 64}, {300, 1 << 12}} {
		a, b := make([]byte, size[0]), make([]byte, size[1])
		for i := range a {
			a[i] = byte(i)
		}
		for i := range b {
			b[i] = byte(i * 7)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Matches(a, b, 1<<30)
		runtime.ReadMemStats(&after)
		// Large pieces are rounded up to pages, so that 64 kB are granted.
		if got, limit := after.TotalAlloc-before.TotalAlloc, TableSize(size[0], size[1])+1<<16; got > limit {
			t.Errorf("sizes %v: %d bytes, more than %d", size, got, limit)
		}
	}
}

func FuzzMatches(f *testing.F) {
	f.Add([]byte("ohmytext"), []byte("mynewtext"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if TableSize(len(a), len(b)) > 1<<24 {
			return
		}
		want, length := naiveMatches(a, b)
		if got, n := Matches(a, b, 0); n != length || !slices.Equal(got, want) {
			t.Errorf("%q and %q: %v, %d, want %v, %d", a, b, got, n, want, length)
		}
	})
}

func BenchmarkSequence(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	x, y := make([]byte, 10000), make([]byte, 10000)
	for i := range x {
		x[i], y[i] = "acgt"[random.IntN(4)], "acgt"[random.IntN(4)]
	}
	for b.Loop() {
		Sequence(x, y)
	}
}
