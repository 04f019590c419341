package engine

import (
	"encoding/binary"
	"fmt"
	"sync"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// Elements are those of a spread collection that is being made, under an id that nothing refers to
// before its key is saved. When they become many they are staged: they go to RocksDB directly, in
// pieces, ahead of the commit, so that neither the transaction nor a generation has to hold them. A
// 'D' record stands beside them, which the commit takes away; without it the reaper removes them.
type Elements struct {
	txn     *Txn
	space   *Namespace
	kind    layout.Type
	id      uint64
	records uint64 // put so far

	entries, buffer int // where the transaction's journal stood when it began

	family *rocks.Family // when they are staged
	batch  rocks.Batch
	hashes []uint64 // of what is in the batch
	key    []byte
}

// stageBytes is how much of a collection a transaction gathers before it stages it, and how much
// goes to RocksDB at a time.
const stageBytes = 4 << 20

// stageRecords is how many records it gathers at most: a commit makes them visible one by one, in
// half a microsecond each, while all other commits wait.
const stageRecords = 32 << 10

// NewElements begins a collection of a type, under an id.
func (t *Txn) NewElements(ns *Namespace, kind layout.Type, id uint64) *Elements {
	j := &t.journal
	return &Elements{txn: t, space: ns, kind: kind, id: id, entries: len(j.entries), buffer: j.size()}
}

// Put writes one record | kind | id | element |. Each has to be put once: who doesn't know whether
// it is asks Distinct.
func (e *Elements) Put(kind byte, element, value []byte) error {
	e.records++
	e.key = layout.AppendElementKey(e.key[:0], kind, e.id, element)
	if e.family != nil {
		e.add(e.key, value, recordHash(e.space.Number, e.key))
		if e.batch.Size() < e.txn.store.ids.staged.pieceBytes {
			return nil
		}
		return e.write()
	}
	if err := e.txn.putNew(e.space, e.key, value); err != nil {
		return err
	}
	j := &e.txn.journal
	few := j.size()-e.buffer < e.txn.store.ids.staged.pieceBytes && len(j.entries)-e.entries < stageRecords
	if few || !e.txn.stages() {
		return nil
	}
	return e.stage()
}

// stages reports whether the transaction may write ahead of its commit: not on a reactor, and only
// to namespaces that databases have.
func (t *Txn) stages() bool {
	return t.running.budget > unlimited/2 && t.changes.databases == nil && t.staging.spill == nil
}

// stage begins to write to RocksDB, with what the journal has of the collection. That stays in the
// journal too, since other writes of the transaction may stand between.
func (e *Elements) stage() error {
	t := e.txn
	family, err := t.store.familyOf(e.space)
	if err != nil {
		return err
	}
	e.family = family
	for i := e.entries; i < len(t.journal.entries); i++ {
		if c := &t.journal.entries[i]; !c.superseded && e.owns(t.journal.key(c)) {
			e.add(t.journal.key(c), t.journal.value(c), c.hash)
		}
	}
	t.staging.ids = append(t.staging.ids, e.id)
	return t.store.ids.staged.begin(e)
}

// add adds a record to the batch.
func (e *Elements) add(key, value []byte, hash uint64) {
	e.batch.Put(e.family, key, value)
	if filtered(key) {
		e.hashes = append(e.hashes, hash)
	}
}

// owns reports whether a record is one of the collection's.
func (e *Elements) owns(key []byte) bool {
	return len(key) >= layout.ElementPrefix && layout.Kinds[key[0]].Element && layout.ElementID(key) == e.id
}

// write brings the batch to RocksDB, together with the record that says that nothing refers to it.
func (e *Elements) write() error {
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	e.batch.Put(e.family, e.key, layout.AppendDeletedValue(nil, e.kind, e.records, e.mayExpire()))
	s := e.txn.store
	defer s.presences.writes.begin()()
	e.space.presence.add(e.hashes)
	if err := s.db().Write(&e.batch); err != nil {
		return fmt.Errorf("storage: staging: %w", err)
	}
	e.batch.Reset()
	e.hashes = e.hashes[:0]
	return nil
}

// mayExpire is how many of the records may be those of fields that expire.
func (e *Elements) mayExpire() uint64 {
	if e.kind.Expiring() {
		return e.records
	}
	return 0
}

// ID is the id of the collection.
func (e *Elements) ID() uint64 { return e.id }

// Records is the number of records so far.
func (e *Elements) Records() uint64 { return e.records }

// Finish completes the collection: its key may be saved.
func (e *Elements) Finish() error {
	if e.family == nil {
		return nil
	}
	if err := e.write(); err != nil {
		return err
	}
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	return e.txn.Delete(e.space, e.key)
}

// Distinct tells, after finish, that no record was written twice. An import finds out by itself.
func (e *Elements) Distinct() (bool, error) {
	if e.family == nil {
		return e.txn.staging.spill != nil || e.txn.journal.distinct(e.id), nil
	}
	count, err := e.count()
	return count == e.records, err
}

// count counts the records that were staged.
func (e *Elements) count() (n uint64, err error) {
	for _, records := range e.kind.Elements() {
		lower := layout.AppendElementKey(nil, records.Kind, e.id, nil)
		it := e.txn.store.db().NewIterator(e.family, nil, rocks.IteratorOptions{
			LowerBound: lower, UpperBound: layout.Successor(nil, lower), KeysOnly: true})
		for it.Next() {
			n++
		}
		err := it.Err()
		it.Close()
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Abandon leaves the elements of a spread collection that nothing refers to any more to the reaper.
func (t *Txn) Abandon(ns *Namespace, m *layout.Metadata) error {
	for _, records := range m.Type.Elements() {
		t.store.order.trees.Drop(ns.Number, m.ID, records.Kind)
	}
	err := t.Put(ns, layout.AppendDeletedKey(make([]byte, 0, 9), m.ID), layout.AppendDeletedValue(make([]byte, 0, 17), m.Type, m.Length(), m.Expiring))
	if err == nil {
		t.journal.made.abandon(m.ID, len(t.journal.entries))
		t.changes.abandoned = append(t.changes.abandoned, m.ID)
	}
	return err
}

// AbandonPart is Abandon for a part of a collection, which a type names: see
// layout.AppendDeletedKey. count is how many records it has.
func (t *Txn) AbandonPart(ns *Namespace, id uint64, part []byte, kind layout.Type, count uint64) error {
	for _, records := range kind.Elements() {
		t.ForgetBefore(ns, id, records.Kind, part, count)
	}
	key := append(layout.AppendDeletedKey(make([]byte, 0, 9+len(part)), id), part...)
	return t.Put(ns, key, layout.AppendDeletedValue(make([]byte, 0, 9), kind, count, 0))
}

// staged are the ids under which elements stand in RocksDB ahead of a commit. The reaper leaves
// them alone, until RocksDB has the commit too.
type staged struct {
	mu      sync.Mutex
	ids     map[uint64]*generation.Generation // which holds the commit; nil before it
	highest uint64                            // the highest of them, as RocksDB has it

	pieceBytes int // gathered before a collection is staged, and written at a time
}

// begin writes the first piece. The highest id goes with it: after a crash that loses the commit,
// no other collection may get an id that has been staged.
func (s *staged) begin(e *Elements) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[uint64]*generation.Generation{}
	}
	s.ids[e.id] = nil
	s.highest = max(s.highest, e.id)
	e.batch.Put(e.txn.store.metaFamily(), layout.HighestKey, binary.BigEndian.AppendUint64(nil, s.highest))
	return e.write()
}

// has reports whether a commit of an id is not in RocksDB yet.
func (s *staged) has(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.ids[id]
	return has
}

// commit says that what refers to some ids stands in a generation.
func (s *staged) commit(ids []uint64, g *generation.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.ids[id] = g
	}
}

// release leaves ids that were not committed to the reaper.
func (s *staged) release(ids []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.ids, id)
	}
}

// written says that a generation is in RocksDB.
func (s *staged) written(g *generation.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, holder := range s.ids {
		if holder == g {
			delete(s.ids, id)
		}
	}
}
