package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/bits"
	"kedis/storage/layout"
)

// modelString is a string as the model has it.
type modelString struct {
	value    string
	raw      bool
	expireMs int64
}

// stringModel is what strings mean, in plain Go. Every method has the effect and the results of the
// method of DB with its name; missing keys are not in the map.
type stringModel map[string]modelString

const modelLimit = 100 // bytes that a string may have

func (m stringModel) change(key, value string) {
	m[key] = modelString{value, true, m[key].expireMs}
}

func (m stringModel) unshare(key string) {
	if s, ok := m[key]; ok && len(s.value) <= 44 {
		s.raw = true
		m[key] = s
	}
}

func (m stringModel) append(key, suffix string) (int, error) {
	old, ok := m[key]
	switch {
	case !ok:
		m[key] = modelString{value: suffix}
	case len(old.value)+len(suffix) > modelLimit:
		return 0, ErrTooLong
	default:
		m.change(key, old.value+suffix)
	}
	return len(m[key].value), nil
}

func (m stringModel) setRange(key string, offset int, value string) (int, error) {
	old := m[key].value
	if value == "" {
		return len(old), nil
	}
	if offset+len(value) > modelLimit {
		return 0, ErrTooLong
	}
	padded := old + strings.Repeat("\x00", max(0, offset+len(value)-len(old)))
	m.change(key, padded[:offset]+value+padded[offset+len(value):])
	return len(m[key].value), nil
}

func (m stringModel) increment(key string, delta int64) (int64, error) {
	old := int64(0)
	if s, ok := m[key]; ok {
		var err error
		if old, err = strconv.ParseInt(s.value, 10, 64); err != nil || strconv.FormatInt(old, 10) != s.value {
			return 0, ErrNotInteger
		}
	}
	if delta > 0 && old > math.MaxInt64-delta || delta < 0 && old < math.MinInt64-delta {
		return 0, ErrOverflow
	}
	m[key] = modelString{strconv.FormatInt(old+delta, 10), false, m[key].expireMs}
	return old + delta, nil
}

func (m stringModel) setBit(key string, offset uint64, bit int) int {
	old, existed := m[key]
	value := []byte(old.value)
	for uint64(len(value)) <= offset/8 {
		value = append(value, 0)
	}
	was := int(value[offset/8]>>(7-offset%8)) & 1
	if was == bit && len(value) == len(old.value) && existed {
		m.unshare(key)
		return was
	}
	value[offset/8] = value[offset/8]&^(0x80>>(offset%8)) | byte(bit)<<(7-offset%8)
	m.change(key, string(value))
	return was
}

// setByte is the one operation of BITFIELD that needs no arithmetic: an aligned byte.
func (m stringModel) setByte(key string, at int, value byte) byte {
	old := m[key].value
	padded := []byte(old + strings.Repeat("\x00", max(0, at+1-len(old))))
	was := padded[at]
	padded[at] = value
	if string(padded) == old {
		m.unshare(key)
	} else {
		m.change(key, string(padded))
	}
	return was
}

func (m stringModel) combine(target string, operation bits.Operation, keys []string) int {
	longest := 0
	for _, key := range keys {
		longest = max(longest, len(m[key].value))
	}
	result := make([]byte, longest)
	for i := range result {
		for j, key := range keys {
			b := byte(0)
			if i < len(m[key].value) {
				b = m[key].value[i]
			}
			switch {
			case operation == bits.Not:
				result[i] = ^b
			case j == 0:
				result[i] = b
			case operation == bits.And:
				result[i] &= b
			case operation == bits.Or:
				result[i] |= b
			default:
				result[i] ^= b
			}
		}
	}
	delete(m, target)
	if longest > 0 {
		m[target] = modelString{value: string(result), raw: true}
	}
	return longest
}

// TestStringsAgainstModel does the same to a store and to the model, in transactions that are
// committed or taken back, with the store reopened in between.
func TestStringsAgainstModel(t *testing.T) { inAllTiers(t, stringsAgainstModel) }

func stringsAgainstModel(t *testing.T, o Options) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 2))
	s, log := reopen(t, o, &testLog{})
	model := stringModel{}
	for round := range 200 {
		txn := s.NewTxn()
		next := maps.Clone(model)
		txn.Begin(Mode{Writing: true}, 1000, 0)
		for range random.IntN(20) {
			stringStep(t, txn.DB(0), next, random)
		}
		checkStrings(t, txn.DB(0), next)
		if random.IntN(4) > 0 {
			txn.Effect(0, []byte("EFFECT"))
			must(t, s.Commit(txn))
			model = next
		}
		if round%50 == 49 {
			must(t, s.Close())
			s, log = reopen(t, o, log)
		}
		reader := s.NewTxn()
		reader.Begin(Mode{}, 1000, 0)
		checkStrings(t, reader.DB(0), model)
	}
	must(t, s.Close())
}

func checkStrings(t *testing.T, d DB, want stringModel) {
	t.Helper()
	got := stringModel{}
	must(t, d.Keys(nil, func(key []byte, m *layout.Metadata) bool {
		if m.Type == layout.String {
			got[string(key)] = modelString{string(m.Value), m.Encoding == layout.Raw, m.ExpireMs}
		}
		return true
	}))
	if !maps.Equal(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func expectSame[T comparable](t *testing.T, what string, got, want T, err, wantErr error) {
	t.Helper()
	if !errors.Is(err, wantErr) || got != want {
		t.Fatalf("%s: got %v, %v; want %v, %v", what, got, err, want, wantErr)
	}
}

func stringStep(t *testing.T, d DB, m stringModel, random *rand.Rand) {
	t.Helper()
	name := string(rune('a' + random.IntN(5)))
	key := []byte(name)
	switch random.IntN(9) {
	case 0:
		value, expireMs := fmt.Sprint(random.IntN(200)), []int64{0, 500, 2000}[random.IntN(3)]
		old, err := d.Lookup(key)
		must(t, err)
		must(t, d.SetString(key, &old, []byte(value), expireMs))
		m[name] = modelString{value: value, expireMs: expireMs}
		if expireMs == 500 {
			delete(m, name) // it has expired; whatever comes next finds that
		}
	case 1, 2:
		suffix := strings.Repeat("7", random.IntN(4))
		got, err := d.Append(key, []byte(suffix), modelLimit)
		want, wantErr := m.append(name, suffix)
		expectSame(t, "append", got, want, err, wantErr)
	case 3:
		offset, value := random.IntN(modelLimit+10), strings.Repeat("3", random.IntN(5))
		got, err := d.SetRange(key, int64(offset), []byte(value), modelLimit)
		want, wantErr := m.setRange(name, offset, value)
		expectSame(t, "setrange", got, want, err, wantErr)
	case 4:
		delta := []int64{1, -1, 0, math.MaxInt64, math.MinInt64}[random.IntN(5)]
		got, err := d.Increment(key, delta)
		want, wantErr := m.increment(name, delta)
		expectSame(t, "increment", got, want, err, wantErr)
	case 5:
		offset, bit := random.Uint64N(modelLimit*8), random.IntN(2)
		got, err := d.SetBit(key, offset, bit)
		expectSame(t, "setbit", got, m.setBit(name, offset, bit), err, nil)
	case 6:
		at, value := random.IntN(modelLimit), byte(random.IntN(3))
		got := int64(-1)
		operation := FieldOperation{Action: FieldSet, Type: bits.Type{Bits: 8}, Offset: uint64(at) * 8, Number: int64(value)}
		err := d.BitField(key, []FieldOperation{operation}, func(number int64, _ bool) { got = number })
		expectSame(t, "bitfield", got, int64(m.setByte(name, at, value)), err, nil)
	case 7:
		stepCombine(t, d, m, name, random)
	case 8:
		_, err := d.Delete(key)
		must(t, err)
		delete(m, name)
	}
}

func stepCombine(t *testing.T, d DB, m stringModel, target string, random *rand.Rand) {
	t.Helper()
	operation := bits.Operation(random.IntN(4))
	count := 1
	if operation != bits.Not {
		count += random.IntN(3)
	}
	var names []string
	var keys [][]byte
	for range count {
		names = append(names, string(rune('a'+random.IntN(6))))
		keys = append(keys, []byte(names[len(names)-1]))
	}
	got, err := d.CombineBits([]byte(target), operation, keys, nil)
	expectSame(t, "bitop", got, m.combine(target, operation, names), err, nil)
}

// inTxn runs f as a command that writes, at a time of 1000 ms, and commits.
func inTxn(t *testing.T, s *Store, f func(d DB)) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	f(txn.DB(0))
	txn.Effect(0, []byte("EFFECT"))
	must(t, s.Commit(txn))
}

func TestStringsOfOtherTypesAreRefused(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("h")
	inTxn(t, s, func(d DB) {
		must(t, d.Save(key, Key{}, layout.Metadata{Type: layout.Hash, Encoding: layout.Listpack, Value: []byte("listpack")}))
		for name, f := range map[string]func() error{
			"append":        func() error { _, err := d.Append(key, key, 99); return err },
			"setrange":      func() error { _, err := d.SetRange(key, 0, key, 99); return err },
			"empty range":   func() error { _, err := d.SetRange(key, 0, nil, 99); return err },
			"increment":     func() error { _, err := d.Increment(key, 1); return err },
			"float":         func() error { _, err := d.IncrementFloat(key, []byte("x")); return err },
			"setbit":        func() error { _, err := d.SetBit(key, 0, 1); return err },
			"bitfield":      func() error { return d.BitField(key, nil, nil) },
			"bitop":         func() error { _, err := d.CombineBits([]byte("t"), bits.Or, [][]byte{key}, nil); return err },
			"pfadd":         func() error { _, err := d.HyperLogLogAdd(key, nil, 3000); return err },
			"pfcount":       func() error { _, err := d.HyperLogLogCount(key); return err },
			"pfcount union": func() error { _, err := d.HyperLogLogCountUnion([][]byte{key, key}); return err },
			"pfmerge":       func() error { return d.HyperLogLogMerge([]byte("t"), [][]byte{key}, 3000) },
		} {
			if err := f(); !errors.Is(err, ErrWrongType) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if k, err := d.Lookup([]byte("t")); err != nil || k.Exists {
			t.Errorf("a target was made: %v, %v", k, err)
		}
	})
}

func TestIncrementFloat(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	inTxn(t, s, func(d DB) {
		set := func(value string) {
			old, err := d.Lookup([]byte("f"))
			must(t, err)
			must(t, d.SetString([]byte("f"), &old, []byte(value), 5000))
		}
		for _, c := range []struct {
			value, delta, sum string
			err               error
		}{
			{"10.5", "0.1", "10.6", nil}, {"3.0e3", "200", "3200", nil}, {"1", "-1", "0", nil},
			{"1", "inf", "", ErrNotFinite}, {"inf", "-inf", "", ErrNotFinite},
			{"x", "1", "", ErrNotFloat}, {"1", "x", "", ErrNotFloat}, {"", "1", "", ErrNotFloat},
		} {
			set(c.value)
			sum, err := d.IncrementFloat([]byte("f"), []byte(c.delta))
			expectSame(t, c.value+" + "+c.delta, string(sum), c.sum, err, c.err)
			k, err := d.Lookup([]byte("f"))
			must(t, err)
			if want := c.sum; c.err == nil && (string(k.Value) != want || k.ExpireMs != 5000) {
				t.Errorf("%q is stored, until %d; want %q", k.Value, k.ExpireMs, want)
			}
		}
		sum, err := d.IncrementFloat([]byte("missing"), []byte("2.50"))
		expectSame(t, "of a missing one", string(sum), "2.5", err, nil)
	})
}

func TestStringEncoding(t *testing.T) {
	for _, c := range []struct {
		encoding layout.Encoding
		value    string
		want     string
	}{
		{layout.Plain, "12", "int"}, {layout.Plain, "-9223372036854775808", "int"}, {layout.Plain, "9223372036854775808", "embstr"},
		{layout.Plain, "", "embstr"}, {layout.Plain, "012", "embstr"}, {layout.Plain, strings.Repeat("1", 44), "embstr"},
		{layout.Plain, strings.Repeat("1", 45), "raw"}, {layout.Raw, "12", "raw"}, {layout.Raw, "", "raw"},
	} {
		m := layout.Metadata{Type: layout.String, Encoding: c.encoding, Value: []byte(c.value)}
		if got := StringEncoding(&m); got != c.want {
			t.Errorf("%q in encoding %d is %s, want %s", c.value, c.encoding, got, c.want)
		}
	}
}

// TestUnchangedStrings: Redis tells nobody who watches a key of a command that changed nothing,
// though it may have given the string another encoding.
func TestUnchangedStrings(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("k")
	for name, f := range map[string]func(d DB) error{
		"setbit": func(d DB) error { _, err := d.SetBit(key, 1, 1); return err },
		"bitfield that fails": func(d DB) error {
			return d.BitField(key, []FieldOperation{{Action: FieldIncrement, Type: bits.Type{Bits: 8}, Number: 1000, Overflow: bits.Fail}},
				func(_ int64, ok bool) {
					if ok {
						t.Error("an overflow was stored")
					}
				})
		},
	} {
		inTxn(t, s, func(d DB) { must(t, d.SetString(key, &Key{}, []byte("abc"), 0)) })
		txn := s.NewTxn()
		for _, wantsWrite := range []bool{true, false} {
			savepoint := begin(txn, Mode{Writing: true}, 1000, 0)
			must(t, f(txn.DB(0)))
			touched := txn.KeyEvents().Len()
			k, err := txn.DB(0).Lookup(key)
			must(t, err)
			if touched > 0 || k.Encoding != layout.Raw || string(k.Value) != "abc" || txn.Changed(savepoint) != wantsWrite {
				t.Errorf("%s: touched %d, changed %v, encoding %d, value %q", name, touched, txn.Changed(savepoint), k.Encoding, k.Value)
			}
		}
	}
}

// TestLargeStringsSpendTheBudget: a reactor doesn't go over many megabytes.
func TestLargeStringsSpendTheBudget(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	large := bytes.Repeat([]byte("x"), 20<<20)
	key := []byte("k")
	inTxn(t, s, func(d DB) {
		must(t, d.SetString(key, &Key{}, large, 0))
		must(t, setWhole(d, []byte("whole"), large))
	})
	txn := s.NewTxn()
	for name, f := range map[string]func(d DB) error{
		"set":      func(d DB) error { return d.SetString([]byte("new"), &Key{}, large, 0) },
		"append":   func(d DB) error { _, err := d.Append(key, large, 1<<30); return err },
		"setrange": func(d DB) error { _, err := d.SetRange([]byte("new"), 1, large, 1<<30); return err },
		"whole":    func(d DB) error { _, err := d.SetBit([]byte("whole"), 20<<22, 1); return err },
		"bitop":    func(d DB) error { _, err := d.CombineBits([]byte("new"), bits.Or, [][]byte{key}, nil); return err },
		"pfadd":    func(d DB) error { _, err := d.HyperLogLogAdd([]byte("new"), make([][]byte, 20000), 3000); return err },
	} {
		savepoint := begin(txn, Mode{Writing: true}, 1000, 10000)
		if err := f(txn.DB(0)); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
		txn.Rollback(savepoint)
	}
	txn.Reset()
	if cap(txn.scratch.draft) > largeBuffer || cap(txn.scratch.record) > largeBuffer {
		t.Errorf("%d and %d bytes of scratch memory are kept", cap(txn.scratch.draft), cap(txn.scratch.record))
	}
}

func TestBitFieldResults(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	u8, i16 := bits.Type{Bits: 8}, bits.Type{Signed: true, Bits: 16}
	operations := []FieldOperation{
		{Action: FieldSet, Type: u8, Number: 200},
		{Action: FieldIncrement, Type: u8, Number: 100, Overflow: bits.Fail},
		{Action: FieldIncrement, Type: u8, Number: 100, Overflow: bits.Saturate},
		{Action: FieldIncrement, Type: u8, Number: 2, Overflow: bits.Wrap},
		{Action: FieldGet, Type: i16},
		{Action: FieldSet, Type: i16, Offset: 12, Number: -1},
		{Action: FieldGet, Type: u8, Offset: 1000},
	}
	inTxn(t, s, func(d DB) {
		var got []string
		must(t, d.BitField([]byte("k"), operations, func(number int64, ok bool) { got = append(got, fmt.Sprint(number, ok)) }))
		want := []string{"0 true", "0 false", "255 true", "1 true", "256 true", "0 true", "0 true"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		k, err := d.Lookup([]byte("k"))
		if err != nil || string(k.Value) != "\x01\x0f\xff\xf0" {
			t.Errorf("stored is %q, %v", k.Value, err)
		}
	})
}
