package sortorder

import (
	"strconv"
	"testing"
)

func TestDistinct(t *testing.T) {
	testDistinct(t, &Distinct{})
	var d Distinct
	for _, expected := range []int{0, 1, 500, 100 * pieceEntries, 2} { // fewer come, and more
		d.Reset(expected)
		testDistinct(t, &d)
	}
}

func testDistinct(t *testing.T, elements *Distinct) {
	indexes := map[string]int{}
	for i := range 3 * pieceEntries {
		value := strconv.Itoa(i * i % 9973) // half of them come again
		index, added := elements.Put([]byte(value))
		known, seen := indexes[value]
		if !seen {
			known = len(indexes)
			indexes[value] = known
		}
		if index != known || added == seen || elements.Len() != len(indexes) || string(elements.Value(index)) != value {
			t.Fatalf("%s: index %d of %d (new: %v), not %d of %d", value, index, elements.Len(), added, known, len(indexes))
		}
	}
	if len(indexes) == 3*pieceEntries {
		t.Fatal("nothing came twice")
	}
}
