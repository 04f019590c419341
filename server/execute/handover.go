package execute

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"kedis/internal/resp"
	"kedis/storage"
	"kedis/storage/layout"
)

// A client that waits for keys is served by whoever fills one: at the end of the outermost request
// that changed the key, in the same transaction and under its locks, so that nobody who comes later can
// be faster. Serving is a step of its own: its effects are a unit of their own in the log, behind those
// of the request. The waiter is reserved meanwhile, and is told when the commit has succeeded; when the
// request is taken back or the commit fails, it has its place again.

// WaitForKeys is what a client that waits for keys wants of them.
type WaitForKeys struct {
	// Type is that of the keys that the client can be served from.
	Type layout.Type
	// Keys are in the selected database. They are locked, and none can serve the client now.
	Keys [][]byte
	// Serve serves the client from a key, which is locked, in the transaction of who changed it. It
	// returns false when the key doesn't do. An error is the client's reply.
	Serve func(c *Invocation, key []byte) (served bool, err error)
	// Gone has Serve called, too, when a key is gone or has another type.
	Gone bool
}

// BlockForKeys has the client wait for keys; see Block.
func (c *Invocation) BlockForKeys(blocked *Blocked, wanted WaitForKeys) error {
	keys := make([]watchedKey, len(wanted.Keys))
	for i, key := range wanted.Keys {
		keys[i] = watchedKey{c.selected, string(key)}
	}
	blocked.wanted = &wanted
	queues := &c.Engine.Blocking
	blocked.Register = func() { queues.enter(blocked, keys) }
	blocked.Cancel = func() { queues.leave(blocked) }
	return c.Block(blocked)
}

// blockedOnKeys has the clients that wait for keys, in the order in which they came.
type blockedOnKeys struct {
	mu       sync.Mutex
	byKey    map[watchedKey]*queue
	arrivals int64        // of all queues
	gone     int          // queues of clients that want to be told when the key is gone
	count    atomic.Int64 // of keys, for those who only want to know that there are none
}

// queue has the clients that wait for a key.
type queue struct {
	list.List     // of *Blocked, by their arrival
	gone      int // clients that want to be told when the key is gone
}

// inQueue is a client's place in the queue of a key.
type inQueue struct {
	key   watchedKey
	place *list.Element
}

func (q *blockedOnKeys) enter(b *Blocked, keys []watchedKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	b.arrival = q.arrivals
	for _, key := range keys {
		if slices.ContainsFunc(b.queued, func(in inQueue) bool { return in.key == key }) {
			continue
		}
		waiting := q.byKey[key]
		if waiting == nil {
			waiting = new(queue)
			q.byKey[key] = waiting
		}
		b.queued = append(b.queued, inQueue{key, waiting.PushBack(b)})
		if b.wanted.Gone {
			q.countGone(waiting, 1)
		}
	}
	q.count.Store(int64(len(q.byKey)))
}

func (q *blockedOnKeys) leave(b *Blocked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range b.queued {
		waiting := q.byKey[in.key]
		waiting.Remove(in.place)
		if b.wanted.Gone {
			q.countGone(waiting, -1)
		}
		if waiting.Len() == 0 {
			delete(q.byKey, in.key)
		}
	}
	b.queued = nil
	q.count.Store(int64(len(q.byKey)))
}

// countGone counts a client that wants to be told when the key is gone, or that does so no more.
func (q *blockedOnKeys) countGone(waiting *queue, change int) {
	before := waiting.gone
	waiting.gone += change
	switch {
	case before == 0:
		q.gone++
	case waiting.gone == 0:
		q.gone--
	}
}

// Count is how many keys clients wait for, and for how many of them they want to be told when they are
// gone.
func (q *blockedOnKeys) Count() (keys, gone int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.byKey), q.gone
}

// waitsFor reports whether anybody waits for a key.
func (q *blockedOnKeys) waitsFor(key watchedKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byKey[key] != nil
}

// reserve reserves the first client that could be served from a key of a type; 0: there is no such key. It
// looks behind passed, which the key didn't do for; nil: at all.
func (q *blockedOnKeys) reserve(key watchedKey, kind layout.Type, passed *Blocked) *Blocked {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.byKey[key]
	if waiting == nil {
		return nil
	}
	for e := waiting.behind(key, passed); e != nil; e = e.Next() {
		b := e.Value.(*Blocked)
		if b.wanted.Type != kind && !b.wanted.Gone {
			continue
		}
		if b.state.CompareAndSwap(blockedFree, blockedReserved) {
			return b
		}
	}
	return nil
}

// behind is the place behind a client, which may have left the queue of the key meanwhile.
func (w *queue) behind(key watchedKey, passed *Blocked) *list.Element {
	e := w.Front()
	if passed == nil {
		return e
	}
	for _, in := range passed.queued {
		if in.key == key {
			return in.place.Next()
		}
	}
	for e != nil && e.Value.(*Blocked).arrival <= passed.arrival {
		e = e.Next()
	}
	return e
}

// keysIn are the keys of a database that somebody waits for.
func (q *blockedOnKeys) keysIn(database int) (keys []watchedKey) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key := range q.byKey {
		if key.database == database {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b watchedKey) int { return strings.Compare(a.key, b.key) })
	return keys
}

// served is a client that was served in the transaction.
type served struct {
	blocked *Blocked
	reply   []byte
	failure string
}

// serveBlocked serves the clients that wait for keys which the outermost request has changed. Who is
// served may change others.
func (b *Batch) serveBlocked(now int64) error {
	queues := &b.engine.Blocking
	if queues.count.Load() == 0 {
		return nil // whoever is about to wait has to wait for the locks first
	}
	var ready []watchedKey
	for _, database := range b.running.replaced {
		ready = append(ready, queues.keysIn(database)...)
	}
	for from := b.running.marked; ; {
		ready = b.changedKeys(ready, from)
		if len(ready) == 0 {
			return nil
		}
		from = b.txn.KeyEvents().Len()
		for _, key := range ready {
			if err := b.serveKey(key, now); err != nil {
				return err
			}
		}
		ready = ready[:0]
	}
}

// changedKeys appends the keys that somebody waits for and that events behind the first ones are about.
func (b *Batch) changedKeys(ready []watchedKey, first int) []watchedKey {
	b.txn.KeyEvents().Each(first, func(e storage.KeyEvent) {
		key := watchedKey{e.Database, string(e.Key)}
		if !slices.Contains(ready, key) && b.engine.Blocking.waitsFor(key) {
			ready = append(ready, key)
		}
	})
	return ready
}

// serveKey serves clients from a key, the first that came first, as long as that goes.
func (b *Batch) serveKey(key watchedKey, now int64) error {
	var passed *Blocked
	for {
		kind, err := b.typeOf(key)
		if err != nil {
			return err
		}
		blocked := b.engine.Blocking.reserve(key, kind, passed)
		if blocked == nil {
			return nil
		}
		done, err := b.serve(blocked, key, now)
		if err != nil {
			blocked.release()
			return err
		}
		if !done {
			blocked.release()
			passed = blocked
		}
	}
}

func (b *Batch) typeOf(key watchedKey) (layout.Type, error) {
	db := b.txn.DB(key.database)
	k, err := db.LookupAny([]byte(key.key))
	if err != nil || !k.Exists || db.Expired(k) {
		return 0, err
	}
	return k.Type, nil
}

// serve serves a client that is reserved.
func (b *Batch) serve(blocked *Blocked, key watchedKey, now int64) (done bool, err error) {
	reply := resp.NewWriter(blocked.session.Protocol)
	c := b.invocation(1, blocked.session, blocked.request, reply)
	c.mark()
	b.txn.Begin(b.mode(c), now, b.budget)
	c.begin(now)
	c.selected, c.DB = key.database, b.txn.DB(key.database)
	if err = b.engine.refusal(blocked); err == nil {
		done, err = blocked.wanted.Serve(c, []byte(key.key))
	}
	if err != nil {
		c.takeBack()
		if b.takesBack(err) {
			return false, err
		}
		c.Fail(err)
		done = true
	}
	if done {
		b.txn.Enclose(&c.before.txn)
		b.running.outbox.served = append(b.running.outbox.served, served{blocked, reply.Bytes(), c.failure})
	}
	return done, nil
}

// tell tells a client that it was served; the log holds that up to a position.
func (s *served) tell(position int64) {
	s.blocked.written = position
	s.blocked.failure = s.failure
	reply := s.reply
	s.blocked.answer = func(w *resp.Writer) { w.Raw(reply) }
	s.blocked.state.Store(blockedEnded)
	s.blocked.session.Peer.Unblock(s.blocked)
}

// release gives a reserved client its place again. Its deadline may have passed, and its connection may
// be gone, so its reactor looks again.
func (b *Blocked) release() {
	b.state.Store(blockedFree)
	b.session.Peer.Unblock(b)
}

// Replaced says that the whole of a database is another now: no key event tells of its keys.
func (c *Invocation) Replaced(database int) {
	c.batch.running.replaced = append(c.batch.running.replaced, database)
}
