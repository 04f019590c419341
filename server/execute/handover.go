package execute

import (
	"bytes"

	"kedis/internal/resp"
	"kedis/storage/layout"
)

// A client that waits for keys is served by whoever fills one: at the end of the outermost request
// that changed the key, in the same transaction and under its locks, so that nobody who comes later
// can be faster. Serving is a step of its own: its effects are a unit of their own in the log,
// behind those of the request. The waiter is reserved meanwhile, and is told when the commit has
// succeeded; when the request is taken back or the commit fails, it has its place again.

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
	blocked.wanted = wanted
	blocked.queues = &c.Engine.Blocking
	blocked.places = blocked.one[:0]
	if len(wanted.Keys) > len(blocked.one) {
		blocked.places = make([]placeInQueue, 0, len(wanted.Keys))
	}
	for _, key := range wanted.Keys {
		blocked.places = append(blocked.places, placeInQueue{key: watchedKey{c.selected, string(key)}, blocked: blocked})
	}
	return c.Block(blocked)
}

// served is a client that was served in the transaction.
type served struct {
	blocked *Blocked
	reply   []byte
	failure string
}

// serving is what is needed while clients are served, and used again.
type serving struct {
	ready []watchedKey // keys that somebody waits for and that were changed
	reply resp.Writer
}

// serveBlocked serves the clients that wait for keys which the outermost request has changed. Who
// is served may change others.
func (b *Batch) serveBlocked(now int64) error {
	queues := &b.engine.Blocking
	ready := b.running.serving.ready[:0]
	defer func() {
		clear(ready[:cap(ready)])
		b.running.serving.ready = ready
	}()
	for _, database := range b.running.replaced {
		ready = append(ready, queues.keysIn(database)...)
	}
	for from := b.running.marked; ; {
		ready = queues.changed(ready, b.txn.KeyEvents(), from)
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

// serveKey serves clients from a key, the first that came first, as long as that goes.
func (b *Batch) serveKey(key watchedKey, now int64) error {
	var passed *placeInQueue
	for b.engine.Blocking.anybody(key, passed) {
		kind, err := b.typeOf(key)
		if err != nil {
			return err
		}
		place := b.engine.Blocking.reserve(key, kind, passed)
		if place == nil {
			return nil
		}
		done, err := b.tryToServe(place, now)
		if err != nil {
			return err
		}
		if !done {
			passed = place
		}
	}
	return nil
}

// tryToServe serves a client that is reserved, or frees it.
func (b *Batch) tryToServe(place *placeInQueue, now int64) (done bool, err error) {
	if done, err = b.serve(place.blocked, place.key, now); !done {
		place.blocked.release()
	}
	return done, err
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
	reply := &b.running.serving.reply
	reply.Reset()
	reply.SetProtocol(blocked.session.Protocol)
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
		c.answerError(err)
		done = true
	}
	if done {
		b.txn.Enclose(&c.before.txn)
		b.running.outbox.served = append(b.running.outbox.served, served{blocked, bytes.Clone(reply.Bytes()), c.failure})
	}
	return done, nil
}

// tell tells a client that it was served; the log holds that up to a position.
func (s *served) tell(position int64) {
	s.blocked.written = position
	s.blocked.failure = s.failure
	s.blocked.reply = s.reply
	s.blocked.state.Store(blockedEnded)
	s.blocked.session.Peer.Unblock(s.blocked)
}

// release gives a reserved client its place again, unless somebody has ended its wait meanwhile.
// Its deadline may have passed, and its connection may be gone, so its reactor looks again. Others
// may have filled another of its keys, so a worker looks again at those.
func (b *Blocked) release() {
	b.state.Store(blockedFree)
	b.claimLate()
	if b.queues != nil {
		b.queues.offerMissed(b)
	}
	b.session.Peer.Unblock(b)
}

// Replaced says that the whole of a database is another now: no key event tells of its keys.
func (c *Invocation) Replaced(database int) {
	c.batch.running.replaced = append(c.batch.running.replaced, database)
}
