package lock

import (
	"sync"
	"sync/atomic"
)

// Gate is the lock that every command passes and that commands on whole databases (FLUSHALL,
// SWAPDB …) close. Each owner that passes has a door of its own, so that no word is shared on the
// way of an ordinary command.
type Gate struct {
	closed atomic.Bool // or about to be
	doors  []door

	closing sync.Mutex // held by whoever has closed the gate
	mu      sync.Mutex
	waiting []func()
}

type door struct {
	inside atomic.Int32
	_      [60]byte // a cache line for each
}

// NewGate makes a gate with a number of doors.
func NewGate(doors int) *Gate { return &Gate{doors: make([]door, doors)} }

// TryEnter passes the gate, unless it is closed or about to be.
func (g *Gate) TryEnter(door int) bool {
	g.doors[door].inside.Add(1)
	if !g.closed.Load() {
		return true
	}
	g.doors[door].inside.Add(-1)
	return false
}

// Closed is true while the gate is closed, or about to be: who is inside for long looks at it, and
// leaves.
func (g *Gate) Closed() *atomic.Bool { return &g.closed }

// Leave gives back what TryEnter took.
func (g *Gate) Leave(door int) {
	if g.doors[door].inside.Add(-1) < 0 {
		panic("lock: a gate was left that had not been entered")
	}
}

// Close waits until everybody has left and keeps the gate closed until the returned function is
// called. It blocks: it is for workers, not for reactors.
func (g *Gate) Close(yield func()) (open func()) {
	g.closing.Lock()
	g.closed.Store(true)
	for i := range g.doors {
		for g.doors[i].inside.Load() != 0 {
			yield()
		}
	}
	return g.open
}

func (g *Gate) open() {
	g.closed.Store(false)
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	g.closing.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// WhenOpen calls wake once as soon as the gate is open, at once if it is.
func (g *Gate) WhenOpen(wake func()) {
	g.mu.Lock()
	if !g.closed.Load() {
		g.mu.Unlock()
		wake()
		return
	}
	g.waiting = append(g.waiting, wake)
	g.mu.Unlock()
}
