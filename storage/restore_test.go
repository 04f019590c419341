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
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// collection is a value as the model has it: the elements of a list in order; of the others, each
// with its value or score.
type collection struct {
	kind layout.Type
	list []string
	rest map[string]string
}

func (c *collection) len() int { return len(c.list) + len(c.rest) }

// randomCollection is a collection of a size that may be packed or spread by tinyLimits, of strings
// and integers.
func randomCollection(random *rand.Rand) collection {
	c := collection{kind: []layout.Type{layout.Hash, layout.List, layout.Set, layout.ZSet}[random.IntN(4)], rest: map[string]string{}}
	size := []int{1, 2, 3, 4, 5, 40}[random.IntN(6)]
	onlyIntegers := random.IntN(2) == 0
	for range size {
		name := strconv.Itoa(random.IntN(3 * size))
		if !onlyIntegers && random.IntN(2) == 0 {
			name = fmt.Sprintf("%0*d", 1+random.IntN(8), random.IntN(3*size))
		}
		switch c.kind {
		case layout.List:
			c.list = append(c.list, name)
		case layout.Hash:
			c.rest[name] = strconv.Itoa(random.IntN(1000))
		case layout.ZSet:
			c.rest[name] = strconv.Itoa(random.IntN(4) - 2)
		case layout.Set:
			c.rest[name] = ""
		}
	}
	return c
}

// payload writes the collection element by element, or as a listpack.
func (c *collection) payload(t *testing.T, packed bool) []byte {
	t.Helper()
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	if packed {
		c.writePacked(w)
	} else {
		c.writeElements(w)
	}
	payload, err := w.Finish()
	must(t, err)
	return payload
}

func (c *collection) writeElements(w *rdb.PayloadWriter) {
	switch n := uint64(c.len()); c.kind {
	case layout.List:
		w.BeginPlainList(n)
	case layout.Hash:
		w.BeginHash(n)
	case layout.Set:
		w.BeginSet(n)
	case layout.ZSet:
		w.BeginSortedSet(n)
	}
	for _, element := range c.list {
		w.ListElement([]byte(element))
	}
	for name, value := range c.rest {
		switch c.kind {
		case layout.Hash:
			w.Field([]byte(name), []byte(value))
		case layout.Set:
			w.Member([]byte(name))
		case layout.ZSet:
			score, _ := strconv.ParseFloat(value, 64)
			w.ScoredMember([]byte(name), score)
		}
	}
	w.End()
}

func (c *collection) writePacked(w *rdb.PayloadWriter) {
	pack := listpack.Empty(64)
	for _, element := range c.list {
		pack = pack.Append(nil, listpack.Of([]byte(element)))
	}
	for name, value := range c.rest { // in no order, which a sorted set must not be kept in
		pack = pack.Append(nil, listpack.Of([]byte(name)))
		if c.kind != layout.Set {
			pack = pack.Append(nil, listpack.Of([]byte(value)))
		}
	}
	switch c.kind {
	case layout.List:
		w.ListListpack(pack)
	case layout.Hash:
		w.HashListpack(pack)
	case layout.Set:
		w.SetListpack(pack)
	case layout.ZSet:
		w.SortedSetListpack(pack)
	}
}

// checkCollection compares what a key holds, element by element and as a payload.
func checkCollection(t *testing.T, d DB, key string, want collection) {
	t.Helper()
	k, err := d.Lookup([]byte(key))
	must(t, err)
	if want.len() == 0 {
		if k.Exists {
			t.Fatalf("%q is there", key)
		}
		return
	}
	if !k.Exists || k.Type != want.kind {
		t.Fatalf("%q: %+v, want a %s", key, k.Metadata, want.name())
	}
	w := rdb.NewPayloadWriter()
	payload, err := d.Dump(nil, k, w)
	must(t, err)
	checkPayload(t, payload, want)
	if k.Encoding == layout.Spread && want.kind == layout.ZSet {
		checkScores(t, d, &k.Metadata, want)
	}
}

// TestLongList dumps lists whose payload is held until its nodes are counted, and one that is too
// long for that, as one payload and in pieces.
func TestLongList(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	random := rand.New(rand.NewPCG(seed.Of(t), 4))
	for _, size := range []int{2000, 30_000} {
		want := collection{kind: layout.List}
		for range size {
			want.list = append(want.list, fmt.Sprintf("%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64()))
		}
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1000, 0)
		d := txn.DB(0)
		l, err := d.List([]byte("list"))
		must(t, err)
		for _, element := range want.list {
			must(t, l.Push(false, [][]byte{[]byte(element)}))
		}
		must(t, l.Save(keyevent.Changed))
		checkCollection(t, d, "list", want)
		k, err := d.Lookup([]byte("list"))
		must(t, err)
		w := rdb.NewPayloadWriter()
		var pieces bytes.Buffer
		must(t, d.DumpTo(&pieces, k, w))
		whole, err := d.Dump(nil, k, w)
		must(t, err)
		if held := len(whole) <= mostHeld; held != (size == 2000) || !bytes.Equal(pieces.Bytes(), whole) {
			t.Fatalf("%d elements: %d bytes, in pieces %d", size, len(whole), pieces.Len())
		}
		txn.Reset()
	}
}

func (c *collection) name() string {
	return fmt.Sprintf("collection of type %d: %q %q", c.kind, c.list, c.rest)
}

func decode(t *testing.T, payload []byte) *rdb.Value {
	t.Helper()
	v, err := new(rdb.Decoder).Payload(payload)
	must(t, err)
	return v
}

func checkPayload(t *testing.T, payload []byte, want collection) {
	t.Helper()
	v := decode(t, payload)
	got := collection{kind: want.kind, rest: map[string]string{}}
	for v.Next() {
		e := v.Element
		switch want.kind {
		case layout.List:
			got.list = append(got.list, string(e.Bytes))
		case layout.ZSet:
			got.rest[string(e.Bytes)] = strconv.FormatFloat(e.Score, 'f', -1, 64)
		default:
			got.rest[string(e.Bytes)] = string(e.Value)
		}
	}
	must(t, v.Err())
	if !slices.Equal(got.list, want.list) || !maps.Equal(got.rest, want.rest) {
		t.Fatalf("got %s, want %s", got.name(), want.name())
	}
}

// checkScores walks the other index of a sorted set: Dump has walked the one by score.
func checkScores(t *testing.T, d DB, m *layout.Metadata, want collection) {
	t.Helper()
	got := map[string]string{}
	must(t, d.scanAll(m, m.Type.Elements()[0], false, func(member, value []byte) error {
		score, err := layout.DecodeScore(value)
		got[string(member)] = strconv.FormatFloat(score, 'f', -1, 64)
		return err
	}))
	if !maps.Equal(got, want.rest) {
		t.Fatalf("members %q, want %q", got, want.rest)
	}
}

// tinyOptions make collections spread, staged and written to RocksDB as early as can be.
func tinyOptions(t *testing.T) Options {
	o := testOptions(t.TempDir(), 64<<10, 64<<10)
	four := constant[int64](4)
	o.Limits = Limits{HashEntries: four, HashValue: four, ListSize: four, SetIntsetEntries: four, SetEntries: four,
		SetValue: four, ZSetEntries: four, ZSetValue: four, StreamBytes: four, StreamEntries: four}
	return o
}

// TestValuesAgainstModel restores, copies, moves, renames and removes random collections in two
// databases, small and large, with everything brought to RocksDB and reaped in between.
func TestValuesAgainstModel(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 2))
	s := openStore(t, tinyOptions(t))
	countSmall(s)
	model := [2]map[string]collection{{}, {}}
	for step := range 800 {
		inside(s).StageFrom([]int{1, 100, 300, 0}[random.IntN(4)])
		txn := s.NewTxn()
		txn.Begin(Mode{Writing: true}, 1000, 0)
		changed := [2]map[string]collection{maps.Clone(model[0]), maps.Clone(model[1])}
		for range 1 + random.IntN(3) {
			valueStep(t, txn, &changed, random)
		}
		if random.IntN(5) == 0 {
			txn.Reset()
			continue
		}
		txn.Effect(0, []byte("EFFECT"))
		must(t, s.Commit(txn))
		txn.Reset()
		model = changed
		if random.IntN(20) == 0 {
			must(t, s.Persist())
			must(t, inside(s).Reap())
		}
		if step%50 == 0 {
			checkModel(t, s, &model)
		}
	}
	must(t, s.Persist())
	must(t, inside(s).Reap())
	checkModel(t, s, &model)
	checkRecords(t, s, &model)
}

func checkModel(t *testing.T, s *Store, model *[2]map[string]collection) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1000, 0)
	for database := range model {
		for i := range 8 {
			key := string(rune('a' + i))
			checkCollection(t, txn.DB(database), key, model[database][key])
		}
		if got := txn.DB(database).Size(); got != int64(len(model[database])) {
			t.Fatalf("database %d has %d keys, want %d", database, got, len(model[database]))
		}
	}
}

// checkRecords compares the number of elements that stand in RocksDB with that of those that have a
// key: nothing may be left over.
func checkRecords(t *testing.T, s *Store, model *[2]map[string]collection) {
	t.Helper()
	for database := range model {
		txn := s.NewTxn()
		txn.Begin(Mode{}, 1000, 0)
		want := 0
		must(t, txn.DB(database).Keys(nil, func(_ []byte, m *layout.Metadata) bool {
			if m.Encoding == layout.Spread {
				for _, records := range m.Type.Elements() {
					want += int(records.Count(m))
				}
			}
			return true
		}))
		got := 0
		it := txn.Iterate(txn.Namespace(database), nil, nil, IteratorOptions{KeysOnly: true})
		for it.Next() {
			if kind := it.Key()[0]; kind != layout.KindMetadata && kind != layout.KindExpiry {
				got++
			}
		}
		must(t, it.Close())
		if got != want {
			t.Errorf("database %d has %d records of elements, want %d", database, got, want)
		}
	}
}

func valueStep(t *testing.T, txn *Txn, model *[2]map[string]collection, random *rand.Rand) {
	t.Helper()
	from, to := random.IntN(2), random.IntN(2)
	key, target := string(rune('a'+random.IntN(8))), string(rune('a'+random.IntN(8)))
	d, other := txn.DB(from), txn.DB(to)
	k, err := d.Lookup([]byte(key))
	must(t, err)
	switch random.IntN(6) {
	case 0, 1:
		c := randomCollection(random)
		must(t, d.Restore([]byte(key), k, decode(t, c.payload(t, random.IntN(2) == 0)), 0))
		model[from][key] = c
	case 2:
		if k.Exists && (from != to || key != target) {
			old, err := other.Lookup([]byte(target))
			must(t, err)
			must(t, d.CopyTo(k, other, []byte(target), old))
			model[to][target] = model[from][key]
		}
	case 3:
		if _, taken := model[1-from][key]; k.Exists && !taken {
			must(t, d.MoveTo([]byte(key), k, txn.DB(1-from)))
			model[1-from][key] = model[from][key]
			delete(model[from], key)
		}
	case 4:
		if k.Exists && key != target {
			must(t, d.Move([]byte(key), k, []byte(target)))
			model[from][target] = model[from][key]
			delete(model[from], key)
		}
	case 5:
		_, err := d.Delete([]byte(key))
		must(t, err)
		delete(model[from], key)
	}
}

// TestRestoreTellsDuplicates, whether the collection stays small, grows large or is staged.
func TestRestoreTellsDuplicates(t *testing.T) {
	s := openStore(t, tinyOptions(t))
	write := map[string]func(w *rdb.PayloadWriter, n int, name func(i int) []byte){
		"hash": func(w *rdb.PayloadWriter, n int, name func(i int) []byte) {
			w.BeginHash(uint64(n))
			for i := range n {
				w.Field(name(i), []byte{byte(i)})
			}
		},
		"set": func(w *rdb.PayloadWriter, n int, name func(i int) []byte) {
			w.BeginSet(uint64(n))
			for i := range n {
				w.Member(name(i))
			}
		},
		"zset": func(w *rdb.PayloadWriter, n int, name func(i int) []byte) {
			w.BeginSortedSet(uint64(n))
			for i := range n {
				w.ScoredMember(name(i), float64(i%2))
			}
		},
	}
	for _, size := range []int{2, 4, 5, 50} {
		for _, stage := range []int{1, 0} {
			inside(s).StageFrom(stage)
			for kind, elements := range write {
				for _, duplicate := range []bool{false, true} {
					w := rdb.NewPayloadWriter()
					w.Begin(nil)
					elements(w, size, func(i int) []byte {
						if duplicate && i == size-1 {
							i = 0
						}
						return strconv.AppendInt(nil, int64(i), 10)
					})
					w.End()
					payload, err := w.Finish()
					must(t, err)
					if err, want := restoreOne(s, payload), duplicate; errors.Is(err, ErrDuplicate) != want || !want && err != nil {
						t.Errorf("%s of %d, stage %d, duplicate %v: %v", kind, size, stage, duplicate, err)
					}
				}
			}
		}
	}
}

func restoreOne(s *Store, payload []byte) error {
	var decoder rdb.Decoder
	v, err := decoder.Payload(payload)
	if err != nil {
		return err
	}
	txn := s.NewTxn()
	defer txn.Reset()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	return txn.DB(0).Restore([]byte("k"), Key{}, v, 0)
}

// TestRestoredEncodings: the limits in force decide, not the form of the payload.
func TestRestoredEncodings(t *testing.T) {
	s := openStore(t, tinyOptions(t))
	names := func(n int, format string) (c []string) {
		for i := range n {
			c = append(c, fmt.Sprintf(format, i))
		}
		return c
	}
	for _, c := range []struct {
		kind   layout.Type
		names  []string
		packed bool
		want   layout.Encoding
	}{
		{layout.Set, names(4, "%d"), false, layout.Intset},
		{layout.Set, names(4, "12345%d"), false, layout.Intset}, // no limit on the length of integers
		{layout.Set, names(5, "%d"), false, layout.Spread},
		{layout.Set, names(4, "a%d"), false, layout.Listpack},
		{layout.Set, names(5, "a%d"), false, layout.Spread},
		{layout.Set, names(2, "abcd%d"), false, layout.Spread},
		{layout.Set, []string{"12345", "a"}, false, layout.Spread},
		{layout.Hash, names(4, "a%d"), false, layout.Listpack},
		{layout.Hash, names(4, "a%d"), true, layout.Listpack},
		{layout.Hash, names(5, "a%d"), true, layout.Spread},
		{layout.Hash, names(5, "a%d"), false, layout.Spread},
		{layout.Hash, names(1, "abcd%d"), false, layout.Spread},
		{layout.Hash, names(1, "abcd%d"), true, layout.Listpack}, // as in Redis
		{layout.ZSet, names(4, "a%d"), true, layout.Listpack},
		{layout.ZSet, names(5, "a%d"), true, layout.Spread},
		{layout.List, names(4, "abcd%d"), true, layout.Listpack},
		{layout.List, names(4, "abcd%d"), false, layout.Listpack},
		{layout.List, names(5, "a%d"), true, layout.Spread},
		{layout.List, names(5, "a%d"), false, layout.Spread},
	} {
		value := collection{kind: c.kind, rest: map[string]string{}}
		for _, name := range c.names {
			if c.kind == layout.List {
				value.list = append(value.list, name)
			} else {
				value.rest[name] = map[layout.Type]string{layout.ZSet: "1"}[c.kind]
			}
		}
		inTxn(t, s, func(d DB) {
			must(t, d.Restore([]byte("k"), Key{}, decode(t, value.payload(t, c.packed)), 0))
			k, err := d.Lookup([]byte("k"))
			must(t, err)
			if k.Encoding != c.want {
				t.Errorf("%s, packed %v: encoding %d, want %d", value.name(), c.packed, k.Encoding, c.want)
			}
			checkCollection(t, d, "k", value)
			must(t, d.Remove([]byte("k"), k))
		})
	}
}

// TestRestoreSortsPackedMembers: whoever searches a packed sorted set relies on its order.
func TestRestoreSortsPackedMembers(t *testing.T) {
	s := openStore(t, tinyOptions(t))
	pack := listpack.Empty(64).Append(nil, listpack.Of([]byte("b")), listpack.OfInt(2), listpack.Of([]byte("c")), listpack.Of([]byte("-inf")),
		listpack.Of([]byte("a")), listpack.OfInt(2))
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.SortedSetListpack(pack)
	payload, err := w.Finish()
	must(t, err)
	inTxn(t, s, func(d DB) {
		must(t, d.Restore([]byte("z"), Key{}, decode(t, payload), 0))
		z, err := d.ZSet([]byte("z"))
		must(t, err)
		var got bytes.Buffer
		must(t, z.All(func(member []byte, score float64) bool {
			fmt.Fprintf(&got, "%s %v ", member, score)
			return true
		}))
		if want := fmt.Sprintf("c %v a 2 b 2 ", math.Inf(-1)); got.String() != want {
			t.Errorf("%q, want %q", got.String(), want)
		}
	})
}

const streamPayload = "\x13\x01\x10\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x1c\x1c\x00\x00\x00\x0a\x00\x01\x01\x00\x01\x01\x01\x81a\x02\x00\x01\x02\x01\x00\x01\x00\x01\x01\x01\x04\x01\xff\x01\x01\x01\x01\x01\x00\x00\x01\x00\x0a\x00)}x\x0f\xd8\x8a\xa6,"

// TestRestoredStreamNode: a stream's node is as large as it will be when it is written again, and
// no larger than it may be then: who comes too late for it gets another one.
func TestRestoredStreamNode(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	txn := s.NewTxn()
	defer txn.Reset()
	txn.Begin(Mode{Writing: true}, 1000, 0)
	d := txn.DB(0)
	first, fields := StreamID{Ms: 1}, [][]byte{[]byte("other"), []byte("value")}
	size := uint32(entrySize(first, fields, false))
	for _, c := range []struct {
		before uint32 // bytes
		node   StreamID
		bytes  uint32
	}{
		{rdb.LargestStreamNode - size, first, rdb.LargestStreamNode},
		{rdb.LargestStreamNode - size + 1, StreamID{Ms: 2}, uint32(masterSize(fields) + entrySize(StreamID{}, fields, true))},
	} {
		r := streamRestoring{restoring: &restoring{db: d, spread: d.newElements(layout.Stream)}, node: first}
		h := &r.stream.head
		h.Nodes, h.LastNode, h.Last = 1, first, first
		h.Tail = layout.StreamNode{Entries: 1, Bytes: c.before}
		entry := &rdb.StreamElement{Part: rdb.StreamEntry, ID: rdb.StreamID{Ms: 2}, Node: rdb.StreamID(first), Fields: fields}
		must(t, r.part(entry))
		if h.LastNode != c.node || h.Tail.Bytes != c.bytes {
			t.Errorf("an entry behind %d bytes lies in node %v of %d, expected %v of %d", c.before, h.LastNode, h.Tail.Bytes, c.node, c.bytes)
		}
		entry.ID.Ms = 3
		must(t, r.part(entry))
		if h.Nodes != 2 {
			t.Errorf("behind %d bytes and two entries there are %d nodes", c.before, h.Nodes)
		}
	}
}
