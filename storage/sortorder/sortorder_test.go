package sortorder

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
	var elements []Element
	for _, text := range texts {
		server.Do("RPUSH", "list", text)
		number, ok := ParseNumber([]byte(text))
		if !ok {
			t.Fatalf("%q is no number", text)
		}
		elements = append(elements, Element{Value: []byte(text), Number: number})
	}
	Order{}.Sort(elements, 0, len(elements))
	checkValues(t, elements, server.Do("SORT", "list"), "")
}

func checkValues(t *testing.T, elements []Element, reply any, about string) {
	t.Helper()
	want, ok := reply.([]any)
	if !ok || len(want) != len(elements) {
		t.Fatalf("%v: %d elements, want %v", about, len(elements), reply)
	}
	for i, element := range elements {
		if string(element.Value) != want[i] {
			t.Fatalf("%v: element %d is %q, want %q", about, i, element.Value, want[i])
		}
	}
}

// A sortCase is one random SORT command over a list, and the weights of its elements.
type sortCase struct {
	order         Order
	offset, count int64
	elements      []Element
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

func (c *sortCase) randomElement(random *rand.Rand, i, spread int) (e Element) {
	e.Value = fmt.Append(nil, random.IntN(spread))
	switch {
	case c.order.By:
		// Every element is another one, so that its place shows.
		e.Value = fmt.Append(nil, "element ", i)
		if random.IntN(5) == 0 {
			return e
		}
		e.Weight = fmt.Append(nil, random.IntN(spread))
		if c.order.Alpha && random.IntN(5) == 0 {
			e.Weight = append(e.Weight, 0, byte(random.IntN(3)))
		}
	case c.order.Alpha && random.IntN(2) == 0:
		e.Value = append(e.Value, 0, byte(random.IntN(3)))
	}
	if !c.order.Alpha {
		text := e.Value
		if c.order.By {
			text = e.Weight
		}
		e.Number, _ = ParseNumber(text)
	}
	return e
}

// ask sends the case to Redis and returns what SORT answers or stores.
func (c *sortCase) ask(server *oracle.Server) any {
	server.Do("FLUSHALL")
	push := []any{"RPUSH", "list"}
	for _, element := range c.elements {
		push = append(push, element.Value)
		if element.Weight != nil {
			server.Send("SET", "weight of "+string(element.Value), element.Weight)
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
		if element.Weight != nil {
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
		c.order.Sort(c.elements, first, limit)
		about := fmt.Sprintf("seed %d: %+v, limit %d %d of %d", seed, c.order, c.offset, c.count, len(c.elements))
		checkValues(t, c.elements[first:limit], reply, about)
	}
}

func TestWindowAgainstRedis(t *testing.T) {
	server := oracle.Start(t)
	const size = 5
	elements := make([]Element, size)
	for i := range elements {
		elements[i].Value = fmt.Append(nil, i)
		server.Do("RPUSH", "list", i)
	}
	numbers := []int64{-1 << 63, -2, -1, 0, 1, 4, 5, 6, 1<<63 - 1}
	for _, offset := range numbers {
		for _, count := range numbers {
			first, limit := Window(offset, count, size)
			about := fmt.Sprintf("LIMIT %d %d", offset, count)
			checkValues(t, elements[first:limit], server.Do("SORT", "list", "LIMIT", offset, count), about)
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
	elements := make([]Element, 1000)
	for i := range elements {
		elements[i].Weight = fmt.Append(nil, random.IntN(1000))
	}
	order := Order{Alpha: true, By: true}
	want := slices.Clone(elements)
	slices.SortStableFunc(want, order.compareValues)
	for depth := range 4 {
		got := slices.Clone(elements)
		s := partialSort{elements: got, order: order, first: 0, limit: len(got)}
		s.sort(0, len(got), depth)
		for i := range got {
			if !bytes.Equal(got[i].Weight, want[i].Weight) {
				t.Fatalf("seed %d, depth %d: element %d is %q, want %q", seed, depth, i, got[i].Weight, want[i].Weight)
			}
		}
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
