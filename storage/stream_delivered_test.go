package storage

import (
	"testing"

	"kedis/storage/rdb"
)

// TestPendingZero: Redis takes 0-0 for pending where a payload says so. It is in the index like
// others, and only when there is one.
func TestPendingZero(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	m := &groupModel{t: t}
	for _, indexed := range []bool{false, true} {
		m.inTransaction(s, func(db DB) {
			must(t, db.Restore([]byte("s"), Key{}, decode(t, pendingZero(t)), 0))
			_, g := m.group(db)
			m.compareIndexed(g)
			if indexed {
				added, _, err := g.Index(10)
				if must(t, err); added != 2 {
					t.Errorf("%d entries were indexed, want 2", added)
				}
				m.compareIndexed(g)
			}
			p, found, err := g.Pending(StreamID{})
			if must(t, err); !found {
				t.Fatal("0-0 isn't pending")
			}
			must(t, g.Acknowledge(&p))
			m.compareIndexed(g)
		}, false)
	}
}

// pendingZero is the payload of an empty stream with the group "g", of which 0-0 and 0-1 are
// pending.
func pendingZero(t *testing.T) []byte {
	t.Helper()
	w := rdb.NewPayloadWriter()
	w.Begin(nil)
	w.BeginStream(0)
	for _, part := range []rdb.StreamElement{
		{Part: rdb.StreamTotals, ID: rdb.StreamID{Seq: 1}, Groups: 1},
		{Part: rdb.StreamGroup, Name: []byte("g"), Pending: 2},
		{Part: rdb.StreamPending, DeliveredMs: 1, Deliveries: 1},
		{Part: rdb.StreamPending, ID: rdb.StreamID{Seq: 1}, DeliveredMs: 1, Deliveries: 1},
		{Part: rdb.StreamConsumer, Name: []byte("c"), Consumers: 1, Pending: 2},
		{Part: rdb.StreamOwned},
		{Part: rdb.StreamOwned, ID: rdb.StreamID{Seq: 1}},
	} {
		w.StreamPart(&part)
	}
	w.EndStream()
	payload, err := w.Finish()
	must(t, err)
	return payload
}
