package hyperloglog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"kedis/internal/oracle"
	"kedis/redis-tests/seed"
)

var replies = map[error]oracle.Error{
	ErrInvalid:   "WRONGTYPE Key is not a valid HyperLogLog string value.",
	ErrCorrupt:   "INVALIDOBJ Corrupted HLL object detected",
	ErrNotSparse: "ERR HLL encoding is not sparse",
}

// A twin is a set of keys kept both here and by the oracle.
type twin struct {
	t         *testing.T
	server    *oracle.Server
	random    *rand.Rand
	values    [6][]byte
	sparseMax int
	seed      uint64
}

func newTwin(t *testing.T, seed uint64) *twin {
	return &twin{t: t, server: oracle.Start(t), random: rand.New(rand.NewPCG(seed, 0)), seed: seed}
}

func (w *twin) setSparseMax(limit int) {
	w.sparseMax = limit
	if reply := w.server.Do("CONFIG", "SET", "hll-sparse-max-bytes", limit); reply != "OK" {
		w.t.Fatalf("CONFIG SET: %v", reply)
	}
}

// check compares a reply with the oracle's, and the key that the command may have changed.
func (w *twin) check(key int, got any, command ...any) {
	w.t.Helper()
	w.server.Send(command...)
	w.server.Send("GET", key)
	want, stored := w.server.Receive(), w.server.Receive()
	if err, ok := got.(error); ok {
		got = replies[err]
	}
	if got != want {
		w.t.Fatalf("seed %d: %q: %v, want %v", w.seed, command[:2], got, want)
	}
	if value, ok := stored.(string); ok != (w.values[key] != nil) || value != string(w.values[key]) {
		w.t.Fatalf("seed %d: after %q (sparse limit %d)\n got %x\nwant %x", w.seed, command, w.sparseMax, w.values[key], stored)
	}
}

func (w *twin) add(key int, elements [][]byte) {
	w.t.Helper()
	value, created := w.values[key], false
	if value == nil {
		value, created = New(), true
	}
	before := bytes.Clone(value)
	out, changed, err := Add(make([]byte, 100, 100+w.random.IntN(denseSize)), value, elements, w.sparseMax)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(value, before) {
		w.t.Fatalf("seed %d: Add wrote to its input", w.seed)
	}
	w.values[key] = out
	command := []any{"PFADD", key}
	for _, element := range elements {
		command = append(command, element)
	}
	reply := int64(0)
	if created || changed {
		reply = 1
	}
	w.check(key, reply, command...)
}

func (w *twin) count(key int) {
	w.t.Helper()
	count, stale, err := Count(w.values[key])
	if err != nil {
		w.check(key, err, "PFCOUNT", key)
		return
	}
	if stale {
		w.values[key] = WithCount(nil, w.values[key], count)
	}
	w.check(key, int64(count), "PFCOUNT", key)
}

func (w *twin) countUnion(keys []int) {
	w.t.Helper()
	command := []any{"PFCOUNT"}
	var values [][]byte
	for _, key := range keys {
		command = append(command, key)
		if w.values[key] != nil {
			values = append(values, w.values[key])
		}
	}
	count, err := countUnion(values...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.check(keys[0], int64(count), command...)
}

func (w *twin) merge(target int, keys []int) {
	w.t.Helper()
	command := []any{"PFMERGE", target}
	var sources [][]byte
	for _, key := range keys {
		command = append(command, key)
		if w.values[key] != nil {
			sources = append(sources, w.values[key])
		}
	}
	before := bytes.Clone(w.values[target])
	value := w.values[target]
	if value == nil {
		value = New()
	}
	out, err := merge(value, sources, w.sparseMax)
	if err != nil {
		w.t.Fatal(err)
	}
	if !bytes.Equal(before, w.values[target]) {
		w.t.Fatalf("seed %d: MergeInto wrote to its input", w.seed)
	}
	w.values[target] = out
	w.check(target, "OK", command...)
}

func (w *twin) keys() []int {
	keys := make([]int, 1+w.random.IntN(4))
	for i := range keys {
		keys[i] = w.random.IntN(len(w.values))
	}
	return keys
}

func (w *twin) elements() [][]byte {
	elements := make([][]byte, w.random.IntN(6))
	if w.random.IntN(20) == 0 {
		elements = make([][]byte, w.random.IntN(3000))
	}
	for i := range elements {
		elements[i] = make([]byte, w.random.IntN(20))
		for j := range elements[i] {
			elements[i][j] = byte(w.random.Uint32())
		}
	}
	return elements
}

func (w *twin) step() {
	w.t.Helper()
	key := w.random.IntN(len(w.values))
	switch n := w.random.IntN(100); {
	case n < 65:
		w.add(key, w.elements())
	case n < 75 && w.values[key] != nil:
		w.count(key)
	case n < 80:
		keys := append(w.keys(), key)
		w.countUnion(keys)
	case n < 94:
		w.merge(key, w.keys())
	case n < 95:
		w.setSparseMax(w.random.IntN(4000))
	case n < 98:
		w.values[key] = nil
		w.server.Do("DEL", key)
	}
}

// TestHistory drives both sides with one random history.
func TestHistory(t *testing.T) {
	for range 3 {
		w := newTwin(t, seed.Of(t))
		w.setSparseMax(w.random.IntN(4000))
		for range 600 {
			w.step()
		}
	}
}

// TestSparseGrowth adds one element at a time, so that every sparse size is seen, up to the
// promotion.
func TestSparseGrowth(t *testing.T) {
	w := newTwin(t, seed.Of(t))
	w.setSparseMax(5000)
	for i := 0; i == 0 || encodingOf(w.values[0]) == Sparse; i++ {
		w.add(0, [][]byte{fmt.Append(nil, w.seed, i)})
		if i > 20000 {
			t.Fatal("never became dense")
		}
		if i%200 == 0 {
			w.count(0)
			w.merge(1, []int{0})
		}
	}
	w.count(0)
	w.merge(1, []int{0})
}

// TestHighRanks sets registers directly: an element of a rank above some 20 would take long to
// find.
func TestHighRanks(t *testing.T) {
	w := newTwin(t, seed.Of(t))
	w.setSparseMax(3000)
	for rank := range uint8(maxRegister + 1) {
		s := sketch{value: New(), sparseMaxBytes: 3000}
		for range 50 {
			if err := s.raise(w.random.IntN(RegisterCount), rank); err != nil {
				t.Fatal(err)
			}
		}
		if dense := encodingOf(s.value) == Dense; dense != (rank > maxSparse) {
			t.Errorf("rank %d: dense is %v", rank, dense)
		}
		w.values[0] = s.value
		w.server.Do("SET", 0, s.value)
		w.count(0)
		w.merge(1, []int{0})
		w.count(1)
	}
}

// TestAllHighest is where the estimate has no finite value.
func TestAllHighest(t *testing.T) {
	w := newTwin(t, 0)
	dense, err := ToDense(nil, New())
	if err != nil {
		t.Fatal(err)
	}
	for _, rank := range []uint8{maxRank - 1, maxRank, maxRank + 1, maxRegister} {
		for register := range RegisterCount {
			setDenseRegister(dense[HeaderSize:], register, rank)
		}
		w.values[0] = dense
		w.server.Do("SET", 0, dense)
		w.countUnion([]int{0, 0})
		w.count(0)
	}
}

// TestRandomBytes compares what is made of damaged headers, opcodes and dense registers. Only
// counting is asked for: a Redis of that age may crash when it writes to damaged values.
func TestRandomBytes(t *testing.T) {
	seed := seed.Of(t)
	w := newTwin(t, seed)
	for range 800 {
		value, _, err := Add(nil, New(), w.elements(), w.random.IntN(4000))
		if err != nil {
			t.Fatal(err)
		}
		value = bytes.Clone(value)
		for range w.random.IntN(3) {
			value[w.random.IntN(min(len(value), 40))] = byte(w.random.Uint32())
		}
		if w.random.IntN(4) == 0 {
			cut := w.random.IntN(len(value) + 1)
			if cut < len(value) && value[cut] == 0 { // Redis finds half an opcode's missing zero in the one that ends each string
				cut++
			}
			value = value[:cut]
		}
		w.values[0] = value
		w.server.Do("SET", 0, value)
		w.count(0)
	}
}

func TestDebug(t *testing.T) {
	w := newTwin(t, seed.Of(t))
	w.setSparseMax(3000)
	for _, elements := range []int{0, 1, 50, 600, 3000} {
		w.values[0] = nil
		w.server.Do("DEL", 0)
		for i := range elements {
			w.add(0, [][]byte{fmt.Append(nil, w.seed, i)})
		}
		if elements == 0 {
			w.add(0, nil)
		}
		encoding, err := EncodingOf(w.values[0])
		if err != nil {
			t.Fatal(err)
		}
		w.check(0, encoding.String(), "PFDEBUG", "ENCODING", 0)
		w.checkOpcodes()
		w.checkRegisters()
	}
}

func (w *twin) checkOpcodes() {
	w.t.Helper()
	text, err := Opcodes(nil, w.values[0])
	if err != nil {
		w.check(0, err, "PFDEBUG", "DECODE", 0)
		return
	}
	w.check(0, string(text), "PFDEBUG", "DECODE", 0)
}

func (w *twin) checkRegisters() {
	w.t.Helper()
	registers, err := RegistersOf(w.values[0])
	if err != nil {
		w.t.Fatal(err)
	}
	reply := w.server.Do("PFDEBUG", "GETREG", 0).([]any)
	for i, rank := range registers {
		if reply[i] != int64(rank) {
			w.t.Fatalf("register %d: %d, want %v", i, rank, reply[i])
		}
	}
	if w.values[0], err = ToDense(nil, w.values[0]); err != nil {
		w.t.Fatal(err)
	}
	w.check(0, int64(0), "PFDEBUG", "TODENSE", 0)
}

func TestErrors(t *testing.T) {
	corrupt := append(New()[:HeaderSize], 0x00)
	half := append(New()[:HeaderSize], longZerosBit)
	for _, test := range []struct {
		value []byte
		want  error
	}{
		{nil, ErrInvalid},
		{[]byte("HYLL"), ErrInvalid},
		{append([]byte("HYLX"), New()[4:]...), ErrInvalid},
		{append([]byte("HYLL\x02"), New()[5:]...), ErrInvalid},
		{append([]byte("HYLL\x00"), New()[5:]...), ErrInvalid},
		{corrupt, ErrCorrupt},
		{half, ErrCorrupt},
	} {
		_, _, addErr := Add(nil, test.value, [][]byte{[]byte("element")}, 3000)
		_, _, countErr := Count(test.value)
		_, unionErr := countUnion(New(), test.value)
		_, mergeErr := merge(New(), [][]byte{test.value}, 3000)
		_, denseErr := ToDense(nil, test.value)
		_, registersErr := RegistersOf(test.value)
		for i, err := range []error{addErr, countErr, unionErr, mergeErr, denseErr, registersErr} {
			if !errors.Is(err, test.want) {
				t.Errorf("%q, function %d: %v, want %v", test.value, i, err, test.want)
			}
		}
	}
}
