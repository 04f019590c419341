package number

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/internal/oracle"
)

var seed = flag.Uint64("seed", 1, "seed of the random numbers that are compared with Redis")

const comparisons = 15000

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// oddFloats are texts at the borders of what is a number.
var oddFloats = []string{
	"", "0", "-0", "+0", "00", "007", "1", "+1", "--1", "+-1", "1.", ".5", "5.", ".", "-.", "+.5", "1..2", "1.2.3", "1_0", "1,5", "1d5",
	"1e5", "1E5", "1e+5", "1e-5", "1e", "1e+", "e5", ".e5", "1e5.5", "1e 5", " 1", "1 ", "\t1", "1\n", "1\x00", "\x00", "\x001", "1\x002",
	"inf", "-inf", "+inf", "INF", "Infinity", "-INFINITY", "infinit", "infinityx", "in", "nan", "NaN", "-nan", "nan(1)", "NAN()",
	"0x", "0x.", "0x10", "-0X1F", "0x.8", "0x8.", "0x1p3", "0x1P-3", "0x1p", "0xp1", "0x.p1", "0x1e5", "0xg", "0x1p+", "1p3", "00x1",
	"1e308", "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1.8e308", "1e309", "-1e400",
	"2.2250738585072014e-308", "4.9e-324", "5e-324", "2.5e-324", "2.4e-324", "1e-324", "-1e-400", "0e-400", "0e400",
	"0x1p-1074", "0x1p-1075", "0x1.8p-1075", "0x1.000001p-1075", "0x1p1023", "0x1p1024", "0x1.fffffffffffff7p1023", "0x1.fffffffffffff8p1023",
	"1e99999999999999999999", "1e-99999999999999999999", "0e99999999999999999999", "0x1p99999999999", "0x0p99999999999",
	"9007199254740993", "9007199254740992.5", "0x1.00000000000008p0", "0x1.000000000000080000000000000000001p0",
	"1e16", "1e17", "123456789012345678", "1e21", "0.1", "1e-5", "0.0001", "0.00001", "100000000000000000000", "12345678901234567890",
	"18446744073709551615", "18446744073709551616", "18446744073709551617", "36893488147419103233", "9223372036854775807",
	"1e4932", "1.18973149535723176502e4932", "1.18973149535723176509e4932", "1.2e4932", "1e4933", "1e-4950", "3.6e-4951", "1.9e-4951", "1.8e-4951", "1e-5000",
	"0x1p16383", "0x1.fffffffffffffffep16383", "0x1.ffffffffffffffffp16383", "0x1.fffffffffffffffeffffp16383", "0x1p16384",
	"0x1p-16445", "0x1p-16446", "0x1.0000000000000000000001p-16446", "0x1.8p-16446", "0x.ffffffffffffffffffffp-16446", "0x1p-16447",
	"1e-17", "1e-18", "-1e-18", "5e-18", "4.9e-18", "0.000000000000000005", "0.000000000000000015", "-0.000000000000000015", "0.5e-17", "1.5e-17", "2.5e-17",
	"0x1p-18", "0x3p-18", "0x5p-18", "0x1p-17", "0x1.8p-17", "3.0e3", "5.0e3", "1.23", "3.14159265358979323846", "0.99999999999999999999",
	"9.99999999999999999", "9.999999999999999995", "10.50", "1000000000000000000000000000000000000000",
}

// randomFloat returns a text that is mostly a number, of many forms.
func randomFloat(random *rand.Rand) string {
	value := math.Float64frombits(random.Uint64())
	switch random.IntN(10) {
	case 0:
		return strconv.FormatFloat(value, 'e', random.IntN(25), 64)
	case 1:
		return strconv.FormatFloat(value, 'g', -1, 64)
	case 2:
		return strconv.FormatFloat(value, 'x', random.IntN(15), 64)
	case 3:
		return strconv.FormatFloat(random.NormFloat64()*1000, 'f', random.IntN(20), 64)
	case 4:
		return strconv.FormatInt(int64(random.Uint64())>>random.IntN(64), 10)
	case 5:
		return fmt.Sprintf("%d.%d", random.IntN(1000), random.IntN(10000))
	case 6: // halfway between two doubles, and a little beside
		return fmt.Sprintf("%d.5%s1e-%d", 1<<52+random.Uint64N(1<<52), strings.Repeat("0", random.IntN(30)), random.IntN(30))
	case 7:
		return randomDigits(random, 1+random.IntN(40)) + "." + randomDigits(random, random.IntN(40)) + fmt.Sprintf("e%d", random.IntN(100)-50)
	case 8: // a double as it is written
		return string(AppendDouble(nil, value))
	}
	odd := []byte(oddFloats[random.IntN(len(oddFloats))])
	if len(odd) > 0 {
		odd[random.IntN(len(odd))] = "0159.eExXpP+- infa"[random.IntN(18)]
	}
	return string(odd)
}

func randomDigits(random *rand.Rand, n int) string {
	digits := make([]byte, n)
	for i := range digits {
		digits[i] = '0' + byte(random.IntN(10))
	}
	return string(digits)
}

func floats(random *rand.Rand) []string {
	texts := append([]string(nil), oddFloats...)
	for len(texts) < comparisons {
		texts = append(texts, randomFloat(random))
	}
	return texts
}

// TestDoubleAsRedis compares what is read and how it is written with ZADD INCR.
func TestDoubleAsRedis(t *testing.T) {
	server := oracle.Start(t)
	texts := slices.DeleteFunc(floats(newRandom(t)), isOption)
	texts = append(texts, strings.Repeat("0", 5000)+"1", "0."+strings.Repeat("0", 5000)+"1e5001", "0x"+strings.Repeat("0", 100)+"1", "0x1"+strings.Repeat("0", 100))
	for i, text := range texts {
		server.Send("ZADD", "scores", "INCR", text, strconv.Itoa(i))
	}
	for _, text := range texts {
		reply := server.Receive()
		got := "ERR value is not a valid float"
		if value, ok := ParseDouble([]byte(text)); ok {
			got = FormatDouble(value)
		}
		if want := fmt.Sprint(reply); !sameNumber(got, want) {
			t.Errorf("%.60q is %s, with Redis %s", text, got, want)
		}
	}
}

// sameNumber reports whether two texts are the same double: Redis 7.0 writes more digits than 7.2
// does.
func sameNumber(a, b string) bool {
	x, failed := strconv.ParseFloat(a, 64)
	y, alsoFailed := strconv.ParseFloat(b, 64)
	if failed != nil || alsoFailed != nil {
		return a == b
	}
	return math.Float64bits(x) == math.Float64bits(y)
}

// The texts are those of Redis 7.2, as redis-tests/scripts has them.
func TestAppendDouble(t *testing.T) {
	for value, want := range map[float64]string{0.1: "0.1", 0.3: "0.3", 1e18: "1000000000000000000", 1e19: "1e+19", 1e20: "1e+20",
		-1.5e-9: "-1.5e-9", 1e-5: "0.00001", 1e-7: "1e-7", 5e-324: "5e-324", math.MaxFloat64: "1.7976931348623157e+308",
		math.Pi: "3.141592653589793", -2.25: "-2.25", 3: "3", 123456.789: "123456.789", 0.001234: "0.001234", 1e15: "1000000000000000"} {
		if got := FormatDouble(value); got != want {
			t.Errorf("%g is written %q, not %q", value, got, want)
		}
	}
}

// isOption tells what ZADD doesn't read as a score.
func isOption(text string) bool {
	return strings.EqualFold(text, "nx") || strings.EqualFold(text, "xx")
}

// TestScoreBoundAsRedis compares with ZCOUNT: a single score is both in the range up from the bound
// and in the one down from it if the bound is that score, and in neither if it is excluded.
func TestScoreBoundAsRedis(t *testing.T) {
	server := oracle.Start(t)
	var texts []string
	for _, text := range floats(newRandom(t))[:comparisons/2] {
		texts = append(texts, text, "("+text)
	}
	texts = append(texts, " (1", "( 1", "((1", "\v\f\r\n1", "1\v", "\x00(", "(\x00", "1e400", "(-1e400")
	for i, text := range texts {
		score, _, _ := ParseScoreBound([]byte(text))
		key := strconv.Itoa(i)
		server.Send("ZADD", key, FormatDouble(score), "m")
		server.Send("ZCOUNT", key, text, "+inf")
		server.Send("ZCOUNT", key, "-inf", text)
	}
	for _, text := range texts {
		score, exclusive, ok := ParseScoreBound([]byte(text))
		server.Receive()
		up, down := server.Receive(), server.Receive()
		var want any = int64(1)
		switch {
		case !ok:
			want = oracle.Error("ERR min or max is not a float")
		case exclusive:
			want = int64(0)
		}
		if up != want || down != want {
			t.Errorf("bound %.60q is %v, excluded %v, ok %v; Redis counts %v above it and %v below", text, score, exclusive, ok, up, down)
		}
	}
}

// TestLongDoubleAsRedis compares with INCRBYFLOAT and HINCRBYFLOAT.
func TestLongDoubleAsRedis(t *testing.T) {
	server := oracle.Start(t)
	random := newRandom(t)
	texts := floats(random)
	for range 500 {
		texts = append(texts, randomLongDouble(random))
	}
	for _, zeros := range []int{100, 5116, 5117, 5118} {
		texts = append(texts, "0."+strings.Repeat("0", zeros)+"1", "1."+strings.Repeat("0", zeros))
	}
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	increments := append(append([]string(nil), texts[1:]...), "0")
	for i, text := range texts {
		server.Send("SET", "s", text)
		server.Send("INCRBYFLOAT", "s", increments[i])
		server.Send("HSET", "h", "f", text)
		server.Send("HINCRBYFLOAT", "h", "f", increments[i])
	}
	for i, text := range texts {
		server.Receive()
		compareSum(t, text, increments[i], server.Receive(), false)
		server.Receive()
		compareSum(t, text, increments[i], server.Receive(), true)
	}
}

func compareSum(t *testing.T, value, increment string, reply any, hash bool) {
	t.Helper()
	if got, want := sum(value, increment, hash), fmt.Sprint(reply); got != want {
		t.Errorf("%.60q + %.60q is %.60s, with Redis %.60s (hash: %v)", value, increment, got, want, hash)
	}
}

// sum answers as INCRBYFLOAT or HINCRBYFLOAT do, which check in different order.
func sum(value, increment string, hash bool) string {
	x, xOK := ParseLongDouble([]byte(value))
	y, yOK := ParseLongDouble([]byte(increment))
	switch {
	case !yOK, !xOK && !hash:
		return "ERR value is not a valid float"
	case hash && y.IsInf():
		return "ERR value is NaN or Infinity"
	case !xOK:
		return "ERR hash value is not a float"
	}
	z, finite := x.Add(y)
	if !finite {
		return "ERR increment would produce NaN or Infinity"
	}
	return string(z.Append(nil))
}

// randomLongDouble returns a number near the limits of the format, or of 64 bits and more.
func randomLongDouble(random *rand.Rand) string {
	switch random.IntN(4) {
	case 0:
		return fmt.Sprintf("0x%x.%xp%d", random.Uint64(), random.Uint64(), random.IntN(2*16500)-16500)
	case 1:
		return fmt.Sprintf("%s.%se%d", randomDigits(random, 1+random.IntN(30)), randomDigits(random, random.IntN(30)), random.IntN(9940)-4980)
	case 2: // halfway between two long doubles, or just beside
		return fmt.Sprintf("%d.5%s%d", 1<<63+random.Uint64N(1<<63), strings.Repeat("0", random.IntN(30)), random.IntN(2))
	}
	return fmt.Sprintf("0x%xp%d", 1<<63+random.Uint64N(1<<63), random.IntN(140)-130)
}

func TestLongDoubleZero(t *testing.T) {
	var zero LongDouble
	one, ok := ParseLongDouble([]byte("1"))
	if !ok || zero.IsInf() || string(zero.Append(nil)) != "0" {
		t.Fatalf("the zero value is %s", zero.Append(nil))
	}
	for _, got := range []func() (LongDouble, bool){func() (LongDouble, bool) { return zero.Add(one) }, func() (LongDouble, bool) { return one.Add(zero) }} {
		if sum, finite := got(); !finite || string(sum.Append([]byte("="))) != "=1" {
			t.Errorf("0 and 1 are %s", sum.Append(nil))
		}
	}
	infinity, _ := ParseLongDouble([]byte("inf"))
	minusInfinity, _ := ParseLongDouble([]byte("-inf"))
	if _, finite := infinity.Add(minusInfinity); finite {
		t.Error("infinity minus infinity is finite")
	}
}

// TestIntAsRedis compares with INCRBY, whose increment is read as strictly.
func TestIntAsRedis(t *testing.T) {
	server := oracle.Start(t)
	random := newRandom(t)
	texts := []string{"", "0", "-0", "+0", "00", "01", "-01", "+1", " 1", "1 ", "-", "--1", "1.0", "1e3", "0x1", "a", "1a", "1\x00", "-a", "9", "-9",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9999999999999999999", "18446744073709551615",
		"18446744073709551616", "10000000000000000000", "100000000000000000000", "-10000000000000000000", "-1000000000000000000000"}
	for range 5000 {
		text := []byte(strconv.FormatInt(int64(random.Uint64())>>random.IntN(64), 10))
		if random.IntN(3) == 0 {
			text[random.IntN(len(text))] = "0-+ 9a/:"[random.IntN(8)]
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		server.Send("DEL", "n")
		server.Send("INCRBY", "n", text)
	}
	for _, text := range texts {
		server.Receive()
		reply := server.Receive()
		n, ok := ParseInt([]byte(text))
		var got any = n
		if !ok {
			got = oracle.Error("ERR value is not an integer or out of range")
		}
		if got != reply {
			t.Errorf("ParseInt(%q) = %d, %v; Redis says %v", text, n, ok, reply)
		}
		if ok && string(AppendInt(nil, n)) != text {
			t.Errorf("AppendInt(%d) = %s", n, AppendInt(nil, n))
		}
	}
}

func TestAllocations(t *testing.T) {
	integer, float, buffer := []byte("-1234567890123"), []byte("-12345.678e3"), make([]byte, 0, 64)
	for name, run := range map[string]func(){
		"ParseInt":        func() { ParseInt(integer) },
		"AppendInt":       func() { AppendInt(buffer, -1234567890123) },
		"ParseDouble":     func() { ParseDouble(float) },
		"ParseScoreBound": func() { ParseScoreBound(float) },
		"AppendDouble":    func() { AppendDouble(buffer, -12345.678e3) },
	} {
		if n := testing.AllocsPerRun(100, run); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkParseInt(b *testing.B) {
	text := []byte("1234567890")
	for b.Loop() {
		ParseInt(text)
	}
}

func BenchmarkParseDouble(b *testing.B) {
	text := []byte("1234.5678")
	for b.Loop() {
		ParseDouble(text)
	}
}

func BenchmarkAppendDouble(b *testing.B) {
	buffer := make([]byte, 0, 64)
	for b.Loop() {
		AppendDouble(buffer, 1234.5678)
	}
}

// BenchmarkIncrement is what INCRBYFLOAT computes.
func BenchmarkIncrement(b *testing.B) {
	value, increment, buffer := []byte("1234.5678"), []byte("0.1"), make([]byte, 0, 64)
	for b.Loop() {
		x, _ := ParseLongDouble(value)
		y, _ := ParseLongDouble(increment)
		sum, _ := x.Add(y)
		sum.Append(buffer)
	}
}

func TestAppendDecimal(t *testing.T) {
	for _, example := range []struct {
		value float64
		text  string
	}{
		{0, "0"}, {math.Copysign(0, -1), "0"}, {180, "180"}, {-180, "-180"}, {0.5, "0.5"}, {-85.05112878, "-85.0511287799999991"},
		{13.36138933897018433, "13.36138933897018433"}, {1e-17, "0.00000000000000001"}, {-1e-18, "0"}, {100, "100"}, {1e22, "10000000000000000000000"},
	} {
		if got := string(AppendDecimal([]byte("0"), example.value)); got != "0"+example.text {
			t.Errorf("%v is written as %q", example.value, got)
		}
	}
}
