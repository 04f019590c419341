package rdb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"testing"

	"kedis/storage/listpack"
)

func TestCRC64(t *testing.T) {
	if got := CRC64(0, []byte("123456789")); got != 0xe9c6d914c4b8d9ca {
		t.Fatalf("%#x", got)
	}
	text := bytes.Repeat([]byte("checksum "), 20)
	for cut := range text {
		if CRC64(CRC64(0, text[:cut]), text[cut:]) != CRC64(0, text) {
			t.Fatalf("in two steps, the first of %d bytes, it is another", cut)
		}
	}
}

// elements reads a value element by element, each as a line.
func elements(v *Value) ([]string, error) {
	if v.Kind == String {
		return []string{fmt.Sprintf("%q", v.Bytes)}, nil
	}
	lines := []string{}
	for v.Next() {
		lines = append(lines, line(v))
	}
	return lines, v.Err()
}

func line(v *Value) string {
	e := &v.Element
	switch v.Kind {
	case Hash:
		if e.ExpireMs != 0 {
			return fmt.Sprintf("%q: %q until %d", e.Bytes, e.Value, e.ExpireMs)
		}
		return fmt.Sprintf("%q: %q", e.Bytes, e.Value)
	case SortedSet:
		return fmt.Sprintf("%q %s", e.Bytes, strconv.FormatFloat(e.Score, 'g', -1, 64))
	case Stream:
		return streamLine(e.Stream)
	}
	return fmt.Sprintf("%q", e.Bytes)
}

func streamLine(e *StreamElement) string {
	id := func(id StreamID) string { return fmt.Sprintf("%d-%d", id.Ms, id.Seq) }
	switch e.Part {
	case StreamEntry:
		return fmt.Sprintf("entry %s %q", id(e.ID), e.Fields)
	case StreamTotals:
		return fmt.Sprintf("totals %d last %s first %s deleted %s added %d",
			e.Length, id(e.ID), id(e.FirstID), id(e.MaxDeletedID), e.EntriesAdded)
	case StreamGroup:
		return fmt.Sprintf("group %s last %s read %d", e.Name, id(e.ID), e.EntriesRead)
	case StreamPending:
		return fmt.Sprintf("pending %s delivered %d at %d", id(e.ID), e.Deliveries, e.DeliveredMs)
	case StreamConsumer:
		return fmt.Sprintf("consumer %s seen %d active %d", e.Name, e.SeenMs, e.ActiveMs)
	}
	return "owns " + id(e.ID)
}

// reencode writes a value in the form that it was read in, as far as version 10 has it.
func reencode(e *Encoder, v *Value) error {
	switch {
	case v.Kind == String:
		e.String(v.Bytes)
	case v.Intset != nil:
		e.SetIntset(v.Intset)
	case v.Listpack != nil && v.Kind == Set:
		e.SetListpack(v.Listpack)
	case v.Listpack != nil && v.Kind == List:
		e.ListListpack(v.Listpack)
	case v.Listpack != nil && v.Kind == Hash:
		e.HashListpack(v.Listpack)
	case v.Listpack != nil:
		e.SortedSetListpack(v.Listpack)
	default:
		return reencodeElements(e, v)
	}
	return nil
}

func reencodeElements(e *Encoder, v *Value) error {
	if v.Kind == List {
		return reencodeList(e, v)
	}
	switch v.Kind {
	case Set:
		e.BeginSet(v.Count)
	case Hash:
		e.BeginHash(v.Count)
	case SortedSet:
		e.BeginSortedSet(v.Count)
	}
	for v.Next() {
		switch v.Kind {
		case Set:
			e.Member(v.Element.Bytes)
		case Hash:
			e.Field(v.Element.Bytes, v.Element.Value)
		case SortedSet:
			e.ScoredMember(v.Element.Bytes, v.Element.Score)
		}
	}
	e.End()
	return v.Err()
}

func reencodeList(e *Encoder, v *Value) error {
	var all [][]byte
	var nodes ListNodes
	for v.Next() {
		nodes.Add(v.Element.Bytes)
		all = append(all, bytes.Clone(v.Element.Bytes))
	}
	e.BeginList(nodes.Count())
	for _, element := range all {
		e.ListElement(element)
	}
	e.End()
	return v.Err()
}

// seal makes a payload of a type and a body.
func seal(body []byte) []byte {
	p := NewPayloadWriter()
	p.Begin(nil)
	p.buf = append(p.buf, body...)
	payload, _ := p.Finish()
	return payload
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func randomString(r *rand.Rand) []byte {
	switch r.Intn(5) {
	case 0:
		return strconv.AppendInt(nil, r.Int63()>>r.Intn(64), 10)
	case 1:
		return strconv.AppendInt(nil, -r.Int63()>>r.Intn(64), 10)
	case 2:
		return compressible(r)
	default:
		b := make([]byte, r.Intn(30))
		r.Read(b)
		return b
	}
}

func pack(values ...string) listpack.Listpack {
	l := listpack.Empty(0)
	for _, v := range values {
		l = l.Append(l[:0], listpack.Of([]byte(v)))
	}
	return l
}

// streamBody is the stream of TestStreamOfRedis as redis-server 7.0.15 dumped it, in hex: type,
// value.
const streamBody = `
	13021000000000000000010000000000000001c34040404512450000001900020101010201816102816202002009000020014011020501
	03600908817802f290eefe0405600d01dfff202f0b856f746865720603010601ff1000000000000000050000000000000005c3323b123b
	00000018000201010102018161028162020020090000200140110005200b030101dffb2005400c00032005c00c0101ff04070001010700
	0602026731050581ffffffffffffffff03000000000000000100000000000000010068e5cf8b0100000500000000000000020000000000
	0000000168e5cf8b01000006000000000000000500000000000000050268e5cf8b010000070205616c69636524cddbfca1010000020000
	00000000000100000000000000010000000000000002000000000000000003626f6224cddbfca101000001000000000000000500000000
	000000050267320700040001056361726f6c24cddbfca101000000`

func TestLengths(t *testing.T) {
	for want, size := range map[uint64]int{
		0: 1, 63: 1, 64: 2, 1<<14 - 1: 2, 1 << 14: 5, 1<<32 - 1: 5, 1 << 32: 9, 1<<64 - 1: 9,
	} {
		b := appendLength(nil, want)
		var s source
		s.reset(b)
		if got, err := s.length(); err != nil || got != want || len(b) != size || s.offset() != int64(size) {
			t.Errorf("%d: %d in %d bytes, %v", want, got, len(b), err)
		}
	}
}

func TestNames(t *testing.T) {
	for want, got := range map[string]string{
		"rdb: value of module type ReJSON-RL is not supported": (&UnsupportedError{Type: typeModule2, Module: "ReJSON-RL"}).Error(),
		"rdb: value type module-pre-ga is not supported":       (&UnsupportedError{Type: typeModulePreGA}).Error(),
		"rdb: value type type(200) is not supported":           (&UnsupportedError{Type: 200}).Error(),
		"kind(9)": Kind(9).String(),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestStreamIDOrder(t *testing.T) {
	ids := []StreamID{{0, 0}, {0, 1}, {1, 0}, {1, 1 << 63}, {1 << 63, 0}}
	for i, a := range ids {
		for j, b := range ids {
			if a.Less(b) != (i < j) {
				t.Errorf("%v, %v", a, b)
			}
		}
	}
}
