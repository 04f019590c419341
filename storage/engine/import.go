package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"kedis/storage/filter"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// ErrIncomplete is returned for an import with a key, or an element of a collection, that came
// twice.
var ErrIncomplete = errors.New("storage: an import has a key or an element twice")

// Import is a whole data set that comes from elsewhere. It is written to RocksDB directly, into
// namespaces that no database has yet: nobody sees anything of it before Swap, and after a crash,
// or Abandon, nothing is left. It outlives Reopen. It belongs to one goroutine.
type Import struct {
	store  *Store
	txn    *Txn
	spaces []*Namespace
	batch  rocks.Batch
	items  []item        // the journal in order
	hashes []filter.Hash // of records that filters know
	tables *sortedTables // when not nil, records are sorted and go to RocksDB as table files

	collections collectionTables // otherwise, elements of collections do
}

// NewImport begins an import. The transaction is its own from now on.
func (s *Store) NewImport(t *Txn) (*Import, error) {
	i := &Import{store: s, txn: t, spaces: make([]*Namespace, s.Databases()+1)}
	s.reopening.RLock() // it gives numbers to namespaces, too
	defer s.reopening.RUnlock()
	s.commit.Lock()
	for n := range i.spaces {
		i.spaces[n] = s.newNamespace()
	}
	s.namespaces.imports = append(s.namespaces.imports, i)
	s.commit.Unlock()
	i.begin()
	return i, nil
}

func (i *Import) begin() {
	i.txn.Reset()
	i.txn.changes.databases = i.spaces
	i.txn.staging.spill = i.spill
	i.txn.Begin(Mode{Applying: true}, 0, 0)
}

// Take has restore put a new key into a database. Errors: those of restore, and ErrIncomplete.
func (i *Import) Take(database int, key []byte, restore func() error) error {
	if database >= i.store.Databases() {
		return fmt.Errorf("storage: database %d, of %d", database, i.store.Databases())
	}
	return i.take(database, key, restore)
}

// TakeLibrary is Take for the database of libraries.
func (i *Import) TakeLibrary(name []byte, put func() error) error {
	return i.take(i.store.Libraries(), name, put)
}

func (i *Import) take(database int, key []byte, restore func() error) error {
	if err := i.open(database); err != nil {
		return err
	}
	before := i.txn.staging.spilled
	if err := restore(); err != nil {
		return err
	}
	if i.txn.staging.spilled != before && i.tables == nil {
		if err := i.check(i.spaces[database], key); err != nil {
			return err
		}
	}
	if i.txn.journal.size() < spillBytes {
		return nil
	}
	return i.flush()
}

// open gives a database's namespace its family when the first key comes.
func (i *Import) open(database int) error {
	ns := i.spaces[database]
	if ns.family.Load() != nil {
		return nil
	}
	return i.store.whileOpen(func() error {
		family, err := i.store.db().Create(layout.Family(ns.Number))
		if err != nil {
			return fmt.Errorf("storage: creating a namespace: %w", err)
		}
		ns.family.Store(family)
		return nil
	})
}

// check counts the elements of a collection of which a part went to RocksDB before it was complete:
// one that came twice was not noticed then.
func (i *Import) check(ns *Namespace, key []byte) error {
	if err := i.flush(); err != nil {
		return err
	}
	if err := i.store.whileOpen(i.ingest); err != nil {
		return err
	}
	m, err := i.metadata(ns, key)
	if err != nil || m.Encoding != layout.Spread {
		return err
	}
	for _, records := range m.Type.Elements() {
		lower := layout.AppendElementKey(nil, records.Kind, m.ID, nil)
		count, err := i.count(ns, lower)
		if err != nil {
			return err
		}
		if count != records.Count(&m) {
			return fmt.Errorf("%w: key %q", ErrIncomplete, key)
		}
	}
	return nil
}

// metadata reads a key's metadata, which was written.
func (i *Import) metadata(ns *Namespace, key []byte) (m layout.Metadata, err error) {
	err = i.store.whileOpen(func() error {
		value, found, err := i.store.db().Get(ns.family.Load(), nil, layout.AppendMetadataKey(nil, key), nil)
		if err == nil && !found {
			err = fmt.Errorf("%w: key %q was written and is not there", layout.ErrCorrupt, key)
		}
		if err == nil {
			m, err = layout.DecodeMetadata(value)
		}
		return err
	})
	return m, err
}

// count is the number of records in RocksDB whose keys begin with a prefix.
func (i *Import) count(ns *Namespace, prefix []byte) (n uint64, err error) {
	i.store.reopening.RLock()
	defer i.store.reopening.RUnlock()
	it := i.store.db().NewIterator(ns.family.Load(), nil, rocks.IteratorOptions{
		LowerBound: prefix, UpperBound: layout.Successor(nil, prefix), KeysOnly: true})
	defer it.Close()
	for it.Next() {
		n++
	}
	return n, it.Err()
}

// flush brings what was gathered to RocksDB, and counts it. (The journal is reset once: a second
// time it would give up its memory as unused.)
func (i *Import) flush() error {
	if err := i.writeJournal(); err != nil {
		return err
	}
	for _, d := range i.txn.changes.deltas {
		d.namespace.keys.Add(int64(d.keys))
		d.namespace.expires.Add(int64(d.expires))
	}
	i.begin()
	return nil
}

// spill brings the journal to RocksDB in the midst of a large key.
func (i *Import) spill() error {
	if err := i.writeJournal(); err != nil {
		return err
	}
	i.txn.staging.spilled += i.txn.journal.keys
	i.txn.journal.reset()
	return nil
}

func (i *Import) writeJournal() error {
	if key := i.txn.journal.repeated(); key != nil {
		return duplicate(key)
	}
	if i.tables != nil {
		return i.tables.take(&i.txn.journal)
	}
	return i.store.whileOpen(i.writeBatch)
}

// writeBatch brings the journal to table files and, with a batch, to memtables.
func (i *Import) writeBatch() error {
	j := &i.txn.journal
	if err := i.store.requireRoom(int64(j.size())); err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	i.batch.Reset()
	defer i.store.presences.writes.begin()()
	var ns *Namespace
	var last []byte
	for _, item := range i.sorted() {
		c := &j.entries[item.entry]
		key := j.key(c)
		switch {
		case ns == nil || ns.Number != c.space:
			i.noteRecords(ns)
			ns = i.namespaceOf(c.space)
		case bytes.Equal(key, last):
			return duplicate(key)
		}
		last = key
		i.writeRecord(ns, c)
	}
	i.noteRecords(ns)
	if err := cmp.Or(i.collections.err, i.store.db().Write(&i.batch)); err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	return nil
}

func (i *Import) writeRecord(ns *Namespace, c *change) {
	j, family := &i.txn.journal, ns.family.Load()
	key := j.key(c)
	if c.length < 0 {
		i.batch.Delete(family, key)
		return
	}
	if !layout.Kinds[key[0]].Element || !i.collections.take(i.store.db(), family, key, j.value(c)) {
		i.batch.Put(family, key, j.value(c))
	}
	if filtered(key) {
		i.hashes = append(i.hashes, filter.HashOf(key))
	}
}

// noteRecords tells a namespace's filter of the records that are about to be written to it.
func (i *Import) noteRecords(ns *Namespace) {
	if ns != nil {
		ns.presence.add(i.hashes)
	}
	i.hashes = i.hashes[:0]
}

// ingest brings what stands in table files to RocksDB.
func (i *Import) ingest() error {
	if err := i.collections.ingest(i.store.db()); err != nil {
		return fmt.Errorf("storage: importing: %w", err)
	}
	return nil
}

func (i *Import) namespaceOf(space uint32) *Namespace {
	for _, ns := range i.spaces {
		if ns.Number == space {
			return ns
		}
	}
	panic("storage: an import writes to a namespace that isn't its own")
}

// Keys is the number of keys that were taken in so far.
func (i *Import) Keys() int64 {
	var keys int64
	for _, ns := range i.spaces[:i.store.Databases()] {
		keys += ns.keys.Load()
	}
	return keys
}

// Finish brings the rest to RocksDB, checks that each key came once, and waits until all of it is
// in RocksDB's files.
func (i *Import) Finish() error {
	if err := i.flush(); err != nil {
		return err
	}
	if i.tables != nil {
		if err := i.tables.ingest(i); err != nil {
			return err
		}
	}
	if err := i.store.whileOpen(i.ingest); err != nil {
		return err
	}
	for n, ns := range i.spaces {
		if ns.family.Load() == nil {
			continue
		}
		count, err := i.count(ns, []byte{layout.KindMetadata})
		if err != nil {
			return err
		}
		if int64(count) != ns.keys.Load() {
			return fmt.Errorf("%w: %d keys came in database %d, and %d are there", ErrIncomplete, ns.keys.Load(), n, count)
		}
	}
	return i.store.whileOpen(i.store.Persist)
}

// Abandon throws the import away.
func (i *Import) Abandon() error {
	var err error
	if i.tables != nil {
		err = i.tables.sorter.Close()
	}
	i.store.reopening.RLock()
	defer i.store.reopening.RUnlock()
	err = errors.Join(err, i.collections.discard())
	for _, ns := range i.spaces {
		if family := ns.family.Load(); family != nil {
			err = errors.Join(err, i.store.db().Drop(family))
		}
	}
	i.store.commit.Lock()
	defer i.store.commit.Unlock()
	i.disown()
	return err
}

// disown makes the namespaces ones that are kept as long as a database has them, like all others.
// It is called with the commit lock held.
func (i *Import) disown() {
	s := i.store
	s.namespaces.imports = slices.DeleteFunc(s.namespaces.imports, func(other *Import) bool { return other == i })
}

// Swap makes the import the store's data, as of the end of its log, in one step: map, position, log
// and counters change together. Nothing may be committed meanwhile, nor after it until PersistState
// has succeeded: until then a start goes back to the former data and log. Views keep showing the
// former data.
func (i *Import) Swap(log Log, directory uint64) error {
	s := i.store
	// Generations on their way name the former log's positions: they go first.
	if err := s.Settle(); err != nil {
		return err
	}
	s.commit.Lock()
	defer s.commit.Unlock()
	now := s.tiers.Load()
	if len(now.frozen) > 0 {
		return errors.New("storage: something was committed while the data was exchanged")
	}
	i.disown()
	s.leaveLog()
	s.commit.attach(log, directory)
	s.positions.visible.Store(log.Position())
	s.positions.persisted.Store(0)
	s.setTiers(now.active, nil, nil, i.spaces)
	s.freeze()
	return nil
}
