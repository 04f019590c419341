package layout

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

func TestScoresSortAsNumbers(t *testing.T) {
	scores := []float64{math.Inf(-1), -math.MaxFloat64, -1.5, -1, -math.SmallestNonzeroFloat64, 0,
		math.SmallestNonzeroFloat64, 1, 1.5, math.MaxFloat64, math.Inf(1)}
	for i, score := range scores {
		if got := ScoreOf(SortableScore(score)); got != score {
			t.Errorf("%v came back as %v", score, got)
		}
		if i > 0 && SortableScore(scores[i-1]) >= SortableScore(score) {
			t.Errorf("%v does not sort before %v", scores[i-1], score)
		}
	}
	negativeZero := math.Copysign(0, -1)
	if SortableScore(negativeZero) != SortableScore(0) {
		t.Error("-0 and 0 sort apart")
	}
	key := AppendScoreKey(nil, 3, negativeZero, []byte("m"))
	score, member, err := DecodeScored(key[ElementPrefix:], AppendScoreValue(nil, negativeZero))
	if err != nil || !math.Signbit(score) || score != 0 || string(member) != "m" {
		t.Errorf("-0 came back as %v, %q, %v", score, member, err)
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	for _, m := range []Metadata{
		{Type: String, Encoding: Plain, Value: []byte("value")},
		{Type: String, Encoding: Raw, ExpireMs: 1700000000000, Value: []byte{}},
		{Type: String, Encoding: Plain, ExpireMs: 1700000000000, IndexedMs: 1600000000000, Value: []byte("value")},
		{Type: ZSet, Encoding: Spread, ExpireMs: 2, IndexedMs: 1, ID: 7, Count: 9},
		{Type: Hash, Encoding: Listpack, Value: []byte{1, 2, 3}},
		{Type: Set, Encoding: Intset, Value: []byte{1, 2, 3}},
		{Type: ZSet, Encoding: Spread, ID: 7, Count: 9},
		{Type: List, Encoding: Spread, ID: 7, Head: ListMiddle - 3, Tail: ListMiddle + 9},
		{Type: Stream, Encoding: Spread, ID: 7, Count: 9, Value: (&StreamHead{Added: 9, Nodes: 2}).Append(nil)},
		{Type: Stream, Encoding: Spread, ID: 7, Count: 9, Value: (&StreamHead{Added: 9, Nodes: 2, Mark: StreamMark{StreamID{5, 1}, 4, 1}}).Append(nil)},
	} {
		got, err := DecodeMetadata(m.Append(nil))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
	}
}

func TestStreamHeadRoundTrip(t *testing.T) {
	for _, mark := range []StreamMark{{}, {StreamID{5, 1}, 4, 1}} {
		h := StreamHead{Last: StreamID{9, 1}, First: StreamID{2, 3}, Deleted: StreamID{1, 0}, Added: 12, Nodes: 3, FirstNode: StreamID{2, 2},
			LastNode: StreamID{8, 0}, Tail: StreamNode{1, 2, 3, 4}, Groups: 1, Consumers: 2, Pending: 3, Timed: 4, Mark: mark}
		var got StreamHead
		b := h.Append(nil)
		if err := got.Decode(b); err != nil || got != h {
			t.Errorf("%+v came back as %+v, %v", h, got, err)
		}
		if err := got.Decode(b[:len(b)-1]); err == nil {
			t.Errorf("a head of %d bytes was read as %+v", len(b)-1, got)
		}
	}
}

func TestCorruptMetadataIsAnError(t *testing.T) {
	spread := Metadata{Type: Hash, Encoding: Spread, ID: 1, Count: 2}
	whole := spread.Append(nil)
	early := (&Metadata{Type: String, Encoding: Plain, ExpireMs: 2, IndexedMs: 1}).Append(nil)
	for _, b := range [][]byte{nil, early[:len(early)-1], whole[:9], whole[:len(whole)-1], append(whole[:2:2], make([]byte, 99)...),
		append([]byte{9, 1}, whole[2:]...), append([]byte{byte(String), byte(Spread)}, whole[2:]...)} {
		if m, err := DecodeMetadata(b); err == nil {
			t.Errorf("%x was read as %+v", b, m)
		}
	}
	for _, impossible := range []Metadata{
		{Type: List, Encoding: Spread, ID: 1, Head: 10, Tail: 5},
		{Type: String, Encoding: Spread, ID: 1, Count: 1, Tail: 1 << 63},
		{Type: String, Encoding: Plain, ExpireMs: 5, IndexedMs: 5},
		{Type: String, Encoding: Plain, ExpireMs: 5, IndexedMs: -1},
	} {
		if m, err := DecodeMetadata(impossible.Append(nil)); err == nil {
			t.Errorf("%+v was read", m)
		}
	}
}

func TestStateRoundTrip(t *testing.T) {
	s := State{Position: 1 << 40, LogDirectory: 2, NextID: 3, NextNamespace: 4,
		Databases: []Database{{Number: 0, Namespace: 1, Keys: 5, Expires: 6}, {Number: 15, Namespace: 3, Keys: 7}}}
	b := s.Append(nil)
	if got, err := DecodeState(b); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v came back as %+v, %v", s, got, err)
	}
	for i := range b {
		if _, err := DecodeState(b[:i]); err == nil {
			t.Errorf("a state cut at %d of %d bytes was read", i, len(b))
		}
	}
}

func TestSuccessor(t *testing.T) {
	for prefix, want := range map[string]string{"a": "b", "a\xff": "b", "az\xff\xff": "a{"} {
		if got := Successor(nil, []byte(prefix)); !bytes.Equal(got, []byte(want)) {
			t.Errorf("behind %q comes %q, not %q", prefix, want, got)
		}
	}
	if got := Successor(nil, []byte("\xff\xff")); got != nil {
		t.Errorf("behind the last prefix comes %q", got)
	}
}
