package execute

import (
	"slices"
	"strings"
	"sync"

	"kedis/internal/keyevent"
	"kedis/storage"
	"kedis/storage/layout"
)

// blockedOnKeys has the clients that wait for keys, in the order in which they came.
type blockedOnKeys struct {
	mu       sync.Mutex
	byKey    map[watchedKey]*queue
	spare    *queue    // one that is empty
	arrivals int64     // of all queues
	rounds   int64     // of changed
	gone     int       // queues of clients that want to be told when the key is gone
	any      condition // somebody waits

	engine   *Engine
	missed   map[watchedKey][]*placeInQueue // keys that are to be offered again, and to whom
	offering bool                           // a worker does that, or is asked to
}

func (q *blockedOnKeys) init(e *Engine) {
	q.engine, q.byKey, q.missed = e, map[watchedKey]*queue{}, map[watchedKey][]*placeInQueue{}
}

// queue has the clients that wait for a key, by their arrival.
type queue struct {
	key         watchedKey
	first, last *placeInQueue
	gone        int   // clients that want to be told when the key is gone
	listed      int64 // the round of changed that has listed the key last
}

// placeInQueue is a client's place in the queue of a key. It is part of the Blocked, so that a wait
// costs few allocations.
type placeInQueue struct {
	key            watchedKey
	blocked        *Blocked
	before, behind *placeInQueue
	missed         bool // it is in blocked.missed
}

// reserve reserves the client, if it could be served from a key of a type; 0: there is no such key.
// It needs blockedOnKeys.mu to be held.
func (p *placeInQueue) reserve(kind layout.Type) bool {
	b := p.blocked
	switch {
	case b.wanted.Type != kind && !b.wanted.Gone:
		return false
	case b.isFree() && b.state.CompareAndSwap(blockedFree, blockedReserved):
		return true
	}
	p.miss()
	return false
}

// miss notes that the key isn't offered to the client, which isn't free: somebody may have it
// reserved with another key, and then not serve it. Whoever frees it looks at what was missed
// behind that and under the same mutex, so no key is lost. It needs blockedOnKeys.mu to be held.
func (p *placeInQueue) miss() {
	if !p.missed && !p.blocked.Ended() {
		p.missed = true
		p.blocked.missed = append(p.blocked.missed, p)
	}
}

func (q *queue) push(p *placeInQueue) {
	if p.before = q.last; p.before == nil {
		q.first = p
	} else {
		p.before.behind = p
	}
	q.last = p
}

func (q *queue) remove(p *placeInQueue) {
	if p.before == nil {
		q.first = p.behind
	} else {
		p.before.behind = p.behind
	}
	if p.behind == nil {
		q.last = p.before
	} else {
		p.behind.before = p.before
	}
}

// enter has a client wait in the queues of its places. Of those with the same key it keeps one.
func (q *blockedOnKeys) enter(b *Blocked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	b.arrival, b.queued = q.arrivals, true
	kept := b.places[:0]
	for i := range b.places {
		waiting := q.queueOf(b.places[i].key)
		if waiting.last != nil && waiting.last.blocked == b {
			continue
		}
		kept = append(kept, b.places[i])
		waiting.push(&kept[len(kept)-1])
		if b.wanted.Gone {
			q.countGone(waiting, 1)
		}
	}
	b.places = kept
	q.any.Store(len(q.byKey) > 0)
}

// queueOf is the queue of a key, which is made if there is none.
func (q *blockedOnKeys) queueOf(key watchedKey) *queue {
	waiting := q.byKey[key]
	if waiting == nil {
		waiting, q.spare = q.spare, nil
		if waiting == nil {
			waiting = new(queue)
		}
		waiting.key = key
		q.byKey[key] = waiting
	}
	return waiting
}

func (q *blockedOnKeys) leave(b *Blocked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !b.queued {
		return
	}
	b.queued = false
	for i := range b.places {
		place := &b.places[i]
		waiting := q.byKey[place.key]
		waiting.remove(place)
		if b.wanted.Gone {
			q.countGone(waiting, -1)
		}
		if waiting.first == nil {
			delete(q.byKey, place.key)
			*waiting = queue{}
			q.spare = waiting
		}
	}
	q.any.Store(len(q.byKey) > 0)
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

// Count is how many keys clients wait for, and for how many of them they want to be told when they
// are gone.
func (q *blockedOnKeys) Count() (keys, gone int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.byKey), q.gone
}

// changed appends the keys that somebody waits for, in the order in which events behind the first
// ones have made them what somebody could be served from. What is listed already isn't listed
// again.
func (q *blockedOnKeys) changed(ready []watchedKey, events *storage.KeyEvents, first int) []watchedKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rounds++
	for _, key := range ready {
		if waiting := q.byKey[key]; waiting != nil {
			waiting.listed = q.rounds
		}
	}
	events.Each(first, func(e storage.KeyEvent) {
		waiting := q.byKey[watchedKey{e.Database, string(e.Key)}]
		if waiting == nil || waiting.listed == q.rounds || !waiting.heeds(e.Name) {
			return
		}
		waiting.listed = q.rounds
		ready = append(ready, waiting.key) // it outlives the event's
	})
	return ready
}

// heeds reports whether an event may end somebody's wait. That a key is gone, or what groups are
// awaited for, only matters to who wants to be told. What else groups know changes with each XACK
// and XREADGROUP, and gives nobody anything: to go over all who wait would take as long as there
// are many.
func (q *queue) heeds(name keyevent.Name) bool {
	switch name {
	case keyevent.Unseen:
		return false
	case keyevent.Awaited, keyevent.Removed, keyevent.Expired:
		return q.gone > 0
	}
	return true
}

// anybody reports whether a client waits for a key that isn't served yet, behind passed.
func (q *blockedOnKeys) anybody(key watchedKey, passed *placeInQueue) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.byKey[key]
	if waiting == nil {
		return false
	}
	for place := waiting.after(passed); place != nil; place = place.behind {
		if place.blocked.isFree() {
			return true
		}
		place.miss()
	}
	return false
}

// reserve reserves the first client that could be served from a key of a type; 0: there is no such
// key. It looks behind passed, whose client the key didn't do for; nil: at all.
func (q *blockedOnKeys) reserve(key watchedKey, kind layout.Type, passed *placeInQueue) *placeInQueue {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.byKey[key]
	if waiting == nil {
		return nil
	}
	for place := waiting.after(passed); place != nil; place = place.behind {
		if place.reserve(kind) {
			return place
		}
	}
	return nil
}

// after is the place behind that of a client, which may have left the queues meanwhile.
func (q *queue) after(passed *placeInQueue) *placeInQueue {
	if passed == nil {
		return q.first
	}
	if passed.blocked.queued {
		return passed.behind
	}
	place := q.first
	for place != nil && place.blocked.arrival <= passed.blocked.arrival {
		place = place.behind
	}
	return place
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
