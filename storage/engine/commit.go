package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"kedis/storage/layout"
)

// ErrInDoubt is returned for a commit that is in the log, but could not be made durable yet. It is
// visible like others: the log writes it again before it takes anything else, and the next start
// applies it if it can.
var ErrInDoubt = errors.New("storage: the write stands, but a power cut may undo it, since the log could not be synced")

// waiting are the transactions that want to be committed.
type waiting struct {
	mu   sync.Mutex
	txns []*Txn
	free []*Txn
}

func (w *waiting) add(t *Txn) {
	w.mu.Lock()
	w.txns = append(w.txns, t)
	w.mu.Unlock()
}

func (w *waiting) take() []*Txn {
	w.mu.Lock()
	defer w.mu.Unlock()
	txns := w.txns
	w.txns, w.free = w.free[:0], txns
	return txns
}

// Commit writes a transaction's effects to the log and then makes its writes visible, as one step.
// The first to get the commit lock commits all that wait for it. When it fails, nothing has
// happened, unless the error is ErrInDoubt. The caller then resets the transaction, and releases
// its locks.
func (s *Store) Commit(t *Txn) error {
	if t.Empty() {
		return nil
	}
	if t.effects.applied == 0 {
		s.awaitLog()
	}
	s.throttle(frozenMost)
	s.commit.waiting.add(t)
	s.commit.Lock()
	if !t.outcome.done {
		s.commitAll(s.commit.waiting.take())
	}
	s.commit.Unlock()
	return t.outcome.err
}

// BetweenCommits calls f while nothing is committed: for what else changes the log. The next effect
// says anew which database it is for.
func (s *Store) BetweenCommits(f func() error) error {
	s.commit.Lock()
	defer s.commit.Unlock()
	s.commit.reselect = true
	return f()
}

// commitAll commits transactions together, or each by itself if the log refuses them: one with a
// record that is too large must not fail the others. The caller holds the commit lock.
func (s *Store) commitAll(txns []*Txn) {
	defer settleOrder(txns)
	if err := s.commitTogether(txns); stands(err) || len(txns) == 1 {
		return
	}
	for i := range txns {
		s.commitTogether(txns[i : i+1])
	}
}

// settleOrder ends what transactions have told trees, while their locks are held.
func settleOrder(txns []*Txn) {
	for _, t := range txns {
		if !stands(t.outcome.err) {
			t.takeBackOrder(0)
		}
		t.order.settled = true
	}
}

func (s *Store) commitTogether(txns []*Txn) error {
	position, err := s.log(txns)
	for _, t := range txns {
		t.outcome.done, t.outcome.err = true, err
		if stands(err) {
			s.publish(t)
		}
	}
	if !stands(err) {
		return err
	}
	s.positions.visible.Store(position)
	s.counters.Commits.Add(int64(len(txns)))
	s.freezeWhenFull()
	return err
}

// stands reports whether what was to be committed has been, given how that ended.
func stands(err error) bool { return err == nil || errors.Is(err, ErrInDoubt) }

func (s *Store) freezeWhenFull() {
	active := s.tiers.Load().active
	switch bytes, most := active.Bytes()+s.commit.moved.bytes(), s.options.GenerationBytes(); {
	case bytes > most || active.Full():
		s.freeze()
	case bytes > most-most/nearlyFull:
		s.provideNext()
	}
}

// log appends the effects of transactions as one record. The position is valid with ErrInDoubt,
// too.
func (s *Store) log(txns []*Txn) (int64, error) {
	var pieces [][]byte
	database, reselected := -1, false
	for _, t := range txns {
		if t.effects.applied != 0 {
			return t.effects.applied, nil // recovery: it is alone
		}
		if t.effects.count == 0 {
			continue
		}
		if database < 0 {
			database = s.commit.log.Database()
		}
		if t.effects.first < 0 {
			pieces = t.effects.appendPieces(pieces)
			continue
		}
		if t.effects.first != database || s.commit.reselect && !reselected && !t.effects.copied {
			pieces = append(pieces, appendSelect(nil, t.effects.first))
			reselected = true
		}
		pieces = t.effects.appendPieces(pieces)
		database = t.effects.last
	}
	if len(pieces) == 0 {
		return s.positions.visible.Load(), nil
	}
	position, err := s.commit.log.Append(s.commit.log.Database(), database, pieces...)
	if err != nil {
		return 0, fmt.Errorf("storage: %w", err)
	}
	s.commit.reselect = s.commit.reselect && !reselected
	if s.options.SyncEveryCommit() {
		if err := s.commit.log.Sync(position); err != nil {
			return position, fmt.Errorf("%w: %w", ErrInDoubt, err)
		}
	}
	return position, nil
}

func appendSelect(dst []byte, database int) []byte {
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], int64(database), 10)
	dst = append(dst, "*2\r\n$6\r\nSELECT\r\n$"...)
	dst = strconv.AppendInt(dst, int64(len(number)), 10)
	dst = append(append(append(dst, "\r\n"...), number...), "\r\n"...)
	return dst
}

func (s *Store) publish(t *Txn) {
	now := s.tiers.Load()
	t.journal.publish(now.active)
	s.commit.moved.publish(t.changes.moved)
	s.noteBrief(t.changes.abandoned)
	if len(t.staging.collections) > 0 {
		s.ids.staged.commit(t.staging.collections, now.active)
		t.staging.collections = t.staging.collections[:0]
	}
	for _, d := range t.changes.deltas {
		d.namespace.keys.Add(int64(d.keys))
		d.namespace.expires.Add(int64(d.expires))
		if d.atMs != 0 {
			d.namespace.give(&d)
		}
	}
	s.counters.Expired.Add(int64(t.changes.expired.keys))
	if t.changes.databases != nil {
		retained := now.retained
		if empty(t.changes.databases) {
			retained = nil
			s.forgetCopies()
		}
		s.setTiers(now.active, now.frozen, retained, t.changes.databases)
		s.dropOrder(t.changes.databases)
	}
}

// dropOrder forgets the trees of namespaces that no database has any more.
func (s *Store) dropOrder(databases []*Namespace) {
	s.order.trees.DropSpaces(func(space uint32) bool {
		return slices.ContainsFunc(databases, func(ns *Namespace) bool { return ns.Number == space })
	})
}

// empty reports whether no database has a key. Copies would only take the room of what comes.
func empty(databases []*Namespace) bool {
	return !slices.ContainsFunc(databases, func(ns *Namespace) bool { return ns.keys.Load() > 0 })
}

// freeze ends the active generation and hands it to the flusher. It is called with the commit
// lock held, between commits.
func (s *Store) freeze() {
	now := s.tiers.Load()
	for _, ns := range now.databases {
		ns.named = ns.named || ns.keys.Load() > 0
	}
	f := &frozen{Generation: now.active, state: s.state(), moved: s.commit.moved, brief: s.commit.brief}
	s.commit.begin(s.ids.next.Load())
	list := append([]*frozen{f}, now.frozen...)
	s.setTiers(s.takeNext(now.active.Keys()), list, now.retained, now.databases)
	s.flusher.wake()
}

// state is what RocksDB will have when everything that is visible now has been written to it.
func (s *Store) state() layout.State {
	state := layout.State{
		Position:      s.positions.visible.Load(),
		LogDirectory:  s.commit.logDirectory,
		NextID:        s.ids.next.Load(),
		NextNamespace: s.namespaces.next,
	}
	for index, ns := range s.tiers.Load().databases {
		number := uint32(index)
		if index == s.Libraries() {
			number = layout.Libraries
		}
		if ns.named || ns.keys.Load() > 0 || ns.family.Load() != nil {
			state.Databases = append(state.Databases, layout.Database{Number: number,
				Namespace: ns.Number, Keys: ns.keys.Load(), Expires: ns.expires.Load()})
		}
	}
	return state
}

const (
	frozenUnslowed = 3 // generations that may wait for RocksDB before writers are slowed
	slowdown       = 2 * time.Millisecond
	frozenRefused  = 8  // that may wait when RocksDB takes nothing, before writers are refused
	frozenMost     = 16 // that may wait before each commit waits for RocksDB, up to longestWait
	frozenLimit    = 32 // that may wait before commits wait for as long as it takes
	longestWait    = 500 * time.Millisecond
)

// throttle slows writers down when RocksDB falls behind, the more the farther; they wait while more
// generations do than may, and have to while as many do as memory is to hold at most. They don't
// when RocksDB takes nothing at all: then Ready keeps writers out, and recovery has to go on.
func (s *Store) throttle(may int) {
	behind := s.waitingGenerations() - frozenUnslowed
	if behind <= 0 || s.flusher.failure() != nil {
		return
	}
	s.counters.Slowed.Add(1)
	pause := time.Duration(behind) * slowdown
	time.Sleep(pause)
	for waited := pause; s.throttles(may, waited); waited += pause {
		time.Sleep(pause)
	}
}

// throttles reports whether a writer that has waited for so long waits on.
func (s *Store) throttles(may int, waited time.Duration) bool {
	waiting := s.waitingGenerations()
	return waiting > may && waited < longestWait || waiting >= frozenLimit && s.flusher.failure() == nil
}

// awaitLog waits a little while the log makes room on a full disk, without the commit lock.
func (s *Store) awaitLog() {
	log := s.commit.appended.Load()
	if log == nil {
		return
	}
	for waited := time.Duration(0); (*log).AwaitsRoom() && waited < longestWait; waited += slowdown {
		time.Sleep(slowdown)
	}
}

// Backlogged reports whether another flush would slow writers down. Defer optional work.
func (s *Store) Backlogged() bool { return s.waitingGenerations() >= frozenUnslowed }

// Flushing reports whether a generation is on its way to RocksDB, which takes up to one processor.
func (s *Store) Flushing() bool { return s.waitingGenerations() > 0 }

// waitingGenerations is how many generations wait for RocksDB.
func (s *Store) waitingGenerations() int { return len(s.tiers.Load().frozen) }

// Ready returns why writes must not begin, or nil: when RocksDB takes nothing, memory must not fill
// with what it should have. Writes resume by themselves when it does.
func (s *Store) Ready() error {
	if s.waitingGenerations() < frozenRefused {
		return nil
	}
	if err := s.flusher.failure(); err != nil {
		return fmt.Errorf("RocksDB takes no writes: %w", err)
	}
	return nil
}
