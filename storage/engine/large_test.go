package engine

import "testing"

// TestLargeRecordsAreForgotten: what turns out to be small is no longer known to be large.
func TestLargeRecordsAreForgotten(t *testing.T) {
	var l largeRecords
	l.note(1, LargeValue+1)
	l.note(2, LargeValue+2)
	l.note(1, 10)
	if l.size(1) != 0 || l.size(2) != LargeValue+2 {
		t.Errorf("the sizes are %d and %d", l.size(1), l.size(2))
	}
	for hash := range uint64(2 * mostLarge) {
		l.note(hash, LargeValue+1)
	}
	if len(l.sizes) > mostLarge {
		t.Errorf("%d are known", len(l.sizes))
	}
}
