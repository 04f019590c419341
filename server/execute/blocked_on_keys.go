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
	gone     int       // queues of clients that want to be told when the key is gone
	any      condition // somebody waits
}

// queue has the clients that wait for a key, by their arrival.
type queue struct {
	first, last *placeInQueue
	gone        int // clients that want to be told when the key is gone
}

// placeInQueue is a client's place in the queue of a key. It is part of the Blocked, so that a wait
// costs few allocations.
type placeInQueue struct {
	key            watchedKey
	blocked        *Blocked
	before, behind *placeInQueue
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

// enter has a client wait in the queues of its places.
func (q *blockedOnKeys) enter(b *Blocked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrivals++
	b.arrival, b.queued = q.arrivals, true
	for i := range b.places {
		place := &b.places[i]
		waiting := q.byKey[place.key]
		if waiting == nil {
			waiting, q.spare = q.spare, nil
			if waiting == nil {
				waiting = new(queue)
			}
			q.byKey[place.key] = waiting
		}
		waiting.push(place)
		if b.wanted.Gone {
			q.countGone(waiting, 1)
		}
	}
	q.any.Store(len(q.byKey) > 0)
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
// ones have made them what somebody could be served from. That a key is gone only matters to who
// wants to be told.
func (q *blockedOnKeys) changed(ready []watchedKey, events *storage.KeyEvents, first int) []watchedKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	events.Each(first, func(e storage.KeyEvent) {
		waiting := q.byKey[watchedKey{e.Database, string(e.Key)}]
		gone := e.Name == keyevent.Removed || e.Name == keyevent.Expired
		if waiting == nil || gone && waiting.gone == 0 {
			return
		}
		// The name is that of a client's place. It outlives the event's.
		if i := slices.IndexFunc(waiting.first.blocked.places, func(p placeInQueue) bool { return p.key.key == string(e.Key) }); i >= 0 {
			if key := waiting.first.blocked.places[i].key; !slices.Contains(ready, key) {
				ready = append(ready, key)
			}
		}
	})
	return ready
}

// anybody reports whether a client waits for a key that isn't served yet, behind passed.
func (q *blockedOnKeys) anybody(key watchedKey, passed *Blocked) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.byKey[key]
	if waiting == nil {
		return false
	}
	for place := waiting.after(key, passed); place != nil; place = place.behind {
		if place.blocked.state.Load() == blockedFree {
			return true
		}
	}
	return false
}

// reserve reserves the first client that could be served from a key of a type; 0: there is no such
// key. It looks behind passed, which the key didn't do for; nil: at all.
func (q *blockedOnKeys) reserve(key watchedKey, kind layout.Type, passed *Blocked) *Blocked {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.byKey[key]
	if waiting == nil {
		return nil
	}
	for place := waiting.after(key, passed); place != nil; place = place.behind {
		b := place.blocked
		if b.wanted.Type != kind && !b.wanted.Gone {
			continue
		}
		if b.state.CompareAndSwap(blockedFree, blockedReserved) {
			return b
		}
	}
	return nil
}

// after is the place behind a client, which may have left the queue of the key meanwhile.
func (q *queue) after(key watchedKey, passed *Blocked) *placeInQueue {
	if passed == nil {
		return q.first
	}
	if passed.queued {
		for i := range passed.places {
			if passed.places[i].key == key {
				return passed.places[i].behind
			}
		}
	}
	place := q.first
	for place != nil && place.blocked.arrival <= passed.arrival {
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
