package storage

import (
	"errors"
	"runtime"

	"kedis/internal/resp"
	"kedis/storage/generation"
	"kedis/storage/layout"
)

// Txn is a transaction: what it reads includes what it wrote, and what it wrote becomes visible as
// one step when it commits. It runs any number of commands, each of which can be taken back until
// then. A Txn belongs to one goroutine at a time; whoever uses it holds the locks of the keys that
// its commands touch.
type Txn struct {
	store   *Store
	view    *View // when not nil, everything is read as it was there, and nothing is written
	journal journal

	effects     []byte
	effectCount int
	first, last int // databases selected where the effects begin and end; -1 while there are none

	deltas      []delta
	touched     []touch
	touchedKeys []byte
	databases   []*namespace // when not nil, the map as the transaction has changed it

	moved []movedList // spread lists whose bounds have changed

	staged  []uint64     // collections that stand in RocksDB ahead of the commit
	spill   func() error // when not nil, what brings a large journal elsewhere in the midst of a command
	spilled int          // records that it took

	copied  bool  // the effects are another server's stream
	applied int64 // when not 0, what is repeated is in the log already, up to here
	done    bool  // set under the commit lock
	err     error

	ranked      []*ranked // counts of indexes that were used since Reset
	countAtMost int
	settled     bool // the journal's changes of counts are to stay, or were taken back

	now    int64
	mode   Mode
	budget int

	expirations    int   // keys that it has removed because their time had come
	expiredEntries int   // records of the journal that this took
	hits, misses   int64 // keys that commands that only read have looked up; Reset leaves them

	warmed byte // keeps the compiler from leaving out what Warm and WarmKeys read

	fetchedKeys, fetchedElements fetched // see Fetch

	copiesFound, copiesMissed int64 // records that were looked for in the cache, until Reset

	ahead ahead // what stands at an end of a sorted set that commands take members from

	few few // scratch for the elements of a small collection
	run listRun

	hashedKey  hashed // what hash was asked for last
	hashedList hashedList

	key    []byte // scratch for record keys
	key2   []byte
	record []byte // scratch for values

	pack, pack2 []byte // scratch for packed collections
	element     []byte // scratch for one element of them
	member      []byte // and for another
	draft       []byte // scratch for a string that is being composed
}

// Mode is how a command of a transaction runs.
type Mode struct {
	// Writing commands remove what they find expired, and say so in the log; others only hide it.
	Writing bool
	// Applying: a command is repeated from the log. Nothing expires, and no effects are collected.
	Applying bool
	// Replica: expired keys are hidden, and left to the primary.
	Replica bool
}

// delta is a difference to a namespace's counters.
type delta struct {
	namespace     *namespace
	keys, expires int
}

// touch is a key that was changed, which stands in Txn.touchedKeys up to end.
type touch struct {
	database, end int
	expired       bool // it is gone since its time had come
}

// NewTxn makes a transaction. It can be used again and again, after Reset.
func (s *Store) NewTxn() *Txn { return &Txn{store: s, first: -1, last: -1, budget: unlimited} }

const unlimited = 1 << 62

// spillBytes is how much a transaction that can spill gathers. The index of much more doesn't stay in the
// processor's caches.
const spillBytes = 1 << 20

// Savepoint is what Rollback goes back to.
type Savepoint struct {
	entries, effects, effectCount, deltas, touched, touchedKeys int
	hits, misses                                                int64
	staged, moved, expirations, expiredEntries                  int

	first, last int
	databases   []*namespace
}

// Begin starts a command at a time (Unix ms). With a budget above 0 the command fails with
// ErrBudget as soon as it has touched about that many records.
func (t *Txn) Begin(mode Mode, nowMs int64, budget int) {
	t.mode, t.now, t.budget = mode, nowMs, budget
	if budget <= 0 {
		t.budget = unlimited
	}
}

// Mark makes a savepoint that of the transaction's state now.
func (t *Txn) Mark(s *Savepoint) {
	*s = Savepoint{len(t.journal.entries), len(t.effects), t.effectCount, len(t.deltas),
		len(t.touched), len(t.touchedKeys), t.hits, t.misses, len(t.staged), len(t.moved), t.expirations, t.expiredEntries, t.first, t.last, t.databases}
}

// Rollback takes back everything since a savepoint.
func (t *Txn) Rollback(s *Savepoint) {
	t.takeBackRanks(s.entries)
	t.ahead.forget()
	t.journal.rewind(s.entries)
	t.effects, t.effectCount = t.effects[:s.effects], s.effectCount
	t.deltas, t.touched, t.touchedKeys = t.deltas[:s.deltas], t.touched[:s.touched], t.touchedKeys[:s.touchedKeys]
	t.first, t.last, t.databases = s.first, s.last, s.databases
	t.expirations, t.expiredEntries = s.expirations, s.expiredEntries
	t.moved = t.moved[:s.moved]
	t.releaseStaged(s.staged)
}

// releaseStaged leaves to the reaper what was staged behind the first collections.
func (t *Txn) releaseStaged(first int) {
	if len(t.staged) > first {
		t.store.staged.release(t.staged[first:])
		t.staged = t.staged[:first]
	}
}

// Changed tells whether something was written since a savepoint, besides the removal of expired keys, which has its own effects.
func (t *Txn) Changed(s *Savepoint) bool {
	return len(t.journal.entries)-t.expiredEntries > s.entries-s.expiredEntries ||
		len(t.touched)-t.expirations > s.touched-s.expirations || changedMap(t.databases, s.databases)
}

func changedMap(a, b []*namespace) bool {
	return len(a) != len(b) || len(a) > 0 && &a[0] != &b[0]
}

// Empty tells that there is nothing to commit.
func (t *Txn) Empty() bool {
	return len(t.journal.entries) == 0 && t.effectCount == 0 && t.databases == nil && t.applied == 0
}

// Reset makes the transaction ready for use again. What it had not committed is gone, and so is
// what it returned.
func (t *Txn) Reset() {
	t.takeBackRanks(0)
	t.ahead.forget()
	t.journal.reset()
	if cap(t.effects) > largeBuffer {
		t.effects = nil
	}
	if cap(t.record) > largeBuffer {
		t.record = nil
	}
	if cap(t.draft) > largeBuffer {
		t.draft = nil
	}
	t.effects, t.effectCount = t.effects[:0], 0
	t.deltas, t.touched, t.touchedKeys, t.moved = t.deltas[:0], t.touched[:0], t.touchedKeys[:0], t.moved[:0]
	t.first, t.last, t.databases, t.view = -1, -1, nil, nil
	t.mode, t.budget, t.expirations, t.expiredEntries = Mode{}, unlimited, 0, 0
	t.spill, t.spilled = nil, 0
	t.releaseStaged(0)
	t.copied, t.applied, t.done, t.err = false, 0, false, nil
	clear(t.ranked)
	t.ranked, t.countAtMost, t.settled = t.ranked[:0], 0, false
	if t.copiesFound+t.copiesMissed > 0 {
		t.store.cache.Count(t.copiesFound, t.copiesMissed)
		t.copiesFound, t.copiesMissed = 0, 0
	}
}

// Now is the time (Unix ms) at which the running command began.
func (t *Txn) Now() int64 { return t.now }

// Mode is the running command's mode.
func (t *Txn) Mode() Mode { return t.mode }

// Effect adds a command to the log, as it must be repeated elsewhere.
func (t *Txn) Effect(database int, args ...[]byte) {
	if t.mode.Applying {
		return
	}
	t.selectDatabase(database)
	t.effects = resp.AppendRequest(t.effects, args...)
	t.effectCount++
}

func (t *Txn) selectDatabase(database int) {
	if t.first < 0 {
		t.first = database
	} else if t.last != database {
		t.effects = appendSelect(t.effects, database)
	}
	t.last = database
}

// Lookups returns how many keys commands that only read have found, and not found, since the last
// call.
func (t *Txn) Lookups() (hits, misses int64) {
	hits, misses = t.hits, t.misses
	t.hits, t.misses = 0, 0
	return hits, misses
}

// ForgetLookups takes back what was counted since a savepoint: the command will run again.
func (t *Txn) ForgetLookups(s *Savepoint) { t.hits, t.misses = s.hits, s.misses }

// Effects is the number of effects since a savepoint.
func (t *Txn) Effects(s *Savepoint) int { return t.effectCount - s.effectCount }

var multi, exec = []byte("*1\r\n$5\r\nMULTI\r\n"), []byte("*1\r\n$4\r\nEXEC\r\n")

// Enclose puts the effects since a savepoint between MULTI and EXEC when there are several, so that
// whoever repeats them does all or nothing.
func (t *Txn) Enclose(s *Savepoint) {
	if t.effectCount-s.effectCount < 2 {
		return
	}
	n := len(t.effects)
	t.effects = append(t.effects, multi...)
	copy(t.effects[s.effects+len(multi):], t.effects[s.effects:n])
	copy(t.effects[s.effects:], multi)
	t.effects = append(t.effects, exec...)
}

// Touches is the number of changes of keys so far.
func (t *Txn) Touches() int { return len(t.touched) }

// Touched calls f for each key that was changed, once for each change, but for the first so many. expired tells that the change
// was to remove what had expired.
func (t *Txn) Touched(first int, f func(database int, key []byte, expired bool)) {
	from := 0
	for i, touch := range t.touched {
		if i >= first {
			f(touch.database, t.touchedKeys[from:touch.end], touch.expired)
		}
		from = touch.end
	}
}

func (t *Txn) touch(database int, key []byte) {
	t.touchedKeys = append(t.touchedKeys, key...)
	t.touched = append(t.touched, touch{database, len(t.touchedKeys), false})
}

// turnRecords is how many records a command on a worker goes over before others may run: about a millisecond. A reactor that has
// something to do may else have to wait until the runtime takes the processor away from it, some ten milliseconds. More often would
// cost too much: to go on elsewhere takes up to a tenth of a millisecond.
const turnRecords = 2048

// spend counts n records against the budget.
func (t *Txn) spend(n int) error {
	if t.budget -= n; t.budget < 0 {
		return ErrBudget
	}
	if t.budget > unlimited/2 && t.budget%turnRecords < n { // not on a reactor
		runtime.Gosched()
	}
	if t.store.interrupted.Load() && !t.mode.Applying {
		return ErrInterrupted
	}
	return nil
}

// Going over this many bytes costs about as much as a record.
const bytesPerRecord = 1 << 10

// SpendBytes counts bytes that a command goes over against its budget, as so many records.
func (t *Txn) SpendBytes(n int) error { return t.spend(n / bytesPerRecord) }

// A read from RocksDB costs about as much as this many from memory.
const rocksReadCost = 10

// get returns the newest version of a record. The value is read only and valid until Reset.
func (t *Txn) get(ns *namespace, key []byte) (value []byte, found bool, err error) {
	if err := t.spend(1); err != nil {
		return nil, false, err
	}
	return t.find(ns, key)
}

// find is get for who has spent what it costs.
func (t *Txn) find(ns *namespace, key []byte) (value []byte, found bool, err error) {
	hash := t.hash(ns, key)
	if t.view != nil {
		return t.view.get(hash, ns, key)
	}
	value, state := t.journal.get(hash, ns.number, key)
	if state != generation.Unknown {
		return value, state == generation.Present, nil
	}
	now := t.store.current.Load()
	if value, state = now.active.Get(generation.End, hash, ns.number, key); state != generation.Unknown {
		return value, state == generation.Present, nil
	}
	for _, f := range now.frozen {
		if value, state = f.Get(generation.End, hash, ns.number, key); state != generation.Unknown {
			return value, state == generation.Present, nil
		}
	}
	if kept := now.kept; kept != nil {
		if value, state = kept.Use(hash, ns.number, key, t.usedAgain(key)); state != generation.Unknown {
			t.copiesFound++
			return value, state == generation.Present, nil
		}
	}
	if value, present, known := t.store.cache.Get(hash, ns.number, key); known {
		t.copiesFound++
		return value, present, nil
	}
	t.copiesMissed++
	return t.getBelow(ns, hash, key)
}

// usedAgain tells whether it is likely that who reads a record reads it again: not what takes an element out of a list.
func (t *Txn) usedAgain(key []byte) bool { return !t.mode.Writing || !layout.Kinds[key[0]].Sequence }

// getBelow reads from RocksDB and keeps a clean copy. The lock of the key keeps others from
// changing the record meanwhile.
func (t *Txn) getBelow(ns *namespace, hash uint64, key []byte) (value []byte, found bool, err error) {
	if err := t.spend(rocksReadCost); err != nil {
		return nil, false, err
	}
	if family := ns.family.Load(); family != nil {
		t.store.counters.RocksReads.Add(1)
		if value, found, known := t.takeFetched(ns, hash, key); known {
			return value, found, nil
		}
		if layout.Kinds[key[0]].Sequence && t.spill == nil {
			value, found, err = t.run.get(t.store, family, ns.number, key)
		} else {
			value, found, err = t.store.db().Get(family, nil, key, nil)
		}
		if err != nil {
			return nil, false, err
		}
	}
	t.copy(ns, hash, key, value, found)
	return value, found, nil
}

// copy keeps a clean copy of what RocksDB has of a record, if it may be asked for again. That it has none is soon untrue when a command looked for it that writes.
func (t *Txn) copy(ns *namespace, hash uint64, key, value []byte, found bool) {
	if found && t.usedAgain(key) || !t.mode.Writing {
		t.store.cache.Put(hash, ns.number, key, value, found)
	}
}

// takeFetched is getBelow for what Fetch has read.
func (t *Txn) takeFetched(ns *namespace, hash uint64, key []byte) (value []byte, found, known bool) {
	if value, found, known = t.fetchedKeys.take(t.store, hash, ns.number, key); !known {
		value, found, known = t.fetchedElements.take(t.store, hash, ns.number, key)
	}
	if known {
		t.copy(ns, hash, key, value, found)
	}
	return value, found, known
}

// maxRecordBytes is what a key and its value may have together. What generations and RocksDB write down
// of a length has 32 bits.
const maxRecordBytes = 1<<31 - 1<<10

var errRecordTooLarge = errors.New("storage: a key and its value have more than 2 GB")

func (t *Txn) put(ns *namespace, key, value []byte) error { return t.putParts(ns, key, value, nil) }

// putParts writes a record whose value stands in two places.
func (t *Txn) putParts(ns *namespace, key, head, tail []byte) error {
	length := len(head) + len(tail)
	if len(key)+length > maxRecordBytes {
		return errRecordTooLarge
	}
	if err := t.spend(1 + length/bytesPerRecord); err != nil {
		return err
	}
	t.journal.put(t.hash(ns, key), ns.number, key, head, tail)
	if layout.Kinds[key[0]].Counted {
		t.store.ranks.changed(key, 1)
	}
	if t.spill != nil && len(t.journal.buffer) >= spillBytes {
		return t.spill()
	}
	return nil
}

func (t *Txn) delete(ns *namespace, key []byte) error {
	t.journal.delete(t.hash(ns, key), ns.number, key)
	if layout.Kinds[key[0]].Counted {
		t.store.ranks.changed(key, -1)
	}
	return t.spend(1)
}

// namespace is where a database's records are, as the transaction sees it.
func (t *Txn) namespace(database int) *namespace {
	switch {
	case t.databases != nil:
		return t.databases[database]
	case t.view != nil:
		return t.view.databases[database]
	}
	return t.store.current.Load().databases[database]
}

// count adds to a namespace's counters when the transaction commits.
func (t *Txn) count(ns *namespace, keys, expires int) {
	if keys != 0 || expires != 0 {
		t.deltas = append(t.deltas, delta{ns, keys, expires})
	}
}

// remap prepares the map of databases for a change.
func (t *Txn) remap() []*namespace {
	from := t.databases
	if from == nil {
		from = t.store.current.Load().databases
	}
	t.databases = append([]*namespace(nil), from...)
	return t.databases
}

// newNamespace is an empty namespace; its number is given when the transaction needs it, and never
// again, even if the transaction is taken back.
func (t *Txn) newNamespace() *namespace {
	t.store.commit.Lock()
	defer t.store.commit.Unlock()
	return t.store.newNamespace()
}

// DB is a database as a transaction sees it.
type DB struct {
	txn    *Txn
	number int
	space  *namespace
}

// DB returns a database. The number is below Store.Databases.
func (t *Txn) DB(number int) DB { return DB{t, number, t.namespace(number)} }

// Txn is the transaction that the database is seen by.
func (d DB) Txn() *Txn { return d.txn }

// Number is the database's number.
func (d DB) Number() int { return d.number }

// metadataKey returns the key of a key's metadata, in scratch memory.
func (d DB) metadataKey(key []byte) []byte {
	d.txn.key = layout.AppendMetadataKey(d.txn.key[:0], key)
	return d.txn.key
}
