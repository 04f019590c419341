package execute

import (
	"cmp"
	"slices"
	"time"

	"kedis/storage"
	"kedis/storage/layout"
)

// Who fills a key passes over a client that is reserved with another of its keys. When the client
// isn't served from that one, the key is offered to it again, and to nobody else: all others have
// been asked. There is one at a time who does that, so that it misses only clients whom a request
// has reserved, and there is an end to it when no more requests come.

// offerLater is when keys are offered again that can't be now: during a pause, while nothing may be
// written, behind a long script, or when a client wants another key that somebody has locked.
const offerLater = 100 * time.Millisecond

// offerMissed has the keys offered again that others have filled while a client was reserved, which
// it is no longer.
func (q *blockedOnKeys) offerMissed(b *Blocked) {
	if q.takeUp(b) {
		q.engine.beginToOffer()
	}
}

// takeUp notes what a client has missed. It reports whether somebody has to begin to offer it.
func (q *blockedOnKeys) takeUp(b *Blocked) (begins bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, place := range b.missed {
		place.missed = false
		q.missed[place.key] = append(q.missed[place.key], place)
	}
	b.missed = nil
	begins = !q.offering && len(q.missed) > 0
	q.offering = q.offering || begins
	return begins
}

// nextMissed returns a key that is to be offered again, and to whom, in the order in which they
// came. When there is none, nobody offers any more.
func (q *blockedOnKeys) nextMissed() (key watchedKey, places []*placeInQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, places = range q.missed {
		delete(q.missed, key)
		slices.SortFunc(places, func(a, b *placeInQueue) int { return cmp.Compare(a.blocked.arrival, b.blocked.arrival) })
		return key, places
	}
	q.offering = false
	return key, nil
}

// putBack has a key offered again later.
func (q *blockedOnKeys) putBack(key watchedKey, places []*placeInQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.missed[key] = append(q.missed[key], places...)
}

// reserveAgain reserves a client that has missed a key of a type, if it still waits for it.
func (q *blockedOnKeys) reserveAgain(place *placeInQueue, kind layout.Type) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return place.blocked.queued && place.reserve(kind)
}

// beginToOffer has a worker offer what was missed. It doesn't wait.
func (e *Engine) beginToOffer() {
	e.workers.whenFree(waiter{begin: func(t token) {
		go e.withToken(t, e.newBatch(0, e.workers.door, 0, e.Store.NewTxn()), (*Batch).offerAll)
	}})
}

func (b *Batch) offerAll() {
	queues := &b.engine.Blocking
	for key, places := queues.nextMissed(); places != nil; key, places = queues.nextMissed() {
		err := b.offer(key, places)
		if err == nil {
			continue
		}
		if !comesBack(err) {
			b.engine.logFailure("serving a client that waits", err)
		}
		queues.putBack(key, places)
		time.AfterFunc(offerLater, b.engine.beginToOffer)
		return
	}
}

// offer serves those who have missed a key, in a commit of its own.
func (b *Batch) offer(key watchedKey, places []*placeInQueue) error {
	b.plan.reset()
	b.plan.Lock(b.engine.Store.Stripe(key.database, []byte(key.key)), true)
	err := b.locks.await(&b.plan, b.engine.patience)
	if err != nil || b.engine.paused() || b.engine.Log.Ready() != nil { // only inside of the gate it stays so
		err = errFurther
	}
	if err == nil {
		err = b.serveMissed(key, places)
	}
	if err != nil {
		b.takeBack()
	}
	if failed := b.Commit(); err == nil {
		err = failed
	}
	return err
}

func (b *Batch) serveMissed(key watchedKey, places []*placeInQueue) error {
	_, now := b.engine.clock.now()
	b.txn.Begin(storage.Mode{}, now, 0)
	for _, place := range places {
		kind, err := b.typeOf(key)
		if err == nil && b.engine.Blocking.reserveAgain(place, kind) {
			_, err = b.tryToServe(place, now)
		}
		if err != nil {
			return err
		}
	}
	return b.serveBlocked(now)
}
