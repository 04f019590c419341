package layout

import (
	"bytes"
	"math"
	"testing"
)

func TestElementsAreOfKindsThatHaveThem(t *testing.T) {
	for _, kind := range []Type{Hash, List, Set, ZSet} {
		if len(kind.Elements()) == 0 {
			t.Errorf("type %d has no elements", kind)
		}
		for _, e := range kind.Elements() {
			if !Kinds[e.Kind].Element {
				t.Errorf("records of kind %c, of type %d, belong to no collection", e.Kind, kind)
			}
		}
		if first := Kinds[kind.Elements()[0].Kind]; !first.Read {
			t.Errorf("elements of type %d are not looked up by their first kind", kind)
		}
	}
	for _, kind := range []Type{0, String, 99} {
		if len(kind.Elements()) != 0 {
			t.Errorf("type %d has elements", kind)
		}
	}
}

func TestAllRecordsOfACollectionLieWithinItsBounds(t *testing.T) {
	const id = 7
	within := func(kind byte, key []byte) bool {
		return bytes.Compare(First(kind, id), key) <= 0 && bytes.Compare(key, Behind(kind, id)) < 0
	}
	for _, score := range []float64{math.Inf(-1), -1, 0, 1, math.Inf(1)} {
		if key := AppendScoreKey(nil, id, score, []byte("\xff\xff\xff")); !within(KindZSetScore, key) {
			t.Errorf("score %v lies outside", score)
		}
	}
	for kind := range Kinds {
		if kind := byte(kind); Kinds[kind].Element && kind != KindZSetScore {
			if !within(kind, AppendElementKey(nil, kind, id, nil)) || !within(kind, AppendElementKey(nil, kind, id, bytes.Repeat([]byte{0xff}, 40))) {
				t.Errorf("elements of kind %c lie outside", kind)
			}
			if within(kind, AppendElementKey(nil, kind, id+1, nil)) {
				t.Errorf("another collection's elements of kind %c lie within", kind)
			}
		}
	}
}
