package command

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/number"
	"kedis/storage"
)

func transactionFamily() Family {
	return Family{Commands: []Command{
		{Name: "multi", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdMulti, immediate: true,
			Group: "transactions", Since: "1.2.0", Complexity: "O(1)",
			Summary: "Begins a transaction: commands are queued until EXEC."},
		{Name: "exec", Arity: 1, Flags: NoScript | Loading | Stale | SkipSlowlog,
			Categories: CategoryTransaction, Run: cmdExec, immediate: true, runsQueue: true, plan: planExec,
			Group: "transactions", Since: "1.2.0", Complexity: "Depends on the commands in the transaction",
			Summary: "Runs all queued commands as one step, unless a watched key has changed."},
		{Name: "discard", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdDiscard, immediate: true,
			Group: "transactions", Since: "2.0.0", Complexity: "O(N), N being the number of queued commands",
			Summary: "Ends a transaction without running it."},
		{Name: "watch", Arity: -2, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Keys: []KeySpec{keyRange(1, -1, 1, RO)}, Run: cmdWatch, immediate: true,
			Group: "transactions", Since: "2.2.0", Complexity: "O(1) for every key", Syntax: "key [key ...]",
			Summary: "Makes the next EXEC depend on the keys staying as they are."},
		{Name: "unwatch", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy,
			Categories: CategoryTransaction, Run: cmdUnwatch,
			Group: "transactions", Since: "2.2.0", Complexity: "O(1)",
			Summary: "Forgets the watched keys."},
	}}
}

func cmdMulti(c *Context) error {
	if c.Session.Transaction.active {
		return Error("ERR MULTI calls can not be nested")
	}
	c.Session.Transaction = transaction{active: true}
	c.Session.publishQueue()
	c.Reply.OK()
	return nil
}

// enqueue keeps a command for EXEC. The words are copied, since they outlive the request.
func (s *Session) enqueue(command *Command, args [][]byte) {
	copied := make([][]byte, len(args))
	for i, arg := range args {
		copied[i] = bytes.Clone(arg)
	}
	t := &s.Transaction
	t.queue = append(t.queue, queuedCommand{command, copied})
	t.flags |= command.Flags
	t.lacked |= ^command.Flags
	t.bytes += wordBytes(args)
	s.publishQueue()
	s.Reply.SimpleString("QUEUED")
}

func (s *Session) endTransaction() {
	s.Transaction = transaction{}
	s.publishQueue()
}

func cmdDiscard(c *Context) error {
	if !c.Session.Transaction.active {
		return Error("ERR DISCARD without MULTI")
	}
	c.Session.endTransaction()
	c.Engine.watches.forget(c.Session)
	c.Reply.OK()
	return nil
}

// planExec adds up what the queued commands need. Watched keys are locked too, so that nobody
// changes them between the look at them and the commit.
func planExec(c *Context, p *plan) error {
	s := c.Session
	if !s.Transaction.active || s.Transaction.aborted {
		return nil
	}
	database := s.Database
	for _, q := range s.Transaction.queue {
		if err := p.add(c.Engine, database, q.command, q.args); err != nil {
			return err
		}
		if q.command.selects {
			if n, ok := number.ParseInt(q.args[1]); ok && n >= 0 && n < int64(c.Engine.Store.Databases()) {
				database = int(n)
			}
		}
	}
	for _, w := range s.watched {
		p.locks = append(p.locks, wantedLock{c.Engine.Store.Stripe(w.database, []byte(w.key)), false})
	}
	return nil
}

func cmdExec(c *Context) error {
	s := c.Session
	if !s.Transaction.active {
		return Error("ERR EXEC without MULTI")
	}
	queue, aborted := s.Transaction.queue, s.Transaction.aborted
	expired, err := watchedExpired(c)
	if err != nil {
		return err
	}
	if aborted || expired || s.dirty.Load() {
		s.endTransaction()
		c.Engine.watches.forget(s)
		if aborted {
			return ErrExecAbort
		}
		c.Reply.NullArray()
		return nil
	}
	s.endTransaction()
	if err := c.runQueue(queue); err != nil {
		return err
	}
	c.Engine.watches.forget(s)
	return nil
}

// runQueue runs queued commands in the transaction that EXEC runs in. An error of one is its reply,
// and doesn't keep the others from running.
func (c *Context) runQueue(queue []queuedCommand) error {
	command, args := c.Command, c.Args
	// What has run is counted when all of it has: it may turn out to be a worker's.
	ran := make([]ranCommand, 0, len(queue))
	c.Reply.Array(len(queue))
	c.queued = true
	defer func() { c.queued = false }()
	var savepoint storage.Savepoint
	for _, q := range queue {
		c.Command, c.Args = q.command, q.args
		start := c.batch.clock
		c.Txn.Mark(&savepoint)
		err := c.batch.call(c, c.Now, &savepoint)
		if c.batch.exhausted(err) || errors.Is(err, storage.ErrInterrupted) { // half a transaction must not be committed
			c.Command, c.Args = command, args
			return err
		}
		c.batch.Tick()
		ran = append(ran, ranCommand{q, c.selected, c.redacted, time.Duration(c.batch.clock - start), err != nil})
	}
	for _, r := range ran {
		c.Command, c.Args, c.selected, c.redacted = r.command, r.args, r.database, r.redacted
		c.batch.account(c, r.took, r.failed)
	}
	c.Command, c.Args, c.redacted = command, args, 0
	c.NoEffect()
	return nil
}

// ranCommand is a command of a queue that has run.
type ranCommand struct {
	queuedCommand
	database int
	redacted redaction
	took     time.Duration
	failed   bool
}

func cmdWatch(c *Context) error {
	if c.Session.Transaction.active {
		return Error("ERR WATCH inside MULTI is not allowed")
	}
	for _, key := range c.Args[1:] {
		k, err := c.DB.LookupAny(key)
		if err != nil {
			return err
		}
		c.Engine.watches.add(c.Session, watchedKey{c.selected, string(key)}, k.Exists && c.DB.Expired(k))
	}
	c.Reply.OK()
	return nil
}

func cmdUnwatch(c *Context) error {
	c.Engine.watches.forget(c.Session)
	c.Reply.OK()
	return nil
}

// watchedExpired tells whether a watched key has expired since: nobody wrote it, and still it is
// not what it was.
func watchedExpired(c *Context) (bool, error) {
	for _, w := range c.Session.watched {
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

// watches knows who watches which key.
type watches struct {
	mu    sync.Mutex
	byKey map[watchedKey]map[*Session]struct{}
	count atomic.Int64 // of keys, for those who only want to know that there are none
}

func (w *watches) init() { w.byKey = map[watchedKey]map[*Session]struct{}{} }

func (w *watches) add(s *Session, key watchedKey, expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sessions := w.byKey[key]
	if sessions == nil {
		sessions = map[*Session]struct{}{}
		w.byKey[key] = sessions
	}
	if _, already := sessions[s]; already {
		return
	}
	sessions[s] = struct{}{}
	w.count.Store(int64(len(w.byKey)))
	s.watched = append(s.watched, watchedEntry{key, expired})
	s.watching.Store(int32(len(s.watched)))
}

// guard watches a key without a client: the session that it returns gets dirty when the key changes. The
// key's lock is held; forget ends it.
func (w *watches) guard(database int, key []byte) *Session {
	g := &Session{}
	w.add(g, watchedKey{database, string(key)}, false)
	return g
}

// forget ends all watching of a session.
func (w *watches) forget(s *Session) {
	if len(s.watched) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, entry := range s.watched {
		sessions := w.byKey[entry.watchedKey]
		delete(sessions, s)
		if len(sessions) == 0 {
			delete(w.byKey, entry.watchedKey)
		}
	}
	w.count.Store(int64(len(w.byKey)))
	s.watched = nil
	s.watching.Store(0)
	s.dirty.Store(false)
}

// changed marks those who watch a key that something has happened to, in all but the first events. The
// locks of the keys are held, so an EXEC that comes later sees the mark.
func (w *watches) changed(events *storage.KeyEvents, first int) {
	if w.count.Load() == 0 {
		return // whoever is about to watch one of the keys has to wait for its lock
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.byKey) == 0 {
		return
	}
	events.Each(first, func(e storage.KeyEvent) {
		watched := watchedKey{e.Database, string(e.Key)}
		for s := range w.byKey[watched] {
			if e.Name != storage.EventExpired || !s.sawExpire(watched) {
				s.dirty.Store(true)
			}
		}
	})
}

// sawExpire tells that a key had expired already when WATCH came: to remove it is no change then, but whatever comes after it is.
func (s *Session) sawExpire(key watchedKey) bool {
	entry := s.watchedEntry(key)
	saw := entry.expired
	entry.expired = false
	return saw
}

// watchedEntry finds what a session knows of a key that it watches.
func (s *Session) watchedEntry(key watchedKey) *watchedEntry {
	i := slices.IndexFunc(s.watched, func(entry watchedEntry) bool { return entry.watchedKey == key })
	return &s.watched[i]
}

// presence is what a database has of a key.
type presence int

const (
	missing presence = iota
	expired          // its time has come, and nobody has removed it yet
	present
)

// presenceIn returns what a database has of keys.
func presenceIn(db storage.DB) func(key []byte) (presence, error) {
	return func(key []byte) (presence, error) {
		k, err := db.LookupAny(key)
		switch {
		case err != nil || !k.Exists:
			return missing, err
		case db.Expired(k):
			return expired, nil
		}
		return present, nil
	}
}

// presentNowhere is what a database that is emptied has of keys.
func presentNowhere([]byte) (presence, error) { return missing, nil }

// databaseChanged marks those who watch a key that FLUSHDB or SWAPDB takes away, brings or changes. Nothing else runs.
func (w *watches) databaseChanged(database int, before, after func(key []byte) (presence, error)) error {
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
		for s := range sessions {
			s.replaced(key, was, is)
		}
	}
	return nil
}

// replaced marks a session that watches a key, unless there was none as far as it knows, and is none now: one that has expired is none, too.
func (s *Session) replaced(key watchedKey, was, is presence) {
	entry := s.watchedEntry(key)
	switch {
	case entry.expired && is == missing:
		entry.expired = false
	case entry.expired && is == expired, was == missing && is == missing:
	case !entry.expired && was == missing && is == expired:
		entry.expired = true
	default:
		s.dirty.Store(true)
	}
}
