package engine

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// flusher writes frozen generations to RocksDB, the oldest first.
type flusher struct {
	mu      sync.Mutex
	changed *sync.Cond // something was frozen or written, or the store closes
	err     error      // of the last attempt
	batch   *rocks.Batch
	since   time.Time // when batch was used last
	touched byte      // the sum of what is read ahead, so that the compiler doesn't drop the reads
}

func (f *flusher) init() { f.changed = sync.NewCond(&f.mu) }

func (f *flusher) wake() {
	f.mu.Lock()
	f.changed.Broadcast()
	f.mu.Unlock()
}

// failure is why the last attempt failed; nil if it didn't.
func (f *flusher) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// batchIdle is how long an idle batch keeps its buffers. Fresh pages cost as much as the flush.
const batchIdle = 30 * time.Second

// takeBatch returns an empty batch with room for so many bytes.
func (f *flusher) takeBatch(bytes int64) *rocks.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch := f.batch
	if f.batch = nil; batch == nil {
		batch = new(rocks.Batch)
	}
	if int64(cap(batch.Bytes())) < bytes {
		bytes += bytes / 8 // generations differ a little
	}
	batch.Grow(int(bytes))
	return batch
}

func (f *flusher) giveBack(batch *rocks.Batch) {
	batch.Reset()
	f.mu.Lock()
	f.batch, f.since = batch, time.Now()
	f.mu.Unlock()
}

// slim frees the buffers of an idle batch.
func (f *flusher) slim(now time.Time) {
	f.mu.Lock()
	if now.Sub(f.since) > batchIdle {
		f.batch = nil
	}
	f.mu.Unlock()
}

const retryAfter = time.Second

func (s *Store) flushGenerations() {
	defer s.background.running.Done()
	trouble := trouble{logger: s.logger, doing: "writing a generation to RocksDB"}
	for {
		f := s.awaitFrozen()
		if f == nil {
			return
		}
		err := s.writeGeneration(f)
		trouble.note(err, time.Now())
		s.flusher.mu.Lock()
		s.flusher.err = err
		s.flusher.changed.Broadcast()
		s.flusher.mu.Unlock()
		if err != nil && !s.pause(retryAfter) {
			return
		}
	}
}

// awaitFrozen returns the oldest generation that waits; nil when the store closes.
func (s *Store) awaitFrozen() *frozen {
	s.flusher.mu.Lock()
	defer s.flusher.mu.Unlock()
	for {
		if list := s.tiers.Load().frozen; len(list) > 0 {
			return list[len(list)-1]
		}
		if s.closing() {
			return nil
		}
		s.flusher.changed.Wait()
	}
}

func (s *Store) closing() bool {
	select {
	case <-s.background.stop:
		return true
	default:
		return false
	}
}

// pause waits; false when the store closes.
func (s *Store) pause(d time.Duration) bool {
	select {
	case <-s.background.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// target is what a generation is written to: a batch, or tables.
type target interface {
	Put(f *rocks.Family, key, value []byte)
	Delete(f *rocks.Family, key []byte)
	DeleteRange(f *rocks.Family, from, to []byte)
	Len() int
}

// writeGeneration brings a generation to RocksDB as one step that ends with its state, and then
// removes it from the tiers.
func (s *Store) writeGeneration(f *frozen) error {
	if s.huge(f) {
		debug.FreeOSMemory() // what the request has left, before RocksDB makes its copies
		defer debug.FreeOSMemory()
	}
	f.Merge(f.brief.leave())
	families, err := s.families(f.state)
	if err != nil {
		return err
	}
	end := s.presences.writes.begin()
	retained, err := s.writeRecords(f, families)
	end()
	if err != nil {
		return err
	}
	s.counters.Flushes.Add(1)
	s.forgetOutside(f.moved)
	s.ids.staged.written(f.Generation)
	if retained {
		s.cacheRetained(f)
	}
	s.retire(f, retained)
	return nil
}

// writeRecords writes a generation that would fill a memtable as table files: RocksDB then holds
// less in memory, and makes fewer copies. It writes a batch if the disk may not have room for
// tables, which are as large as what they hold until they are complete. It reports whether the
// generation will be retained.
func (s *Store) writeRecords(f *frozen, families map[uint32]*rocks.Family) (retained bool, err error) {
	if f.Newest() >= s.tablesFrom() {
		tables, err := s.db().NewTables(rocks.TableOptions{Bytes: f.Newest(), Fresh: s.freshRanges(f, families)})
		if err == nil {
			return s.writeTables(tables, f, families)
		}
		if !rocks.IsNoSpace(err) {
			return false, fmt.Errorf("storage: writing a generation: %w", err)
		}
	}
	return false, s.writeBatch(f, families)
}

// huge reports whether a request has made a generation much larger than usual.
func (s *Store) huge(f *frozen) bool { return f.Newest() > s.options.GenerationBytes()+hugeBuffer }

func (s *Store) tablesFrom() int64 {
	if s.options.TablesFrom != nil {
		return s.options.TablesFrom()
	}
	return s.db().TablesFrom()
}

func (s *Store) writeTables(tables *rocks.Tables, f *frozen, families map[uint32]*rocks.Family) (retained bool, err error) {
	var learn func([]copied)
	if retained = s.retains(f); retained {
		learn = s.forget
	} else {
		learn = s.copyOnce(f)
	}
	s.fill(tables, f, families, learn)
	if err := s.syncLog(f.state.Position); err != nil {
		return false, errors.Join(err, tables.Discard())
	}
	if err := s.db().Ingest(tables); err != nil {
		return false, fmt.Errorf("storage: writing a generation: %w", err)
	}
	s.counters.FlushedAsTables.Add(1)
	return retained, nil
}

func (s *Store) writeBatch(f *frozen, families map[uint32]*rocks.Family) error {
	batch := s.flusher.takeBatch(f.Newest())
	s.fill(batch, f, families, s.copyOnce(f))
	if err := s.syncLog(f.state.Position); err != nil {
		return err
	}
	if err := s.db().Write(batch); err != nil {
		return fmt.Errorf("storage: writing a generation: %w", err)
	}
	if !s.huge(f) {
		s.flusher.giveBack(batch)
	}
	return nil
}

// syncLog brings the log to the disk before the data: otherwise RocksDB would have more than the
// log after a crash of the machine, and replicas less.
func (s *Store) syncLog(position int64) error {
	log := s.attached()
	if log == nil {
		return nil
	}
	if err := log.Sync(position); err != nil {
		return fmt.Errorf("storage: syncing the log ahead of RocksDB: %w", err)
	}
	return nil
}

func (s *Store) attached() Log {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.commit.log
}

// families returns the column families of the namespaces that a state names, by number, and makes
// those that don't exist yet.
func (s *Store) families(state layout.State) (map[uint32]*rocks.Family, error) {
	families := map[uint32]*rocks.Family{}
	for _, d := range state.Databases {
		family, err := s.family(d.Namespace)
		if err != nil {
			return nil, err
		}
		families[d.Namespace] = family
	}
	return families, nil
}

// family returns the column family of a namespace, and makes it if it doesn't exist yet.
func (s *Store) family(namespace uint32) (*rocks.Family, error) {
	s.namespaces.creating.Lock()
	defer s.namespaces.creating.Unlock()
	name := layout.Family(namespace)
	family := s.db().Family(name)
	if family == nil {
		var err error
		if family, err = s.db().Create(name); err != nil {
			return nil, fmt.Errorf("storage: creating a namespace: %w", err)
		}
	}
	s.nameFamily(namespace, family)
	return family, nil
}

// familyOf is family for a namespace that a database has.
func (s *Store) familyOf(ns *Namespace) (*rocks.Family, error) {
	if family := ns.family.Load(); family != nil {
		return family, nil
	}
	return s.family(ns.Number)
}

// nameFamily tells a namespace where its records in RocksDB are. It runs before the first of them
// leaves its generation.
func (s *Store) nameFamily(number uint32, family *rocks.Family) {
	for _, ns := range s.tiers.Load().databases {
		if ns.Number == number {
			ns.family.Store(family)
		}
	}
}

// yieldRecords is how many records are written, in about a tenth of a millisecond, before others
// may run.
const yieldRecords = 128

// fill writes a generation's records and state to its target, in order. It passes the records that
// are read one by one to learn, which updates the cache. As long as the generation waits for
// RocksDB it hides both.
func (s *Store) fill(to target, f *frozen, families map[uint32]*rocks.Family, learn func([]copied)) {
	copies := make([]copied, 0, PrefetchBatch)
	learn = s.noting(learn, f.counted)
	outside := outsideOfSequences{moved: f.moved}
	nextRemoval, stop := iter.Pull(f.moved.removals())
	defer stop()
	removed, more := nextRemoval()
	var family *rocks.Family
	space := ^uint32(0)
	passed := 0
	for record := range f.Records() {
		// A reactor that has been woken needs the processor sooner than Go would take it from here.
		if passed++; passed%yieldRecords == 0 {
			runtime.Gosched()
		}
		if record.Space() != space {
			space = record.Space()
			family = families[space]
		}
		if family == nil {
			continue // of a namespace that no database has any more
		}
		key := record.Key()
		if outside.has(key) {
			continue
		}
		for ; more && removed.before(space, key); removed, more = nextRemoval() {
			removed.write(to, families[removed.space])
		}
		value, state := record.Value()
		if state == generation.Deleted {
			to.Delete(family, key)
		} else {
			to.Put(family, key, value)
			if len(value) > LargeValue {
				s.clean.large.note(recordHash(space, key), len(value))
			}
		}
		if !layout.Kinds[key[0]].Read {
			continue
		}
		copies = append(copies, copied{recordHash(space, key), space, key, value, state == generation.Present})
		if len(copies) == cap(copies) {
			learn(copies)
			copies = copies[:0]
		}
	}
	learn(copies)
	for ; more; removed, more = nextRemoval() {
		removed.write(to, families[removed.space])
	}
	if !f.counted {
		s.counters.FlushedRecords.Add(int64(to.Len()))
	}
	f.counted = true
	to.Put(s.metaFamily(), layout.StateKey, f.state.Append(nil))
}

// retire removes a generation that RocksDB has from those that wait.
func (s *Store) retire(f *frozen, retained bool) {
	s.commit.Lock()
	defer s.commit.Unlock()
	now := s.tiers.Load()
	left := len(now.frozen) - 1
	next := now.retained
	if retained {
		next = f
	}
	s.setTiers(now.active, now.frozen[:left:left], next, now.databases)
	s.positions.written.Store(f.state.Position)
	s.commit.unpersisted = append(s.commit.unpersisted, f.state)
}

// Settle brings everything that is visible now to RocksDB, and waits until it is there.
func (s *Store) Settle() error {
	s.commit.Lock()
	now := s.tiers.Load()
	if now.active.Keys() > 0 || s.positions.visible.Load() != s.settled() {
		s.freeze()
	}
	position := s.positions.visible.Load()
	s.commit.Unlock()
	s.flusher.mu.Lock()
	defer s.flusher.mu.Unlock()
	for {
		list := s.tiers.Load().frozen
		if len(list) == 0 || list[len(list)-1].state.Position > position {
			return nil
		}
		if err := s.flusher.err; err != nil {
			return err
		}
		if s.closing() {
			return errClosing
		}
		s.flusher.changed.Wait()
	}
}

// RoomToPersist returns how many bytes of the disk Persist may take, with those that compactions
// wait for: without them, what was flushed would fill the disk.
func (s *Store) RoomToPersist() int64 {
	now := s.tiers.Load()
	bytes := now.active.Bytes() + s.db().MemtableBytes() + rocks.CompactionRoom
	for _, f := range now.frozen {
		bytes += f.Bytes()
	}
	return bytes
}

// requireRoom fails where the disk may lack room for so many bytes besides what Persist takes.
// RocksDB would wait for it, and while it waits nothing can be taken back that fills the disk.
func (s *Store) requireRoom(bytes int64) error {
	return s.db().RequireRoom(uint64(s.RoomToPersist() + bytes))
}

// settled is the position of the last frozen generation, or of RocksDB's memory if there is none.
func (s *Store) settled() int64 {
	if list := s.tiers.Load().frozen; len(list) > 0 {
		return list[0].state.Position
	}
	return s.positions.written.Load()
}

// handedOver is a position behind which RocksDB has nothing yet.
func (s *Store) handedOver() int64 {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.settled()
}

// Persist brings everything that is visible now to RocksDB's files.
func (s *Store) Persist() error {
	if err := s.Settle(); err != nil {
		return err
	}
	return s.persistWritten()
}

// Reclaim is Persist for the log, which needs room at any time, also beside Close and Reopen. It
// returns the position that RocksDB's files have reached.
func (s *Store) Reclaim() (persisted int64, err error) {
	err = s.whileOpen(s.Persist)
	return s.Persisted(), err
}

// persistWritten brings what RocksDB has in its memory to its files.
func (s *Store) persistWritten() error {
	if err := s.db().Flush(); err != nil {
		return fmt.Errorf("storage: flushing: %w", err)
	}
	return s.readPersisted()
}

// readPersisted learns how far RocksDB's files have come; RocksDB flushes on its own too.
func (s *Store) readPersisted() error {
	value, found, err := s.db().GetPersisted(s.metaFamily(), layout.StateKey)
	if err != nil || !found {
		return err
	}
	state, err := layout.DecodeState(value)
	if err != nil {
		return err
	}
	s.commit.Lock()
	defer s.commit.Unlock()
	for i, other := range s.commit.unpersisted {
		if other.Position == state.Position && other.LogDirectory == state.LogDirectory {
			s.commit.unpersisted = slices.Delete(s.commit.unpersisted, 0, i)
			break
		}
	}
	if state.LogDirectory == s.commit.logDirectory {
		s.positions.persisted.Store(state.Position)
	}
	return nil
}

// maintain persists by log size and by time, purges the log, drops old namespaces and reaps
// deleted elements.
func (s *Store) maintain() {
	defer s.background.running.Done()
	var l lags // zero: what recovery applies is persisted soon, or the next start would apply it again
	persisting := trouble{logger: s.logger, doing: "persisting"}
	tidying := trouble{logger: s.logger, doing: "tidying up"}
	compacting := trouble{logger: s.logger, doing: "having RocksDB compact"}
	rest := rest{since: time.Now()}
	for s.pause(time.Second) {
		persisting.note(s.persistWhenDue(&l), time.Now())
		s.flusher.slim(time.Now())
		s.balance()
		s.clean.records.Shrink()
		if eagerly, tell := rest.compactsEagerly(s.positions.visible.Load(), time.Now()); tell {
			err := s.db().CompactEagerly(eagerly)
			if err != nil {
				rest.failed()
			}
			if !rocks.IsNoSpace(err) { // of that others tell
				compacting.note(err, time.Now())
			}
		}
		if err := s.cleanUp(); !errors.Is(err, errClosing) {
			tidying.note(err, time.Now())
		}
	}
}

// lag is how long a position has stood still behind another one.
type lag struct {
	at    int64
	since time.Time // zero: since ever
}

// age is how long at has stood still; 0 when it has come to the end.
func (l *lag) age(at, end int64, now time.Time) time.Duration {
	if at == end || at != l.at && !l.since.IsZero() {
		*l = lag{at, now}
	}
	return now.Sub(l.since)
}

// lags are those of what the active generation has, and of what RocksDB has in its memory.
type lags struct{ active, written lag }

// persistWhenDue persists by log size and by time. Frozen generations go to RocksDB by themselves.
// Only if too much is behind them is the active generation frozen before it is full: small
// generations cost more to write, and replace the retained one.
func (s *Store) persistWhenDue(l *lags) error {
	if err := s.readPersisted(); err != nil {
		return err
	}
	s.commit.Lock()
	position, settled, written, persisted := s.positions.visible.Load(), s.settled(), s.positions.written.Load(), s.positions.persisted.Load()
	s.commit.Unlock()
	now, most, longest := time.Now(), s.options.FlushLogBytes(), s.options.FlushInterval()
	activeAge, writtenAge := l.active.age(settled, position, now), l.written.age(persisted, written, now)
	switch {
	case position-settled > most, activeAge > longest:
		l.active.since, l.written.since = now, now
		return s.Persist()
	case written-persisted > most, writtenAge > longest:
		l.written.since = now
		return s.persistWritten()
	}
	return nil
}

func (s *Store) cleanUp() error {
	if log := s.attached(); log != nil {
		if _, err := log.Purge(s.positions.persisted.Load()); err != nil {
			return err
		}
	}
	if err := s.dropNamespaces(); err != nil {
		return err
	}
	return s.reap()
}

// PersistState brings the state to RocksDB's files even when nothing was written: the log that the
// store was attached to is named there before anything goes to it. A later start can't come up with
// less.
func (s *Store) PersistState() error {
	return s.whileOpen(func() error {
		s.commit.Lock()
		s.freeze()
		s.commit.Unlock()
		if err := s.Persist(); err != nil {
			return err
		}
		return s.noteReached()
	})
}
