package listpack

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// render returns all elements as strings, walked forwards.
func render(l Listpack) []string {
	got := []string{}
	for _, e := range l.All() {
		got = append(got, string(e.AppendTo(nil)))
	}
	return got
}

func build(values ...string) Listpack {
	l := Empty(0)
	for _, v := range values {
		l = l.Append(l[:0], Of([]byte(v)))
	}
	return l
}

// The bytes are those of redis-server 7.0.15: RPUSH of the values, then DUMP without
// compression, without the frame of the payload.
func TestBytesAreRedisBytes(t *testing.T) {
	values := []string{
		"", "a", "0", "127", "128", "-1", "-4096", "4095", "4096", "-4097", "-32768", "32767",
		"32768", "-8388608", "8388607", "8388608", "-2147483648", "2147483647", "2147483648",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "007", "-0", "+1",
		strings.Repeat("x", 63), strings.Repeat("y", 64),
	}
	want := "110100001b00800181610200017f01c08002dfff02d00002cfff02f1001003f1ffef03f1008003f1ff7f" +
		"03f200800004f200008004f2ffff7f04f30000800005f30000008005f3ffffff7f05f4000000800000000009" +
		"f4ffffffffffffff7f09f40000000000000080099339323233333732303336383534373735383038148330303" +
		"704822d3003822b3103bf" + strings.Repeat("78", 63) + "40e040" + strings.Repeat("79", 64) + "42ff"
	l := build(values...)
	if got := hex.EncodeToString(l); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got := render(l); !slices.Equal(got, values) {
		t.Fatalf("got %q, want %q", got, values)
	}
}

// Heads and tails as redis-server 7.0.15 writes them, around every change of a length's width.
func TestWidthsOfLengths(t *testing.T) {
	for _, c := range []struct {
		length     int
		head, tail string
	}{
		{4095, "0a1000000100efff7a", "7a2081ff"},
		{4096, "0e1000000100f0001000007a", "7a2085ff"},
		{16376, "064000000100f0f83f00007a", "7a7ffdff"},
		{16377, "074000000100f0f93f00007a", "7a7ffeff"},
		{16378, "094000000100f0fa3f00007a", "7a00ffffff"},
		{16379, "0a4000000100f0fb3f00007a", "7a018080ff"},
	} {
		l := build(strings.Repeat("z", c.length))
		got := hex.EncodeToString(l)
		if !strings.HasPrefix(got, c.head) || !strings.HasSuffix(got, c.tail) {
			t.Errorf("%d bytes: %s…%s", c.length, got[:len(c.head)], got[len(got)-len(c.tail):])
		}
		if err := l.Validate(true); err != nil {
			t.Errorf("%d bytes: %v", c.length, err)
		}
		if l.Last() != l.First() {
			t.Errorf("%d bytes: walking back leads to %d", c.length, l.Last())
		}
	}
}

func TestParseInt(t *testing.T) {
	numbers := []int64{0, 1, -1, 9, 10, -10, 12345, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1}
	for _, want := range numbers {
		got, ok := ParseInt(strconv.AppendInt(nil, want, 10))
		if !ok || got != want {
			t.Errorf("%d: %d %v", want, got, ok)
		}
	}
	for _, s := range []string{
		"", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "a", "1a", "--1",
		"9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
		"99999999999999999999", "123456789012345678901",
	} {
		if n, ok := ParseInt([]byte(s)); ok {
			t.Errorf("%q became %d", s, n)
		}
	}
}

func TestElement(t *testing.T) {
	for _, s := range []string{"", "x", "0", "7", "-7", "10", "-10", "99", "-9223372036854775808", "9223372036854775807"} {
		e := Of([]byte(s))
		if e.Len() != len(s) || string(e.AppendTo([]byte("<"))) != "<"+s || !e.Equal([]byte(s)) {
			t.Errorf("%q: Len %d, AppendTo %q", s, e.Len(), e.AppendTo(nil))
		}
		if e.Equal([]byte(s+"1")) || e.Equal([]byte("y")) {
			t.Errorf("%q equals something else", s)
		}
		if l := build(s); len(l) != len(Empty(0))+e.Size() {
			t.Errorf("%q: Size %d, the listpack has %d bytes", s, e.Size(), len(l))
		}
	}
}

func TestEmpty(t *testing.T) {
	l := Empty(100)
	if l.Len() != 0 || l.First() != None || l.Last() != None || l.Seek(0) != None || l.Seek(-1) != None ||
		l.Find(l.First(), nil, 0) != None || l.Validate(true) != nil || cap(l) != 100 {
		t.Fatalf("%x", l)
	}
	for range l.All() {
		t.Fatal("an element")
	}
	for range l.Backward() {
		t.Fatal("an element")
	}
	if got := l.DeleteRange(nil, 0, 1); !bytes.Equal(got, l) {
		t.Fatalf("%x", got)
	}
}

func TestFind(t *testing.T) {
	l := build("1", "one", "2", "1", "one", "2", "1")
	for _, c := range []struct {
		start, skip int
		value       string
		want        int
	}{
		{0, 0, "1", 0}, {0, 0, "one", 1}, {0, 1, "one", 4}, {1, 1, "1", 3}, {1, 0, "1", 3},
		{0, 1, "nothing", -1}, {0, 1, "01", -1}, {0, 2, "2", -1}, {2, 2, "2", 2}, {5, 0, "one", -1},
	} {
		want := None
		if c.want >= 0 {
			want = l.Seek(c.want)
		}
		if got := l.Find(l.Seek(c.start), []byte(c.value), c.skip); got != want {
			t.Errorf("%+v: %d, want %d", c, got, want)
		}
	}
}

// A number that another program stored as a string, or wider than needed, still is found.
func TestFindLooseEncodings(t *testing.T) {
	l := Listpack{0, 0, 0, 0, 2, 0, 0x82, '4', '2', 3, 0xF1, 42, 0, 3, 0xFF}
	l.setHeader(2)
	if err := l.Validate(true); err != nil {
		t.Fatal(err)
	}
	if first := l.Find(l.First(), []byte("42"), 0); first != l.First() {
		t.Fatal(first)
	}
	if second := l.Find(l.Next(l.First()), []byte("42"), 0); second != l.Last() {
		t.Fatal(second)
	}
}

// model is what a Listpack has to behave like.
type model []string

func (m model) check(t *testing.T, l Listpack) {
	t.Helper()
	if err := l.Validate(true); err != nil {
		t.Fatal(err)
	}
	if got := render(l); !slices.Equal(got, m) || l.Len() != len(m) {
		t.Fatalf("got %q, want %q", got, m)
	}
	i := len(m)
	for pos, e := range l.Backward() {
		i--
		if !e.Equal([]byte(m[i])) || l.Seek(i) != pos || l.Seek(i-len(m)) != pos {
			t.Fatalf("element %d: %q at %d, Seek says %d and %d", i, e.AppendTo(nil), pos, l.Seek(i), l.Seek(i-len(m)))
		}
	}
	for pos := l.First(); pos != None; i++ {
		e, next := l.Step(pos)
		if !e.Equal([]byte(m[i])) || next != l.Next(pos) {
			t.Fatalf("element %d: Step says %q and then %d, not %d", i, e.AppendTo(nil), next, l.Next(pos))
		}
		pos = next
	}
	if i != len(m) || l.Seek(len(m)) != None || l.Seek(-len(m)-1) != None {
		t.Fatal("the ends are wrong")
	}
}

func randomValue(r *rand.Rand) string {
	switch r.Intn(4) {
	case 0:
		return strconv.FormatInt(r.Int63()>>r.Intn(64), 10)
	case 1:
		return strconv.FormatInt(-r.Int63()>>r.Intn(64), 10)
	case 2:
		return strings.Repeat("v", r.Intn(20))
	default:
		return strings.Repeat("w", []int{62, 63, 64, 126, 127, 4094, 4095, 4096, 20000}[r.Intn(9)])
	}
}

func TestAgainstModel(t *testing.T) {
	for seed := range int64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			l, m := Empty(0), model{}
			for range 60 {
				l, m = step(t, r, l, m)
				m.check(t, l)
			}
		})
	}
}

// step makes one random edit, in place or apart, and checks that only in place changes the input.
func step(t *testing.T, r *rand.Rand, l Listpack, m model) (Listpack, model) {
	var dst []byte
	before := bytes.Clone(l)
	inPlace := r.Intn(2) == 0
	switch {
	case inPlace:
		dst = l[:0]
	case r.Intn(2) == 0:
		dst = make([]byte, r.Intn(100), 100+r.Intn(10000))
	}
	out, m := edit(r, l, m, dst)
	if !inPlace && !bytes.Equal(before, l) {
		t.Fatal("the input was modified")
	}
	return out, m
}

func edit(r *rand.Rand, l Listpack, m model, dst []byte) (Listpack, model) {
	a, b := randomValue(r), randomValue(r)
	ea, eb := Of([]byte(a)), Element{Bytes: []byte(b)}
	if len(m) == 0 || r.Intn(4) == 0 {
		switch r.Intn(4) {
		case 0:
			return l.Append(dst, ea, eb), append(m, a, b)
		case 3:
			return l.Clone(dst).Push(ea).Push(eb), append(m, a, b)
		case 1:
			return l.InsertBefore(dst, None, ea), append(m, a)
		default:
			return l.Prepend(dst, ea, eb), slices.Insert(m, 0, a, b)
		}
	}
	i := r.Intn(len(m))
	n := r.Intn(4)
	pos, last := l.Seek(i), min(i+n, len(m))
	switch r.Intn(5) {
	case 0:
		return l.InsertBefore(dst, pos, ea, eb), slices.Insert(m, i, a, b)
	case 1:
		return l.InsertAfter(dst, pos, ea, eb), slices.Insert(m, i+1, a, b)
	case 2:
		m[i] = a
		return l.Replace(dst, pos, ea), m
	case 3:
		return l.DeleteRange(dst, i-len(m), n), slices.Delete(m, i, last)
	default:
		l, next := l.Delete(dst, pos, n)
		m = slices.Delete(m, i, last)
		if next != l.Seek(i) {
			panic(fmt.Sprintf("Delete says that %d comes next, Seek says %d", next, l.Seek(i)))
		}
		return l, m
	}
}

func TestManyElements(t *testing.T) {
	l := Empty(1 << 18)
	for i := range 70000 {
		l = l.Push(OfInt(int64(i % 100)))
		if i == 65533 && l.headerCount() != 65534 || i >= 65534 && l.headerCount() != countUnknown {
			t.Fatalf("%d elements: the header says %d", i+1, l.headerCount())
		}
	}
	if l.Len() != 70000 || l.Validate(true) != nil {
		t.Fatal(l.Len(), l.Validate(true))
	}
	if e := l.At(l.Seek(69999)); e.Int != 99 || l.Seek(70000) != None {
		t.Fatal(e)
	}
	if e := l.At(l.Seek(-70000)); e.Int != 0 || l.Seek(-70001) != None {
		t.Fatal(e)
	}
	// Redis doesn't recover the count when elements go, and neither do these bytes.
	l = l.DeleteRange(l[:0], 10, 69000)
	if l.headerCount() != countUnknown || l.Len() != 1000 || l.Validate(true) != nil {
		t.Fatal(l.headerCount(), l.Len(), l.Validate(true))
	}
}

func TestValidateRefuses(t *testing.T) {
	good := build("hello", "12345", strings.Repeat("x", 100), strings.Repeat("y", 5000))
	for name, spoil := range map[string]func(Listpack) Listpack{
		"empty":               func(l Listpack) Listpack { return nil },
		"header only":         func(l Listpack) Listpack { return l[:6] },
		"too short":           func(l Listpack) Listpack { return l[:len(l)-1] },
		"too long":            func(l Listpack) Listpack { return append(l, 0xFF) },
		"no end mark":         func(l Listpack) Listpack { l[len(l)-1] = 0; return l },
		"end mark within":     func(l Listpack) Listpack { l[6] = 0xFF; return l },
		"count too small":     func(l Listpack) Listpack { l[4]--; return l },
		"count too large":     func(l Listpack) Listpack { l[4]++; return l },
		"unknown encoding":    func(l Listpack) Listpack { l[6] = 0xF5; return l },
		"string past the end": func(l Listpack) Listpack { l[l.Last()+4] = 0x7F; return l },
		"wrong length":        func(l Listpack) Listpack { l[12]++; return l },
		"endless length":      func(l Listpack) Listpack { l[l.Last()-1] |= 0x80; return l },
	} {
		if err := spoil(good.Clone(nil)).Validate(true); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.Validate(true); err != nil {
		t.Fatal(err)
	}
	for cut := range good {
		if good[:cut].Validate(false) == nil {
			t.Fatalf("cut at %d: accepted", cut)
		}
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	l := build("field", "value", "17", "-99999", strings.Repeat("x", 200))
	value := []byte("-99999")
	buf := make([]byte, 0, 1024)
	sum := 0
	allocs := testing.AllocsPerRun(100, func() {
		for pos, e := range l.All() {
			buf = e.AppendTo(buf[:0])
			sum += pos + len(buf)
		}
		for _, e := range l.Backward() {
			sum += e.Len()
		}
		for pos := l.First(); pos != None; pos = l.Next(pos) {
			sum += int(l.At(pos).Int)
		}
		sum += l.Find(l.First(), value, 0) + l.Seek(-1) + l.Len()
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func TestEditingWithRoomAllocatesNothing(t *testing.T) {
	l := build("field", "value", "17")
	field, value := []byte("another"), []byte("123")
	a, b := make(Listpack, 0, 1000), make(Listpack, 0, 1000)
	allocs := testing.AllocsPerRun(100, func() {
		a = l.Append(a, Of(field), Of(value))
		b = a.Replace(b, a.First(), Of(value))
		b = b.InsertBefore(b[:0], b.First(), Of(field))
		b, _ = b.Delete(b[:0], b.First(), 2)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func FuzzListpack(f *testing.F) {
	f.Add([]byte(Empty(0)))
	f.Add([]byte(build("a", "1", "-70000", "5000000000", strings.Repeat("x", 100), strings.Repeat("y", 5000))))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Listpack(data)
		if l.Validate(true) != nil {
			return
		}
		values := render(l)
		slices.Reverse(values)
		m := model{}
		for _, e := range l.Backward() {
			m = append(m, string(e.AppendTo(nil)))
		}
		if !slices.Equal(values, m) {
			t.Fatalf("backwards %q, forwards %q", m, values)
		}
		slices.Reverse(m)
		m.check(t, l)
		if len(m) > 0 {
			out, _ := l.Delete(nil, l.First(), 1)
			model(m[1:]).check(t, out)
		}
		model(append(m, "x")).check(t, l.Append(nil, Of([]byte("x"))))
	})
}

func BenchmarkFindField(b *testing.B) {
	l := Empty(0)
	for i := range 64 {
		l = l.Append(l[:0], Of(fmt.Appendf(nil, "field:%d", i)), Of(fmt.Appendf(nil, "value:%d", i)))
	}
	field := []byte("field:63")
	for b.Loop() {
		l.Find(l.First(), field, 1)
	}
}

func BenchmarkReplaceValue(b *testing.B) {
	l := Empty(0)
	for i := range 64 {
		l = l.Append(l[:0], Of(fmt.Appendf(nil, "field:%d", i)), Of(fmt.Appendf(nil, "value:%d", i)))
	}
	pos := l.Seek(65)
	dst := make([]byte, 0, 4096)
	value := []byte("another value")
	for b.Loop() {
		l.Replace(dst, pos, Of(value))
	}
}
