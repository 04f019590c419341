package resp

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
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

// TestPieces composes replies of many pieces by chance, and the same in one slice.
func TestPieces(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 7))
		w, want := NewWriter(2), []byte(nil)
		text := func() []byte {
			n := random.IntN(200)
			switch random.IntN(50) {
			case 0:
				n = random.IntN(3 * longPiece)
			case 1, 2, 3:
				n = random.IntN(longPiece / 4)
			}
			return bytes.Repeat([]byte{byte('a' + random.IntN(26))}, n)
		}
		var arrays []int
		for len(want) < 12*longPiece || len(arrays) > 0 {
			switch at := w.Mark(); random.IntN(10) {
			case 0:
				arrays = append(arrays, w.BeginArray())
				want = append(want, "*0\r\n"...)
			case 1, 2:
				if last := len(arrays) - 1; last >= 0 {
					n := random.IntN(2_000_000)
					w.EndArray(arrays[last], n)
					want = slices.Replace(want, arrays[last], arrays[last]+4, fmt.Appendf(nil, "*%d\r\n", n)...)
					arrays = arrays[:last]
				}
			case 3:
				b := text()
				handle := w.BeginBulk()
				w.Raw(b)
				w.EndBulk(handle)
				want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(b), b)
			case 4:
				b := text()
				w.Raw(b)
				w.InsertBulk(at, []byte("inserted"))
				want = append(append(want, "$8\r\ninserted\r\n"...), b...)
			case 5:
				w.Bulk(text())
				w.Bulk(text())
				w.Rewind(at)
			case 6:
				w.Integer(7)
				want = append(want, ":7\r\n"...)
			case 7:
				b := text()
				w.BulkString(string(b))
				want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(b), b)
			default:
				b := text()
				w.Bulk(b)
				want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(b), b)
			}
		}
		if w.Len() != len(want) || !bytes.Equal(w.Bytes(), want) {
			t.Fatalf("seed %d: %d bytes, want %d", seed, w.Len(), len(want))
		}
		for from := 0; from < len(want); {
			part := w.From(from)
			part = part[:1+random.IntN(len(part))]
			if !bytes.Equal(part, want[from:from+len(part)]) {
				t.Fatalf("seed %d: something else stands behind %d", seed, from)
			}
			from += len(part)
			w.Sent(from)
		}
	}
}

// TestGrowingCopiesNothing: a reply takes hardly more memory than it has bytes, and what was sent
// of it takes none.
func TestGrowingCopiesNothing(t *testing.T) {
	for _, size := range []int{10, 1000, 200_000, 300_000, longPiece, 5 * longPiece} {
		var before, after, left runtime.MemStats
		value := make([]byte, size)
		runtime.GC()
		runtime.ReadMemStats(&before)
		w, length := NewWriter(2), 0
		w.OnGrowth(func(so int) { length = so })
		for w.Len() < 64*longPiece {
			w.Bulk(value)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(w.Len())*5/4+8*longPiece {
			t.Errorf("values of %d bytes: %d bytes of memory were taken for a reply of %d", size, took, w.Len())
		}
		if length < 58*longPiece || length > w.Len() {
			t.Errorf("values of %d bytes: a reply of %d bytes was said to have %d", size, w.Len(), length)
		}
		w.Sent(w.Len())
		runtime.GC()
		runtime.ReadMemStats(&left)
		if kept := int64(left.HeapAlloc) - int64(before.HeapAlloc); kept > 8*longPiece {
			t.Errorf("values of %d bytes: %d bytes are kept when all is sent", size, kept)
		}
		runtime.KeepAlive(w)
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
