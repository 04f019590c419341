package bits

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

func start(t *testing.T) (*oracle.Server, *rand.Rand, uint64) {
	seed := seed.Of(t)
	return oracle.Start(t), rand.New(rand.NewPCG(seed, 0)), seed
}

func TestRangesAgainstRedis(t *testing.T) {
	server, random, seed := start(t)
	for range 3000 {
		value := randomValue(random, 60)
		r := randomRange(random, len(value))
		bit := random.IntN(2)
		unit := []string{"BYTE", "BIT"}[r.Unit]
		open := Range{Start: r.Start, Open: true}
		server.Send("SET", "key", value)
		server.Send("BITCOUNT", "key", r.Start, r.End, unit)
		server.Send("BITCOUNT", "key")
		server.Send("BITPOS", "key", bit, r.Start, r.End, unit)
		server.Send("BITPOS", "key", bit, r.Start)
		server.Send("BITPOS", "key", bit)
		server.Receive()
		for i, got := range []int64{
			CountRange(value, r),
			Count(value),
			Position(value, bit, r),
			Position(value, bit, open),
			Position(value, bit, Range{Open: true}),
		} {
			if want := server.Receive(); got != want {
				t.Fatalf("seed %d: command %d, value %x, bit %d, %+v: %d, want %v", seed, i, value, bit, r, got, want)
			}
		}
	}
}

func TestBitsAgainstRedis(t *testing.T) {
	server, random, seed := start(t)
	var value []byte
	for range 1000 {
		offset, bit := random.Uint64N(3000), random.IntN(2)
		server.Send("GETBIT", "key", offset)
		server.Send("SETBIT", "key", offset, bit)
		server.Send("GET", "key")
		before := Get(value, offset)
		var old int
		value, old = Set(value, offset, bit)
		if got := server.Receive(); got != int64(before) {
			t.Fatalf("seed %d: GETBIT %d is %v", seed, offset, got)
		}
		if got := server.Receive(); got != int64(old) {
			t.Fatalf("seed %d: SETBIT %d is %v", seed, offset, got)
		}
		if got := server.Receive(); got != string(value) {
			t.Fatalf("seed %d: after SETBIT %d %d: %x, want %x", seed, offset, bit, value, got)
		}
	}
}

func TestCombineAgainstRedis(t *testing.T) {
	server, random, seed := start(t)
	names := []string{"AND", "OR", "XOR", "NOT"}
	for range 1000 {
		operation, sources := randomCombination(random)
		if operation > Not {
			continue // Redis has the others from 8.2 on
		}
		command := []any{"BITOP", names[operation], "result"}
		for i, source := range sources {
			command = append(command, i)
			if random.IntN(10) == 0 {
				sources[i] = nil
				server.Send("DEL", i)
			} else {
				server.Send("SET", i, source)
			}
		}
		server.Send(command...)
		server.Send("GET", "result")
		for range sources {
			server.Receive()
		}
		got := combine(nil, operation, sources...)
		if size := server.Receive(); size != int64(len(got)) {
			t.Fatalf("seed %d: %v of %x: %d bytes, want %v", seed, command, sources, len(got), size)
		}
		// Redis deletes the key when the result is empty.
		if want := server.Receive(); want != string(got) && (want != nil || len(got) > 0) {
			t.Fatalf("seed %d: %v of %x: %x, want %x", seed, command, sources, got, want)
		}
	}
}

func (t Type) text() string {
	digits := ""
	for n := int(t.Bits); n > 0; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return map[bool]string{true: "i", false: "u"}[t.Signed] + digits
}

func TestFieldsAgainstRedis(t *testing.T) {
	server, random, seed := start(t)
	names := []string{"WRAP", "SAT", "FAIL"}
	for range 300 {
		value := randomValue(random, 24)
		before := bytes.Clone(value)
		server.Do("SET", "key", value)
		command := []any{"BITFIELD", "key"}
		var want []any
		for range 1 + random.IntN(12) {
			field, offset := randomType(random), random.Uint64N(200)
			number, overflow := randomNumber(random), Overflow(random.IntN(3))
			command = append(command, "OVERFLOW", names[overflow])
			var result int64
			ok := true
			switch random.IntN(3) {
			case 0:
				command = append(command, "GET", field.text(), offset)
				result = field.Get(value, offset)
			case 1:
				command = append(command, "SET", field.text(), offset, number)
				value, result, ok = field.Set(value, offset, number, overflow)
			case 2:
				command = append(command, "INCRBY", field.text(), offset, number)
				value, result, ok = field.Increment(value, offset, number, overflow)
			}
			if ok {
				want = append(want, result)
			} else {
				want = append(want, nil)
			}
		}
		reply := server.Do(command...).([]any)
		for i := range want {
			if reply[i] != want[i] {
				t.Fatalf("seed %d: %v on %x, reply %d: %v, want %v", seed, command, before, i, want[i], reply[i])
			}
		}
		if stored := server.Do("GET", "key"); stored != string(value) {
			t.Fatalf("seed %d: after %v on %x:\n%x, want\n%x", seed, command, before, value, stored)
		}
	}
}

func TestParseTypeAgainstRedis(t *testing.T) {
	server := oracle.Start(t)
	for _, text := range []string{
		"", "i", "u", "i0", "u0", "i1", "u1", "i8", "u16", "i64", "u63", "u64", "i65", "i08", "i+8", "i-8",
		"I8", "U8", "x8", "8", "i8 ", " i8", "u100", "i99999999999999999999", "u8\x00x", "\x00", "i\x008", "u6\xff",
	} {
		_, ok := ParseType([]byte(text))
		_, refused := server.Do("BITFIELD", "key", "GET", text, 0).(oracle.Error)
		if ok == refused {
			t.Errorf("%q: %v, but Redis refuses it: %v", text, ok, refused)
		}
	}
}

// TestPositionInEmptyString holds a key that is empty apart from one that doesn't exist.
func TestPositionInEmptyString(t *testing.T) {
	server := oracle.Start(t)
	server.Do("SET", "empty", "")
	for bit := range 2 {
		if got, want := Position(nil, bit, Range{Open: true}), server.Do("BITPOS", "empty", bit); got != want {
			t.Errorf("BITPOS of an empty string, bit %d: %d, want %v", bit, got, want)
		}
	}
}
