package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"kedis/redis-tests/seed"
	"kedis/storage/bits"
	"kedis/storage/layout"
	"kedis/storage/rdb"
)

// spreadModel are strings by database and key, as plain bytes. Nothing changes the bytes of one, so
// that older models share them.
type spreadModel map[string]longString

type longString struct {
	value    []byte
	expireMs int64
}

func (m spreadModel) change(name string, size int, f func(value []byte)) {
	value := make([]byte, max(size, len(m[name].value)))
	copy(value, m[name].value)
	f(value)
	m[name] = longString{value, m[name].expireMs}
}

// spreadTest does the same to strings around the lengths at which they become spread, and to the
// model.
type spreadTest struct {
	t      *testing.T
	random *rand.Rand
	model  spreadModel
	views  map[*View]spreadModel
}

// TestSpreadStringsAgainstModel changes and reads long strings at random, in transactions that are
// committed or taken back, with the store reopened in between, and looks at views of the past.
func TestSpreadStringsAgainstModel(t *testing.T) { inAllTiers(t, spreadStringsAgainstModel) }

func spreadStringsAgainstModel(t *testing.T, o Options) {
	x := &spreadTest{t: t, random: rand.New(rand.NewPCG(seed.Of(t), 7)), model: spreadModel{}, views: map[*View]spreadModel{}}
	s, log := reopen(t, o, &testLog{})
	for round := range 80 {
		inside(s).StageFrom([]int{1, 100 << 10, 0}[x.random.IntN(3)])
		txn := s.NewTxn()
		savepoint, before := begin(txn, Mode{Writing: true}, 1, 0), maps.Clone(x.model)
		for range x.random.IntN(6) {
			x.step(txn)
		}
		x.check(txn, x.model)
		if x.random.IntN(5) > 0 {
			txn.Effect(0, []byte("EFFECT"))
			must(t, s.Commit(txn))
		} else {
			txn.Rollback(savepoint)
			x.model = before
		}
		x.lookBack(s)
		switch {
		case round%40 == 39:
			x.leaveViews(s)
			must(t, s.Close())
			s, log = reopen(t, o, log)
		case x.random.IntN(20) == 0:
			must(t, s.Settle())
		}
		txn = s.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		x.check(txn, x.model)
	}
	x.leaveViews(s)
	must(t, s.Close())
}

// lookBack takes a view, or looks at those that were taken before.
func (x *spreadTest) lookBack(s *Store) {
	switch x.random.IntN(12) {
	case 0:
		view := s.View()
		x.views[view] = maps.Clone(x.model)
	case 1:
		x.leaveViews(s)
	}
}

func (x *spreadTest) leaveViews(s *Store) {
	for view, model := range x.views {
		txn := s.NewTxn()
		txn.ReadFrom(view)
		txn.Begin(Mode{}, 1, 0)
		x.check(txn, model)
		view.Release()
	}
	clear(x.views)
}

// size is a length or an offset near where something changes.
func (x *spreadTest) size() int {
	near := []int{0, pieceBytes, 3 * pieceBytes, longestChanged, longestChanged + pieceBytes, longestWhole}[x.random.IntN(6)]
	return max(0, near+x.random.IntN(5)-2)
}

// some returns bytes: random, zeros, or zeros with something among them.
func (x *spreadTest) some(n int) []byte {
	b := make([]byte, n)
	switch x.random.IntN(4) {
	case 0:
	case 1:
		if n > 0 {
			b[x.random.IntN(n)] = byte(x.random.IntN(256))
		}
	default:
		for i := range b {
			b[i] = byte(x.random.IntN(256))
		}
	}
	return b
}

func (x *spreadTest) key() (database int, key []byte, inModel string) {
	database, key = x.random.IntN(2), []byte{byte('a' + x.random.IntN(3))}
	return database, key, name(database, string(key))
}

const mostSpread = longestWhole + 2*pieceBytes

func (x *spreadTest) step(txn *Txn) {
	x.t.Helper()
	database, key, name := x.key()
	db := txn.DB(database)
	old, err := db.Lookup(key)
	must(x.t, err)
	switch x.random.IntN(12) {
	case 0:
		value, expireMs := x.some(x.size()), []int64{0, 5000}[x.random.IntN(2)]
		must(x.t, db.SetString(key, &old, value, expireMs))
		x.model[name] = longString{value, expireMs}
	case 1: // as earlier versions have stored it
		value := x.some(x.size())
		must(x.t, db.Save(key, old, layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: value}))
		x.model[name] = longString{value: value}
	case 2:
		x.appendTo(db, key, name)
	case 3, 4:
		x.setRange(db, key, name)
	case 5, 6:
		x.setBit(db, key, name)
	case 7:
		x.bitField(db, key, name)
	case 8:
		x.combine(db, key, name)
	case 9:
		x.elsewhere(txn, db, old, key, name)
	case 10:
		x.throughPayload(db, old, key)
	case 11:
		if x.random.IntN(2) == 0 {
			_, err := db.Delete(key)
			must(x.t, err)
			delete(x.model, name)
		} else if old.Exists {
			must(x.t, db.SetExpiry(key, &old, 7000))
			x.model[name] = longString{x.model[name].value, 7000}
		}
	}
}

func (x *spreadTest) appendTo(db DB, key []byte, name string) {
	suffix, length := x.some(x.size()), len(x.model[name].value)
	got, err := db.Append(key, suffix, mostSpread)
	if _, exists := x.model[name]; exists && length+len(suffix) > mostSpread {
		expectSame(x.t, "append", got, 0, err, ErrTooLong)
		return
	}
	x.model.change(name, length+len(suffix), func(value []byte) { copy(value[length:], suffix) })
	expectSame(x.t, "append", got, length+len(suffix), err, nil)
}

func (x *spreadTest) setRange(db DB, key []byte, name string) {
	written, offset := x.some(x.random.IntN(3*pieceBytes)), x.size()
	got, err := db.SetRange(key, int64(offset), written, mostSpread)
	switch {
	case len(written) == 0:
	case offset+len(written) > mostSpread:
		expectSame(x.t, "setrange", got, 0, err, ErrTooLong)
		return
	default:
		x.model.change(name, offset+len(written), func(value []byte) { copy(value[offset:], written) })
	}
	expectSame(x.t, "setrange", got, len(x.model[name].value), err, nil)
}

func (x *spreadTest) setBit(db DB, key []byte, name string) {
	offset, bit := uint64(x.size())*8+x.random.Uint64N(8), x.random.IntN(2)
	was := bits.Get(x.model[name].value, offset)
	got, err := db.SetBit(key, offset, bit)
	expectSame(x.t, "setbit", got, was, err, nil)
	x.model.change(name, bytesFor(offset+1), func(value []byte) { bits.Set(value, offset, bit) })
}

func (x *spreadTest) bitField(db DB, key []byte, name string) {
	var operations []FieldOperation
	size, writes := 0, false
	for range 1 + x.random.IntN(4) {
		o := FieldOperation{Action: FieldAction(x.random.IntN(3)), Type: bits.Type{Signed: true, Bits: uint8(1 + x.random.IntN(64))},
			Offset: uint64(x.size())*8 + x.random.Uint64N(8), Number: x.random.Int64N(1000), Overflow: bits.Overflow(x.random.IntN(3))}
		if o.Action != FieldGet {
			size, writes = max(size, bytesFor(o.Offset+uint64(o.Type.Bits))), true
		}
		operations = append(operations, o)
	}
	var got, want []string
	must(x.t, db.BitField(key, operations, func(number int64, ok bool) { got = append(got, fmt.Sprint(number, ok)) }))
	answer := func(value []byte) {
		for i := range operations {
			number, ok, _ := operations[i].apply(value)
			want = append(want, fmt.Sprint(number, ok))
		}
	}
	if writes {
		x.model.change(name, size, answer)
	} else {
		answer(x.model[name].value)
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("bitfield %+v: got %q, want %q", operations, got, want)
	}
}

func (x *spreadTest) combine(db DB, key []byte, name string) {
	operation := bits.Operation(x.random.IntN(int(bits.One) + 1))
	keys, values := [][]byte{}, [][]byte{}
	sources := 1 + x.random.IntN(3)
	if operation == bits.Not {
		sources = 1
	}
	for range sources {
		source := []byte{byte('a' + x.random.IntN(3))}
		keys = append(keys, source)
		values = append(values, x.model[name[:len(name)-1]+string(source)].value)
	}
	result := combine(operation, values...)
	got, err := db.CombineBits(key, operation, keys, nil)
	expectSame(x.t, "bitop", got, len(result), err, nil)
	delete(x.model, name)
	if len(result) > 0 {
		x.model[name] = longString{value: result}
	}
}

// combine combines strings that are in memory.
func combine(operation bits.Operation, sources ...[]byte) []byte {
	size := 0
	for _, source := range sources {
		size = max(size, len(source))
	}
	c := bits.Combiner{Operation: operation}
	c.Begin(nil, size)
	for _, source := range sources {
		c.Add(source)
	}
	return c.Result()
}

// TestCombiningManyStrings takes no memory for each of them.
func TestCombiningManyStrings(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	value := bytes.Repeat([]byte("spread"), 50000)
	changed := bytes.Repeat([]byte("whole"), 20000)
	inTxn(t, s, func(d DB) {
		must(t, d.SetString([]byte("spread"), &Key{}, value, 0))
		must(t, d.SetString([]byte("changed"), &Key{}, changed, 0))
		_, err := d.Append([]byte("changed"), []byte("x"), MaxStringBytes)
		must(t, err)
	})
	const names, room = 500, 8 << 20
	for key, length := range map[string]int{"spread": len(value), "changed": len(changed) + 1} {
		for operation := bits.And; operation <= bits.One; operation++ {
			keys := slices.Repeat([][]byte{[]byte(key)}, names)
			if operation == bits.Not {
				keys = keys[:1]
			}
			inTxn(t, s, func(d DB) {
				before := allocated()
				got, err := d.CombineBits([]byte("target"), operation, keys, nil)
				expectSame(t, "bitop", got, length, err, nil)
				if n := allocated() - before; n > room {
					t.Errorf("operation %d of %d times %q: %d bytes were allocated", operation, len(keys), key, n)
				}
			})
		}
	}
}

// elsewhere moves or copies a string, perhaps to the other database.
func (x *spreadTest) elsewhere(txn *Txn, db DB, old Key, key []byte, from string) {
	database, to, name := x.key()
	if !old.Exists || name == from {
		return
	}
	target := txn.DB(database)
	if target.number == db.number && x.random.IntN(2) == 0 {
		must(x.t, db.Move(key, old, to))
		x.model[name] = x.model[from]
		delete(x.model, from)
		return
	}
	there, err := target.Lookup(to)
	must(x.t, err)
	must(x.t, db.CopyTo(old, target, to, there))
	x.model[name] = x.model[from]
}

// throughPayload replaces a string by what its payload says, or what its pieces say.
func (x *spreadTest) throughPayload(db DB, old Key, key []byte) {
	if !old.Exists {
		return
	}
	payload, err := db.Dump(nil, old, rdb.NewPayloadWriter())
	must(x.t, err)
	var elements []rdb.Element
	if pieces := PiecesOf(&old.Metadata); old.Encoding == layout.Spread && x.random.IntN(2) == 0 {
		must(x.t, pieces.Visit(db, &old.Metadata, func(e *rdb.Element) error {
			elements = append(elements, rdb.Element{Bytes: bytes.Clone(e.Bytes), Offset: e.Offset})
			return nil
		}))
		w := rdb.NewPayloadWriter()
		w.Begin(nil)
		words := pieces.Append(nil, pieces.Begin(&w.Encoder, elements))
		if payload, err = w.Finish(); err != nil {
			x.t.Fatal(err)
		}
		x.restore(db, old, key, payload, func(e *rdb.Element) (bool, error) {
			if len(words) == 0 {
				return false, nil
			}
			words, err = pieces.Parse(words, e)
			return true, err
		})
		return
	}
	x.restore(db, old, key, payload, nil)
}

func (x *spreadTest) restore(db DB, old Key, key, payload []byte, rest func(*rdb.Element) (bool, error)) {
	var decoder rdb.Decoder
	value, err := decoder.Payload(payload)
	must(x.t, err)
	if rest != nil {
		value.Continue(rest)
	}
	must(x.t, db.Restore(key, old, value, old.ExpireMs))
}

// check reads all strings, and asks for parts of them.
func (x *spreadTest) check(txn *Txn, want spreadModel) {
	x.t.Helper()
	seen := 0
	for database := range 2 {
		db := txn.DB(database)
		var all []string
		must(x.t, db.Keys(nil, func(key []byte, _ *layout.Metadata) bool {
			all = append(all, string(key))
			return true
		}))
		for _, key := range all {
			seen++
			x.checkString(db, []byte(key), want[name(database, key)])
		}
	}
	if seen != len(want) {
		x.t.Fatalf("%d keys, want %d", seen, len(want))
	}
}

func (x *spreadTest) checkString(db DB, key []byte, want longString) {
	x.t.Helper()
	k, err := db.LookupString(key)
	if err != nil || !bytes.Equal(k.Value, want.value) || k.ExpireMs != want.expireMs || k.StringLength() != len(want.value) {
		x.t.Fatalf("%s in database %d: %d bytes until %d, %v; want %d until %d", key, db.number, len(k.Value), k.ExpireMs, err, len(want.value), want.expireMs)
	}
	for range 3 {
		from, to := x.size(), x.size()
		from, to = min(from, to, len(want.value)), min(max(from, to), len(want.value))
		part, err := db.appendString(nil, &k.Metadata, from, to)
		if err != nil || !bytes.Equal(part, want.value[from:to]) {
			x.t.Fatalf("bytes from %d to %d are others; %v", from, to, err)
		}
		offset := uint64(x.size()) * 8
		bit, err := db.GetBit(key, offset)
		expectSame(x.t, "getbit", bit, bits.Get(want.value, offset), err, nil)
		r := bits.Range{Start: int64(x.size() - 3), End: int64(x.size() - 3), Open: x.random.IntN(2) == 0, Unit: bits.Unit(x.random.IntN(2))}
		first, limit := r.CountSpan(len(want.value))
		count, err := db.CountBits(key, r)
		expectSame(x.t, fmt.Sprintf("bitcount %+v", r), count, bits.CountBetween(want.value, first, limit), err, nil)
		searched := x.random.IntN(2)
		first, limit = r.Span(len(want.value))
		position := int64(-1)
		if first < limit {
			if position = bits.Find(want.value, searched, first, limit); position == limit {
				position = r.NotFound(searched, limit)
			}
		}
		got, err := db.BitPosition(key, searched, r)
		expectSame(x.t, fmt.Sprintf("bitpos %d %+v", searched, r), got, position, err, nil)
	}
}

// TestStringsBecomeSpread: which forms strings take, and that holes in them take no records.
func TestStringsBecomeSpread(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key, other := []byte("k"), []byte("other")
	set := func(size int) func(d DB) error {
		return func(d DB) error { return setString(d, key, bytes.Repeat([]byte("x"), size)) }
	}
	spread := true
	for i, step := range []struct {
		run    func(d DB) error
		spread bool
		pieces int
	}{
		{set(longestWhole), !spread, 0},
		{func(d DB) error { _, err := d.SetBit(key, 8, 1); return err }, spread, longestWhole / pieceBytes},
		{set(longestChanged), !spread, 0},
		{func(d DB) error { _, err := d.SetBit(key, 7, 1); return err }, !spread, 0},
		{func(d DB) error { _, err := d.Append(key, []byte("x"), MaxStringBytes); return err }, spread, longestChanged/pieceBytes + 1},
		{func(d DB) error { _, err := d.SetRange(key, 1<<30, []byte("x"), MaxStringBytes); return err }, spread, longestChanged/pieceBytes + 2},
		{func(d DB) error { _, err := d.SetRange(key, 1<<29, make([]byte, 9000), MaxStringBytes); return err }, spread, longestChanged/pieceBytes + 2},
		{set(longestWhole + 1), spread, longestWhole/pieceBytes + 1},
		{func(d DB) error { return setString(d, key, make([]byte, longestWhole+1)) }, spread, 0},
		{func(d DB) error { _, err := d.Delete(key); return err }, !spread, 0},
		{func(d DB) error { _, err := d.SetBit(key, 1<<32-1, 1); return err }, spread, 1},
		{func(d DB) error { _, err := d.CombineBits(key, bits.Or, [][]byte{key, other}, nil); return err }, spread, 1},
	} {
		commitChange(t, s, step.run)
		txn := s.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		k, err := txn.DB(0).Lookup(key)
		must(t, err)
		if (k.Encoding == layout.Spread) != step.spread || int(k.Count) != step.pieces {
			t.Errorf("after step %d the encoding is %d, with %d pieces", i, k.Encoding, k.Count)
		}
		txn.Reset()
	}
}

// TestPartsOfSpreadStrings: what goes over a part of a long string stays on a reactor.
func TestPartsOfSpreadStrings(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	key := []byte("k")
	const size = 40 << 20
	commitChange(t, s, func(d DB) error { return d.SetString(key, &Key{}, bytes.Repeat([]byte("x"), size), 0) })
	must(t, s.Settle())
	for name, f := range map[string]func(d DB) error{
		"append": func(d DB) error { _, err := d.Append(key, key, 1<<30); return err },
		"setrange": func(d DB) error {
			_, err := d.SetRange(key, size/2, bytes.Repeat([]byte("y"), 9000), 1<<30)
			return err
		},
		"setbit":  func(d DB) error { _, err := d.SetBit(key, size*4+1, 1); return err },
		"far bit": func(d DB) error { _, err := d.SetBit(key, 1<<32-1, 1); return err },
		"bitfield": func(d DB) error {
			return d.BitField(key, []FieldOperation{{Action: FieldSet, Type: bits.Type{Bits: 30}, Offset: size * 3, Number: 'y'}}, func(int64, bool) {})
		},
		"getbit":   func(d DB) error { _, err := d.GetBit(key, size*3); return err },
		"bitcount": func(d DB) error { _, err := d.CountBits(key, bits.Range{Start: 1 << 20, End: 2 << 20}); return err },
		"bitpos":   func(d DB) error { _, err := d.BitPosition(key, 0, bits.Range{Start: size / 2, Open: true}); return err },
		"getrange": func(d DB) error {
			k, err := d.Lookup(key)
			must(t, err)
			return d.EachString(&k.Metadata, size/3, size/3+1<<20, func([]byte) {})
		},
		"rename": func(d DB) error {
			k, err := d.Lookup(key)
			must(t, err)
			return d.Move(key, k, []byte("other"))
		},
		"delete": func(d DB) error { _, err := d.Delete(key); return err },
	} {
		txn := s.NewTxn()
		begin(txn, Mode{Writing: true}, 1000, 10000)
		if err := f(txn.DB(0)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, size := insideTxn(txn).JournalBytes(); size > 1<<20 {
			t.Errorf("%s writes %d bytes", name, size)
		}
		txn.Reset()
	}
	txn := s.NewTxn()
	for name, f := range map[string]func(d DB) error{
		"bitcount": func(d DB) error { _, err := d.CountBits(key, bits.Range{Open: true}); return err },
		"bitpos": func(d DB) error {
			_, err := d.BitPosition(key, 0, bits.Range{Start: 10, End: -1, Unit: bits.Bits})
			return err
		},
		"get": func(d DB) error { _, err := d.LookupString(key); return err },
		"copy": func(d DB) error {
			k, err := d.Lookup(key)
			must(t, err)
			return d.CopyTo(k, d, []byte("other"), Key{})
		},
	} {
		begin(txn, Mode{Writing: true}, 1000, 10000)
		err := f(txn.DB(0))
		if found := name == "bitpos" && err == nil; !found && !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyBytesAreRewritten: a part that is too long for one commit goes to RocksDB ahead of it.
func TestManyBytesAreRewritten(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	key := []byte("k")
	want := make([]byte, 5000, 60<<20)
	written := bytes.Repeat([]byte("long "), mostOverwritten/5+1)
	commitChange(t, s, func(d DB) error { _, err := d.SetRange(key, 4999, []byte("a"), MaxStringBytes); return err })
	want[4999] = 'a'
	for _, offset := range []int{100, 1 << 20, 30 << 20} {
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1, 0)
		_, err := txn.DB(0).SetRange(key, int64(offset), written, MaxStringBytes)
		must(t, err)
		if _, size := insideTxn(txn).JournalBytes(); size > 8<<20 {
			t.Errorf("the transaction holds %d bytes", size)
		}
		must(t, s.Commit(txn))
		want = want[:max(len(want), offset+len(written))]
		copy(want[offset:], written)
		txn.Reset()
		txn.Begin(Mode{}, 1, 0)
		k, err := txn.DB(0).LookupString(key)
		if err != nil || !bytes.Equal(k.Value, want) {
			t.Fatalf("%d bytes, want %d; %v", len(k.Value), len(want), err)
		}
	}
}

// TestRewrittenStringLeavesNothing: many bytes over a string that isn't spread yet leave no pieces
// but those of the result. Nobody would ever remove them.
func TestRewrittenStringLeavesNothing(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 1<<20))
	key, written := []byte("k"), bytes.Repeat([]byte("long "), mostOverwritten/5+1)
	commitChange(t, s, func(d DB) error { return d.SetString(key, &Key{}, []byte("short"), 0) })
	commitChange(t, s, func(d DB) error { _, err := d.Append(key, written, MaxStringBytes); return err })
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	k, err := txn.DB(0).Lookup(key)
	must(t, err)
	it := txn.Iterate(txn.DB(0).space, []byte{layout.KindStringPiece}, []byte{layout.KindStringPiece + 1}, IteratorOptions{KeysOnly: true})
	pieces := uint64(0)
	for it.Next() {
		pieces++
	}
	must(t, it.Close())
	if pieces != k.Count {
		t.Errorf("the string has %d pieces, and there are %d", k.Count, pieces)
	}
}

// TestMissingPiecesAreNoticed: a record that is gone is not taken for zeros by who reads all of a
// string.
func TestMissingPiecesAreNoticed(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("k")
	commitChange(t, s, func(d DB) error { return d.SetString(key, &Key{}, bytes.Repeat([]byte("x"), 2*longestWhole), 0) })
	commitChange(t, s, func(d DB) error {
		k, err := d.Lookup(key)
		must(t, err)
		return d.txn.Delete(d.space, d.pieceKey(&k.Metadata, 17))
	})
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	if _, err := txn.DB(0).LookupString(key); !errors.Is(err, layout.ErrCorrupt) {
		t.Errorf("the error is %v", err)
	}
}

// TestUnchangedSpreadString: nobody who watches a long string is told of a command that changed
// nothing.
func TestUnchangedSpreadString(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	key := []byte("k")
	value := bytes.Repeat([]byte("x"), longestWhole)
	commitChange(t, s, func(d DB) error { return d.SetString(key, &Key{}, value, 0) })
	same := []FieldOperation{{Action: FieldSet, Type: bits.Type{Bits: 8}, Offset: 8000, Number: 'x'}}
	for range 2 { // whole, then spread by BITFIELD
		txn := s.NewTxn()
		begin(txn, Mode{Writing: true}, 1, 0)
		db := txn.DB(0)
		_, err := db.SetBit(key, 8001, 1)
		must(t, err)
		must(t, db.BitField(key, same, func(int64, bool) {}))
		if txn.KeyEvents().Len() > 0 {
			t.Error("those who watch the key are told")
		}
		must(t, s.Commit(txn))
		txn.Reset()
		txn.Begin(Mode{}, 1, 0)
		if k, err := txn.DB(0).LookupString(key); err != nil || !bytes.Equal(k.Value, value) {
			t.Errorf("%d bytes, %v", len(k.Value), err)
		}
	}
	txn := s.NewTxn()
	begin(txn, Mode{Writing: true}, 1, 0)
	_, err := txn.DB(0).SetBit(key, 8000, 1)
	must(t, err)
	if txn.KeyEvents().Len() != 1 {
		t.Errorf("%d changes are told", txn.KeyEvents().Len())
	}
}
