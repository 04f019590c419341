package execute

import (
	"runtime"
	"time"

	"kedis/lock"
)

// locks are those that a batch holds. Whoever only tries never waits for somebody who waits, and
// await takes locks in their order: so there is no deadlock.
type locks struct {
	table *lock.Table
	gate  *lock.Gate
	owner lock.Owner
	door  int // of the gate

	inside    bool     // of the gate
	reopen    func()   // when not nil: the batch has closed the gate
	exclusive []uint32 // stripes that are held until the commit
	shared    []uint32 // stripes that are held by the running command
	newest    heldLock // the one that was taken last
	met       bool     // the running command wants a lock that was held already
}

// heldLock is a lock that is held exclusively until the commit.
type heldLock struct {
	stripe uint32
	held   bool
}

// covers reports whether a request needs nothing but that lock. Pipelines often write to one key.
func (h heldLock) covers(r *Request) bool {
	return h.held && len(r.keys) == 1 && r.keys[0].stripe == h.stripe && r.keys[0].Flags&NotKey == 0 && r.flags&(Worker|Exclusive|Walk|Follow) == 0 &&
		r.Command.Plan == nil && r.flags&Write != 0 && len(r.further.stripes) == 0
}

// enter passes the gate, if it is open.
func (l *locks) enter() bool {
	if !l.inside {
		l.inside = l.gate.TryEnter(l.door)
	}
	return l.inside
}

// leave leaves the gate.
func (l *locks) leave() {
	if l.inside {
		l.gate.Leave(l.door)
		l.inside = false
	}
}

// take takes what a plan lists. It returns what has to be waited for when it can't be had at once.
func (l *locks) take(p *Plan) (wait Wait, taken bool) {
	if !p.Everything && !p.Outside && !l.enter() {
		return l.gateWait(), false
	}
	for _, wanted := range p.locks {
		if !l.try(wanted) {
			l.releaseShared()
			return l.lockWait(wanted.stripe), false
		}
	}
	return Wait{}, true
}

func (l *locks) gateWait() Wait {
	return Wait{Cause: ForGate, begin: func(wake func()) bool {
		l.gate.WhenOpen(wake)
		return true
	}}
}

func (l *locks) lockWait(stripe uint32) Wait {
	return Wait{Cause: ForLock, Stripe: stripe, begin: func(wake func()) bool {
		l.table.Wait(stripe, l.owner, func(uint32) { wake() })
		return true
	}}
}

func (l *locks) try(wanted wantedLock) bool {
	if wanted.exclusive {
		switch l.table.TryExclusive(wanted.stripe, l.owner) {
		case lock.Busy:
			return false
		case lock.Acquired:
			l.exclusive = append(l.exclusive, wanted.stripe)
		case lock.Held:
			l.met = true
		}
		l.newest = heldLock{wanted.stripe, true}
		return true
	}
	switch l.table.TryShared(wanted.stripe, l.owner) {
	case lock.Busy:
		return false
	case lock.Acquired:
		l.shared = append(l.shared, wanted.stripe)
	case lock.Held:
		l.met = true
	}
	return true
}

// patience says of a wait that is not yet over when it is to be asked again (0: never), or why the
// wait is to be given up.
type patience func(w Wait) (again time.Duration, refusal error)

// endless is the patience of who waits however long it takes.
func endless(Wait) (time.Duration, error) { return 0, nil }

// await waits for what a plan lists. Locks are taken in order, so that two workers can't wait for
// each other; a reactor never waits while it holds one. When patience ends, some may be held.
func (l *locks) await(p *Plan, patience patience) error {
	if p.Everything {
		l.reopen = l.gate.Close(runtime.Gosched)
		return nil
	}
	for !l.enter() {
		if err := l.sleep(l.gateWait(), patience); err != nil {
			return err
		}
	}
	for _, wanted := range p.locks {
		for !l.try(wanted) {
			if err := l.sleep(l.lockWait(wanted.stripe), patience); err != nil {
				return err
			}
			l.adopt(wanted.stripe)
		}
	}
	return nil
}

// sleep blocks the goroutine until a wait ends, or patience does. It is for workers; reactors never
// sleep.
func (l *locks) sleep(w Wait, patience patience) error {
	woken := make(chan struct{})
	w.Begin(func() { close(woken) })
	for {
		again, refusal := patience(w)
		if refusal != nil && (w.Cause != ForLock || l.table.Cancel(w.Stripe, l.owner)) {
			return refusal
		}
		var asked <-chan time.Time
		if again > 0 {
			asked = time.After(again)
		}
		select {
		case <-woken:
			return nil
		case <-asked:
		}
	}
}

// adopt takes over a lock that was granted.
func (l *locks) adopt(stripe uint32) { l.exclusive = append(l.exclusive, stripe) }

func (l *locks) releaseShared() {
	for _, stripe := range l.shared {
		l.table.ReleaseShared(stripe)
	}
	l.shared = l.shared[:0]
}

// releaseStripes releases all locks but the gate.
func (l *locks) releaseStripes() {
	for _, stripe := range l.exclusive {
		l.table.ReleaseExclusive(stripe, l.owner)
	}
	l.exclusive, l.newest = l.exclusive[:0], heldLock{}
	l.releaseShared()
}

// release releases everything.
func (l *locks) release() {
	l.releaseStripes()
	l.leave()
	if l.reopen != nil {
		l.reopen()
		l.reopen = nil
	}
}
