package intset

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"
	"testing"
)

func build(values ...int64) Intset {
	s := Empty(0)
	for _, v := range values {
		s, _ = s.Add(s[:0], v)
	}
	return s
}

// The bytes are those of redis-server 7.0.15: SADD of the values, then DUMP without the frame.
func TestBytesAreRedisBytes(t *testing.T) {
	for _, c := range []struct {
		values []int64
		want   string
	}{
		{[]int64{1, -2, 3}, "0200000003000000feff01000300"},
		{[]int64{1, -2, 3, 70000}, "0400000004000000feffffff010000000300000070110100"},
		{[]int64{1, -2, 3, 70000, -5000000000}, "0800000005000000" +
			"000efad5fefffffffeffffffffffffff0100000000000000030000000000000070110100" + "00000000"},
	} {
		if got := hex.EncodeToString(build(c.values...)); got != c.want {
			t.Errorf("%d: got %s, want %s", c.values, got, c.want)
		}
	}
}

func TestEmpty(t *testing.T) {
	s := Empty(100)
	if s.Len() != 0 || s.Contains(0) || s.Validate(true) != nil || cap(s) != 100 {
		t.Fatalf("%x", s)
	}
	if out, removed := s.Remove(nil, 1); removed || !bytes.Equal(out, s) {
		t.Fatal("removed something")
	}
}

func check(t *testing.T, s Intset, model map[int64]bool) {
	t.Helper()
	if err := s.Validate(true); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(maps.Keys(model))
	if s.Len() != len(want) {
		t.Fatalf("%d members instead of %d", s.Len(), len(want))
	}
	for i, v := range s.All() {
		at, found := s.Find(v)
		if v != want[i] || s.Get(i) != v || at != i || !found {
			t.Fatalf("member %d is %d, want %d; found at %d", i, v, want[i], at)
		}
	}
}

func TestAgainstModel(t *testing.T) {
	for seed := range int64(100) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			s, model := Empty(0), map[int64]bool{}
			for range 100 {
				s = step(t, r, s, model)
				check(t, s, model)
			}
		})
	}
}

func step(t *testing.T, r *rand.Rand, s Intset, model map[int64]bool) Intset {
	value := int64(r.Uint64()) >> (64 - 1<<r.Intn(7))
	var dst []byte
	before, inPlace := bytes.Clone(s), r.Intn(2) == 0
	if inPlace {
		dst = s[:0]
	} else if r.Intn(2) == 0 {
		dst = make([]byte, 0, r.Intn(1000))
	}
	out, changed := s, false
	had := model[value]
	if r.Intn(3) > 0 {
		out, changed = s.Add(dst, value)
		had = !had
		model[value] = true
	} else {
		out, changed = s.Remove(dst, value)
		delete(model, value)
	}
	if changed != had {
		t.Fatalf("%d: changed is %v", value, changed)
	}
	if !inPlace && !bytes.Equal(before, s) {
		t.Fatal("the input was modified")
	}
	return out
}

func TestExtremes(t *testing.T) {
	values := []int64{math.MaxInt16, math.MinInt16, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64,
		math.MaxInt16 + 1, math.MinInt16 - 1, math.MaxInt32 + 1, math.MinInt32 - 1}
	model := map[int64]bool{}
	s := Empty(0)
	for _, v := range values {
		s, _ = s.Add(nil, v)
		model[v] = true
		check(t, s, model)
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, s := range map[string]Intset{
		"empty":      nil,
		"short":      Empty(0)[:7],
		"width":      {3, 0, 0, 0, 0, 0, 0, 0},
		"too few":    {2, 0, 0, 0, 2, 0, 0, 0, 1, 0},
		"too many":   {2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0},
		"descending": {2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0},
		"twice":      {2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0},
	} {
		if err := s.Validate(true); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	s := build(1, 2, 3, 70000)
	buf := make(Intset, 0, 1000)
	var sum int64
	allocs := testing.AllocsPerRun(100, func() {
		out, _ := s.Add(buf, 5000000000)
		out, _ = out.Remove(out[:0], 2)
		for i, v := range out.All() {
			sum += v + int64(i)
		}
		if out.Contains(70000) {
			sum++
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func FuzzIntset(f *testing.F) {
	f.Add([]byte(Empty(0)), int64(1))
	f.Add([]byte(build(-1, 3, 70000)), int64(5000000000))
	f.Fuzz(func(t *testing.T, data []byte, value int64) {
		s := Intset(data)
		if s.Validate(true) != nil {
			return
		}
		model := map[int64]bool{}
		for _, v := range s.All() {
			model[v] = true
		}
		check(t, s, model)
		out, _ := s.Add(nil, value)
		model[value] = true
		check(t, out, model)
		out, _ = out.Remove(nil, value)
		delete(model, value)
		check(t, out, model)
	})
}
