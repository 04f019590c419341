package storage

import (
	"encoding/binary"
	"fmt"
	"sync"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// elements are those of a spread collection that is being made, under an id that nothing refers to
// before its key is saved. When they become many they are staged: they go to RocksDB directly, in
// pieces, ahead of the commit, so that neither the transaction nor a generation has to hold them. A 'D'
// record stands beside them, which the commit takes away; without it the reaper removes them.
type elements struct {
	db      DB
	kind    layout.Type
	id      uint64
	records uint64 // put so far

	known           int // records that the transaction had written when it began
	entries, buffer int // where the transaction's journal stood then

	family *rocks.Family // when they are staged
	batch  rocks.Batch
	key    []byte
}

// stageBytes is how much of a collection a transaction gathers before it stages it, and how much goes
// to RocksDB at a time.
const stageBytes = 4 << 20

// stageRecords is how many records it gathers at most: a commit makes them visible one by one, some half a microsecond each, while
// all other commits wait.
const stageRecords = 16 << 10

func (d DB) newElements(t layout.Type) *elements {
	j := &d.txn.journal
	return &elements{db: d, kind: t, id: d.txn.NewID(), known: j.keys + d.txn.staging.spilled,
		entries: len(j.entries), buffer: len(j.buffer)}
}

// put writes one record | kind | id | element |.
func (e *elements) put(kind byte, element, value []byte) error {
	e.records++
	if e.family != nil {
		e.key = layout.AppendElementKey(e.key[:0], kind, e.id, element)
		e.batch.Put(e.family, e.key, value)
		if e.batch.Size() < e.db.txn.store.ids.staged.pieceBytes {
			return nil
		}
		return e.write()
	}
	if err := e.db.putElement(kind, e.id, element, value); err != nil {
		return err
	}
	j := &e.db.txn.journal
	few := len(j.buffer)-e.buffer < e.db.txn.store.ids.staged.pieceBytes && len(j.entries)-e.entries < stageRecords
	if few || !e.db.txn.stages() {
		return nil
	}
	return e.stage()
}

// putScored writes the two records of a sorted set's member.
func (e *elements) putScored(member []byte, score float64) error {
	var bytes [8]byte
	if err := e.put(layout.KindZSetMember, member, layout.AppendScore(bytes[:0], score)); err != nil {
		return err
	}
	binary.BigEndian.PutUint64(bytes[:], layout.SortableScore(score))
	return e.put(layout.KindZSetScore, append(bytes[:], member...), layout.AppendScoreValue(nil, score))
}

// stages tells whether the transaction may write ahead of its commit: not on a reactor, and only to
// namespaces that databases have.
func (t *Txn) stages() bool {
	return t.running.budget > unlimited/2 && t.changes.databases == nil && t.staging.spill == nil
}

// stage begins to write to RocksDB, with what the journal has of the collection. That stays in the
// journal too, since other writes of the transaction may stand between.
func (e *elements) stage() error {
	t := e.db.txn
	family, err := t.store.familyOf(e.db.space)
	if err != nil {
		return err
	}
	e.family = family
	for i := e.entries; i < len(t.journal.entries); i++ {
		if c := &t.journal.entries[i]; !c.superseded && e.owns(t.journal.key(c)) {
			e.batch.Put(family, t.journal.key(c), t.journal.value(c))
		}
	}
	t.staging.ids = append(t.staging.ids, e.id)
	return t.store.ids.staged.begin(e)
}

// owns tells whether a record is one of the collection's.
func (e *elements) owns(key []byte) bool {
	return len(key) >= layout.ElementPrefix && layout.Kinds[key[0]].Element && layout.ElementID(key) == e.id
}

// write brings the batch to RocksDB, together with the record that says that nothing refers to it.
func (e *elements) write() error {
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	e.batch.Put(e.family, e.key, layout.AppendDeletedValue(nil, e.kind, e.records))
	if err := e.db.txn.store.db().Write(&e.batch); err != nil {
		return fmt.Errorf("storage: staging: %w", err)
	}
	e.batch.Reset()
	return nil
}

// finish completes the collection: its key may be saved.
func (e *elements) finish() error {
	if e.family == nil {
		return nil
	}
	if err := e.write(); err != nil {
		return err
	}
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	return e.db.txn.delete(e.db.space, e.key)
}

// distinct tells, after finish, that no record was written twice.
func (e *elements) distinct() (bool, error) {
	if e.family == nil {
		t := e.db.txn
		// finish wrote nothing, so the records that came since the beginning are the collection's.
		return uint64(t.journal.keys+t.staging.spilled-e.known) == e.records, nil
	}
	count, err := e.count()
	return count == e.records, err
}

// count counts the records that were staged.
func (e *elements) count() (n uint64, err error) {
	for _, records := range e.kind.Elements() {
		lower := layout.AppendElementKey(nil, records.Kind, e.id, nil)
		it := e.db.txn.store.db().NewIterator(e.family, nil, rocks.IteratorOptions{
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

// staged are the ids under which elements stand in RocksDB ahead of a commit. The reaper leaves them
// alone, until RocksDB has the commit too.
type staged struct {
	mu      sync.Mutex
	ids     map[uint64]*generation.Generation // which holds the commit; nil before it
	highest uint64                            // the highest of them, as RocksDB has it

	pieceBytes int // how much of a collection is gathered before it is staged, and how much is written at a time
}

// begin writes the first piece. The highest id goes with it: after a crash that loses the commit, no
// other collection may get an id that has been staged.
func (s *staged) begin(e *elements) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[uint64]*generation.Generation{}
	}
	s.ids[e.id] = nil
	s.highest = max(s.highest, e.id)
	e.batch.Put(e.db.txn.store.metaFamily(), layout.HighestKey, binary.BigEndian.AppendUint64(nil, s.highest))
	return e.write()
}

// has tells whether a commit of an id is not in RocksDB yet.
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
