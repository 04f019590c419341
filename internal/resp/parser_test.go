package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// request encodes a request of words.
func request(words ...string) string {
	var arguments [][]byte
	for _, word := range words {
		arguments = append(arguments, []byte(word))
	}
	return string(AppendRequest(nil, arguments...))
}

// parse feeds the input in pieces, whose ends are given, and returns what Next gave out and the
// error that ended it. It keeps everything given out until release says so, and only then copies
// it, so that what was moved or overwritten too early shows.
func parse(t testing.TB, p *Parser, input []byte, ends []int, release func() bool) (requests [][]string, failure error) {
	t.Helper()
	var held [][][]byte
	keep := func() {
		for _, arguments := range held {
			requests = append(requests, texts(arguments))
		}
		held = nil
		p.Release()
	}
	start := 0
	for _, end := range append(slices.Clone(ends), len(input)) {
		piece := bytes.Clone(input[start:end])
		if failure = p.Feed(piece); failure != nil {
			break
		}
		clear(piece) // the parser mustn't refer to it
		start = end
		for {
			var arguments [][]byte
			if arguments, failure = p.Next(); arguments == nil {
				break
			}
			held = append(held, arguments)
			if release() {
				keep()
			}
		}
		if failure != nil {
			break
		}
		if release() {
			keep()
		}
	}
	keep()
	return requests, failure
}

func texts(arguments [][]byte) []string {
	words := make([]string, 0, len(arguments))
	for _, argument := range arguments {
		words = append(words, string(argument))
	}
	return words
}

func never() bool  { return false }
func always() bool { return true }

// randomEnds cuts a length into pieces.
func randomEnds(random *rand.Rand, length int) []int {
	var ends []int
	for i := range random.IntN(20) {
		if i < length {
			ends = append(ends, random.IntN(length))
		}
	}
	slices.Sort(ends)
	return ends
}

func TestParserSplitsAtEveryByte(t *testing.T) {
	large := strings.Repeat("0123456789", largeArgument/10+1)
	input := request("SET", "key", "value") + "*0\r\n*-1\r\n\r\n" + request("", "\r\n", "*1\r\n") + " get  \"a\\x62\" 'c d'\r\n" +
		request("SET", large, "small", large) + "ping\n" + request("PING")
	want := [][]string{{"SET", "key", "value"}, {"", "\r\n", "*1\r\n"}, {"get", "ab", "c d"}, {"SET", large, "small", large}, {"ping"}, {"PING"}}
	for i := range input {
		if i > 200 && i < len(input)-200 && i%1009 != 0 {
			continue
		}
		for _, release := range []func() bool{never, always} {
			got, err := parse(t, NewParser(nil), []byte(input), []int{i}, release)
			if err != nil || !equalRequests(got, want) {
				t.Fatalf("split at %d: %d requests, error %v", i, len(got), err)
			}
		}
	}
}

func equalRequests(a, b [][]string) bool {
	return slices.EqualFunc(a, b, slices.Equal)
}

// TestParserRandomSplits holds long streams of requests of many sizes together, fed and released at
// random.
func TestParserRandomSplits(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, 0))
	release := func() bool { return random.IntN(3) == 0 }
	p := NewParser(nil)
	for round := range 150 {
		var input []byte
		var want [][]string
		for range random.IntN(50) {
			words := make([]string, 1+random.IntN(20))
			for i := range words {
				words[i] = randomText(random, 1<<random.IntN(9))
			}
			if random.IntN(10) == 0 {
				words[random.IntN(len(words))] = randomText(random, 4*largeArgument)
			}
			want = append(want, words)
			input = append(input, request(words...)...)
		}
		got, err := parse(t, p, input, randomEnds(random, len(input)), release)
		if err != nil || !equalRequests(got, want) {
			t.Fatalf("seed %d, round %d: %d of %d requests, error %v", seed, round, len(got), len(want), err)
		}
		if p.Buffered() != 0 {
			t.Fatalf("seed %d, round %d: %d bytes are held with nothing to hold", seed, round, p.Buffered())
		}
	}
}

func randomText(random *rand.Rand, limit int) string {
	text := make([]byte, random.IntN(limit))
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	return string(text)
}

// TestParserReleaseWithinRequest releases a request while the next one is there in part, large and
// small arguments of it, at every place near a border.
func TestParserReleaseWithinRequest(t *testing.T) {
	large := strings.Repeat("0123456789", largeArgument/10+1)
	words := []string{"SET", "", large, "k", "", large, "v"}
	head := request("PING")
	input := head + request(words...)
	near := func(i int) bool { // a border is near
		return i < 80 || i > len(input)-80 || i > len(head)+len(large) && i < len(head)+len(large)+80
	}
	for i := len(head); i < len(input); i++ {
		for j := i; j < len(input) && near(i); j++ {
			if near(j) && i%5 == j%3 {
				releaseWithin(t, input, i, j, words)
			}
		}
	}
}

func releaseWithin(t *testing.T, input string, i, j int, want []string) {
	t.Helper()
	p := NewParser(nil)
	for n, piece := range []string{input[:i], input[i:j], input[j:]} {
		if err := p.Feed([]byte(piece)); err != nil {
			t.Fatal(err)
		}
		switch n {
		case 0, 1:
			if got := drain(t, p); got != 1-n {
				t.Fatalf("cut at %d, %d: %d requests", i, j, got)
			}
		case 2:
			if arguments, err := p.Next(); err != nil || !slices.Equal(texts(arguments), want) {
				t.Fatalf("cut at %d, %d: %.100q, %v", i, j, arguments, err)
			}
		}
		if n == 1 {
			p.Release()
		}
	}
}

// TestParserSkips shows that empty requests aren't held until somebody releases them.
func TestParserSkips(t *testing.T) {
	p := NewParser(nil)
	for range 10000 {
		if err := p.Feed([]byte("\r\n*0\r\n \n*-1\r\n")); err != nil {
			t.Fatal(err)
		}
		if got := drain(t, p); got != 0 || p.Buffered() != 0 || capacity(p) > minBuffer {
			t.Fatalf("%d requests, %d bytes are held, %d bytes of memory", got, p.Buffered(), capacity(p))
		}
	}
}

func TestParserGoesOnAfterError(t *testing.T) {
	for _, broken := range []string{"*x\r\n", "\"\r\n", "*1\r\n$x\r\n", "*2\r\n$1\r\na\r\n+\r\n"} {
		p := NewParser(nil)
		input := request("PING", "a") + broken + request("PING")
		if err := p.Feed([]byte(input)); err != nil {
			t.Fatal(err)
		}
		first, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		var protocolError *ProtocolError
		for range 2 {
			if arguments, err := p.Next(); arguments != nil || !errors.As(err, &protocolError) {
				t.Errorf("%q: %q, %v", broken, arguments, err)
			}
		}
		if got := texts(first); !slices.Equal(got, []string{"PING", "a"}) {
			t.Errorf("%q: the request before the error became %q", broken, got)
		}
		p.Release()
		if err := p.Feed([]byte("x")); !errors.As(err, &protocolError) {
			t.Errorf("%q: Feed after the error says %v", broken, err)
		}
	}
}

// TestParserAppendToArgument shows that no argument has room that belongs to another.
func TestParserAppendToArgument(t *testing.T) {
	p := NewParser(nil)
	if err := p.Feed([]byte(request("a", "b") + "c d\r\n" + request("e"))); err != nil {
		t.Fatal(err)
	}
	var all [][][]byte
	for range 3 {
		arguments, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, arguments)
		for i := range arguments {
			_ = append(arguments[i], "overwritten overwritten"...)
		}
		_ = append(arguments, []byte("overwritten"))
	}
	if got := fmt.Sprintf("%s", all); got != "[[a b] [c d] [e]]" {
		t.Errorf("got %s", got)
	}
}

func TestParserQueryBufferLimit(t *testing.T) {
	const limit = 1 << 20
	limits := &Limits{QueryBuffer: func() int64 { return limit }}
	header := "*2\r\n$4\r\nECHO\r\n"
	small := "$1000\r\n" + strings.Repeat("x", 1000) + "\r\n"
	for name, c := range map[string]struct {
		input string
		err   error
	}{
		"largest argument":         {fmt.Sprintf("%s$%d\r\n%s\r\n", header, limit-2, strings.Repeat("x", limit-2)), nil},
		"too large an argument":    {fmt.Sprintf("%s$%d\r\n%s\r\n", header, limit-1, strings.Repeat("x", limit-1)), ErrQueryBuffer},
		"many requests":            {strings.Repeat(request("SET", "k", strings.Repeat("x", 1000)), 3000), nil},
		"many empty requests":      {strings.Repeat("*0\r\n\r\n", limit/2), nil},
		"argument after argument":  {"*5000\r\n" + strings.Repeat(small, 2000), ErrQueryBuffer},
		"empty argument after it":  {"*500000\r\n" + strings.Repeat("$0\r\n\r\n", 100000), ErrQueryBuffer},
		"three that fit in turns":  {"*4\r\n" + strings.Repeat("$500000\r\n"+strings.Repeat("x", 500000)+"\r\n", 3), nil},
		"half of a large argument": {fmt.Sprintf("%s$%d\r\n%s", header, 2*limit, strings.Repeat("x", limit+100)), ErrQueryBuffer},
	} {
		var ends []int
		for end := 16384; end < len(c.input); end += 16384 {
			ends = append(ends, end)
		}
		if _, err := parse(t, NewParser(limits), []byte(c.input), ends, always); !errors.Is(err, c.err) {
			t.Errorf("%s: error %v, want %v", name, err, c.err)
		}
	}
}

// TestParserQueryBufferBeforeAUTH feeds small requests that nobody asks for.
func TestParserQueryBufferBeforeAUTH(t *testing.T) {
	p := NewParser(nil)
	p.Unauthenticated = true
	piece := []byte(strings.Repeat("ping\r\n", 1000))
	fed := 0
	for p.Feed(piece) == nil && fed < 10<<20 {
		fed += len(piece)
	}
	if fed < unauthenticatedQueryBuffer-len(piece) || fed > unauthenticatedQueryBuffer {
		t.Errorf("%d bytes were taken", fed)
	}
}

// TestParserLimitsAreReadAnew changes the limit between two requests.
func TestParserLimitsAreReadAnew(t *testing.T) {
	limit := int64(3)
	p := NewParser(&Limits{BulkLength: func() int64 { return limit }})
	if err := p.Feed([]byte(request("abc") + request("abcd") + request("abcd"))); err != nil {
		t.Fatal(err)
	}
	if arguments, err := p.Next(); err != nil || len(arguments) != 1 {
		t.Fatal(arguments, err)
	}
	limit = 4
	if arguments, err := p.Next(); err != nil || len(arguments) != 1 {
		t.Fatal(arguments, err)
	}
	limit = 3
	if arguments, err := p.Next(); err == nil {
		t.Fatal(arguments, err)
	}
}

// TestParserAnnouncedLength announces as much as can be, and sends little.
func TestParserAnnouncedLength(t *testing.T) {
	unlimited := func() int64 { return 1<<63 - 1 }
	limits := &Limits{BulkLength: unlimited, QueryBuffer: unlimited}
	for _, input := range []string{
		"*2147483647\r\n$9223372036854775807\r\nabc",
		"*2147483647\r\n$2305843009213693951\r\nabc",
		"*2147483647\r\n$1000000000000\r\n" + strings.Repeat("x", 100000),
		"*2147483647\r\n" + strings.Repeat("$1\r\nx\r\n", 1000),
	} {
		p := NewParser(limits)
		_, err := parse(t, p, []byte(input), randomEnds(rand.New(rand.NewPCG(1, 1)), len(input)), never)
		var protocolError *ProtocolError
		if err != nil && !errors.As(err, &protocolError) {
			t.Errorf("%.40q: %v", input, err)
		}
		if held := capacity(p); held > 6*len(input)+4*retainedBuffer {
			t.Errorf("%.40q: %d bytes of memory for %d bytes", input, held, len(input))
		}
	}
}

// capacity is the memory that a parser refers to, but for what it has given out.
// TestParserGrowsLittle feeds a large argument in pieces: the buffers that it passes through have
// little more than its bytes together.
func TestParserGrowsLittle(t *testing.T) {
	const size = 8 << 20
	p := NewParser(nil)
	input := []byte(request("SET", "key", string(make([]byte, size))))
	passed, last := 0, 0
	for part := range slices.Chunk(input, 64<<10) {
		if err := p.Feed(part); err != nil {
			t.Fatal(err)
		}
		if words, err := p.Next(); err != nil || words != nil && len(words[2]) != size {
			t.Fatalf("%d words, error %v", len(words), err)
		}
		if now := cap(p.large); now != last {
			passed, last = passed+now, now
		}
	}
	if most := size + 4*size/trustedShare; passed > most {
		t.Errorf("buffers of %d bytes, of at most %d", passed, most)
	}
}

func capacity(p *Parser) int {
	return cap(p.buffer) + cap(p.large) + cap(p.arguments)*sliceSize
}

func TestParserShrinks(t *testing.T) {
	many := []byte(strings.Repeat(request("SET", "key", "value"), 20000))
	huge := []byte(request("SET", "key", strings.Repeat("x", 1<<20)))
	for name, input := range map[string][]byte{"many requests": many, "a huge one": huge} {
		for _, split := range []int{0, len(request("SET", "k", "v")) / 2} {
			last := request("SET", "k", "v")
			p := NewParser(nil)
			if err := p.Feed(append(slices.Clone(input), last[:split]...)); err != nil {
				t.Fatal(err)
			}
			drain(t, p)
			p.Release()
			if held, kept := p.Buffered(), capacity(p); held != split || kept > 2*retainedBuffer {
				t.Errorf("%s: %d bytes are held, want %d; %d bytes of memory are kept", name, held, split, kept)
			}
			p.Idle()
			if kept := capacity(p); (kept == 0) != (split == 0) {
				t.Errorf("%s: Idle leaves %d bytes of memory when %d are held", name, kept, split)
			}
			if err := p.Feed([]byte(last[split:])); err != nil {
				t.Fatal(err)
			}
			if arguments, err := p.Next(); err != nil || !slices.Equal(texts(arguments), []string{"SET", "k", "v"}) {
				t.Errorf("%s: the next request is %q, %v", name, arguments, err)
			}
		}
	}
}

// drain counts the requests that Next gives out.
func drain(t testing.TB, p *Parser) (requests int) {
	t.Helper()
	for {
		arguments, err := p.Next()
		if err != nil {
			t.Fatal(err)
		}
		if arguments == nil {
			return requests
		}
		requests++
	}
}

// TestParserLetsLargeArgumentsGo checks by finalizer that a released argument can be collected.
func TestParserLetsLargeArgumentsGo(t *testing.T) {
	p := NewParser(nil)
	input := request("SET", "key", strings.Repeat("x", 1<<20))
	collected := make(chan bool)
	func() {
		for _, piece := range []string{input[:1000], input[1000:]} {
			if err := p.Feed([]byte(piece)); err != nil {
				t.Fatal(err)
			}
			arguments, err := p.Next()
			if err != nil {
				t.Fatal(err)
			}
			if arguments != nil {
				runtime.SetFinalizer(&arguments[2][0], func(*byte) { close(collected) })
			}
		}
	}()
	p.Release()
	for range 100 {
		runtime.GC()
		select {
		case <-collected:
			runtime.KeepAlive(p)
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the parser keeps a released argument")
	runtime.KeepAlive(p)
}

func TestParserAllocations(t *testing.T) {
	p := NewParser(nil)
	pipeline := []byte(strings.Repeat(request("SET", "key:000012345", strings.Repeat("x", 100)), 16) + "PING inline\r\n")
	n := testing.AllocsPerRun(100, func() {
		for _, piece := range [][]byte{pipeline[:777], pipeline[777:1003], pipeline[1003:]} {
			if err := p.Feed(piece); err != nil {
				t.Fatal(err)
			}
			drain(t, p)
			p.Release()
		}
	})
	if n > 0 {
		t.Errorf("a pipeline costs %v allocations", n)
	}
}

// TestParserAllocationsOfFullReads feeds as much as a server reads at once, cut anywhere.
func TestParserAllocationsOfFullReads(t *testing.T) {
	p := NewParser(nil)
	stream := []byte(strings.Repeat(request("SET", "key:000012345", "value"), 2000))
	stream = append(stream, stream...)
	const read = 64 << 10
	offset, period := 0, len(stream)/2
	n := testing.AllocsPerRun(100, func() {
		if err := p.Feed(stream[offset : offset+read]); err != nil {
			t.Fatal(err)
		}
		drain(t, p)
		p.Release()
		offset = (offset + read) % period
	})
	if n > 0 {
		t.Errorf("a full read costs %v allocations", n)
	}
}

// FuzzParser feeds an input whole and in pieces: the requests and the error must be the same,
// nothing given out may change before it is released, and memory is bounded by what came.
func FuzzParser(f *testing.F) {
	for _, c := range protocolInputs() {
		f.Add([]byte(c), uint64(1), false)
	}
	f.Add([]byte(request("SET", "a", strings.Repeat("x", largeArgument+5), "b")+"*1\r\n$40000\r\n"), uint64(2), true)
	limits := &Limits{BulkLength: func() int64 { return 1 << 20 }}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64, unauthenticated bool) {
		whole, failure := NewParser(limits), error(nil)
		whole.Unauthenticated = unauthenticated
		want, failure := parse(t, whole, input, nil, never)
		random := rand.New(rand.NewPCG(seed, 0))
		pieces := NewParser(limits)
		pieces.Unauthenticated = unauthenticated
		got, err := parse(t, pieces, input, randomEnds(random, len(input)), func() bool { return random.IntN(3) == 0 })
		if !equalRequests(got, want) || fmt.Sprint(err) != fmt.Sprint(failure) {
			t.Errorf("in pieces: %q, %v; as a whole: %q, %v", got, err, want, failure)
		}
		for _, p := range []*Parser{whole, pieces} {
			if held := capacity(p); held > 16*len(input)+4*retainedBuffer {
				t.Errorf("%d bytes of memory for %d bytes", held, len(input))
			}
		}
	})
}

func BenchmarkParser(b *testing.B) {
	for _, depth := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("SET/pipeline=%d", depth), func(b *testing.B) {
			benchmarkParser(b, strings.Repeat(request("SET", "key:000000012345", strings.Repeat("x", 100)), depth), depth)
		})
	}
	b.Run("GET/pipeline=64", func(b *testing.B) {
		benchmarkParser(b, strings.Repeat(request("GET", "key:000000012345"), 64), 64)
	})
	b.Run("inline", func(b *testing.B) { benchmarkParser(b, "SET key:000000012345 \"some value\"\r\n", 1) })
}

// benchmarkParser counts one operation for each request.
func benchmarkParser(b *testing.B, pipeline string, depth int) {
	p, input := NewParser(nil), []byte(pipeline)
	b.SetBytes(int64(len(input) / depth))
	b.ReportAllocs()
	for i := 0; i < b.N; i += depth {
		if err := p.Feed(input); err != nil {
			b.Fatal(err)
		}
		drain(b, p)
		p.Release()
	}
}

// BenchmarkParserLarge is a value of 16 MB in pieces of 64 KB.
func BenchmarkParserLarge(b *testing.B) {
	input := []byte(request("SET", "key", strings.Repeat("x", 16<<20)))
	p := NewParser(nil)
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		for piece := range slices.Chunk(input, 64<<10) {
			if err := p.Feed(piece); err != nil {
				b.Fatal(err)
			}
			drain(b, p)
		}
		p.Release()
	}
}
