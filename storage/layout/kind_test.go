package layout

import "testing"

func TestElementsAreOfKindsThatHaveThem(t *testing.T) {
	for _, kind := range []Type{String, Hash, List, Set, ZSet} {
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
	for _, kind := range []Type{0, 99} {
		if len(kind.Elements()) != 0 {
			t.Errorf("type %d has elements", kind)
		}
	}
}
