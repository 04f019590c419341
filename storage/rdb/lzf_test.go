package rdb

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"
)

// compressible makes strings of all kinds of repetition.
func compressible(r *rand.Rand) []byte {
	b := make([]byte, 0, 100)
	for size := 1 + r.Intn(1<<r.Intn(15)); len(b) < size; {
		switch r.Intn(4) {
		case 0:
			b = append(b, bytes.Repeat([]byte{byte(r.Intn(256))}, r.Intn(300))...)
		case 1:
			b = fmt.Appendf(b, "key:%d,", r.Intn(1000))
		case 2:
			if len(b) > 0 {
				from := r.Intn(len(b))
				b = append(b, b[from:from+r.Intn(len(b)-from)]...)
			}
		default:
			for range r.Intn(40) {
				b = append(b, byte(r.Intn(1<<(1+r.Intn(8)))))
			}
		}
	}
	return b
}

func TestLZFRoundTrip(t *testing.T) {
	var c lzfCompressor
	for seed := range int64(300) {
		in := compressible(rand.New(rand.NewSource(seed)))
		out, ok := c.compress([]byte("before"), in, len(in)-lzfWorthSaving)
		if !ok {
			continue
		}
		if len(out)-len("before") > len(in)-lzfWorthSaving {
			t.Fatalf("seed %d: %d bytes became %d", seed, len(in), len(out)-len("before"))
		}
		back, err := decompressLZF([]byte("<"), out[len("before"):], uint64(len(in)))
		if err != nil || !bytes.Equal(back[1:], in) || back[0] != '<' {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// What was compressed before has no influence on the result, also when the table starts over.
func TestLZFIsDeterministic(t *testing.T) {
	in := compressible(rand.New(rand.NewSource(1)))
	var fresh, used lzfCompressor
	want, ok := fresh.compress(nil, in, len(in))
	if !ok {
		t.Fatal("not compressible")
	}
	used.base = 1<<32 - 5000
	for seed := range int64(20) {
		other := compressible(rand.New(rand.NewSource(seed)))
		used.compress(nil, other, len(other))
		if got, _ := used.compress(nil, in, len(in)); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: another result", seed)
		}
	}
}

// Redis's DUMP of a string has our compressed bytes, and for the same strings.
func TestLZFIsRedisLZF(t *testing.T) {
	r := startRedis(t, t.TempDir())
	w := NewPayloadWriter()
	for seed := range int64(400) {
		in := compressible(rand.New(rand.NewSource(seed)))
		r.must("SET", "k", in)
		want := r.dump("k")
		w.Begin(nil)
		w.String(in)
		got, err := w.Finish()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d bytes: got %x\nwant %x (%v)", seed, len(in), got, want, err)
		}
	}
}

func TestLZFRefusesGarbage(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		size uint64
	}{
		"empty":                {nil, 1},
		"literals cut":         {[]byte{3, 'a', 'b'}, 4},
		"reference cut":        {[]byte{0, 'a', 0x20}, 4},
		"long reference cut":   {[]byte{0, 'a', 0xE0, 1}, 11},
		"before the start":     {[]byte{0, 'a', 0x20, 1}, 4},
		"too long":             {[]byte{1, 'a', 'b'}, 1},
		"too long a reference": {[]byte{0, 'a', 0x20, 0}, 3},
		"too short":            {[]byte{1, 'a', 'b'}, 3},
		"absurd size":          {[]byte{0, 'a', 0xE0, 255, 0}, 1 << 60},
	} {
		if out, err := decompressLZF(nil, c.in, c.size); err == nil {
			t.Errorf("%s: %q", name, out)
		}
	}
	r := rand.New(rand.NewSource(7))
	for range 20000 {
		in := make([]byte, r.Intn(30))
		r.Read(in)
		_, _ = decompressLZF(nil, in, uint64(r.Intn(600))) // must only not panic
	}
}
