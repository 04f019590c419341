package engine

import (
	"sync"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// Elements are those of a spread collection that is being made, under an id that nothing refers to
// before its key is saved. When they become many they are staged: they go to the active generation
// in pieces, ahead of the commit, so that neither the transaction has to hold them nor the commit
// keeps others waiting for all of them. A 'D' record stands beside them, which the commit takes
// away; without it the reaper removes them.
type Elements struct {
	txn     *Txn
	space   *Namespace
	kind    layout.Type
	id      uint64
	records uint64 // put so far

	entries, buffer int // where the journal stood when the piece began
	staged          bool
	place           int // among those that the transaction has staged
	key             []byte
}

// stageBytes and stageRecords are how much of a collection a transaction gathers before it stages
// it, and each time after that.
const (
	stageBytes   = 4 << 20
	stageRecords = 32 << 10
)

// stagedAtOnce is how many records become visible while other commits wait.
const stagedAtOnce = 2 << 10

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
	if err := e.txn.putNew(e.space, e.key, value); err != nil {
		return err
	}
	j := &e.txn.journal
	if len(j.entries)-e.entries < stageRecords && j.size()-e.buffer < e.txn.store.ids.staged.pieceBytes || !e.txn.stages() {
		return nil
	}
	return e.stage()
}

// stages reports whether the transaction may write ahead of its commit: not on a reactor, and only
// to namespaces that databases have.
func (t *Txn) stages() bool {
	return t.running.budget > unlimited/2 && t.changes.databases == nil && t.staging.spill == nil
}

// stage moves what was put last from the journal to the active generation, back to where something
// else was written.
func (e *Elements) stage() error {
	t := e.txn
	if err := t.store.Ready(); err != nil && !t.running.mode.Applying { // recovery has to go on
		return err
	}
	if !e.staged {
		// A generation may be complete before the commit gives the namespace its first key.
		if _, err := t.store.familyOf(e.space); err != nil {
			return err
		}
		e.staged, e.place = true, len(t.staging.collections)
		t.staging.collections = append(t.staging.collections, stagedCollection{id: e.id, space: e.space.Number})
	}
	j := &t.journal
	from := j.made.lastRun(e.id, len(j.entries))
	t.staging.collections[e.place].bytes += bytesOf(j.entries[from:], e.space)
	e.publish(j.entries[from:])
	j.rewind(from)
	e.entries, e.buffer = len(j.entries), j.size()
	return nil
}

// publish brings records to the active generation, each time with the one that says that nothing
// refers to them: no generation has them without it.
func (e *Elements) publish(entries []change) {
	s := e.txn.store
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	value := layout.AppendDeletedValue(nil, e.kind, e.records, e.mayExpire())
	for len(entries) > 0 {
		few := entries[:min(stagedAtOnce, len(entries))]
		entries = entries[len(few):]
		s.throttle(frozenUnslowed) // not as many as of commits: one command may stage any amount
		s.commit.Lock()
		active := s.tiers.Load().active
		s.ids.staged.publish(e.id, active)
		active.Put(recordHash(e.space.Number, e.key), e.space.Number, e.key, value)
		e.txn.journal.publishEntries(active, few)
		s.freezeWhenFull()
		s.commit.Unlock()
	}
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
	if !e.staged {
		return nil
	}
	if err := e.stage(); err != nil { // the rest, which would have others wait for the commit
		return err
	}
	e.key = layout.AppendDeletedKey(e.key[:0], e.id)
	return e.txn.Delete(e.space, e.key)
}

// Distinct tells, after finish, that no record was written twice. An import finds out by itself.
func (e *Elements) Distinct() (bool, error) {
	if !e.staged {
		return e.txn.staging.spill != nil || e.txn.journal.distinct(e.id), nil
	}
	count, err := e.count()
	return count == e.records, err
}

// count counts the records.
func (e *Elements) count() (n uint64, err error) {
	for _, records := range e.kind.Elements() {
		lower := layout.AppendElementKey(nil, records.Kind, e.id, nil)
		it := e.txn.Iterate(e.space, lower, layout.Successor(nil, lower), IteratorOptions{KeysOnly: true})
		for it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
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

// staged are the ids under which elements stand in generations, or RocksDB, ahead of a commit. The
// reaper leaves them alone until RocksDB has the commit too or, if there is none, all that comes
// with their 'D' record: it would take that away and leave the rest.
type staged struct {
	mu  sync.Mutex
	ids map[uint64]stagedElements

	pieceBytes int // gathered before a collection is staged, and each time after that
}

// stagedElements say where elements stand.
type stagedElements struct {
	last  *generation.Generation // of those that hold something of them; nil when RocksDB has all
	ended bool                   // committed, or given up
}

func (s *staged) init() { s.ids, s.pieceBytes = map[uint64]stagedElements{}, stageBytes }

// publish says that a generation gets some elements. The caller holds the commit lock.
func (s *staged) publish(id uint64, g *generation.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids[id] = stagedElements{last: g}
}

// has reports whether RocksDB hasn't got the end of what was staged under an id.
func (s *staged) has(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.ids[id]
	return has
}

// commit says that what refers to some collections stands in a generation. The caller holds the
// commit lock.
func (s *staged) commit(collections []stagedCollection, g *generation.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range collections {
		s.ids[c.id] = stagedElements{last: g, ended: true}
	}
}

// giveUp leaves collections that were not committed to the reaper.
func (s *staged) giveUp(collections []stagedCollection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range collections {
		s.update(c.id, stagedElements{last: s.ids[c.id].last, ended: true})
	}
}

// written says that a generation is in RocksDB.
func (s *staged) written(g *generation.Generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.ids {
		if e.last == g {
			s.update(id, stagedElements{ended: e.ended})
		}
	}
}

// update notes where elements stand, until nobody has to ask.
func (s *staged) update(id uint64, e stagedElements) {
	if e.ended && e.last == nil {
		delete(s.ids, id)
	} else {
		s.ids[id] = e
	}
}
