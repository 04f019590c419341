package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"kedis/storage/layout"
	"kedis/storage/rocks"
)

var errClosing = errors.New("storage: closing")

// reapBatch is how many elements are deleted by one write to RocksDB. Up to reapByPoints of a
// collection are deleted element by element, since every range tombstone costs each reader of a
// memtable. Of what is more than that, RocksDB's files that have nothing else go at once, and the
// rest with one range.
const (
	reapBatch    = 1000
	reapByPoints = 100_000
	reapTime     = time.Second // before other maintenance has its turn
)

// reap removes the elements of collections whose deletion RocksDB's files hold, so that no crash
// can bring them back. Nothing refers to them, so it writes to RocksDB directly: readers and
// positions have no part in it.
func (s *Store) reap() error {
	end := time.Now().Add(reapTime)
	databases := s.tiers.Load().databases
	for range databases {
		ns := databases[s.background.reaped.Add(1)%uint64(len(databases))]
		family := ns.family.Load()
		if family == nil {
			continue
		}
		if err := s.reapFamily(ns, family, end); err != nil {
			return err
		}
		if time.Now().After(end) {
			return nil
		}
	}
	return nil
}

func (s *Store) reapFamily(ns *Namespace, family *rocks.Family, end time.Time) error {
	it := s.db().NewIterator(family, nil, rocks.IteratorOptions{
		LowerBound: []byte{layout.KindDeleted}, UpperBound: []byte{layout.KindDeleted + 1}})
	defer it.Close()
	for it.Next() && time.Now().Before(end) {
		if s.closing() {
			return errClosing
		}
		deleted, err := layout.DecodeDeleted(it.Key(), it.Value())
		if err != nil {
			return err
		}
		if used, err := s.inUse(family, deleted.ID, it.Key()); err != nil {
			return err
		} else if used {
			continue
		}
		// Whole files go, snapshots or not. A view that is older than the deletion may still read
		// what was deleted. (It is asked for behind inUse, which has found that RocksDB has the
		// deletion: the record that Next has shown may be the one of a staging before it.)
		if s.oldestView() < s.handedOver() {
			return nil
		}
		// The file system may hold less than RocksDB's memory does: only what is persisted counts.
		_, persisted, err := s.db().GetPersisted(family, it.Key())
		if err != nil {
			return err
		}
		if !persisted {
			continue // ids are not in the order of deletion
		}
		if err := s.reapCollection(family, it.Key(), &deleted); err != nil {
			return err
		}
		ns.presence.reaped(&deleted)
	}
	return it.Err()
}

// inUse reports whether elements must stay although a record of their deletion was found: they are
// staged, or a commit has removed that record since. The order matters: what is no longer staged is
// either committed, and the record gone, or was given up.
func (s *Store) inUse(family *rocks.Family, id uint64, record []byte) (bool, error) {
	if s.ids.staged.has(id) {
		return true, nil
	}
	_, found, err := s.db().Get(family, nil, record, nil)
	return !found, err
}

func (s *Store) reapCollection(family *rocks.Family, record []byte, deleted *layout.Deleted) error {
	batch := new(rocks.Batch)
	for _, records := range deleted.Type.Elements() {
		if deleted.Records(records.Kind) == 0 && deleted.Count > 0 {
			continue
		}
		lower, upper := deleted.Range(records.Kind)
		if err := s.reapRange(family, batch, lower, upper); err != nil {
			return err
		}
	}
	batch.Delete(family, record)
	s.counters.Reaped.Add(int64(deleted.Count))
	if err := s.db().Write(batch); err != nil {
		return fmt.Errorf("storage: reaping: %w", err)
	}
	return nil
}

func (s *Store) reapRange(family *rocks.Family, batch *rocks.Batch, lower, upper []byte) error {
	it := s.db().NewIterator(family, nil, rocks.IteratorOptions{LowerBound: lower, UpperBound: upper, KeysOnly: true})
	defer it.Close()
	for n := 0; it.Next(); n++ {
		if n == reapByPoints {
			batch.DeleteRange(family, it.Key(), upper)
			if err := s.persistDeletions(); err != nil {
				return err
			}
			if err := s.db().DeleteFiles(family, it.Key(), upper); err != nil {
				return fmt.Errorf("storage: reaping: %w", err)
			}
			return nil
		}
		batch.Delete(family, it.Key())
		if batch.Len() < reapBatch {
			continue
		}
		if err := s.db().Write(batch); err != nil {
			return fmt.Errorf("storage: reaping: %w", err)
		}
		batch.Reset()
		if s.closing() {
			return errClosing
		}
	}
	return it.Err()
}

// persistDeletions persists the deletions that were found, ahead of what is durable at once. The
// record that was found to be persisted may be the one that came with the elements when they were
// staged: RocksDB's files could get the commit that took it away, and not the deletion that came
// after it.
func (s *Store) persistDeletions() error {
	if s.positions.persisted.Load() == s.positions.written.Load() {
		return nil
	}
	return s.persistWritten()
}

// dropNamespaces drops the families that no database, no generation on its way, no view and no
// state can need that RocksDB's files have or, since RocksDB persists its memory when it likes, may
// come to have. Dropping is durable at once, ahead of all that was written.
func (s *Store) dropNamespaces() error {
	value, found, err := s.db().GetPersisted(s.metaFamily(), layout.StateKey)
	if err != nil || !found {
		return err
	}
	state, err := layout.DecodeState(value)
	if err != nil {
		return err
	}
	families := s.db().Families() // before what is needed is gathered: later ones are new
	needed := s.neededFamilies(state)
	for _, name := range families {
		if needed[name] {
			continue
		}
		family := s.db().Family(name)
		if family == nil {
			continue // of an import that was abandoned meanwhile
		}
		err := s.db().Drop(family)
		if errors.Is(err, rocks.ErrDropped) || errors.Is(err, rocks.ErrInUse) { // by a read ahead: the next time
			continue
		}
		if err != nil {
			return fmt.Errorf("storage: dropping a namespace: %w", err)
		}
	}
	return nil
}

// neededFamilies are those that somebody needs, or may come to need, of all that there are by now.
// The persisted state was read before.
func (s *Store) neededFamilies(persisted layout.State) map[string]bool {
	needed := map[string]bool{"default": true}
	need := func(spaces ...*Namespace) {
		for _, ns := range spaces {
			needed[layout.Family(ns.Number)] = true
		}
	}
	s.commit.Lock()
	need(s.namespaces.imported()...)
	now := s.tiers.Load()
	need(now.databases...)
	if ns := s.presences.walked.Load(); ns != nil { // a database had it when that began
		need(ns)
	}
	states := append([]layout.State{persisted}, s.commit.unpersisted...)
	for _, f := range now.frozen {
		states = append(states, f.state)
	}
	s.commit.Unlock()
	for _, state := range states {
		for _, d := range state.Databases {
			needed[layout.Family(d.Namespace)] = true
		}
	}
	// Behind the lock: a view that is opened later has namespaces from above, or newer ones.
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for v := range s.views.open {
		need(v.databases...)
	}
	return needed
}

// raiseHighest makes sure that no element id is given out again that was used ahead of the state.
func (s *Store) raiseHighest() error {
	value, found, err := s.db().Get(s.metaFamily(), nil, layout.HighestKey, nil)
	if err != nil || !found {
		return err
	}
	if len(value) != 8 {
		return fmt.Errorf("%w: highest id of %d bytes", layout.ErrCorrupt, len(value))
	}
	s.ids.next.Store(max(s.ids.next.Load(), binary.BigEndian.Uint64(value)+1))
	return nil
}
