package storage

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"kedis/storage/layout"
)

// withStream changes the stream "s", and saves it.
func withStream(t *testing.T, s *Store, change func(stream *Stream) error) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		stream, err := db.Stream([]byte("s"))
		if err == nil {
			if err = change(stream); err == nil {
				err = stream.Save()
			}
		}
		return err
	})
}

// addEntries adds entries whose ids are ms-0, from one on, before another.
func addEntries(t *testing.T, s *Store, from, to uint64) {
	t.Helper()
	withStream(t, s, func(stream *Stream) error {
		for ms := from; ms < to; ms++ {
			if err := stream.Append(StreamID{Ms: ms}, [][]byte{[]byte("field"), strconv.AppendUint(nil, ms, 10)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// entryIDs returns the ids of all entries, of which there have to be as many as the stream says.
func entryIDs(t *testing.T, s *Store, key string) (ids []uint64) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		stream, err := db.Stream([]byte(key))
		if err != nil {
			return err
		}
		err = stream.Range(StreamID{}, layout.LastStreamID, false, func(id StreamID, _ [][]byte) (bool, error) {
			ids = append(ids, id.Ms)
			return true, nil
		})
		if err == nil && uint64(len(ids)) != stream.Len() {
			t.Errorf("%s has %d entries and says %d", key, len(ids), stream.Len())
		}
		return err
	})
	return ids
}

func between(from, to uint64) (ids []uint64) {
	for ; from < to; from++ {
		ids = append(ids, from)
	}
	return ids
}

func hasEntries(t *testing.T, s *Store, key string, want []uint64) {
	t.Helper()
	if got := entryIDs(t, s, key); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s has %d entries, %v…, want %d", key, len(got), got[:min(len(got), 5)], len(want))
	}
}

// TestTrimmingManyIsOneWrite: what is trimmed away stays in RocksDB until the reaper comes, and
// nobody sees it.
func TestTrimmingManyIsOneWrite(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	addEntries(t, s, 1, 20001)
	must(t, s.Persist())
	in(t, s, 0, func(db DB) error {
		stream, err := db.Stream([]byte("s"))
		if err != nil {
			return err
		}
		db.txn.Begin(Mode{Writing: true}, 0, 1000) // one node for each hundred entries is looked at, and none of these
		if removed, err := stream.Trim(&Trim{MaxLength: 150}); err != nil || removed != 19850 {
			t.Errorf("%d entries were removed, %v", removed, err)
		}
		return stream.Save()
	})
	hasEntries(t, s, "s", between(19851, 20001))
	must(t, s.Persist())
	must(t, inside(s).Reap())
	if n := s.Counters().Reaped.Load(); n < 19850 {
		t.Errorf("%d records were reaped", n)
	}
	addEntries(t, s, 20001, 20101)
	withStream(t, s, func(stream *Stream) error {
		_, err := stream.Delete([]StreamID{{Ms: 19851}, {Ms: 19853}, {Ms: 20100}})
		return err
	})
	want := append([]uint64{19852}, between(19854, 20100)...)
	hasEntries(t, s, "s", want)
	copyStream(t, s)
	hasEntries(t, s, "copy", want)
}

func copyStream(t *testing.T, s *Store) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		k, err := db.Lookup([]byte("s"))
		if err != nil {
			return err
		}
		old, err := db.Lookup([]byte("copy"))
		if err != nil {
			return err
		}
		return db.CopyTo(k, db, []byte("copy"), old)
	})
}

// TestTrimmedNodesAreReaped though the first entry that stays is the first one of its node, so that
// entries and nodes go up to the same id.
func TestTrimmedNodesAreReaped(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	addEntries(t, s, 1, 20001)
	must(t, s.Persist())
	for _, length := range []uint64{10000, 1000} {
		withStream(t, s, func(stream *Stream) error {
			_, err := stream.Trim(&Trim{MaxLength: length})
			return err
		})
		persistAndReap(t, s)
		expectStreamRecords(t, s, int(length))
	}
}

// TestNodesAreReapedThatEarlierVersionsLeft: what they told the reaper of, and what got lost.
func TestNodesAreReapedThatEarlierVersionsLeft(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
			addEntries(t, s, 1, 20001)
			withStream(t, s, func(stream *Stream) error {
				_, err := stream.Trim(&Trim{MaxLength: 10000})
				last, _ := stream.head.FirstNode.Previous()
				key := layout.AppendDeletedKey(nil, stream.next.ID)
				txn := stream.db.txn
				must(t, txn.Delete(stream.db.space, append(last.Append(key), 0)))
				if told {
					must(t, txn.AbandonPart(stream.db.space, stream.next.ID, stream.head.FirstNode.Append(nil), layout.StreamNodes, 100))
					must(t, txn.AbandonPart(stream.db.space, stream.next.ID, last.Append(nil), layout.StreamEntries, 9999))
				}
				return err
			})
			persistAndReap(t, s)
			if told {
				expectStreamRecords(t, s, 10000)
			}
			withStream(t, s, func(stream *Stream) error {
				_, err := stream.Trim(&Trim{MaxLength: 1000})
				return err
			})
			persistAndReap(t, s)
			expectStreamRecords(t, s, 1000)
		})
	}
}

// expectStreamRecords counts the records in RocksDB of the stream "s", whose nodes have a hundred
// entries each. The last node has no record.
func expectStreamRecords(t *testing.T, s *Store, entries int) {
	t.Helper()
	want := map[byte]int{layout.KindStreamEntry: entries, layout.KindStreamNode: entries/100 - 1}
	withStream(t, s, func(stream *Stream) error {
		for kind, count := range want {
			lower := layout.AppendElementKey(nil, kind, stream.next.ID, nil)
			it := stream.db.txn.Iterate(stream.db.space, lower, layout.Successor(nil, lower), IteratorOptions{KeysOnly: true})
			n := 0
			for it.Next() {
				n++
			}
			must(t, it.Close())
			if n != count {
				t.Errorf("%d records of kind %c for %d entries, want %d", n, kind, entries, count)
			}
		}
		return nil
	})
}

// TestReusedIDs: entries that get ids again which were trimmed away stay when the reaper comes.
func TestReusedIDs(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	addEntries(t, s, 1, 5001)
	withStream(t, s, func(stream *Stream) error {
		_, err := stream.Trim(&Trim{})
		return err
	})
	withStream(t, s, func(stream *Stream) error {
		if err := stream.SetLast(StreamID{Ms: 10}); err != nil {
			return err
		}
		return stream.Append(StreamID{Ms: 11}, [][]byte{[]byte("a"), []byte("b")})
	})
	must(t, s.Persist())
	must(t, inside(s).Reap())
	must(t, s.Persist())
	must(t, inside(s).Reap())
	hasEntries(t, s, "s", []uint64{11})
}

// TestGroupsThatAreGone: what belonged to a group that was destroyed is neither copied nor seen by
// one of the same name, and is reaped.
func TestGroupsThatAreGone(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	addEntries(t, s, 1, 101)
	deliver := func(consumer string) func(stream *Stream) error {
		return func(stream *Stream) error {
			g := stream.NewGroup([]byte("group"), StreamID{}, 0)
			c, err := g.NewConsumer([]byte(consumer), 5)
			if err != nil {
				return err
			}
			err = stream.Range(StreamID{}, layout.LastStreamID, false, func(id StreamID, _ [][]byte) (bool, error) {
				return true, g.Deliver(&Pending{Entry: id}, c, nil)
			})
			return errors.Join(err, g.Save())
		}
	}
	withStream(t, s, deliver("former"))
	withStream(t, s, func(stream *Stream) error {
		g, found, err := stream.Group([]byte("group"))
		if err != nil || !found {
			t.Fatalf("the group was found: %v, %v", found, err)
		}
		return g.Destroy()
	})
	withStream(t, s, deliver("latter"))
	copyStream(t, s)
	must(t, s.Persist())
	must(t, inside(s).Reap())
	if n := s.Counters().Reaped.Load(); n != 202 {
		t.Errorf("%d records were reaped", n)
	}
	for _, key := range []string{"s", "copy"} {
		acknowledgeAll(t, s, key)
	}
}

// acknowledgeAll acknowledges what is pending, which is all 100 entries.
func acknowledgeAll(t *testing.T, s *Store, key string) {
	t.Helper()
	in(t, s, 0, func(db DB) error {
		stream, err := db.Stream([]byte(key))
		if err != nil {
			return err
		}
		g, found, err := stream.Group([]byte("group"))
		if err != nil || !found || g.State().Consumers != 1 {
			t.Fatalf("%s: the group was found: %v, %v", key, found, err)
		}
		seen := 0
		err = g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
			seen++
			owner, err := g.Owner(p)
			if err != nil || string(owner.State().Name) != "latter" {
				t.Fatalf("%s: an entry is pending for %v, %v", key, owner, err)
			}
			return true, errors.Join(g.Acknowledge(p), g.MoveFrom())
		})
		if seen != 100 || g.State().Pending != 0 || stream.Head().Pending != 0 {
			t.Errorf("%s: %d entries were pending, %d are", key, seen, g.State().Pending)
		}
		return errors.Join(err, g.Save(), stream.Save())
	})
}

// TestManyConsumers: a walk over all consumers of a group keeps none of them, unless it changes
// them, and one over what is pending finds each as it was left.
func TestManyConsumers(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<30, 0))
	const consumers = 20 * fewConsumers
	withStream(t, s, func(stream *Stream) error {
		g := stream.NewGroup([]byte("group"), StreamID{}, 0)
		for i := range uint64(consumers) {
			c, err := g.NewConsumer(fmt.Appendf(nil, "%d", i), 5)
			must(t, err)
			must(t, g.Deliver(&Pending{Entry: StreamID{Ms: i}}, c, nil))
		}
		return g.Save()
	})
	withGroup := func(change func(g *Group)) {
		withStream(t, s, func(stream *Stream) error {
			g, found, err := stream.Group([]byte("group"))
			if must(t, err); !found {
				t.Fatal("the group is gone")
			}
			change(g)
			return g.Save()
		})
	}
	withGroup(func(g *Group) {
		must(t, g.Consumers(func(*Consumer) error { return nil }))
		if len(g.consumers) > 0 {
			t.Errorf("%d consumers are kept", len(g.consumers))
		}
		must(t, g.Consumers(func(c *Consumer) error {
			c.Saw(7, false)
			return nil
		}))
	})
	withGroup(func(g *Group) {
		for range 2 {
			must(t, g.Walk(StreamID{}, layout.LastStreamID, nil, func(p *Pending) (bool, error) {
				c, err := g.Owner(p)
				if err == nil && (string(c.state.Name) != fmt.Sprint(p.Entry.Ms) || c.state.SeenMs != 7) {
					t.Errorf("entry %d is pending for %q, seen at %d", p.Entry.Ms, c.state.Name, c.state.SeenMs)
				}
				return true, err
			}))
		}
		if len(g.consumers) != consumers {
			t.Errorf("%d consumers are kept", len(g.consumers))
		}
	})
}
