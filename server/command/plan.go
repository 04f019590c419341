package command

import "slices"

// plan is what a request needs before it can run.
type plan struct {
	locks      []wantedLock
	worker     bool
	writes     bool
	everything bool // the gate has to be closed
	walk       bool // more is read than what is locked
}

type wantedLock struct {
	stripe    uint32
	exclusive bool
}

func (p *plan) reset() {
	p.locks = p.locks[:0]
	p.worker, p.writes, p.everything, p.walk = false, false, false, false
}

// make finds out what an invocation needs. When it repeats an effect, it may have to see what its own transaction has written before.
func (p *plan) make(c *Invocation, repeats bool) error {
	p.reset()
	if c.Command.plan == nil {
		p.add(c.Request)
	} else if err := c.Command.plan(c, p); err != nil {
		return err
	}
	if p.walk && p.writes {
		p.walkBesideWrites(repeats || c.Command.plan != nil)
	}
	if len(p.locks) > 1 {
		p.sort()
	}
	return nil
}

// walkBesideWrites is for a command that reads more than it locks, and writes. When it may have to see what its own transaction has
// written before, it can't read a view: it has the databases to itself. Else it holds the locks of what it writes, and reads aside.
func (p *plan) walkBesideWrites(others bool) {
	if others {
		p.everything = true
	} else {
		p.worker, p.walk = true, false
	}
}

// add takes up what a request needs, whose keys were located. All keys of a command that writes are locked exclusively,
// those that it only reads too: one of them may turn out to have expired, and is removed then.
func (p *plan) add(r *Request) {
	writes := r.writes()
	p.writes = p.writes || writes
	p.worker = p.worker || r.flags&Worker != 0
	p.everything = p.everything || r.flags&Exclusive != 0
	p.walk = p.walk || r.flags&Walk != 0
	for i := range r.keys {
		if key := &r.keys[i]; key.Flags&NotKey == 0 {
			p.locks = append(p.locks, wantedLock{key.stripe, writes})
		}
	}
}

// lock takes up a lock.
func (p *plan) lock(stripe uint32, exclusive bool) {
	p.locks = append(p.locks, wantedLock{stripe, exclusive})
}

// sort puts the locks in order, each once, exclusive if any mention of it is.
func (p *plan) sort() {
	slices.SortFunc(p.locks, func(a, b wantedLock) int {
		if a.stripe != b.stripe {
			return int(a.stripe) - int(b.stripe)
		}
		if a.exclusive {
			return -1
		}
		return 1
	})
	p.locks = slices.CompactFunc(p.locks, func(a, b wantedLock) bool { return a.stripe == b.stripe })
}

// readsView reports whether a command that a worker runs reads from a view: when it writes nothing.
func (p *plan) readsView() bool { return !p.writes && !p.everything && (len(p.locks) > 0 || p.walk) }

// leavesReactor reports whether the command may take too long for a reactor.
func (p *plan) leavesReactor() bool { return p.worker || p.everything || p.walk }
