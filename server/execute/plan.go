package execute

import "slices"

// Plan is what a request needs before it can run.
type Plan struct {
	locks      []wantedLock
	Worker     bool
	Writes     bool
	Everything bool // the gate has to be closed
	Walk       bool // more is read than what is locked
	Long       bool // it has a script, which may go on for ever
	Functions  bool // and that is a function
	Outside    bool // it touches no data: it doesn't pass the gate
}

type wantedLock struct {
	stripe    uint32
	exclusive bool
}

func (p *Plan) reset() {
	p.locks = p.locks[:0]
	p.Worker, p.Writes, p.Everything, p.Walk, p.Long, p.Functions, p.Outside = false, false, false, false, false, false, false
}

// make finds out what an invocation needs. When it repeats an effect, it may have to see what its own transaction has written before.
func (p *Plan) make(c *Invocation, repeats bool) error {
	p.reset()
	if c.Command.Plan == nil {
		p.add(c.Request)
		p.Outside = c.Command.outside && len(p.locks) == 0
	} else if err := c.Command.Plan(c, p); err != nil {
		return err
	}
	p.addFurther(c.Request)
	if p.Walk && p.Writes {
		p.walkBesideWrites(repeats || c.Command.Plan != nil)
	}
	if len(p.locks) > 1 {
		p.sort()
	}
	return nil
}

// walkBesideWrites is for a command that reads more than it locks, and writes. When it may have to see what its own transaction has
// written before, it can't read a view: it has the databases to itself. Else it holds the locks of what it writes, and reads aside.
func (p *Plan) walkBesideWrites(others bool) {
	if others {
		p.Everything = true
	} else {
		p.Worker, p.Walk = true, false
	}
}

// add takes up what a request needs, whose keys were located. All keys of a command that writes are locked exclusively,
// those that it only reads too: one of them may turn out to have expired, and is removed then.
func (p *Plan) add(r *Request) {
	writes := r.writes()
	p.Writes = p.Writes || writes
	p.Worker = p.Worker || r.flags&Worker != 0
	p.Everything = p.Everything || r.flags&Exclusive != 0
	p.Walk = p.Walk || r.flags&Walk != 0
	p.Long = p.Long || r.Command.RunsScript
	p.Functions = p.Functions || r.Command.Functions
	for i := range r.keys {
		if key := &r.keys[i]; key.Flags&NotKey == 0 {
			p.locks = append(p.locks, wantedLock{key.stripe, writes})
		}
	}
}

// Lock takes up a lock.
func (p *Plan) Lock(stripe uint32, exclusive bool) {
	p.locks = append(p.locks, wantedLock{stripe, exclusive})
}

// sort puts the locks in order, each once, exclusive if any mention of it is.
func (p *Plan) sort() {
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
func (p *Plan) readsView() bool { return !p.Writes && !p.Everything && (len(p.locks) > 0 || p.Walk) }

// leavesReactor reports whether the command may take too long for a reactor.
func (p *Plan) leavesReactor() bool { return p.Worker || p.Everything || p.Walk }
