package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"kedis/storage/layout"
	"kedis/storage/ordered"
	"kedis/storage/rocks"
)

// A store that is closed keeps what it has counted of large collections, so that the first who asks
// for a rank after the next start need not count them again. The record holds for exactly one
// state, whose bytes it begins with: after a crash there is another one, as soon as anything was
// written, and then it isn't looked at.
//
//	| length:4 | state | Tree … |
//
//	Tree    namespace:4 | kind:1 | values:1 | id:8 | counts:4 | Count …
//	Count   entries:8, all ones where nobody has counted | length:4 | border
const (
	keptEntries = 1024 // about so many neighbours are kept as one count
	leastKept   = 16   // counts; fewer entries are counted in a few milliseconds
)

// keptKinds are those of hashes, sets and sorted sets: whatever changes such a record has an
// effect, which changes the state. That isn't so of streams.
var keptKinds = kindsWith(func(k *layout.Kind) bool { return k.Ordered && k.Grouped })

// keepCounts writes the record. Nothing else is written any more. What the store holds is persisted
// already, and needs no counts: when the record can't be written, they are found anew.
func (s *Store) keepCounts() {
	if err := s.writeCounts(); err != nil {
		s.logger.Warn("counts of large collections can't be kept, and will be found anew when they are asked for", "error", err)
	}
}

// writeCounts writes a table file: when that fails, RocksDB has nothing that it would have to write
// before it is closed.
func (s *Store) writeCounts() error {
	state, found, err := s.db().Get(s.metaFamily(), nil, layout.StateKey, nil)
	if err != nil || !found {
		return err
	}
	value := appendSized(nil, state)
	trees := 0
	for _, tree := range s.order.trees.All() {
		if known, _ := tree.Sums(); known >= leastKept*s.order.sizes.kept && s.keepsCounts(tree.ID()) {
			value = appendCounts(value, tree, s.order.sizes.kept)
			trees++
		}
	}
	if trees == 0 {
		return nil
	}
	tables, err := s.db().NewTables(rocks.TableOptions{Bytes: int64(len(value))})
	if err != nil {
		return err
	}
	tables.Put(s.metaFamily(), layout.CountsKey, value)
	return s.db().Ingest(tables)
}

func (s *Store) keepsCounts(id ordered.Identity) bool {
	for _, ns := range s.tiers.Load().databases {
		if ns.Number == id.Space {
			return bytes.IndexByte(keptKinds, id.Kind) >= 0
		}
	}
	return false
}

func appendCounts(value []byte, tree *ordered.Tree, entries int) []byte {
	id, counts := tree.ID(), tree.Counts(entries)
	value = append(binary.BigEndian.AppendUint32(value, id.Space), id.Kind, 0)
	if tree.Values() {
		value[len(value)-1] = 1
	}
	value = binary.BigEndian.AppendUint64(value, id.ID)
	value = binary.BigEndian.AppendUint32(value, uint32(len(counts)))
	for _, c := range counts {
		value = appendSized(binary.BigEndian.AppendUint64(value, uint64(c.Entries)), c.Border)
	}
	return value
}

func appendSized(value, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(value, uint32(len(b))), b...)
}

// restoreCounts makes trees of the record, if there is one of the state that the store has. One
// that can't be read is left alone.
func (s *Store) restoreCounts() {
	if err := s.readCounts(); err != nil {
		s.logger.Error("counts that were kept of collections can't be read, and are found anew when they are asked for", "error", err)
		s.order.trees.Clear()
	}
}

func (s *Store) readCounts() error {
	state, found, err := s.db().Get(s.metaFamily(), nil, layout.StateKey, nil)
	if err != nil || !found || !s.order.trees.Enabled() {
		return err
	}
	value, found, err := s.db().Get(s.metaFamily(), nil, layout.CountsKey, nil)
	if err != nil || !found {
		return err
	}
	r := countsReader{rest: value}
	if of := r.take(int(r.number(4))); !bytes.Equal(of, state) {
		return nil
	}
	for len(r.rest) > 0 && !r.damaged {
		r.restore(&s.order.trees)
	}
	if r.damaged {
		return fmt.Errorf("%w: counts of %d bytes", layout.ErrCorrupt, len(value))
	}
	return nil
}

// countsReader reads such a record.
type countsReader struct {
	rest    []byte
	damaged bool
}

func (r *countsReader) take(n int) (b []byte) {
	if r.damaged = r.damaged || n > len(r.rest); r.damaged {
		return nil
	}
	b, r.rest = r.rest[:n:n], r.rest[n:]
	return b
}

func (r *countsReader) number(size int) (n uint64) {
	for _, b := range r.take(size) {
		n = n<<8 | uint64(b)
	}
	return n
}

// restore makes the next tree.
func (r *countsReader) restore(trees *ordered.Trees) {
	id := ordered.Identity{Space: uint32(r.number(4)), Kind: byte(r.number(1))}
	values := r.number(1) == 1
	id.ID = r.number(8)
	var counts []ordered.Count
	for left := r.number(4); left > 0 && !r.damaged; left-- {
		entries := int(int64(r.number(8)))
		counts = append(counts, ordered.Count{Border: bytes.Clone(r.take(int(r.number(4)))), Entries: entries})
	}
	if !r.damaged && len(counts) > 0 {
		counts[0].Border = nil
		trees.Restore(id, values, counts)
	}
}
