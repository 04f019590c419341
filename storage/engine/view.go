package engine

import (
	"sync"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// View is all data as it was at a position of the log. It never changes, and holds no lock: walks,
// snapshots and replicas read from it while the store goes on. Release gives it back.
type View struct {
	store     *Store
	snapshot  *rocks.Snapshot
	recent    recent
	databases []*Namespace
	selected  int // where the log stood
	state     layout.State
	former    bool // the position is that of a log which isn't used any more; store.views.mu guards it
	released  sync.Once
}

// views are those that are in use. Namespaces that they may read are not dropped.
type views struct {
	mu   sync.Mutex
	open map[*View]struct{}
}

// View pins the data between two commits. The caller is inside of the gate, so that the store can't
// be closed meanwhile.
func (s *Store) View() *View {
	s.commit.Lock()
	defer s.commit.Unlock()
	return s.viewLocked()
}

// ViewToSend is View for a replica that gets all data: the first effect behind it names its
// database. The caller need not be inside of the gate. Nothing is committed between the view and
// follow, if that isn't nil: the log ends at the view's position. When follow fails there is no
// view.
func (s *Store) ViewToSend(follow func(position int64) error) (*View, error) {
	s.reopening.RLock()
	defer s.reopening.RUnlock()
	if s.closing() {
		return nil, errClosing
	}
	s.commit.Lock()
	defer s.commit.Unlock()
	s.commit.reselect = true
	v := s.viewLocked()
	if follow == nil {
		return v, nil
	}
	if err := follow(v.Position()); err != nil {
		v.Release()
		return nil, err
	}
	return v, nil
}

func (s *Store) viewLocked() *View {
	now := s.tiers.Load()
	v := &View{store: s, snapshot: s.db().Snapshot(), recent: now.recent.marked(), state: s.state()}
	v.databases = make([]*Namespace, len(now.databases))
	for i, ns := range now.databases {
		v.databases[i] = ns.copy()
	}
	if s.commit.log != nil {
		v.selected = s.commit.log.Database()
	}
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	if s.views.open == nil {
		s.views.open = map[*View]struct{}{}
	}
	s.views.open[v] = struct{}{}
	return v
}

// copy keeps the counters as they are. The family is the view's own to look up, since a namespace
// may get one while the view is in use.
func (ns *Namespace) copy() *Namespace {
	c := &Namespace{Number: ns.Number}
	c.family.Store(ns.family.Load())
	c.keys.Store(ns.keys.Load())
	c.expires.Store(ns.expires.Load())
	return c
}

// Release gives the view back. Nothing may be read through it afterwards.
func (v *View) Release() {
	v.released.Do(func() {
		v.snapshot.Release()
		v.recent = nil // whoever still knows the view keeps no generations by that
		v.store.views.mu.Lock()
		defer v.store.views.mu.Unlock()
		delete(v.store.views.open, v)
	})
}

// Position is the position of the log that the view is as of.
func (v *View) Position() int64 { return v.state.Position }

// Selected is the database that the log's stream has selected at that position.
func (v *View) Selected() int { return v.selected }

// Size is the number of keys in a database, and of those that have an expiry.
func (v *View) Size(database int) (keys, expires int64) {
	ns := v.databases[database]
	return ns.keys.Load(), ns.expires.Load()
}

// ReadFrom makes the transaction read from a view, until Reset. It can't write then. It takes along
// the order of indexes that it has used: the view was made under their locks, which are still held.
func (t *Txn) ReadFrom(v *View) {
	t.view = v
	t.cloneOrder()
}

func (v *View) get(hash uint64, ns *Namespace, key []byte) (value []byte, found bool, err error) {
	if value, state := v.recent.get(hash, ns.Number, key); state != generation.Unknown {
		return value, state == generation.Present, nil
	}
	family := ns.family.Load()
	if family == nil {
		return nil, false, nil // RocksDB had none of it when the view was taken
	}
	return v.store.db().Get(family, v.snapshot, key, nil)
}

// oldestView is the lowest position of a view in use: -1 of one that is as of another log, without
// any, no limit.
func (s *Store) oldestView() int64 {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	oldest := int64(unlimited)
	for v := range s.views.open {
		if v.former {
			return -1
		}
		oldest = min(oldest, v.state.Position)
	}
	return oldest
}

// leaveLog notes that views in use are as of a log that is exchanged for another one.
func (s *Store) leaveLog() {
	s.views.mu.Lock()
	defer s.views.mu.Unlock()
	for v := range s.views.open {
		v.former = true
	}
}
