package engine

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"kedis/internal/keyevent"
	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/ordered"
)

// Txn is a transaction: what it reads includes what it wrote, and what it wrote becomes visible as
// one step when it commits. It runs any number of commands, each of which can be taken back until
// then. A Txn belongs to one goroutine at a time; whoever uses it holds the locks of the keys that
// its commands touch.
type Txn struct {
	store   *Store
	view    *View // when not nil, everything is read as it was there, and nothing is written
	running running

	journal journal
	effects effects
	events  KeyEvents // changes of keys
	changes changes
	staging staging

	notifications KeyEvents

	lookups    lookups
	prefetched prefetched
	order      order
	hashes     hashes
	kept       kept
	outcome    outcome
}

// running is how the running command runs.
type running struct {
	mode   Mode
	now    int64 // Unix ms
	budget int   // records that it may still touch
	asked  int64 // bytes that a command on a reactor wanted to go over when its budget ended
}

// staging is what a transaction writes ahead of its commit.
type staging struct {
	collections []stagedCollection
	spill       func() error // when not nil, empties a large journal while a command runs
	spilled     int          // records that it took
}

// stagedCollection is one whose elements stand in generations, or RocksDB.
type stagedCollection struct {
	id    uint64
	space uint32
	bytes int64 // of the elements
}

// outcome is what became of a commit.
type outcome struct {
	done bool // set under the commit lock
	err  error
}

// lookups count what a transaction has looked for.
type lookups struct {
	hits, misses              int64 // keys that commands have looked up to read them; not reset
	copiesFound, copiesMissed int64 // records that were looked up in the copies of what RocksDB has
	ruledOut, inVain          int64 // RocksDB wasn't asked for, since it hasn't got them; was, and hasn't
}

// prefetched is what was read for commands that are about to be executed.
type prefetched struct {
	keys, elements fetched // see Fetch
	key, record    []byte  // scratch
	touched        byte    // the sum of what is read ahead, so that the compiler doesn't drop the reads
}

// order is what makes up for the missing order of memory, for the collections of a transaction.
type order struct {
	used        []*ordered.Tree // since Reset, by identity; in a view, copies of them
	asked       bool            // a command has asked for counts
	countAtMost int
	settled     bool // what the journal has told trees is to stay, or was taken back
	readings    readings
	forgotten   []forgotten
	touched     int // as prefetched.touched

	cold ColdWalk // see ErrCold

	few few // scratch for the elements of a small collection
	run sequenceRun
}

// hashes are the ones that were asked for last.
type hashes struct {
	key      hashed
	sequence hashedSequence
}

// Mode is how a command of a transaction runs.
type Mode struct {
	// Writing commands remove what they find expired, and say so in the log; others only hide it.
	Writing bool
	// Applying: a command is repeated from the log. Nothing expires, and no effects are collected.
	Applying bool
	// Replica: expired keys are hidden, and left to the primary.
	Replica bool
	// Notify is the classes of events that somebody wants to be told of.
	Notify keyevent.Classes
	// Touches says which accesses to keys are noted.
	Touches Touches
	// Parks is asked by walks over records whether they are to end with ErrCold where they would
	// wait for the disk; nil: they wait.
	Parks func() bool
	// Unwanted tells, once it is true, that nobody wants to know what the command reads; nil: the
	// command isn't to be ended.
	Unwanted *atomic.Bool
}

// Touches are accesses to keys that are noted.
type Touches uint8

const (
	// TouchesNothing is what it is while nobody asks.
	TouchesNothing Touches = iota
	// TouchesNew is a key when it is made.
	TouchesNew
	// TouchesAll is a key that is made, or looked up.
	TouchesAll
)

// NewTxn makes a transaction. It can be used again and again, after Reset.
func (s *Store) NewTxn() *Txn {
	t := &Txn{}
	t.Init(s)
	return t
}

// Init is NewTxn for a transaction that is part of something larger.
func (t *Txn) Init(s *Store) {
	t.store, t.running.budget = s, unlimited
	t.effects.reset()
}

const unlimited = 1 << 62

// spillBytes is how much a transaction that can spill gathers before it does. A larger index would
// not stay in the processor's caches. In the midst of a collection, whose elements have no slots,
// it gathers more: what is sorted as a whole goes to one table file, and isn't counted afterwards.
const (
	spillBytes      = 1 << 20
	spillCollection = 8 << 20
)

// Savepoint is what Rollback goes back to.
type Savepoint struct {
	entries, staged, events int
	notifications           int
	effects                 effectsMark
	changes                 changesMark
	hits, misses            int64
}

// Begin starts a command at a time (Unix ms). With a budget above 0 the command fails with
// ErrBudget as soon as it has touched about that many records.
func (t *Txn) Begin(mode Mode, nowMs int64, budget int) {
	t.running.mode, t.running.now, t.running.budget = mode, nowMs, budget
	if budget <= 0 {
		t.running.budget = unlimited
	}
}

// Budget is what is left of the running command's budget, for another one that is a part of it; 0
// if it has none.
func (t *Txn) Budget() int {
	if t.running.budget > unlimited/2 {
		return 0
	}
	return max(t.running.budget, 1)
}

// Mark makes a savepoint that of the transaction's state now.
func (t *Txn) Mark(s *Savepoint) {
	s.entries, s.staged = len(t.journal.entries), len(t.staging.collections)
	s.events, s.notifications = t.events.Len(), t.notifications.Len()
	t.effects.mark(&s.effects)
	t.changes.mark(&s.changes)
	s.hits, s.misses = t.lookups.hits, t.lookups.misses
}

// Written is how many records were written since a savepoint.
func (t *Txn) Written(s *Savepoint) int { return len(t.journal.entries) - s.entries }

// Gathered is how many bytes of records were written that wait for the commit.
func (t *Txn) Gathered() int { return t.journal.size() }

// Rollback takes back everything since a savepoint.
func (t *Txn) Rollback(s *Savepoint) {
	t.takeBackOrder(s.entries)
	t.journal.rewind(s.entries)
	t.effects.rewind(s.effects)
	t.events.rewind(s.events)
	t.notifications.rewind(s.notifications)
	t.changes.rewind(s.changes)
	t.releaseStaged(s.staged)
}

// releaseStaged leaves to the reaper what was staged behind the first collections.
func (t *Txn) releaseStaged(first int) {
	if len(t.staging.collections) > first {
		t.store.ids.staged.giveUp(t.staging.collections[first:])
		t.staging.collections = t.staging.collections[:first]
	}
}

// Changed reports whether something was written since a savepoint, besides the removal of expired
// keys, which has its own effects.
func (t *Txn) Changed(s *Savepoint) bool {
	return len(t.journal.entries)-t.changes.expired.entries > s.entries-s.changes.expired.entries ||
		t.events.Len()-t.changes.expired.keys > s.events-s.changes.expired.keys || !t.changes.sameMap(s.changes)
}

// Empty reports whether there is nothing to commit.
func (t *Txn) Empty() bool {
	return len(t.journal.entries) == 0 && t.effects.count == 0 && t.changes.databases == nil && t.effects.applied == 0
}

// Reset makes the transaction ready for use again. What it had not committed is gone, and so is
// what it returned.
func (t *Txn) Reset() {
	t.takeBackOrder(0)
	t.journal.reset()
	t.effects.reset()
	t.events.rewind(0)
	t.notifications.rewind(0)
	t.changes.rewind(changesMark{})
	t.view, t.outcome = nil, outcome{}
	t.running.mode, t.running.budget, t.running.asked = Mode{}, unlimited, 0
	t.staging.spill, t.staging.spilled = nil, 0
	t.releaseStaged(0)
	t.kept.reset()
	clear(t.order.used)
	t.order.forgotten = t.order.forgotten[:0]
	t.order.used, t.order.asked, t.order.countAtMost, t.order.settled = t.order.used[:0], false, 0, false
	if found, missed := t.lookups.copiesFound, t.lookups.copiesMissed; found+missed > 0 {
		t.store.clean.records.Count(found, missed)
		t.lookups.copiesFound, t.lookups.copiesMissed = 0, 0
	}
	t.lookups.tellPresences(&t.store.presences)
}

// Now is the time (Unix ms) at which the running command began.
func (t *Txn) Now() int64 { return t.running.now }

// Mode is the running command's mode.
func (t *Txn) Mode() Mode { return t.running.mode }

// Lookups returns how many keys that commands wanted to read were found, and not found, since the
// last call.
func (t *Txn) Lookups() (hits, misses int64) {
	hits, misses = t.lookups.hits, t.lookups.misses
	t.lookups.hits, t.lookups.misses = 0, 0
	return hits, misses
}

// AddLookups counts what the running command has looked up in another transaction.
func (t *Txn) AddLookups(hits, misses int64) {
	t.lookups.hits += hits
	t.lookups.misses += misses
}

// ForgetLookups takes back what was counted since a savepoint: the command will run again.
func (t *Txn) ForgetLookups(s *Savepoint) { t.lookups.hits, t.lookups.misses = s.hits, s.misses }

// turnRecords is how many records a command on a worker reads before others may run: about a
// millisecond. Otherwise a reactor may wait some ten milliseconds until the runtime preempts the
// command. More often would cost too much: to go on elsewhere takes up to a tenth of a millisecond.
const turnRecords = 2048

// Spend counts n records against the budget.
func (t *Txn) Spend(n int) error {
	if t.running.budget -= n; t.running.budget < 0 {
		return ErrBudget
	}
	if t.running.budget > unlimited/2 && t.running.budget%turnRecords < n { // not on a reactor
		runtime.Gosched()
	}
	if t.store.background.interrupted.Load() && !t.running.mode.Applying {
		return ErrInterrupted
	}
	if unwanted := t.running.mode.Unwanted; unwanted != nil && unwanted.Load() {
		return ErrUnwanted
	}
	return nil
}

// Going over this many bytes costs about as much as a record.
const bytesPerRecord = 1 << 10

// SpendBytes counts bytes that a command goes over against its budget, as so many records.
func (t *Txn) SpendBytes(n int) error {
	err := t.Spend(n / bytesPerRecord)
	if err != nil {
		t.running.asked = max(t.running.asked, int64(n))
	}
	return err
}

// SpendLong is SpendBytes for a record that was read and counted: most have too few bytes to cost
// more.
func (t *Txn) SpendLong(n int) error {
	if n < bytesPerRecord {
		return nil
	}
	return t.SpendBytes(n)
}

// SpendSteps counts short steps that a command makes against its budget, as so many records.
func (t *Txn) SpendSteps(n int) error { return t.Spend(n / bytesPerRecord) }

// AskedBytes is how many bytes a command wanted to read at once when its budget ended; 0 when it
// ended otherwise. It is read once.
func (t *Txn) AskedBytes() int64 {
	asked := t.running.asked
	t.running.asked = 0
	return asked
}

// A read from RocksDB costs about as much as this many from memory.
const rocksReadCost = 10

// Get returns the newest version of a record. The value is read only and valid until Reset.
func (t *Txn) Get(ns *Namespace, key []byte) (value []byte, found bool, err error) {
	if err := t.Spend(1); err != nil {
		return nil, false, err
	}
	return t.Find(ns, key)
}

// Find is get for who has spent what it costs.
func (t *Txn) Find(ns *Namespace, key []byte) (value []byte, found bool, err error) {
	hash := t.hash(ns, key)
	if t.view != nil {
		return t.view.get(hash, ns, key)
	}
	value, state := t.journal.get(hash, ns.Number, key)
	if state != generation.Unknown {
		return value, state == generation.Present, nil
	}
	value, state, copied := t.store.tiers.Load().get(hash, ns.Number, key, t.usedAgain(key))
	if state != generation.Unknown {
		if copied {
			t.lookups.copiesFound++
		}
		return value, state == generation.Present, nil
	}
	if ns.rulesOut(key) {
		t.lookups.ruledOut++
		return nil, false, nil
	}
	t.lookups.copiesMissed++
	return t.getBelow(ns, hash, key)
}

// Resident is Find for who has a cheaper way to read what only RocksDB may have: known is false
// then.
func (t *Txn) Resident(ns *Namespace, key []byte) (value []byte, found, known bool) {
	if t.view != nil {
		return nil, false, false
	}
	hash := t.hash(ns, key)
	value, state := t.journal.get(hash, ns.Number, key)
	if state == generation.Unknown {
		value, state, _ = t.store.tiers.Load().get(hash, ns.Number, key, t.usedAgain(key))
	}
	if state == generation.Unknown {
		return nil, false, ns.rulesOut(key)
	}
	return value, state == generation.Present, true
}

// Own returns a record that the transaction itself has written.
func (t *Txn) Own(ns *Namespace, key []byte) (value []byte, found bool) {
	value, state := t.journal.get(recordHash(ns.Number, key), ns.Number, key)
	return value, state == generation.Present
}

// usedAgain reports whether a record that is read is likely to be read again. Commands that write
// pop elements of sequences, and those that are read in a row stand in a tree then.
func (t *Txn) usedAgain(key []byte) bool {
	return !layout.Kinds[key[0]].Sequence || !t.running.mode.Writing && t.order.run.row.Length() == 0
}

// getBelow reads from RocksDB and caches the record. The lock of the key keeps others from changing
// the record meanwhile.
func (t *Txn) getBelow(ns *Namespace, hash uint64, key []byte) (value []byte, found bool, err error) {
	if err := t.SpendBytes(rocksReadCost*bytesPerRecord + int(t.store.clean.large.size(hash))); err != nil {
		return nil, false, err
	}
	if family := ns.family.Load(); family != nil {
		t.store.counters.RocksReads.Add(1)
		if value, found, known := t.takeFetched(ns, hash, key); known {
			t.lookups.countInVain(ns, key, found)
			return value, found, nil
		}
		if layout.Kinds[key[0]].Sequence && t.staging.spill == nil {
			value, found, err = t.order.run.get(t.store, family, ns.Number, key)
		} else {
			value, found, err = t.store.db().Get(family, nil, key, nil)
		}
		if err != nil {
			return nil, false, err
		}
	}
	t.store.clean.large.note(hash, len(value))
	t.copy(ns, hash, key, value, found)
	t.lookups.countInVain(ns, key, found)
	return value, found, nil
}

// copy caches what RocksDB has of a record, if it may be read again. The absence of a record is not
// worth a copy when a command looks it up to write it. The flusher brings copies up to date of
// kinds that are read one by one, and of no others.
func (t *Txn) copy(ns *Namespace, hash uint64, key, value []byte, found bool) {
	if !layout.Kinds[key[0]].Read {
		return
	}
	if found && t.usedAgain(key) || !found && !t.running.mode.Writing {
		t.store.clean.records.Put(hash, ns.Number, key, value, found)
	}
}

// takeFetched is getBelow for what Fetch has read.
func (t *Txn) takeFetched(ns *Namespace, hash uint64, key []byte) (value []byte, found, known bool) {
	if value, found, known = t.prefetched.keys.take(t.store, hash, ns.Number, key); !known {
		value, found, known = t.prefetched.elements.take(t.store, hash, ns.Number, key)
	}
	if known {
		t.copy(ns, hash, key, value, found)
	}
	return value, found, known
}

// maxRecordBytes is the most that a key and its value may have together. Generations and RocksDB
// have 32 bits for lengths.
const maxRecordBytes = 1<<31 - 1<<10

var errRecordTooLarge = errors.New("storage: a key and its value have more than 2 GB")

func (t *Txn) Put(ns *Namespace, key, value []byte) error { return t.PutParts(ns, key, value, nil) }

// PutParts writes a record whose value stands in two places.
func (t *Txn) PutParts(ns *Namespace, key, head, tail []byte) error {
	length := len(head) + len(tail)
	if len(key)+length > maxRecordBytes {
		return errRecordTooLarge
	}
	if err := t.SpendBytes(bytesPerRecord + length); err != nil {
		return err
	}
	t.write(ns, key, head, tail)
	if layout.Kinds[key[0]].Ordered {
		if tree := t.store.treeOf(ns.Number, key); tree != nil {
			t.addEntry(tree, key, head, tail)
		}
	}
	return t.spillWhenFull()
}

// putNew is Put for a record of a collection that is being made, which was not put before: no tree
// knows the collection.
func (t *Txn) putNew(ns *Namespace, key, value []byte) error {
	switch length := len(key) + len(value); {
	case length > maxRecordBytes:
		return errRecordTooLarge
	case len(value) > LargeValue:
		err := t.Put(ns, key, value)
		if last := len(t.journal.entries) - 1; last >= 0 { // it wasn't spilled
			t.journal.made.note(layout.ElementID(key), last)
		}
		return err
	}
	if err := t.SpendBytes(bytesPerRecord + len(value)); err != nil {
		return err
	}
	t.journal.putNew(t.hash(ns, key), ns.Number, key, value)
	return t.spillWhenFull()
}

// addEntry tells a tree of a record that has come.
func (t *Txn) addEntry(tree *ordered.Tree, key, head, tail []byte) {
	value := head
	switch {
	case !tree.Values():
		value = nil
	case len(tail) > 0:
		value = slices.Concat(head, tail)
	}
	tree.Put(key[layout.ElementPrefix:], value)
}

// Replace is Put for a record of an ordered kind that is there already.
func (t *Txn) Replace(ns *Namespace, key, value []byte) error {
	if len(key)+len(value) > maxRecordBytes {
		return errRecordTooLarge
	}
	if err := t.SpendBytes(bytesPerRecord + len(value)); err != nil {
		return err
	}
	t.write(ns, key, value, nil)
	t.journal.entries[len(t.journal.entries)-1].replaces = true
	if tree := t.store.treeOf(ns.Number, key); tree != nil {
		tree.Replace(key[layout.ElementPrefix:], value)
	}
	return t.spillWhenFull()
}

// write brings a record to the journal.
func (t *Txn) write(ns *Namespace, key, head, tail []byte) {
	if len(head)+len(tail) > LargeValue {
		t.journal.putLarge(t.hash(ns, key), ns.Number, t.large(key, head, tail))
	} else {
		t.journal.put(t.hash(ns, key), ns.Number, key, head, tail)
	}
}

// spillWhenFull empties a large journal, if the transaction may.
func (t *Txn) spillWhenFull() error {
	if t.staging.spill != nil && t.journal.size() >= spillCollection {
		return t.staging.spill()
	}
	return nil
}

func (t *Txn) Delete(ns *Namespace, key []byte) error {
	t.journal.delete(t.hash(ns, key), ns.Number, key)
	if layout.Kinds[key[0]].Ordered {
		if tree := t.store.treeOf(ns.Number, key); tree != nil {
			tree.Delete(key[layout.ElementPrefix:])
		}
	}
	return t.Spend(1)
}

// CountLookup counts a key that a command has looked up to read it.
func (t *Txn) CountLookup(found bool) {
	switch {
	case t.running.mode.Applying:
	case found:
		t.lookups.hits++
	default:
		t.lookups.misses++
	}
}

// NewID is an id for a spread collection's elements. It is never given out again.
func (t *Txn) NewID() uint64 { return t.store.ids.next.Add(1) - 1 }

// Expire carries out remove, which removes a key because its time has come.
func (t *Txn) Expire(remove func() error) error {
	t.changes.expired.keys++
	before := len(t.journal.entries)
	err := remove()
	t.changes.expired.entries += len(t.journal.entries) - before
	return err
}
