package rdb

import "testing"

// TestStreamCounts has the places that a group may be at in a stream that wasn't counted: Redis's
// streamEstimateDistanceFromFirstEverEntry knows it at the ends.
func TestStreamCounts(t *testing.T) {
	entries := []StreamID{{2, 1}, {3, 1}, {4, 1}}
	for _, one := range []struct {
		entries  int
		at       StreamID
		expected int64
	}{
		{3, StreamID{}, 0}, {3, StreamID{1, 9}, 0}, {3, StreamID{2, 1}, 1}, {3, StreamID{3, 1}, -1}, {3, StreamID{4, 0}, -1}, {3, StreamID{5, 0}, 3},
		{3, StreamID{5, 1}, -1}, {0, StreamID{}, 0}, {0, StreamID{5, 0}, 0},
	} {
		var c StreamCounts
		for _, id := range entries[:one.entries] {
			c.Complete(&StreamElement{Part: StreamEntry, ID: id})
		}
		totals := StreamElement{Part: StreamTotals, ID: StreamID{5, 0}, Length: uint64(one.entries), Uncounted: true}
		c.Complete(&totals)
		if one.entries > 0 && totals.FirstID != entries[0] {
			t.Errorf("the first of %d entries is %v", one.entries, totals.FirstID)
		}
		group := StreamElement{Part: StreamGroup, ID: one.at, EntriesRead: -1, Uncounted: true}
		if c.Complete(&group); group.EntriesRead != one.expected {
			t.Errorf("behind %v of %d entries: %d, expected %d", one.at, one.entries, group.EntriesRead, one.expected)
		}
		known := StreamElement{Part: StreamGroup, ID: one.at, EntriesRead: 7}
		if c.Complete(&known); known.EntriesRead != 7 {
			t.Errorf("what is known became %d", known.EntriesRead)
		}
	}
}
