package execute

import "slices"

// Plan is what a request needs before it can run.
type Plan struct {
	locks      []wantedLock
	Worker     bool
	Writes     bool
	Everything bool // the gate has to be closed
	Walk       bool // more is read than what is locked
	Follow     bool // keys are read that turn up
	Long       bool // it has a script, which may go on for ever
	Functions  bool // and that is a function
	Outside    bool // it touches no data: it doesn't pass the gate
	Blocks     bool // its client may wait for others to change its keys
}

type wantedLock struct {
	stripe    uint32
	exclusive bool
}

func (p *Plan) reset() {
	*p = Plan{locks: p.locks[:0]}
}

// make finds out what an invocation needs. When it repeats an effect, it may have to see what its
// own transaction has written before.
func (p *Plan) make(c *Invocation, repeats bool) error {
	p.reset()
	if c.Command.Plan == nil {
		p.add(c.Request)
		p.Outside = c.Command.outside && len(p.locks) == 0
	} else if err := c.Command.Plan(c, p); err != nil {
		return err
	}
	p.Blocks = c.Request.flags&Blocking != 0 && !c.Nested() && !repeats
	p.addFurther(c.Request)
	switch {
	case p.Walk && p.Writes:
		p.Everything = true // it has to see what its own transaction has written, so it can't read a view
	case p.Follow && !p.Writes:
		p.Walk = true
	case p.Follow && !repeats && c.Command.Plan == nil:
		p.Worker = true // by itself it reads aside what turns up
	}
	if len(p.locks) > 1 {
		p.sort()
	}
	return nil
}

// add takes up what a request needs, whose keys were located. All keys of a command that writes are
// locked exclusively, those that it only reads too: one of them may turn out to have expired, and
// is removed then.
func (p *Plan) add(r *Request) {
	writes := r.writes()
	p.Writes = p.Writes || writes
	p.Worker = p.Worker || r.flags&Worker != 0
	p.Everything = p.Everything || r.flags&Exclusive != 0
	p.Walk = p.Walk || r.flags&Walk != 0
	p.Follow = p.Follow || r.flags&Follow != 0
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
// One that may wait holds its locks until it does: a change behind the view would be missed.
func (p *Plan) readsView() bool {
	return !p.Writes && !p.Everything && !p.Blocks && (len(p.locks) > 0 || p.Walk)
}

// leavesReactor reports whether the command may take too long for a reactor.
func (p *Plan) leavesReactor() bool { return p.Worker || p.Everything || p.Walk }
