package engine

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"kedis/storage/rocks"
)

// Namespace is where a database's records are, and how many keys there are. The counters change
// under the commit lock.
type Namespace struct {
	Number        uint32
	family        atomic.Pointer[rocks.Family] // nil until the first batch goes to RocksDB
	named         bool                         // by the state of a generation, and all that follow
	keys, expires atomic.Int64
	presence      presence

	// FieldsExpire is whether hashes in it may have fields that expire.
	FieldsExpire Maybe
	// firstDue is a time before which no key expires; 0 when that is unknown.
	firstDue earliest
	// given are the times that keys and hashes' fields were given since somebody asked last: see
	// TakeGiven.
	given [2]earliest
}

// Maybe is whether there may be something: since the start nobody has looked, then no, or yes for
// good.
type Maybe struct{ state atomic.Int32 }

const (
	maybeUnknown int32 = iota
	maybeNo
	maybeYes
)

// Known reports whether somebody has looked.
func (m *Maybe) Known() bool { return m.state.Load() != maybeUnknown }

// No reports whether there is nothing.
func (m *Maybe) No() bool { return m.state.Load() == maybeNo }

// Found notes that there is something.
func (m *Maybe) Found() { m.state.Store(maybeYes) }

// NotFound notes that somebody has looked and found nothing, unless it was found meanwhile.
func (m *Maybe) NotFound() { m.state.CompareAndSwap(maybeUnknown, maybeNo) }

// Timed is what is to happen at its time.
type Timed uint8

const (
	TimedKey    Timed = iota // expires
	TimedFields              // of a hash expire, the first of them then
)

// earliest is the earliest of the times (Unix ms) that were noted.
type earliest struct{ atomic.Int64 }

func (e *earliest) note(ms int64) {
	for {
		first := e.Load()
		if first <= ms || e.CompareAndSwap(first, ms) {
			return
		}
	}
}

// namespaces is what making namespaces takes.
type namespaces struct {
	next     uint32     // number that was never used; under the commit lock
	imports  []*Import  // whose namespaces no database has yet; under the commit lock
	creating sync.Mutex // held while a namespace gets its family
}

// imported are the namespaces of imports. The caller holds the commit lock, or is alone.
func (n *namespaces) imported() (spaces []*Namespace) {
	for _, i := range n.imports {
		spaces = append(spaces, i.spaces...)
	}
	return spaces
}

// changes are what a transaction changes besides records, when it commits.
type changes struct {
	deltas    []delta
	databases []*Namespace    // when not nil, the map as the transaction has changed it
	moved     []movedSequence // sequences whose bounds have changed
	abandoned []uint64        // collections that nothing refers to any more
	expired   expired
}

// delta is a difference to a namespace's counters.
type delta struct {
	namespace     *Namespace
	keys, expires int
	timed         Timed
	atMs          int64 // the time that a key or a hash has got; 0 without one
}

// expired is the removal of keys whose time had come.
type expired struct {
	keys    int
	entries int // of the journal that this took
}

// changesMark is what changes are cut back to.
type changesMark struct {
	deltas, moved, abandoned int

	databases []*Namespace
	expired   expired
}

func (c *changes) mark(m *changesMark) {
	m.deltas, m.moved, m.abandoned = len(c.deltas), len(c.moved), len(c.abandoned)
	m.databases, m.expired = c.databases, c.expired
}

func (c *changes) rewind(m changesMark) {
	c.deltas, c.moved, c.abandoned = c.deltas[:m.deltas], c.moved[:m.moved], c.abandoned[:m.abandoned]
	c.databases, c.expired = m.databases, m.expired
}

// sameMap reports whether the map of databases is as it was at a mark.
func (c *changes) sameMap(m changesMark) bool {
	return len(c.databases) == len(m.databases) && (len(c.databases) == 0 || &c.databases[0] == &m.databases[0])
}

// Namespace is where a database's records are, as the transaction sees it.
func (t *Txn) Namespace(database int) *Namespace {
	switch {
	case t.changes.databases != nil:
		return t.changes.databases[database]
	case t.view != nil:
		return t.view.databases[database]
	}
	return t.store.tiers.Load().databases[database]
}

// Count adds to a namespace's counters when the transaction commits.
func (t *Txn) Count(ns *Namespace, keys, expires int) {
	if keys != 0 || expires != 0 {
		t.changes.deltas = append(t.changes.deltas, delta{namespace: ns, keys: keys, expires: expires})
	}
}

// CountExpiring counts a key that is to expire when the transaction commits.
func (t *Txn) CountExpiring(ns *Namespace, expireMs int64) {
	t.changes.deltas = append(t.changes.deltas, delta{namespace: ns, expires: 1, atMs: expireMs})
}

// GiveFieldTime notes when the transaction commits that a hash is due at a time.
func (t *Txn) GiveFieldTime(ns *Namespace, dueMs int64) {
	t.changes.deltas = append(t.changes.deltas, delta{namespace: ns, timed: TimedFields, atMs: dueMs})
}

// give notes a time behind the commit that has made it visible: who takes what was given, and reads
// the index then, misses nothing.
func (ns *Namespace) give(d *delta) {
	if d.timed == TimedKey {
		ns.firstDue.note(d.atMs)
	}
	ns.given[d.timed].note(d.atMs)
}

// TakeGiven returns the earliest time (Unix ms) that was given since it was called last; 0 the
// first time.
func (ns *Namespace) TakeGiven(what Timed) int64 { return ns.given[what].Swap(math.MaxInt64) }

// GiveBack undoes TakeGiven.
func (ns *Namespace) GiveBack(what Timed, atMs int64) { ns.given[what].note(atMs) }

// FirstDue is a time (Unix ms) before which no key of the namespace expires; 0 when that is
// unknown.
func (ns *Namespace) FirstDue() int64 { return ns.firstDue.Load() }

// LearnFirstDue finds out when the first key expires: look reads it from the index. Only one
// goroutine does that at a time.
func (ns *Namespace) LearnFirstDue(look func() (expireMs int64, err error)) error {
	// In this order: what is visible before is found, and what becomes so later is noted behind it.
	ns.firstDue.Store(math.MaxInt64)
	expireMs, err := look()
	if err != nil {
		expireMs = 0
	}
	ns.firstDue.note(expireMs)
	return err
}

// Keys is how many keys a namespace has, as the transaction sees it.
func (t *Txn) Keys(ns *Namespace) int64 {
	keys := ns.keys.Load()
	for _, change := range t.changes.deltas {
		if change.namespace == ns {
			keys += int64(change.keys)
		}
	}
	return keys
}

// remap prepares the map of databases for a change.
func (t *Txn) remap() []*Namespace {
	from := t.changes.databases
	if from == nil {
		from = t.store.tiers.Load().databases
	}
	t.changes.databases = append([]*Namespace(nil), from...)
	return t.changes.databases
}

// newNamespace is an empty namespace; its number is given when the transaction needs it, and never
// again, even if the transaction is taken back.
func (t *Txn) newNamespace() *Namespace {
	t.store.commit.Lock()
	defer t.store.commit.Unlock()
	return t.store.newNamespace()
}

// Flush empties a database: it gets a new namespace, unless its own was never used. The gate is
// closed.
func (t *Txn) Flush(database int) {
	if t.used(t.Namespace(database)) {
		t.remap()[database] = t.newNamespace()
	}
}

// LibraryDatabase is the number of the database of libraries: see Store.Libraries.
func (t *Txn) LibraryDatabase() int { return t.store.Libraries() }

// used reports whether a namespace has keys, or had some within the transaction or when it last
// went to RocksDB.
func (t *Txn) used(ns *Namespace) bool {
	return ns.keys.Load() > 0 || ns.family.Load() != nil || slices.ContainsFunc(t.changes.deltas, func(d delta) bool { return d.namespace == ns })
}

// Swap exchanges two databases. The gate is closed.
func (t *Txn) Swap(a, b int) {
	databases := t.remap()
	databases[a], databases[b] = databases[b], databases[a]
}
