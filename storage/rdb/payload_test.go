package rdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kedis/storage/intset"
	"kedis/storage/listpack"
)

// write makes a payload.
func write(t testing.TB, value func(*Encoder)) []byte {
	t.Helper()
	p := NewPayloadWriter()
	p.Begin(nil)
	value(&p.Encoder)
	payload, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// read returns all of a payload.
func read(t testing.TB, payload []byte) (*Value, []string) {
	t.Helper()
	v, err := new(Decoder).Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := elements(v)
	if err != nil {
		t.Fatal(err)
	}
	return v, lines
}

func TestRoundTripOfElements(t *testing.T) {
	for seed := range int64(50) {
		r := rand.New(rand.NewSource(seed))
		var want []string
		n := 1 + r.Intn(300)
		kind := Kind(1 + r.Intn(5))
		payload := write(t, func(e *Encoder) { want = writeRandom(e, r, kind, n) })
		v, got := read(t, payload)
		if v.Kind != kind || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s with %d elements: got %.500q\nwant %.500q", seed, kind, n, got, want)
		}
	}
}

func writeRandom(e *Encoder, r *rand.Rand, kind Kind, n int) (lines []string) {
	switch kind {
	case String:
		value := randomString(r)
		e.String(value)
		return []string{fmt.Sprintf("%q", value)}
	case List:
		return writeRandomList(e, r, n)
	case Set:
		e.BeginSet(uint64(n))
	case Hash:
		e.BeginHash(uint64(n))
	case SortedSet:
		e.BeginSortedSet(uint64(n))
	}
	v := Value{Kind: kind}
	for i := range n {
		member := fmt.Append(randomString(r), " ", i)
		v.Element = Element{Bytes: member}
		switch kind {
		case Set:
			e.Member(member)
		case Hash:
			v.Element.Value = randomString(r)
			e.Field(member, v.Element.Value)
		case SortedSet:
			v.Element.Score = math.Ldexp(r.NormFloat64(), r.Intn(200)-100)
			e.ScoredMember(member, v.Element.Score)
		}
		lines = append(lines, line(&v))
	}
	e.End()
	return lines
}

func writeRandomList(e *Encoder, r *rand.Rand, n int) (lines []string) {
	all := make([][]byte, n)
	var nodes ListNodes
	for i := range all {
		all[i] = randomString(r)
		nodes.Add(all[i])
		lines = append(lines, fmt.Sprintf("%q", all[i]))
	}
	switch r.Intn(3) {
	case 0:
		e.BeginPlainList(uint64(n))
	case 1:
		e.BeginHeldList()
	default:
		e.BeginList(nodes.Count())
	}
	for _, element := range all {
		e.ListElement(element)
	}
	e.End()
	return lines
}

func TestRoundTripOfPacked(t *testing.T) {
	numbers := intset.Empty(0)
	for _, n := range []int64{5, -70000, 12} {
		numbers, _ = numbers.Add(nil, n)
	}
	l := pack("a", "1", "b", "2.5", "c", "inf")
	for name, c := range map[string]struct {
		write func(*Encoder)
		kind  Kind
		want  []string
	}{
		"list":       {func(e *Encoder) { e.ListListpack(l) }, List, []string{`"a"`, `"1"`, `"b"`, `"2.5"`, `"c"`, `"inf"`}},
		"hash":       {func(e *Encoder) { e.HashListpack(l) }, Hash, []string{`"a": "1"`, `"b": "2.5"`, `"c": "inf"`}},
		"sorted set": {func(e *Encoder) { e.SortedSetListpack(l) }, SortedSet, []string{`"a" 1`, `"b" 2.5`, `"c" +Inf`}},
		"set":        {func(e *Encoder) { e.SetListpack(l) }, Set, []string{`"a"`, `"1"`, `"b"`, `"2.5"`, `"c"`, `"inf"`}},
		"intset":     {func(e *Encoder) { e.SetIntset(numbers) }, Set, []string{`"-70000"`, `"5"`, `"12"`}},
	} {
		v, got := read(t, write(t, c.write))
		if v.Kind != c.kind || !slices.Equal(got, c.want) || int(v.Count) != len(c.want) {
			t.Errorf("%s: %s of %d: %q", name, v.Kind, v.Count, got)
		}
		switch name {
		case "intset":
			if !bytes.Equal(v.Intset, numbers) {
				t.Errorf("%s: not packed", name)
			}
		case "set": // written as elements
			if v.Listpack != nil {
				t.Errorf("%s: packed", name)
			}
		default:
			if !bytes.Equal(v.Listpack, l) {
				t.Errorf("%s: not packed", name)
			}
		}
	}
}

// A set in a listpack is what Redis 7.2 writes; version 10 has no such thing.
func TestSetListpack(t *testing.T) {
	l := pack("x", "7", "y")
	v, got := read(t, seal(append([]byte{byte(typeSetListpack), byte(len(l))}, l...)))
	if v.Kind != Set || !bytes.Equal(v.Listpack, l) || !slices.Equal(got, []string{`"x"`, `"7"`, `"y"`}) {
		t.Fatal(v.Kind, got)
	}
}

func TestPlainNodes(t *testing.T) {
	p := NewPayloadWriter()
	p.largest = 5 // instead of 1 GiB
	p.Begin(nil)
	p.BeginList(4)
	want := []string{}
	for _, s := range []string{"a", "bb", "large one", "large two", "c"} {
		p.ListElement([]byte(s))
		want = append(want, fmt.Sprintf("%q", s))
	}
	p.End()
	payload, err := p.Finish()
	if err != nil {
		t.Fatal(err)
	}
	v, got := read(t, payload)
	if v.Listpack != nil || !slices.Equal(got, want) {
		t.Fatal(got)
	}
	r := startRedis(t, t.TempDir())
	r.must("RESTORE", "l", 0, payload)
	if got := fmt.Sprintf("%q", r.must("LRANGE", "l", 0, -1)); got != `["a" "bb" "large one" "large two" "c"]` {
		t.Fatal(got)
	}
}

func TestListNodesOfPlainElements(t *testing.T) {
	var n ListNodes
	n.addPlain()
	n.addSized(1, 3)
	n.addSized(1, 3)
	n.addPlain()
	n.addPlain()
	if n.Count() != 4 {
		t.Fatal(n.Count())
	}
}

// TestListRuns writes lists in runs, which have to become the bytes that their elements become one
// by one, and reads them in runs.
func TestListRuns(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 100 {
		var all listpack.Builder
		var nodes, inRuns ListNodes
		var elements [][]byte
		for range r.Intn(3000) {
			elements = append(elements, randomString(r))
			nodes.Add(elements[len(elements)-1])
			all.Add(elements[len(elements)-1])
		}
		pack := all.Listpack()
		each := func(visit func(listpack.Run)) {
			r := rand.New(rand.NewSource(4))
			for pos := pack.First(); pos != listpack.None; {
				var run listpack.Run
				run, pos = pack.Run(pos, 1+r.Intn(200))
				visit(run)
			}
		}
		if each(inRuns.AddRun); inRuns.Count() != nodes.Count() {
			t.Fatalf("%d nodes, and %d in runs", nodes.Count(), inRuns.Count())
		}
		for _, begin := range []func(*Encoder){(*Encoder).BeginHeldList, func(e *Encoder) { e.BeginPlainList(uint64(len(elements))) }} {
			want := write(t, func(e *Encoder) {
				begin(e)
				for _, element := range elements {
					e.ListElement(element)
				}
				e.End()
			})
			got := write(t, func(e *Encoder) { begin(e); each(e.ListRun); e.End() })
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of %d elements in runs, not the %d", len(got), len(elements), len(want))
			}
			if len(elements) > 0 {
				readInRuns(t, got, elements, r)
			}
		}
	}
}

// readInRuns reads a list, now and then an element by itself.
func readInRuns(t *testing.T, payload []byte, want [][]byte, r *rand.Rand) {
	t.Helper()
	v, err := new(Decoder).Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	for {
		run := v.Run(r.Intn(200))
		for e := range run.All() {
			got = append(got, e.AppendTo(nil))
		}
		if run.Len() > 0 && r.Intn(3) > 0 {
			continue
		}
		if !v.Next() {
			break
		}
		got = append(got, bytes.Clone(v.Element.Bytes))
	}
	if v.Err() != nil || !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d elements and %v, not the %d", len(got), v.Err(), len(want))
	}
}

// TestHeldList has a list that is held become the bytes of one whose nodes were counted, also when
// it is begun again.
func TestHeldList(t *testing.T) {
	for _, n := range []int{1, 700, 70_000} { // 1, 2 and 100 nodes or so: lengths of one and of two bytes
		var nodes ListNodes
		var elements [][]byte
		for i := range n {
			elements = append(elements, fmt.Appendf(nil, "element:%d", i*i))
			nodes.Add(elements[i])
		}
		list := func(begin func(e *Encoder)) func(e *Encoder) {
			return func(e *Encoder) {
				begin(e)
				for _, element := range elements {
					e.ListElement(element)
				}
				e.End()
			}
		}
		want := write(t, list(func(e *Encoder) { e.BeginList(nodes.Count()) }))
		begins := map[string]func(e *Encoder){
			"held": (*Encoder).BeginHeldList,
			"begun again": func(e *Encoder) {
				e.BeginHeldList()
				for range 3000 {
					e.ListElement([]byte("taken back"))
				}
				if e.Held() < 8<<10/lzfExpansion {
					t.Fatal(e.Held())
				}
				e.BeginAgain(nodes.Count())
			},
		}
		for name, begin := range begins {
			if got := write(t, list(begin)); !bytes.Equal(got, want) {
				t.Errorf("%d elements, %s: %d bytes, not the %d", n, name, len(got), len(want))
			}
			var to bytes.Buffer
			w := NewPayloadWriter()
			for range 2 { // the second one in the memory of the first
				to.Reset()
				w.BeginTo(&to)
				list(begin)(&w.Encoder)
				if err := w.FinishTo(); err != nil || !bytes.Equal(to.Bytes(), want) {
					t.Errorf("%d elements, %s: %d bytes in pieces, not the %d, %v", n, name, to.Len(), len(want), err)
				}
			}
		}
	}
}

func TestEncoderTellsWrongCounts(t *testing.T) {
	for name, value := range map[string]func(*Encoder){
		"too few":        func(e *Encoder) { e.BeginSet(2); e.Member([]byte("a")); e.End() },
		"too many":       func(e *Encoder) { e.BeginSet(1); e.Member([]byte("a")); e.Member([]byte("b")); e.End() },
		"no end":         func(e *Encoder) { e.BeginHash(1) },
		"too many nodes": func(e *Encoder) { e.BeginList(2); e.ListElement([]byte("a")); e.End() },
	} {
		p := NewPayloadWriter()
		p.Begin(nil)
		value(&p.Encoder)
		if _, err := p.Finish(); err == nil {
			t.Errorf("%s: accepted", name)
		}
		p.Begin(nil)
		p.String([]byte("fine"))
		if _, err := p.Finish(); err != nil {
			t.Errorf("%s: the error outlives its payload", name)
		}
	}
}

func TestPayloadFooter(t *testing.T) {
	good := write(t, func(e *Encoder) { e.String([]byte("value")) })
	refooter := func(version uint16) []byte {
		b := bytes.Clone(good[:len(good)-10])
		b = binary.LittleEndian.AppendUint16(b, version)
		return binary.LittleEndian.AppendUint64(b, CRC64(0, b))
	}
	flipped := bytes.Clone(good)
	flipped[2] ^= 1
	for name, c := range map[string]struct {
		payload []byte
		want    error
	}{
		"good": {good, nil}, "version 1": {refooter(1), nil}, "version 12": {refooter(12), nil},
		"version 13": {refooter(13), ErrPayloadVersion}, "flipped": {flipped, ErrPayloadChecksum},
		"short": {good[:9], ErrPayloadChecksum}, "empty": {nil, ErrPayloadChecksum},
		"only a footer": {seal(nil), ErrCorrupt}, "a string that ends in the footer": {seal([]byte{byte(typeString), 5, 'a'}), nil},
		"a string before unused bytes": {seal([]byte{byte(typeString), 1, 'a', 0, 0}), nil},
	} {
		if _, err := new(Decoder).Payload(c.payload); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// packedBody is a type and a packed value.
func packedBody(t Type, b []byte) []byte {
	return append(appendLength([]byte{byte(t)}, uint64(len(b))), b...)
}

func TestCorruptPayloads(t *testing.T) {
	score := func(f float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)) }
	for name, body := range map[string][]byte{
		"no string":               {byte(typeString)},
		"string cut":              {byte(typeString), 5, 'a'},
		"unknown string encoding": {byte(typeString), 0xC4},
		"unknown length":          {byte(typeString), 0x82, 0, 0, 0, 0},
		"absurd string":           {byte(typeString), 0x81, 0, 0, 1, 0, 0, 0, 0, 0},
		"encoding for a length":   {byte(typeList), 0xC0, 1},
		"bad compressed string":   {byte(typeString), 0xC3, 2, 5, 0x20, 0x20},
		"set with too few":        {byte(typeSet), 2, 1, 'a'},
		"hash without a value":    {byte(typeHash), 1, 1, 'a'},
		"score cut":               {byte(typeZSet2), 1, 1, 'a', 0, 0},
		"not a number":            append([]byte{byte(typeZSet2), 1, 1, 'a'}, score(math.NaN())...),
		"not a number, old":       {byte(typeZSet), 1, 1, 'a', 253},
		"not a score, old":        {byte(typeZSet), 1, 1, 'a', 1, 'x'},
		"packed, odd":             packedBody(typeHashListpack, pack("a", "b", "c")),
		"packed, twice":           packedBody(typeHashListpack, pack("a", "b", "a", "c")),
		"packed set, twice":       packedBody(typeSetListpack, pack("a", "b", "a")),
		"packed zset, twice":      packedBody(typeZSetListpack, pack("a", "1", "a", "2")),
		"packed zset, bad score":  packedBody(typeZSetListpack, pack("a", "x")),
		"packed zset, NaN":        packedBody(typeZSetListpack, pack("a", "nan")),
		"packed, bad expiry":      append([]byte{byte(typeHashListpackPreGA)}, packedBody(0, pack("a", "b", "-1"))[1:]...),
		"packed, expiry is text":  append([]byte{byte(typeHashListpackPreGA)}, packedBody(0, pack("a", "b", "c"))[1:]...),
		"expiry too late":         {byte(typeHashMetadataPreGA), 1, 0x81, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 'a', 1, 'b'},
		"listpack cut":            packedBody(typeHashListpack, pack("a", "b")[:9]),
		"intset unsorted":         packedBody(typeSetIntset, []byte{2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0}),
		"node of unknown form":    {byte(typeListQuicklist2), 1, 3, 1, 'a'},
		"plain node, empty":       {byte(typeListQuicklist2), 1, 1, 0},
		"bad node":                {byte(typeListQuicklist2), 1, 2, 3, 'a', 'b', 'c'},
		"second node missing":     append([]byte{byte(typeListQuicklist2), 2, 2}, packedBody(0, pack("a"))[1:]...),
		"stream node id":          {byte(typeStreamListpacks), 1, 2, 'a', 'b'},
		"bad module value":        {byte(typeModule2), 0, 9},
	} {
		v, err := new(Decoder).body(body)
		if err == nil {
			_, err = elements(v)
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEmptyCollections(t *testing.T) {
	emptyNode := packedBody(0, pack())[1:]
	for name, body := range map[string][]byte{
		"list": {byte(typeList), 0}, "set": {byte(typeSet), 0}, "hash": {byte(typeHash), 0},
		"zset": {byte(typeZSet), 0}, "zset 2": {byte(typeZSet2), 0}, "quicklist": {byte(typeListQuicklist), 0},
		"quicklist 2":   {byte(typeListQuicklist2), 0},
		"empty nodes":   slices.Concat([]byte{byte(typeListQuicklist2), 2, 2}, emptyNode, []byte{2}, emptyNode),
		"packed hash":   packedBody(typeHashListpack, pack()),
		"packed set":    packedBody(typeSetListpack, pack()),
		"empty intset":  packedBody(typeSetIntset, intset.Empty(0)),
		"hash metadata": {byte(typeHashMetadata), 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := new(Decoder).Payload(seal(body)); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
	node := packedBody(0, pack("x"))[1:]
	v, got := read(t, seal(slices.Concat([]byte{byte(typeListQuicklist2), 3, 2}, emptyNode, []byte{2}, node, []byte{2}, emptyNode)))
	if !slices.Equal(got, []string{`"x"`}) || v.Listpack != nil {
		t.Errorf("between empty nodes: %q", got)
	}
}

// A packed sorted set that isn't sorted is handed out, but not as packed bytes.
func TestUnsortedSortedSet(t *testing.T) {
	for _, l := range []listpack.Listpack{pack("a", "2", "b", "1"), pack("b", "1", "a", "1"), pack("10", "1", "9", "1", "8", "1")} {
		v, got := read(t, seal(packedBody(typeZSetListpack, l)))
		if v.Listpack != nil || len(got) != l.Len()/2 {
			t.Errorf("packed, or not whole: %q", got)
		}
	}
	if v, _ := read(t, seal(packedBody(typeZSetListpack, pack("10", "1", "9", "1", "a", "1", "0", "1e400")))); v.Listpack == nil {
		t.Error("sorted, and not packed")
	}
}

// Numbers stored as text, or wider than needed, are the same members.
func TestDuplicatesInLooseEncodings(t *testing.T) {
	loose := listpack.Listpack{15, 0, 0, 0, 2, 0, 0x82, '4', '2', 3, 0xF1, 42, 0, 3, 0xFF}
	if err := loose.Validate(true); err != nil {
		t.Fatal(err)
	}
	if _, err := new(Decoder).Payload(seal(packedBody(typeSetListpack, loose))); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

func TestUnsupported(t *testing.T) {
	// The module type "ReJSON-RL", encoding version 3, with one item of each kind.
	const name = "ReJSON-RL"
	var id uint64
	for _, c := range []byte(name) {
		id = id<<6 | uint64(strings.IndexByte(moduleNameCharacters, c))
	}
	body := binary.BigEndian.AppendUint64([]byte{byte(typeModule2), length64}, id<<10|3)
	body = append(body, moduleSigned, 5, moduleUint, 6, moduleFloat, 0, 0, 0, 0,
		moduleDouble, 0, 0, 0, 0, 0, 0, 0, 0, moduleString, 2, 'h', 'i', moduleEOF)
	var unsupported *UnsupportedError
	if _, err := new(Decoder).Payload(seal(body)); !errors.As(err, &unsupported) || unsupported.Module != name {
		t.Error(err)
	}
	for _, body := range [][]byte{{200}, {8}, {byte(typeModulePreGA)}} {
		if _, err := new(Decoder).Payload(seal(body)); !errors.As(err, &unsupported) || unsupported.Type != Type(body[0]) {
			t.Error(err)
		}
	}
}

// Hashes whose fields expire are Redis 7.4's; the bytes are made by hand after its rdb.c.
func TestFieldExpiries(t *testing.T) {
	const first = 1700000000000
	early := binary.LittleEndian.AppendUint64(nil, first)
	absolute := binary.BigEndian.AppendUint64([]byte{length64}, first+5)
	triples := pack("a", "1", fmt.Sprint(first), "b", "2", "0")
	pairs := []string{`"a": "1" until 1700000000000`, `"b": "2"`}
	for name, c := range map[string]struct {
		body []byte
		want []string
	}{
		"metadata": {slices.Concat([]byte{byte(typeHashMetadata)}, early,
			[]byte{3, 1, 1, 'a', 1, '1', 0, 1, 'b', 1, '2', 6, 1, 'c', 1, '3'}),
			append(pairs[:2:2], `"c": "3" until 1700000000005`)},
		"metadata, release candidate": {slices.Concat([]byte{byte(typeHashMetadataPreGA), 2}, absolute,
			[]byte{1, 'a', 1, '1', 0, 1, 'b', 1, '2'}), []string{`"a": "1" until 1700000000005`, `"b": "2"`}},
		"listpack":                    {slices.Concat([]byte{byte(typeHashListpackExpiry)}, early, packedBody(0, triples)[1:]), pairs},
		"listpack, release candidate": {packedBody(typeHashListpackPreGA, triples), pairs},
	} {
		v, got := read(t, seal(c.body))
		if v.Kind != Hash || v.Listpack != nil || !slices.Equal(got, c.want) || int(v.Count) != len(c.want) {
			t.Errorf("%s: %s of %d: %q", name, v.Kind, v.Count, got)
		}
	}
}

// TestFieldExpiriesAreWritten: what is written is read back, also where it was read before.
func TestFieldExpiriesAreWritten(t *testing.T) {
	const first = 1700000000000
	for name, value := range map[string]func(e *Encoder){
		"listpack": func(e *Encoder) {
			e.ExpiringHashListpack(first, pack("a", "1", fmt.Sprint(first), "b", "2", fmt.Sprint(first+5), "c", "3", "0"))
		},
		"fields": func(e *Encoder) {
			e.BeginExpiringHash(first, 3)
			e.ExpiringField([]byte("a"), []byte("1"), first)
			e.ExpiringField([]byte("b"), []byte("2"), first+5)
			e.ExpiringField([]byte("c"), []byte("3"), 0)
			e.End()
		},
	} {
		want := []string{`"a": "1" until 1700000000000`, `"b": "2" until 1700000000005`, `"c": "3"`}
		payload := write(t, value)
		if v, got := read(t, payload); v.Kind != Hash || !slices.Equal(got, want) {
			t.Errorf("%s: %s %q", name, v.Kind, got)
		}
		copied := write(t, func(e *Encoder) {
			v, err := new(Decoder).Payload(payload)
			if err == nil {
				err = v.CopyTo(e)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		if _, got := read(t, copied); !slices.Equal(got, want) {
			t.Errorf("a copy of %s: %q", name, got)
		}
	}
}

// Whatever a payload claims to hold, memory is taken for what it does hold.
func TestClaimsAllocateNothing(t *testing.T) {
	huge := []byte{0x80, 0x3F, 0xFF, 0xFF, 0xFF} // just below 1 GiB
	endless := []byte{0x81, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
	bodies := [][]byte{
		append([]byte{byte(typeString)}, huge...),
		slices.Concat([]byte{byte(typeString), 0xC3, 3}, huge, []byte{0, 'a', 'b'}),
		slices.Concat([]byte{byte(typeString), 0xC3}, huge, huge),
		append([]byte{byte(typeHashListpack)}, huge...),
	}
	for _, t := range []Type{typeList, typeSet, typeHash, typeZSet, typeZSet2, typeHashMetadataPreGA, typeListQuicklist, typeListQuicklist2, typeStreamListpacks} {
		bodies = append(bodies, append([]byte{byte(t)}, endless...))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i, body := range bodies {
		v, err := new(Decoder).Payload(seal(body))
		if err == nil {
			_, err = elements(v)
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("body %d: %v", i, err)
		}
		file := slices.Concat([]byte("REDIS0010"), body[:1], []byte{1, 'k'}, body[1:])
		if err := readFile(file, func(*Record) error { return nil }); !errors.Is(err, ErrCorrupt) {
			t.Errorf("body %d in a file: %v", i, err)
		}
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 50<<20 {
		t.Fatalf("%d bytes were allocated", spent)
	}
}

func TestMaxString(t *testing.T) {
	payload := write(t, func(e *Encoder) { e.String(bytes.Repeat([]byte("x"), 1000)) })
	if _, err := (&Decoder{MaxString: 999}).Payload(payload); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if _, err := (&Decoder{MaxString: 1000}).Payload(payload); err != nil {
		t.Error(err)
	}
}

func TestReadingAndWritingAllocateNothing(t *testing.T) {
	var payload []byte
	p := NewPayloadWriter()
	field, value := []byte("field"), bytes.Repeat([]byte("value "), 10)
	l := pack("a", "1", "b", "2")
	encode := func() {
		p.Begin(payload)
		p.BeginHash(100)
		for range 100 {
			p.Field(field, value)
		}
		p.End()
		payload, _ = p.Finish()
	}
	if n := testing.AllocsPerRun(100, encode); n != 0 {
		t.Errorf("writing elements: %v allocations", n)
	}
	packed := write(t, func(e *Encoder) { e.SortedSetListpack(l) })
	var d Decoder
	decode := func() {
		for _, b := range [][]byte{payload, packed} {
			v, _ := d.Payload(b)
			for v.Next() {
				field = v.Element.Bytes
			}
		}
	}
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("reading: %v allocations", n)
	}
}

func FuzzRestorePayload(f *testing.F) {
	for seed := range int64(20) {
		r := rand.New(rand.NewSource(seed))
		body := write(f, func(e *Encoder) { writeRandom(e, r, Kind(1+r.Intn(5)), 1+r.Intn(10)) })
		f.Add(body[:len(body)-payloadFooter])
	}
	for _, old := range oldEncodings(f) {
		f.Add(old.body)
	}
	f.Add(unhex(f, streamBody))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := (&Decoder{MaxString: 1 << 20}).Payload(seal(body))
		if err != nil {
			return
		}
		p := NewPayloadWriter()
		p.Begin(nil)
		if v.Kind == Stream {
			_, _ = elements(v)
			return
		}
		if reencode(&p.Encoder, v) != nil {
			return
		}
		payload, err := p.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := new(Decoder).Payload(payload); err != nil {
			t.Fatalf("what was read can't be read again: %v", err)
		}
	})
}

func BenchmarkDump(b *testing.B) {
	value := bytes.Repeat([]byte("some value, somewhat repetitive: "), 4)
	p := NewPayloadWriter()
	var payload []byte
	for b.Loop() {
		p.Begin(payload)
		p.String(value)
		payload, _ = p.Finish()
	}
}

func BenchmarkRestoreHash(b *testing.B) {
	l := listpack.Empty(0)
	for i := range 64 {
		l = l.Append(l[:0], listpack.Of(fmt.Appendf(nil, "field:%d", i)), listpack.Of(fmt.Appendf(nil, "value:%d", i)))
	}
	payload := write(b, func(e *Encoder) { e.HashListpack(l) })
	var d Decoder
	for b.Loop() {
		if _, err := d.Payload(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCRC64(b *testing.B) {
	block := make([]byte, bufferSize)
	b.SetBytes(bufferSize)
	for b.Loop() {
		CRC64(0, block)
	}
}

func BenchmarkCompressNode(b *testing.B) {
	var node []byte
	for i := 0; len(node) < nodeLimit; i++ {
		node = fmt.Appendf(node, "element:%d ", i*7919)
	}
	var c lzfCompressor
	var out []byte
	b.SetBytes(int64(len(node)))
	for b.Loop() {
		out, _ = c.compress(out[:0], node, len(node))
	}
}

// packedSet is the payload of a packed set.
func packedSet(t *testing.T, members listpack.Listpack) []byte {
	t.Helper()
	return write(t, func(e *Encoder) {
		e.begin(typeSetListpack)
		e.string(members)
	})
}

// TestDuplicatesAmongMany: a table for many elements is made when they turn out to be different,
// and isn't kept.
func TestDuplicatesAmongMany(t *testing.T) {
	const many = 2 * mostSlots
	var zeros, different, last listpack.Builder
	for i := range many {
		zeros.Add([]byte("0"))
		member := strconv.AppendInt(nil, int64(i), 36)
		different.Add(member)
		last.Add(member)
	}
	last.Add([]byte("0"))
	var d Decoder
	payload := packedSet(t, zeros.Listpack())
	if _, err := d.Payload(payload); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the same %d times: %v", many, err)
	}
	if slots := cap(d.duplicates.table); slots > mostSlots {
		t.Errorf("a table of %d slots was made for a payload of %d bytes", slots, len(payload))
	}
	if v, err := d.Payload(packedSet(t, different.Listpack())); err != nil || v.Count != many {
		t.Fatalf("%d that are different: %v", many, err)
	}
	d.Forget()
	if slots := cap(d.duplicates.table); slots > mostSlots {
		t.Errorf("a table of %d slots is kept", slots)
	}
	if _, err := d.Payload(packedSet(t, last.Listpack())); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the last of %d is the first: %v", many+1, err)
	}
}

// TestPayloadSize: what a payload says of its size before it is read is what it then has.
func TestPayloadSize(t *testing.T) {
	zeros := make([]byte, 100_000)
	var pack listpack.Builder
	for range 3 {
		pack.Add(zeros)
	}
	members := pack.Listpack()
	for name, test := range map[string]struct {
		write func(e *Encoder)
		size  int
	}{
		"string": {func(e *Encoder) { e.String(zeros) }, len(zeros)},
		"set":    {func(e *Encoder) { e.begin(typeSetListpack); e.string(members) }, len(members)},
		"hash":   {func(e *Encoder) { e.HashListpack(members) }, len(members)},
		"times":  {func(e *Encoder) { e.ExpiringHashListpack(1, members) }, len(members)},
		"list":   {func(e *Encoder) { e.ListListpack(members) }, 0},
		"short":  {func(e *Encoder) { e.String([]byte("12345")) }, 0},
	} {
		payload := write(t, test.write)
		if size := PayloadSize(payload, 0); size != max(test.size, len(payload)) {
			t.Errorf("%s: %d bytes, expected %d", name, size, test.size)
		}
		for cut := range min(len(payload), 40) {
			if size := PayloadSize(payload[:cut], 0); size != cut && size != test.size {
				t.Errorf("%s, cut off at %d: %d bytes", name, cut, size)
			}
		}
	}
	const long = 3 << 30
	payload := append(appendLength([]byte{byte(typeString), lengthEncoding | encodingLZF, 40}, long), zeros[:100]...)
	for maxString, want := range map[int]int{0: len(payload), long - 1: len(payload), long: long} {
		if size := PayloadSize(payload, maxString); size != want {
			t.Errorf("a string of 3 GB, where one may have %d: %d bytes, expected %d", maxString, size, want)
		}
	}
}
