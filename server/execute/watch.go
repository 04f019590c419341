package execute

import (
	"sync"
	"sync/atomic"

	"kedis/internal/keyevent"
	"kedis/storage"
)

// watchedKey is a key that a session watches.
type watchedKey struct {
	database int
	key      string
}

// watchedEntry is one that had perhaps expired when WATCH came.
type watchedEntry struct {
	watchedKey
	expired bool
}

// watched are the keys that a session watches.
type watched struct {
	entries  []watchedEntry
	watching atomic.Int32 // how many
	dirty    atomic.Bool  // one of them has changed
}

// watches knows who watches which key.
type watches struct {
	mu    sync.Mutex
	byKey map[watchedKey]map[*Session]int // the index of the session's entry
	any   condition                       // there are some
}

func (w *watches) init() { w.byKey = map[watchedKey]map[*Session]int{} }

// Count is how many keys are watched.
func (w *watches) Count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.byKey))
}

// Watch has a session watch a key.
func (w *watches) Watch(s *Session, database int, key []byte, expired bool) {
	w.add(s, watchedKey{database, string(key)}, expired)
}

func (w *watches) add(s *Session, key watchedKey, expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sessions := w.byKey[key]
	if sessions == nil {
		sessions = map[*Session]int{}
		w.byKey[key] = sessions
	}
	if _, already := sessions[s]; already {
		return
	}
	sessions[s] = len(s.entries)
	w.any.Store(len(w.byKey) > 0)
	s.entries = append(s.entries, watchedEntry{key, expired})
	s.watching.Store(int32(len(s.entries)))
	s.Watching = true
}

// Guard watches a key without a client: the session that it returns gets dirty when the key
// changes. The key's lock is held; forget ends it.
func (w *watches) Guard(database int, key []byte) *Session {
	g := &Session{}
	w.add(g, watchedKey{database, string(key)}, false)
	return g
}

// Forget ends all watching of a session.
func (w *watches) Forget(s *Session) {
	if len(s.entries) == 0 && !s.dirty.Load() {
		return
	}
	s.Watching = false
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, entry := range s.entries {
		sessions := w.byKey[entry.watchedKey]
		delete(sessions, s)
		if len(sessions) == 0 {
			delete(w.byKey, entry.watchedKey)
		}
	}
	w.any.Store(len(w.byKey) > 0)
	s.entries = nil
	s.watching.Store(0)
	s.dirty.Store(false)
}

// Changed marks those who watch a key that something has happened to, in all but the first events.
// The locks of the keys are held, so an EXEC that comes later sees the mark.
func (w *watches) Changed(events *storage.KeyEvents, first int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byKey) == 0 {
		return
	}
	events.Each(first, func(e storage.KeyEvent) {
		if !e.Name.IsSeen() {
			return
		}
		watched := watchedKey{e.Database, string(e.Key)}
		for s, entry := range w.byKey[watched] {
			gone := e.Name == keyevent.Expired || e.Name == keyevent.Removed // as a primary tells its replica
			if !gone || !s.entries[entry].sawExpire() {
				s.dirty.Store(true)
			}
		}
	})
}

// sawExpire tells that a key had expired already when WATCH came: to remove it is no change then,
// but whatever comes after it is.
func (w *watchedEntry) sawExpire() bool {
	saw := w.expired
	w.expired = false
	return saw
}

// presence is what a database has of a key.
type presence int

const (
	missing presence = iota
	expired          // its time has come, and nobody has removed it yet
	present
)

// PresenceIn returns what a database has of keys at a time (Unix ms). What has expired by then has,
// for those who watch it, also on a replica, which leaves it to its primary.
func PresenceIn(db storage.DB, now int64) func(key []byte) (presence, error) {
	return func(key []byte) (presence, error) {
		k, err := db.LookupAny(key)
		switch {
		case err != nil || !k.Exists:
			return missing, err
		case k.ExpireMs != 0 && k.ExpireMs <= now:
			return expired, nil
		}
		return present, nil
	}
}

// PresentNowhere is what a database that is emptied has of keys.
func PresentNowhere([]byte) (presence, error) { return missing, nil }

// DatabaseChanged marks those who watch a key that FLUSHDB or SWAPDB takes away, brings or changes.
// Nothing else runs.
func (w *watches) DatabaseChanged(database int, before, after func(key []byte) (presence, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, sessions := range w.byKey {
		if key.database != database {
			continue
		}
		was, err := before([]byte(key.key))
		if err != nil {
			return err
		}
		is, err := after([]byte(key.key))
		if err != nil {
			return err
		}
		for s, entry := range sessions {
			if s.entries[entry].replaced(was, is) {
				s.dirty.Store(true)
			}
		}
	}
	return nil
}

// replaced reports whether a key is another one for who watches it. It isn't if there was none as
// far as the session knows, and is none now: one that has expired is none, too.
func (w *watchedEntry) replaced(was, is presence) bool {
	switch {
	case w.expired && is == missing:
		w.expired = false
	case w.expired && is == expired, was == missing && is == missing:
	case !w.expired && was == missing && is == expired:
		w.expired = true
	default:
		return true
	}
	return false
}

func (w *watches) everythingChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sessions := range w.byKey {
		for s := range sessions {
			s.dirty.Store(true)
		}
	}
}

// ForgetWatches makes the next EXEC of all who watch keys fail, and clients forget what they have
// in their caches: the data is another.
func (e *Engine) ForgetWatches() {
	e.Watches.everythingChanged()
	e.InvalidateAll()
}

// WatchedExpired tells whether a watched key has expired since: nobody wrote it, and still it is
// not what it was.
func WatchedExpired(c *Invocation) (bool, error) {
	for _, w := range c.Session.entries {
		if w.expired {
			continue
		}
		db := c.InDatabase(w.database)
		k, err := db.LookupAny([]byte(w.key))
		if err != nil {
			return false, err
		}
		if k.Exists && db.Expired(k) {
			return true, nil
		}
	}
	return false, nil
}
