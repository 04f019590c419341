// Package lock holds the per-key locks of Kedis: striped reader-writer locks that are tried,
// never waited for, and a gate that commands on whole databases close.
//
// The package knows nothing of keys, connections or goroutines: callers bring a hash, an owner
// and a function to be called when the lock has become theirs. It imports the standard library and
// internal/hugepage only.
package lock

import (
	"slices"
	"sync"
	"sync/atomic"

	"kedis/internal/hugepage"
)

// Owner names whoever holds an exclusive lock: a reactor's running transaction or a worker.
// Zero is nobody. An owner is used by one goroutine at a time.
type Owner uint16

// Stripes is the number of locks in a Table. Two keys share a lock with a probability of one in
// Stripes, which has to be small against the number of keys that a pass of a reactor holds
// (thousands), or reactors would stop each other for nothing.
const Stripes = 1 << 20

// Table is a set of striped reader-writer locks.
//
// A stripe's word: exclusive owner in the upper 16 bits, a bit that says that somebody waits,
// and the number of readers in the lower 15 bits.
//
//	| owner:16 | waiting:1 | readers:15 |
//
// Nobody waits inside of the table while holding a lock of it: a transaction that can't get a lock
// gives back all that it holds and asks to be granted the one it lacks. So there are no deadlocks,
// and the first in the queue of a stripe gets it next, so there is no starvation either.
type Table struct {
	words [Stripes]atomic.Uint32

	mu    sync.Mutex
	queue map[uint32][]waiter
}

type waiter struct {
	owner   Owner
	granted func(stripe uint32)
}

const (
	waitingBit  = 1 << 15
	readersMask = waitingBit - 1
	ownerShift  = 16
)

// NewTable returns a table with every lock free.
func NewTable() *Table {
	t := &Table{queue: make(map[uint32][]waiter)}
	hugepage.Advise(t.words[:])
	return t
}

// Stripe tells which stripe a hash belongs to.
func Stripe(hash uint64) uint32 { return uint32(hash>>32) & (Stripes - 1) }

// Result is what became of an attempt to take a lock.
type Result int

const (
	Busy     Result = iota // somebody else holds it
	Acquired               // the caller holds it now, and has to release it
	Held                   // the caller's owner held it exclusively before
)

// Holder is who holds a stripe exclusively; 0: nobody.
func (t *Table) Holder(stripe uint32) Owner { return Owner(t.words[stripe].Load() >> ownerShift) }

// Peek looks at a stripe, so that it is near when it is tried.
func (t *Table) Peek(stripe uint32) uint32 { return t.words[stripe].Load() }

// TryExclusive takes a stripe for writing. It fails while others read it, write it or, so that
// a writer isn't starved by those that come later, wait for it.
func (t *Table) TryExclusive(stripe uint32, owner Owner) Result {
	word := &t.words[stripe]
	for {
		w := word.Load()
		switch {
		case Owner(w>>ownerShift) == owner:
			return Held
		case w != 0:
			return Busy
		case word.CompareAndSwap(0, uint32(owner)<<ownerShift):
			return Acquired
		}
	}
}

// TryShared takes a stripe for reading.
func (t *Table) TryShared(stripe uint32, owner Owner) Result {
	word := &t.words[stripe]
	for {
		w := word.Load()
		switch {
		case Owner(w>>ownerShift) == owner:
			return Held
		case w>>ownerShift != 0, w&waitingBit != 0, w&readersMask == readersMask:
			return Busy
		case word.CompareAndSwap(w, w+1):
			return Acquired
		}
	}
}

// ReleaseShared gives back one reader's share.
func (t *Table) ReleaseShared(stripe uint32) {
	word := &t.words[stripe]
	for {
		w := word.Load()
		if w&readersMask == 0 {
			panic("lock: a share was released that nobody held")
		}
		if w == waitingBit|1 {
			if t.handOver(stripe, w) {
				return
			}
			continue
		}
		if word.CompareAndSwap(w, w-1) {
			return
		}
	}
}

// ReleaseExclusive gives back a stripe that its owner holds for writing.
func (t *Table) ReleaseExclusive(stripe uint32, owner Owner) {
	word := &t.words[stripe]
	for !word.CompareAndSwap(uint32(owner)<<ownerShift, 0) {
		if Owner(word.Load()>>ownerShift) != owner {
			panic("lock: a stripe was released by somebody who did not hold it")
		}
		if t.handOver(stripe, uint32(owner)<<ownerShift|waitingBit) {
			return
		}
	}
}

// handOver gives a stripe whose last holder leaves to the first that waits. held is the word as the
// holder has seen it. When it is another by now, handOver returns false: those who waited have
// cancelled, and others may have begun to read. A word that is still held changes under mu only.
func (t *Table) handOver(stripe, held uint32) bool {
	t.mu.Lock()
	if t.words[stripe].Load() != held {
		t.mu.Unlock()
		return false
	}
	queue := t.queue[stripe]
	first := queue[0]
	next := uint32(first.owner) << ownerShift
	if len(queue) == 1 {
		delete(t.queue, stripe)
	} else {
		t.queue[stripe] = queue[1:]
		next |= waitingBit
	}
	t.words[stripe].Store(next)
	t.mu.Unlock()
	first.granted(stripe)
	return true
}

// Wait asks for a stripe that was Busy. When it is the owner's turn, the stripe is the owner's
// (exclusively, even if it only wants to read) and granted is called once, from whatever goroutine
// released it; the owner then has to release it. An owner asks for a stripe once at a time, and
// holds no lock of the table meanwhile.
// When the stripe has become free, granted is called before Wait returns.
func (t *Table) Wait(stripe uint32, owner Owner, granted func(stripe uint32)) {
	word := &t.words[stripe]
	t.mu.Lock()
	for {
		w := word.Load()
		if w == 0 {
			if word.CompareAndSwap(0, uint32(owner)<<ownerShift) {
				t.mu.Unlock()
				granted(stripe)
				return
			}
			continue
		}
		if w&waitingBit != 0 || word.CompareAndSwap(w, w|waitingBit) {
			break
		}
	}
	t.queue[stripe] = append(t.queue[stripe], waiter{owner, granted})
	t.mu.Unlock()
}

// Cancel takes back what Wait has asked for. It returns false when the stripe is the owner's
// already.
func (t *Table) Cancel(stripe uint32, owner Owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := t.queue[stripe]
	i := slices.IndexFunc(queue, func(w waiter) bool { return w.owner == owner })
	if i < 0 {
		return false
	}
	if queue = slices.Delete(queue, i, i+1); len(queue) > 0 {
		t.queue[stripe] = queue
		return true
	}
	delete(t.queue, stripe)
	t.words[stripe].And(^uint32(waitingBit))
	return true
}
