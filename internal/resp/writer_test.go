package resp

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestDeferredLengths nests arrays, maps and sets of all lengths whose headers differ in size, and
// compares with the same told beforehand.
func TestDeferredLengths(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		for _, n := range []int{0, 1, 4, 5, 9, 10, 49, 50, 99, 100, 1023, 1024, 12345} {
			want, got := NewWriter(protocol), NewWriter(protocol)
			want.Array(3)
			want.Set(n)
			writeIntegers(want, n)
			want.Map(n)
			writeIntegers(want, 2*n)
			want.Array(n)
			writeIntegers(want, n)
			want.OK()

			outer := got.BeginArray()
			set := got.BeginSet()
			writeIntegers(got, n)
			got.EndSet(set, n)
			pairs := got.BeginMap()
			writeIntegers(got, 2*n)
			got.EndMap(pairs, n)
			inner := got.BeginArray()
			writeIntegers(got, n)
			got.EndArray(inner, n)
			got.EndArray(outer, 3)
			got.OK()
			if string(got.Bytes()) != string(want.Bytes()) {
				t.Fatalf("RESP%d, %d elements: %.200q, want %.200q", protocol, n, got.Bytes(), want.Bytes())
			}
		}
	}
}

func writeIntegers(w *Writer, n int) {
	for i := range n {
		w.Integer(int64(i))
	}
}

func TestRewind(t *testing.T) {
	w := NewWriter(2)
	w.OK()
	mark := w.Mark()
	handle := w.BeginArray()
	writeIntegers(w, 20)
	w.EndArray(handle, 20)
	w.Rewind(mark)
	w.Raw([]byte(":7\r\n"))
	if got := string(w.Bytes()); got != "+OK\r\n:7\r\n" || w.Len() != len(got) {
		t.Errorf("%d bytes: %q", w.Len(), got)
	}
}

func TestProtocolChanges(t *testing.T) {
	w := NewWriter(2)
	w.Null()
	w.SetProtocol(3)
	w.Null()
	if got := string(w.Bytes()); got != "$-1\r\n_\r\n" || w.Protocol() != 3 {
		t.Errorf("protocol %d: %q", w.Protocol(), got)
	}
}

func TestBrokenInvariants(t *testing.T) {
	for name, violate := range map[string]func(){
		"protocol":  func() { NewWriter(4) },
		"attribute": func() { NewWriter(2).Attribute(1) },
		"format":    func() { NewWriter(3).Verbatim("text", "") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			violate()
		}()
	}
}

func TestIntegers(t *testing.T) {
	w := NewWriter(2)
	for _, n := range []int64{0, 1, -1, 9, 10, 1023, 1024, -1023, math.MaxInt64, math.MinInt64} {
		w.Reset()
		if w.Integer(n); string(w.Bytes()) != fmt.Sprintf(":%d\r\n", n) {
			t.Errorf("%d became %q", n, w.Bytes())
		}
	}
}

func TestNaN(t *testing.T) {
	w := NewWriter(3)
	w.Double(math.NaN())
	w.Double(math.Copysign(math.NaN(), -1))
	if got := string(w.Bytes()); got != ",nan\r\n,nan\r\n" {
		t.Errorf("%q", got)
	}
}

func TestResetKeepsLittle(t *testing.T) {
	w := NewWriter(2)
	w.BulkString(strings.Repeat("x", 1000))
	w.Reset()
	if kept := cap(w.Bytes()); w.Len() != 0 || kept < 1000 {
		t.Errorf("%d bytes of memory are kept of 1000", kept)
	}
	w.BulkString(strings.Repeat("x", 1<<20))
	w.Reset()
	if kept := cap(w.Bytes()); w.Len() != 0 || kept > retainedReply {
		t.Errorf("%d bytes of memory are kept", kept)
	}
}

func TestWriterAllocations(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		w := NewWriter(protocol)
		value := []byte(strings.Repeat("x", 2000))
		write := func() {
			w.Reset()
			w.OK()
			w.Error("ERR no")
			w.Integer(123456)
			w.Bulk(value)
			w.BulkString("value")
			w.Double(1.5)
			w.Bool(true)
			w.Verbatim("txt", "text")
			handle := w.BeginMap()
			writeIntegers(w, 200)
			w.EndMap(handle, 100)
		}
		write()
		if n := testing.AllocsPerRun(100, write); n > 0 {
			t.Errorf("RESP%d: %v allocations", protocol, n)
		}
	}
}

func TestAppendRequest(t *testing.T) {
	got := AppendRequest([]byte("before"), []byte("SET"), nil, []byte("a\r\nb"), []byte(strings.Repeat("x", 1024)))
	want := "before*4\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$1024\r\n" + strings.Repeat("x", 1024) + "\r\n"
	if string(got) != want {
		t.Errorf("%q", got)
	}
	set, key, value, buffer := []byte("SET"), []byte("key"), []byte("value"), make([]byte, 0, 100)
	if n := testing.AllocsPerRun(100, func() { AppendRequest(buffer, set, key, value) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWriter(b *testing.B) {
	w, value := NewWriter(2), []byte(strings.Repeat("x", 100))
	for name, write := range map[string]func(){
		"OK":      w.OK,
		"Integer": func() { w.Integer(42) },
		"large":   func() { w.Integer(1234567890) },
		"Bulk":    func() { w.Bulk(value) },
		"Double":  func() { w.Double(1234.5678) },
		"Error":   func() { w.Error("WRONGTYPE Operation against a key holding the wrong kind of value") },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.Reset()
				write()
			}
		})
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	set, key, value, buffer := []byte("SET"), []byte("key:000012345"), []byte(strings.Repeat("x", 100)), make([]byte, 0, 200)
	for b.Loop() {
		AppendRequest(buffer, set, key, value)
	}
}
