package sortorder

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

// TestParseNumberAgainstRedis sorts each text alone and sees whether Redis takes it for a number.
func TestParseNumberAgainstRedis(t *testing.T) {
	server := oracle.Start(t)
	texts := []string{
		"", " ", "0", "-0", "1", " 1", "\t\n\v\f\r-1", "1 ", "1\x00x", "\x00", "\x00x", " \x00", "+", "-", ".", "+5", "--1", ".5", "5.", "00012",
		"1e5", "1E+5", "1e", "1e+", "1d", "1_0", "0x_1p0", "0b1", "0o7", "0x", "0x10", "0X1P+3", "0x.8", "0x1.p1", "0x1p", "-0xfF.8",
		"nan", "-NaN", "nan(1)", "inf", "-Infinity", "infi", "infinityx", "1e308", "1e309", "-1e400", "0x1p99999",
		"1e-307", "1e-310", "-1e-310", "1e-400", "0e-400", "0.000e-999", "-0x0.0p-99999", "0x0.0000000001p-1050", "0x1.00000000000000000000001p-1060",
		"2.2250738585072014e-308", "2.225073858507201e-308", "4.9406564584124654e-324", "e5", "x", "½", "0x1p-1022", "0xep0", "0x0ep-1", "0e0",
	}
	for _, text := range texts {
		server.Do("DEL", "list")
		server.Do("RPUSH", "list", text)
		// Redis 7.0 doesn't clear C's errno: after one number that was out of range SORT refuses
		// every number. INCRBYFLOAT does clear it.
		server.Do("INCRBYFLOAT", "any", 1)
		_, refused := server.Do("SORT", "list").(oracle.Error)
		if _, ok := ParseNumber([]byte(text)); ok == refused {
			t.Errorf("%q: %v, but Redis refuses it: %v", text, ok, refused)
		}
	}
}

// TestParseNumberValues compares numbers by their order in a sorted list.
func TestParseNumberValues(t *testing.T) {
	server := oracle.Start(t)
	texts := []string{"0x10", "15.5", "1.6e1x"[:5], "0x1p4", " 17", "0X.8P1", "-inf", "infinity", "1\x00999", "0xfp-1", "", "-.5", "\t1e-5"}
	var elements Elements
	for i, text := range texts {
		server.Do("RPUSH", "list", text)
		number, ok := ParseNumber([]byte(text))
		if !ok {
			t.Fatalf("%q is no number", text)
		}
		elements.Add([]byte(text))
		elements.SetNumber(i, number)
	}
	Order{}.Sort(&elements, 0, len(texts))
	checkValues(t, &elements, server.Do("SORT", "list"), "")
}

func checkValues(t *testing.T, elements *Elements, reply any, about string) {
	t.Helper()
	want, ok := reply.([]any)
	if !ok || len(want) != elements.Len() {
		t.Fatalf("%v: %d elements, want %v", about, elements.Len(), reply)
	}
	for i := range elements.Len() {
		if string(elements.Value(i)) != want[i] {
			t.Fatalf("%v: element %d is %q, want %q", about, i, elements.Value(i), want[i])
		}
	}
}

// A sortCase is one random SORT command over a list, and the weights of its elements.
type sortCase struct {
	order         Order
	offset, count int64
	elements      []element
}

// element is one of Elements as Redis is told of it.
type element struct {
	value  []byte
	weight []byte // nil if there is none
}

func (c *sortCase) sorted(first, limit int) *Elements {
	var elements Elements
	for i, e := range c.elements {
		elements.Add(e.value)
		switch weight := e.weight; {
		case !c.order.Alpha:
			if !c.order.By {
				weight = e.value
			}
			number, _ := ParseNumber(weight)
			elements.SetNumber(i, number)
		case weight != nil:
			elements.SetWeight(i, weight)
		}
	}
	c.order.Sort(&elements, first, limit)
	return &elements
}

// randomCase makes the elements few enough apart for many to compare equal.
func randomCase(random *rand.Rand) sortCase {
	c := sortCase{
		order: Order{
			Alpha:      random.IntN(3) > 0,
			By:         random.IntN(3) > 0,
			Descending: random.IntN(2) == 0,
			Exact:      random.IntN(4) == 0,
		},
		count: -1,
	}
	size := 1 + random.IntN(20)
	if random.IntN(2) == 0 {
		size = 1 + random.IntN(400)
	}
	if random.IntN(3) > 0 {
		c.offset = int64(random.IntN(size+4) - 2)
		c.count = int64(random.IntN(size+4) - 2)
	}
	for i := range size {
		c.elements = append(c.elements, c.randomElement(random, i, 1+random.IntN(size)))
	}
	return c
}

func (c *sortCase) randomElement(random *rand.Rand, i, spread int) (e element) {
	e.value = fmt.Append(nil, random.IntN(spread))
	switch {
	case c.order.By:
		// Every element is another one, so that its place shows.
		e.value = fmt.Append(nil, "element ", i)
		if random.IntN(5) == 0 {
			return e
		}
		e.weight = fmt.Append(nil, random.IntN(spread))
		if c.order.Alpha && random.IntN(5) == 0 {
			e.weight = append(e.weight, 0, byte(random.IntN(3)))
		}
	case c.order.Alpha && random.IntN(2) == 0:
		e.value = append(e.value, 0, byte(random.IntN(3)))
	}
	return e
}

// ask sends the case to Redis and returns what SORT answers or stores.
func (c *sortCase) ask(server *oracle.Server) any {
	server.Do("FLUSHALL")
	push := []any{"RPUSH", "list"}
	for _, element := range c.elements {
		push = append(push, element.value)
		if element.weight != nil {
			server.Send("SET", "weight of "+string(element.value), element.weight)
		}
	}
	server.Send(push...)
	command := []any{"SORT", "list", "LIMIT", c.offset, c.count}
	for option, given := range map[string]bool{"ALPHA": c.order.Alpha, "DESC": c.order.Descending} {
		if given {
			command = append(command, option)
		}
	}
	if c.order.By {
		command = append(command, "BY", "weight of *")
	}
	if c.order.Exact {
		command = append(command, "STORE", "stored")
	}
	for _, element := range c.elements {
		if element.weight != nil {
			server.Receive()
		}
	}
	server.Receive()
	reply := server.Do(command...)
	if c.order.Exact {
		return server.Do("LRANGE", "stored", 0, -1)
	}
	return reply
}

func TestSortAgainstRedis(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	server := oracle.Start(t)
	for range 500 {
		c := randomCase(random)
		reply := c.ask(server)
		first, limit := Window(c.offset, c.count, len(c.elements))
		about := fmt.Sprintf("seed %d: %+v, limit %d %d of %d", seed, c.order, c.offset, c.count, len(c.elements))
		checkValues(t, c.sorted(first, limit), reply, about)
	}
}

func TestWindowAgainstRedis(t *testing.T) {
	server := oracle.Start(t)
	const size = 5
	for i := range size {
		server.Do("RPUSH", "list", i)
	}
	numbers := []int64{-1 << 63, -2, -1, 0, 1, 4, 5, 6, 1<<63 - 1}
	for _, offset := range numbers {
		for _, count := range numbers {
			first, limit := Window(offset, count, size)
			about := fmt.Sprintf("LIMIT %d %d", offset, count)
			var elements Elements
			for i := range size {
				elements.Add(fmt.Append(nil, i))
			}
			elements.Cut(first, limit)
			checkValues(t, &elements, server.Do("SORT", "list", "LIMIT", offset, count), about)
		}
	}
}

func TestPatternsAgainstRedis(t *testing.T) {
	server := oracle.Start(t)
	server.Do("RPUSH", "list", "x")
	for _, key := range []string{"x", "ax", "xb", "axb", "ax*", "ax->", "ax->b", "->x", "a->x", "#", "ax\x00b", "a\x00x", "ax\x00->f", "ax->\x00f"} {
		server.Do("SET", key, "string "+key)
	}
	for _, key := range []string{"hx", "hxb", "x->h"} {
		for _, field := range []string{"f", "f->g", "", "*", "f\x00g", ">f"} {
			server.Do("HSET", key, field, "hash "+key+" "+field)
		}
	}
	for _, text := range []string{
		"#", "##", "#\x00a", "", "a", "*", "a*", "*b", "a*b", "a**", "a*->", "a*->b", "->*", "a->*", "h*->f", "h*b->f", "h*->f->g", "*->h->f",
		"h*->*", "a*\x00b", "a\x00*", "a*\x00->f", "h*->f\x00g", "h*->>f", "h*->", "a*->\x00f", "h->*", "h*\x00->f",
	} {
		p := ParsePattern([]byte(text))
		var got any
		switch key := p.AppendKey(nil, []byte("x")); {
		case p.Self:
			got = "x"
		case p.Constant:
		case p.Field != nil:
			got = server.Do("HGET", key, p.Field)
		default:
			got = server.Do("GET", key)
		}
		if err, ok := got.(oracle.Error); ok {
			t.Logf("%q: %v", text, err)
			got = nil
		}
		if want := server.Do("SORT", "list", "BY", "none", "GET", text).([]any)[0]; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestDepth falls back to another algorithm at once, and still sorts.
func TestDepth(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	var weights []string
	for range 1000 {
		weights = append(weights, strconv.Itoa(random.IntN(1000)))
	}
	want := slices.Sorted(slices.Values(weights))
	for depth := range 4 {
		var elements Elements
		for i, weight := range weights {
			elements.Add([]byte(weight))
			elements.SetWeight(i, []byte(weight))
		}
		s := partialSort{comparer: &comparer{Order{Alpha: true, By: true}, &elements}, first: 0, limit: len(weights)}
		s.sort(0, len(weights), depth)
		for i := range want {
			if got := string(elements.Value(i)); got != want[i] {
				t.Fatalf("seed %d, depth %d: element %d is %q, want %q", seed, depth, i, got, want[i])
			}
		}
	}
}

// TestManyElements are more than are sorted together: equal ones keep their order, whichever piece
// they come from, and what is sorted only in part has the right elements in the window.
func TestManyElements(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	const size = 5*pieceEntries + 17
	numbers := make([]int, size)
	for i := range numbers {
		numbers[i] = random.IntN(size / 10)
	}
	order := make([]int, size) // indexes of numbers, in the order that is to come
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	for _, w := range [][2]int{{0, size}, {0, 10}, {pieceEntries - 1, 2*pieceEntries + 1}, {size - 3, size}, {7, 7}} {
		for _, by := range []bool{false, true} {
			var elements Elements
			for i, n := range numbers {
				// With their index behind a zero byte, elements with the same number are told
				// apart, and compare equal.
				elements.Add(fmt.Appendf(nil, "%05d\x00%d", n, i))
				elements.SetWeight(i, fmt.Appendf(nil, "%05d", n))
			}
			Order{Alpha: true, By: by}.Sort(&elements, w[0], w[1])
			if elements.Len() != w[1]-w[0] {
				t.Fatalf("%v: %d elements", w, elements.Len())
			}
			stable := !by || w[0] == 0 && w[1] == size
			for i, index := range order[w[0]:w[1]] {
				number, place, _ := strings.Cut(string(elements.Value(i)), "\x00")
				if number != fmt.Sprintf("%05d", numbers[index]) || stable && place != strconv.Itoa(index) {
					t.Fatalf("%v, by %v: element %d is number %s of index %s, want %d of %d", w, by, i, number, place, numbers[index], index)
				}
			}
		}
	}
}

// TestTextsOfAllSizes: what is kept comes back, beside texts that are larger than a block.
func TestTextsOfAllSizes(t *testing.T) {
	var kept texts
	var want [][]byte
	var places []textRef
	for i, size := range []int{0, 1, 60, 70, 0, 5000, largeBlock, 3, 3 * largeBlock, 127, 128, 16384} {
		want = append(want, bytes.Repeat([]byte{byte(i)}, size))
		places = append(places, kept.add(want[i]))
	}
	for i, p := range places {
		if got := kept.at(p); got == nil || !bytes.Equal(got, want[i]) {
			t.Errorf("text %d: %d bytes, want %d", i, len(got), len(want[i]))
		}
	}
	if got := kept.at(0); got != nil {
		t.Errorf("no place: %q", got)
	}
}

func FuzzParseNumber(f *testing.F) {
	f.Add([]byte("0x1p-1074"))
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		number, ok := ParseNumber(text)
		if math.IsNaN(number) || !ok && number != 0 || !bytes.Equal(text, before) {
			t.Errorf("%q: %v, %v", before, number, ok)
		}
	})
}
