// Package engine keeps records, on RocksDB.
//
// Everything reads and writes through a Txn. A Txn's own writes come first, then the generations
// (recent commits, in memory), then the cache of clean copies, then RocksDB. A commit goes to the
// log first and then becomes visible as one step; RocksDB gets it later, in one sorted batch for
// each generation that ends with the position that it reaches.
//
// The package knows kinds of record (layout.Kinds), the kinds that a collection's elements have
// (layout.Type.Elements), namespaces, and of a key's metadata what it needs to find elements ahead.
// It knows no data type by name, no command, no connection and no reply.
//
// It may import what lies below it: storage/layout, storage/rocks, storage/generation,
// storage/cache, storage/filter, storage/ordered, storage/mergesort, lock, and internal
// packages.
package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"kedis/lock"
	"kedis/storage/cache"
	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/ordered"
	"kedis/storage/rocks"
)

// Errors that commands turn into replies.
var (
	ErrBudget = errors.New("storage: the command touches too many records to run on a reactor")
	ErrFormat = errors.New("storage: the data directory has another format")

	// ErrInterrupted is what commands get after Interrupt.
	ErrInterrupted = errors.New("storage: the server stops")
	// ErrUnwanted is what a command gets once nobody wants to know what it reads; see Mode.
	ErrUnwanted = errors.New("storage: nobody waits for the command any more")
)

// Log is what commits are written to, and what recovery reads. Package binlog has it.
type Log interface {
	// Append writes effects and returns the position behind them. It is called by one goroutine
	// at a time. database is selected when the payload begins, after when it ends.
	Append(database, after int, payload ...[]byte) (position int64, err error)
	// Sync returns when everything up to a position is durable.
	Sync(position int64) error
	// Position is the end of the log.
	Position() int64
	// Database is the one selected at the end of the log.
	Database() int
	// AwaitsRoom reports whether the disk is full and room is being made: writers should wait a
	// little.
	AwaitsRoom() bool
	// Purge removes what neither recovery, given that RocksDB has persisted all up to a position,
	// nor a reader needs.
	Purge(persisted int64) (removed int, err error)
}

// Options are how a store works. Functions are asked each time, so that they can change live.
type Options struct {
	Rocks           rocks.Options
	Databases       int
	GenerationBytes func() int64         // of recent writes before they go to RocksDB
	TablesFrom      func() int64         // size from which on they go there as table files; nil: RocksDB's
	RetainedBytes   func() int64         // size, about, up to which the last of those is retained; nil: it isn't
	CacheBytes      int64                // clean copies of records, and what else is kept to find them
	TreeBytes       func() int64         // of that, the order of collections; 0: none
	MostTreeBytes   func() int64         // of that, what it may take as far as copies leave it; nil: no more than TreeBytes
	SyncEveryCommit func() bool          // appendfsync always
	FlushLogBytes   func() int64         // persist when recovery would read more of the log, but for frozen generations
	FlushInterval   func() time.Duration // persist at least so often
	Logger          hclog.Logger
}

// Store is an open data directory.
type Store struct {
	options Options
	logger  hclog.Logger

	below atomic.Pointer[rocks.DB]
	// reopening is held for reading by each step that uses RocksDB without being inside of the
	// gate, so that RocksDB isn't closed meanwhile. It comes before the commit lock.
	reopening sync.RWMutex
	tiers     atomic.Pointer[tiers]
	clean     clean

	positions  positions
	ids        ids
	namespaces namespaces
	presences  presences
	commit     committer
	views      views

	flusher     flusher
	generations generations
	order       orders
	background  background
	counters    Counters
}

// positions are those of the log that data has reached.
type positions struct {
	visible   atomic.Int64 // the last commit's
	written   atomic.Int64 // RocksDB's, in memory or in files
	persisted atomic.Int64 // that of RocksDB's files
}

// ids are those of spread collections.
type ids struct {
	next   atomic.Uint64 // was never used
	staged staged
}

// generations is what prepares generations and brings them into order, in the background.
type generations struct {
	provider provider
	chunks   chan *generation.Chunk      // to be sorted
	crowded  chan *generation.Generation // whose chunks are to be merged
}

// orders is what makes up for the missing order of memory, for all transactions.
type orders struct {
	trees ordered.Trees
	lent  atomic.Int64 // bytes beyond TreeBytes that trees may take, since copies leave them
	sizes orderSizes
}

// orderSizes say how trees are read, in entries. Tests make them as small as their pieces.
type orderSizes struct {
	least    int // that a collection must have for a tree
	kept     int // neighbours whose counts are kept as one over a start
	valued   int // that one of a kind with names may have for its tree to keep values
	early    int // that may be read before those that are asked for
	complete int // that may be passed to complete a piece, beside those that are read ahead
	ahead    int // that are read behind a piece by who reads from one on after the other
	taken    int // that are read ahead by who takes entries from an end
	vague    int // that are made vague piece by piece; for more, the tree is dropped
}

// background is what works as long as the store is open.
type background struct {
	stop        chan struct{}
	running     sync.WaitGroup
	interrupted atomic.Bool   // by Interrupt
	reaped      atomic.Uint64 // counts up; modulo databases, it is the one that was reaped last
}

// committer is what a commit needs and changes, under its lock.
type committer struct {
	sync.Mutex
	log          Log
	logDirectory uint64
	waiting      waiting
	moved        movedSequences // in the active generation
	brief        brief          // likewise
	firstID      uint64         // no collection has it, or a higher one, that has records elsewhere than there
	reselect     bool           // the next effect names its database, whatever is selected
	unpersisted  []layout.State // that RocksDB has, from the one on that its files have

	appended atomic.Pointer[Log] // log, for who doesn't hold the lock
}

// attach names the log that commits go to, and the number of its directory. The caller holds the
// lock, or is alone.
func (c *committer) attach(log Log, directory uint64) {
	c.log, c.logDirectory = log, directory
	c.appended.Store(&log)
}

// begin begins another active generation. Ids from firstID on were not given out yet.
func (c *committer) begin(firstID uint64) {
	c.moved, c.brief, c.firstID = movedSequences{}, brief{}, firstID
}

// Counters tell what the store did since it was opened.
type Counters struct {
	Commits, Flushes, FlushedAsTables, FlushedRecords, Slowed, RocksReads, Reaped, Expired atomic.Int64
}

// Chunks are small enough for the last, half empty one of a generation not to matter, and large
// enough for merging them not to matter either.
const (
	chunksPerGeneration       = 256
	leastChunk, greatestChunk = 64 << 10, 1 << 20
)

func (s *Store) chunkBytes() int {
	return int(min(max(s.options.GenerationBytes()/chunksPerGeneration, leastChunk), greatestChunk))
}

// Open opens a data directory, or makes one. The data is then that of Position; effects that the
// log has behind it are to be applied (Attach, Txn.Apply) before anything else is done.
func Open(o Options) (*Store, error) {
	s := &Store{options: o, logger: o.Logger}
	s.clean.records = cache.New(0)
	s.order.trees.Init(func() int64 { return o.TreeBytes() + s.order.lent.Load() })
	s.order.sizes = usualSizes
	s.generations.init()
	s.ids.staged.init()
	s.SetCacheBytes(o.CacheBytes)
	s.flusher.init()
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens RocksDB, and starts what works in the background.
func (s *Store) open() error {
	if err := s.checkBeforeOpen(); err != nil {
		return err
	}
	db, err := rocks.Open(s.options.Rocks)
	if err != nil {
		return err
	}
	s.below.Store(db)
	if err := s.readState(); err != nil {
		return errors.Join(err, db.Close())
	}
	s.restoreCounts()
	if err := s.takeFilters(); err != nil {
		return errors.Join(err, db.Close())
	}
	s.background.stop = make(chan struct{})
	s.background.running.Add(6)
	go s.provideMemory()
	go s.provideGenerations()
	go s.sortChunks()
	go s.flushGenerations()
	go s.buildFilters()
	go s.maintain()
	return nil
}

// db is the open database. One that was taken before Reopen returns errors.
func (s *Store) db() *rocks.DB { return s.below.Load() }

// metaFamily is the family "default".
func (s *Store) metaFamily() *rocks.Family { return s.db().Family("default") }

// readState reads the state, and drops the families that it doesn't name: they were made or emptied
// before a state that a crash has lost. So it does those of empty databases that aren't configured
// any more.
func (s *Store) readState() error {
	state, err := s.storedState()
	if err != nil {
		return err
	}
	if err := s.checkReached(state); err != nil {
		return err
	}
	s.commit.Lock()
	s.commit.logDirectory, s.commit.unpersisted = state.LogDirectory, nil
	s.commit.Unlock()
	s.namespaces.next = max(s.namespaces.next, state.NextNamespace, 1)
	s.ids.next.Store(max(s.ids.next.Load(), state.NextID, 1))
	s.positions.visible.Store(state.Position)
	s.positions.written.Store(state.Position)
	s.positions.persisted.Store(state.Position)
	if err := s.raiseHighest(); err != nil {
		return err
	}
	databases := make([]*Namespace, s.options.Databases+1)
	used := map[string]bool{"default": true}
	for _, d := range state.Databases {
		place := int(d.Number)
		if d.Number == layout.Libraries {
			place = s.Libraries()
		} else if place >= s.Databases() {
			if d.Keys == 0 {
				continue
			}
			return fmt.Errorf("storage: database %d holds %d keys, but only %d databases are configured (see --databases)",
				d.Number, d.Keys, s.Databases())
		}
		ns := &Namespace{Number: d.Namespace}
		ns.keys.Store(d.Keys)
		ns.expires.Store(d.Expires)
		name := layout.Family(d.Namespace)
		if f := s.db().Family(name); f != nil {
			ns.family.Store(f)
		} else if d.Keys > 0 {
			return fmt.Errorf("%w: database %d has %d keys, but the family %s, which holds them, is missing", layout.ErrCorrupt, d.Number, d.Keys, name)
		} else {
			ns.presence.complete.Store(s.newFilter(0))
		}
		used[name] = true
		databases[place] = ns
	}
	for i := range databases {
		if databases[i] == nil {
			databases[i] = s.newNamespace()
		}
	}
	for _, ns := range s.namespaces.imported() { // by who goes on when Reopen is done
		name := layout.Family(ns.Number)
		ns.family.Store(s.db().Family(name))
		used[name] = true
	}
	if err := s.dropUnused(used); err != nil {
		return err
	}
	s.setTiers(s.newGeneration(s.likelyKeys()), nil, nil, databases)
	s.commit.begin(s.ids.next.Load())
	return nil
}

func (s *Store) dropUnused(used map[string]bool) error {
	for _, name := range s.db().Families() {
		if used[name] {
			continue
		}
		s.logger.Warn("dropping a column family that no database has", "family", name)
		if err := s.db().Drop(s.db().Family(name)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) storedState() (layout.State, error) {
	format, found, err := s.db().Get(s.metaFamily(), nil, layout.FormatKey, nil)
	if err != nil {
		return layout.State{}, err
	}
	if !found {
		return layout.State{}, s.writeFormat()
	}
	switch {
	case bytes.Equal(format, formatValue(layout.Format)):
	case bytes.Compare(format, formatValue(layout.FirstFormat)) >= 0 && bytes.Compare(format, formatValue(layout.Format)) < 0:
		if err := s.writeFormat(); err != nil {
			return layout.State{}, err
		}
	default:
		return layout.State{}, fmt.Errorf("%w: %x; this version of Kedis reads and writes %x", ErrFormat, format, formatValue(layout.Format))
	}
	value, found, err := s.db().Get(s.metaFamily(), nil, layout.StateKey, nil)
	if err != nil || !found {
		return layout.State{}, err
	}
	return layout.DecodeState(value)
}

func formatValue(format byte) []byte { return []byte{0, 0, 0, format} }

func (s *Store) writeFormat() error {
	batch := new(rocks.Batch)
	batch.Put(s.metaFamily(), layout.FormatKey, formatValue(layout.Format))
	if err := s.db().Write(batch); err != nil {
		return err
	}
	return s.db().Flush()
}

// newNamespace makes an empty namespace with a number that was never used. It is called under the
// commit lock while the store isn't being opened, or by who opens it.
func (s *Store) newNamespace() *Namespace {
	ns := &Namespace{Number: s.namespaces.next}
	ns.presence.complete.Store(s.newFilter(0))
	s.namespaces.next++
	return ns
}

// likelyKeys is the number of keys that the first generation has room for, before the size of
// records is known. Its index takes a sixteenth of it, as far as it is used.
func (s *Store) likelyKeys() int { return int(min(s.options.GenerationBytes()/256, 1<<20)) }

func (s *Store) newGeneration(expected int) *generation.Generation {
	g := generation.New(s.generations.provider.memory, recordHash, recordGroup, s.chunkBytes(), expected, func(c *generation.Chunk) {
		select {
		case s.generations.chunks <- c:
		default: // it is sorted when somebody needs it
		}
	})
	g.WhenCrowded(func(g *generation.Generation) {
		select {
		case s.generations.crowded <- g:
		default: // there will be other walks
		}
	})
	return g
}

// quiet is the time after which chunks are merged though nobody walks over them, if no other has
// become full. Otherwise the first walks would be slow, and hold up other clients. The flusher
// merges what is left.
const quiet = 250 * time.Millisecond

func (s *Store) sortChunks() {
	defer s.background.running.Done()
	var scratch generation.Scratch
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for {
		select {
		case c := <-s.generations.chunks:
			c.Sort(&scratch)
			calm.Reset(quiet)
		case g := <-s.generations.crowded:
			s.mergeChunks(g, &scratch)
		case <-calm.C:
			s.mergeChunks(s.tiers.Load().active, &scratch)
		case <-s.background.stop:
			return
		}
	}
}

// mergeChunks merges a generation's chunks, and those that become full meanwhile.
func (s *Store) mergeChunks(g *generation.Generation, scratch *generation.Scratch) {
	for !s.closing() && g.Tidy(scratch) {
	}
}

// Attach names the log that commits go to from now on, and the number of its directory.
func (s *Store) Attach(log Log, directory uint64) {
	s.commit.Lock()
	defer s.commit.Unlock()
	s.commit.attach(log, directory)
}

// LogDirectory is the number of the directory with the log that the data belongs to; 0 if there
// was none yet.
func (s *Store) LogDirectory() uint64 {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.commit.logDirectory
}

// Position is the position of the log that the visible data is as of.
func (s *Store) Position() int64 { return s.positions.visible.Load() }

// PersistedIn returns the position that the files of a store have reached, and the number of its
// log. It changes nothing, and the store may be open, in another process too.
func PersistedIn(directory string) (position int64, log uint64, err error) {
	value, found, err := rocks.Peek(directory, layout.StateKey)
	if err != nil {
		return 0, 0, err
	}
	if !found {
		return 0, 0, fmt.Errorf("storage: %s holds no state", directory)
	}
	state, err := layout.DecodeState(value)
	return state.Position, state.LogDirectory, err
}

// Persisted is the position that RocksDB's files have reached: where recovery would begin.
func (s *Store) Persisted() int64 { return s.positions.persisted.Load() }

// Databases is the number of databases.
func (s *Store) Databases() int { return s.options.Databases }

// Libraries is the number of the database behind all others, which holds libraries of functions.
// The state has another number for it, so that Databases can change.
func (s *Store) Libraries() int { return s.options.Databases }

// Size is the number of keys in a database, and of those that have an expiry.
func (s *Store) Size(database int) (keys, expires int64) {
	ns := s.tiers.Load().databases[database]
	return ns.keys.Load(), ns.expires.Load()
}

// Expiring is the number of keys in a database that have an expiry, and the number of their
// namespace, which changes when the database gets other keys altogether.
func (s *Store) Expiring(database int) (namespace uint32, keys int64) {
	ns := s.NamespaceOf(database)
	return ns.Number, ns.expires.Load()
}

// NamespaceOf is where a database's records are now.
func (s *Store) NamespaceOf(database int) *Namespace { return s.tiers.Load().databases[database] }

// Cache is the cache of clean copies.
func (s *Store) Cache() *cache.Cache { return s.clean.records }

// Rocks is the database below, for statistics and live options.
func (s *Store) Rocks() *rocks.DB { return s.db() }

// Counters are the store's counters.
func (s *Store) Counters() *Counters { return &s.counters }

// Close persists everything and closes the store. Nothing but Reclaim may be under way. After a
// failed Reopen the store may be closed already.
func (s *Store) Close() error {
	s.reopening.Lock()
	defer s.reopening.Unlock()
	return s.close()
}

// close needs s.reopening to be held.
func (s *Store) close() error {
	if s.closing() {
		if err := s.db().Close(); !errors.Is(err, rocks.ErrClosed) {
			return err
		}
		return nil
	}
	err := s.Persist()
	if err == nil {
		s.keepCounts()
	}
	close(s.background.stop)
	s.flusher.wake()
	s.background.running.Wait()
	if err == nil {
		s.keepFilters()
	}
	return errors.Join(err, s.db().Close())
}

// Interrupt ends running commands at the end of the server: their next read or write fails with
// ErrInterrupted. Applying a log goes on.
func (s *Store) Interrupt() { s.background.interrupted.Store(true) }

// Reconfigure sets the options with which Reopen opens RocksDB. Nothing runs beside either.
func (s *Store) Reconfigure(o rocks.Options) { s.options.Rocks = o }

// errInUse is Reopen's answer while somebody reads from a view.
var errInUse = errors.New("storage: a walk or a snapshot is under way")

// Reopen closes the store and opens it again, so that everything is read from files. The gate is
// closed; imports that are under way wait, and go on. When it fails, the store is as it was, or
// Closed.
func (s *Store) Reopen() error {
	s.reopening.Lock()
	defer s.reopening.Unlock()
	if s.oldestView() != unlimited {
		return errInUse
	}
	if err := s.Persist(); err != nil { // on a full disk the store stays as it is
		return err
	}
	s.commit.Lock()
	imports := slices.Clone(s.namespaces.imports)
	s.commit.Unlock()
	for _, i := range imports {
		if err := i.ingest(); err != nil {
			return err
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	s.forgetCopies()
	s.order.trees.Clear()
	return s.open()
}

// Closed reports whether a failed Reopen has left nothing that can be used. Nothing runs beside it.
func (s *Store) Closed() bool { return s.closing() }

// whileOpen calls f, and has Reopen and Close wait until it returns. Calls don't nest.
func (s *Store) whileOpen(f func() error) error {
	s.reopening.RLock()
	defer s.reopening.RUnlock()
	return f()
}

// Stripe is the lock of a key.
func (s *Store) Stripe(database int, key []byte) uint32 {
	return lock.Stripe(generation.Hash(uint32(database), key))
}
