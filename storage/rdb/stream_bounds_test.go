package rdb

import (
	"errors"
	"runtime"
	"strconv"
	"testing"

	"kedis/storage/listpack"
)

func addInts(b *listpack.Builder, numbers ...int) {
	for _, n := range numbers {
		b.Add(strconv.AppendInt(nil, int64(n), 10))
	}
}

func addZeros(b *listpack.Builder, n int) {
	zero := []byte("0")
	for range n {
		b.Add(zero)
	}
}

// streamOfNode is a payload of a stream of one node, whose entries nothing follows.
func streamOfNode(node listpack.Listpack, compressed bool) []byte {
	var e Encoder
	e.begin(typeStreamListpacks2)
	e.length(1)
	e.string(make([]byte, 16))
	if compressed {
		e.string(node)
	} else {
		e.length(uint64(len(node)))
		e.raw(node)
	}
	return seal(e.buf)
}

// entriesOf counts the entries that are read before the end of a payload or an error.
func entriesOf(t *testing.T, d *Decoder, payload []byte) (entries int) {
	t.Helper()
	v, err := d.Payload(payload)
	if err != nil {
		t.Fatal(err)
	}
	for v.Next() {
		entries++
	}
	if !errors.Is(v.Err(), ErrCorrupt) { // at the latest where the totals should be
		t.Fatal(v.Err())
	}
	return entries
}

// TestManyFields: an entry may have very many fields if the payload has a byte for each, or it
// would take much more memory than a string may. One that a server wrote is taken.
func TestManyFields(t *testing.T) {
	const fields = 1<<19 + 1
	const limit = 2 * (fields - 1) * textBytes
	var own, shared listpack.Builder
	addInts(&own, 1, 0, 0, 0, 0, 0, 0, fields)
	addZeros(&own, 2*fields)
	addInts(&own, 4+2*fields)
	addInts(&shared, 1, 0, fields)
	addZeros(&shared, fields)
	addInts(&shared, 0, entrySameFields, 0, 0)
	addZeros(&shared, fields)
	addInts(&shared, 3+fields)
	if entries := entriesOf(t, &Decoder{MaxString: limit}, streamOfNode(own.Listpack(), false)); entries != 1 {
		t.Error("a node that isn't compressed isn't taken")
	}
	for name, node := range map[string]listpack.Listpack{"own": own.Listpack(), "shared": shared.Listpack()} {
		payload := streamOfNode(node, true)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries := entriesOf(t, &Decoder{MaxString: limit}, payload)
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; entries != 0 || spent > 8<<20 {
			t.Errorf("%s: %d entries of a payload of %d bytes, which took %d", name, entries, len(payload), spent)
		}
		for _, d := range []Decoder{{}, {MaxString: limit + 2*textBytes}, {MaxString: limit, Trusted: true}} {
			if entries := entriesOf(t, &d, payload); entries != 1 {
				t.Errorf("%s isn't taken with a limit of %d, trusted: %v", name, d.MaxString, d.Trusted)
			}
		}
	}
}

// TestRepeatedNames: names that a node has once are handed out with as many entries as Redis puts
// into a node by default, and not with so many that they take a thousand times the node's memory,
// unless a server wrote that.
func TestRepeatedNames(t *testing.T) {
	const size = 2 * repeatedFree / 100
	node := func(entries int) listpack.Listpack {
		var b listpack.Builder
		addInts(&b, entries, 0, 1)
		b.Add(make([]byte, size))
		addInts(&b, 0)
		for i := range entries {
			addInts(&b, entrySameFields, i, 0, 0, 4)
		}
		return b.Listpack()
	}
	if entries := entriesOf(t, new(Decoder), streamOfNode(node(100), true)); entries != 100 {
		t.Errorf("%d of 100 entries are taken", entries)
	}
	if entries := entriesOf(t, new(Decoder), streamOfNode(node(1000), true)); entries < 100 || entries > 151 {
		t.Errorf("%d of 1000 entries are taken", entries)
	}
	if entries := entriesOf(t, &Decoder{Trusted: true}, streamOfNode(node(1000), true)); entries != 1000 {
		t.Errorf("%d of 1000 entries that a server wrote are taken", entries)
	}
}

// TestLargestStreamNode: the names that a node's first entry hasn't are written with each of the
// others. A node that is too large by that is an error, and the next payload is in order again.
func TestLargestStreamNode(t *testing.T) {
	w := NewPayloadWriter()
	w.largestStreamNode = 1000 // instead of 2 GiB
	name := make([]byte, 100)
	for _, c := range []struct {
		first   []byte
		entries int
		want    error
	}{
		{name[:99], 8, nil}, {name[:99], 9, errStreamNode}, {name, 10, nil}, {make([]byte, 1000), 1, errStreamNode}, {name, 10, nil},
	} {
		w.Begin(nil)
		w.BeginStream(1)
		for i := range c.entries {
			field := name
			if i == 0 {
				field = c.first
			}
			w.StreamPart(&StreamElement{Part: StreamEntry, ID: StreamID{Seq: uint64(i)}, Fields: [][]byte{field, []byte("value")}})
		}
		w.StreamPart(&StreamElement{Part: StreamTotals, Length: uint64(c.entries)})
		w.EndStream()
		if _, err := w.Finish(); !errors.Is(err, c.want) {
			t.Errorf("%d entries, the first one with a name of %d bytes: %v, expected %v", c.entries, len(c.first), err, c.want)
		}
	}
}
