package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"testing"
)

// longString has all kinds of repetition, near and far, for longer than the windows of a stream.
func longString(r *rand.Rand, size int) []byte {
	b := make([]byte, 0, size)
	for len(b) < size {
		switch r.Intn(4) {
		case 0:
			b = append(b, make([]byte, r.Intn(3*lzfMaxMatch))...)
		case 1: // from about as far away as a match may refer to
			far := lzfMaxOffset - 300 + r.Intn(600)
			if n := r.Intn(600); far < len(b) {
				for range n {
					b = append(b, b[len(b)-far])
				}
			}
		default:
			n := r.Intn(3000)
			bits := 1 + r.Intn(8)
			for range n {
				b = append(b, byte(r.Intn(1<<bits)))
			}
		}
	}
	return b[:size]
}

// TestLZFStreamIsTheSame: in parts, a string becomes the bytes that it becomes as a whole, and is
// refused under the same limits.
func TestLZFStreamIsTheSame(t *testing.T) {
	var whole, parts lzfCompressor
	var s lzfStream
	parts.base = 1<<32 - 3*lzfWindow // so that the table starts over
	for seed := range int64(40) {
		r := rand.New(rand.NewSource(seed))
		in := longString(r, 2*lzfWindow*r.Intn(4)+r.Intn(3*lzfAhead)+100)
		want, _ := whole.compress(nil, in, 2*len(in))
		for _, limit := range []int{len(in) - lzfWorthSaving, len(want) + 4, len(want) + 1, len(want), len(want) - 1, len(want) - 30, len(want) / 2} {
			want, fits := whole.compress(nil, in, limit)
			var got []byte
			s.begin(&parts, len(in), limit, func(output []byte) { got = append(got, output...) })
			for rest := in; len(rest) > 0; {
				n := min(1+r.Intn(5000), len(rest))
				s.write(rest[:n])
				rest = rest[n:]
			}
			if ok := s.end(); ok != fits || ok && !bytes.Equal(got, want) {
				t.Fatalf("seed %d, limit %d: %d bytes, %v; want %d, %v", seed, limit, len(got), ok, len(want), fits)
			}
		}
	}
}

// TestLongStringIsAString: what LongString writes is what String does, in a payload and in a file.
func TestLongStringIsAString(t *testing.T) {
	for _, size := range []int{longestUnpacked + 1, 3 << 20} { // the longer one's compressed form isn't kept
		for name, value := range map[string][]byte{
			"zeros": make([]byte, size), "some": longString(rand.New(rand.NewSource(1)), size), "random": randomBytes(size),
		} {
			t.Run(fmt.Sprintf("%s %d", name, size), func(t *testing.T) {
				asked := 0
				parts := func(write func(part []byte)) error {
					asked++
					for rest := value; len(rest) > 0; rest = rest[min(1000, len(rest)):] {
						write(rest[:min(1000, len(rest))])
					}
					return nil
				}
				p := NewPayloadWriter()
				p.Begin(nil)
				p.String(value)
				want, err := p.Finish()
				if err != nil {
					t.Fatal(err)
				}
				want = bytes.Clone(want)
				p.Begin(nil)
				if err := p.LongString(size, parts); err != nil {
					t.Fatal(err)
				}
				if got, err := p.Finish(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("a payload of %d bytes, %v; want %d", len(got), err, len(want))
				}
				var got bytes.Buffer
				p.BeginTo(struct{ io.Writer }{&got})
				if err := p.LongString(size, parts); err != nil {
					t.Fatal(err)
				}
				if err := p.FinishTo(); err != nil || !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%d bytes were written, %v; want %d", got.Len(), err, len(want))
				}
			})
		}
	}
}

// TestLongStringIsNotRead: where reading fails, early or late, in the first round or the second,
// LongString says so, and what is written next is right.
func TestLongStringIsNotRead(t *testing.T) {
	value := make([]byte, 3<<20) // whose compressed form isn't kept, so that it is read twice
	copy(value[1<<20:], randomBytes(2<<20))
	p := NewPayloadWriter()
	p.Begin(nil)
	p.String(value)
	want, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	unreadable := errors.New("the disk is broken")
	for round := 1; round <= 2; round++ {
		for _, after := range []int{0, 1, 2, 3, lzfWindow, 2 * lzfWindow, len(value) - 1} {
			asked := 0
			failing := func(write func(part []byte)) error {
				if asked++; asked < round {
					write(value)
					return nil
				}
				write(value[:after])
				return unreadable
			}
			p.Begin(nil)
			if err := p.LongString(len(value), failing); !errors.Is(err, unreadable) || asked != round {
				t.Fatalf("round %d, after %d bytes: %v in round %d", round, after, err, asked)
			}
			p.Begin(nil)
			if err := p.LongString(len(value), func(write func(part []byte)) error { write(value); return nil }); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Finish(); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("round %d, after %d bytes: then a payload of %d bytes, %v; want %d", round, after, len(got), err, len(want))
			}
		}
	}
}

func randomBytes(size int) []byte {
	b := make([]byte, size)
	rand.New(rand.NewSource(2)).Read(b)
	return b
}
