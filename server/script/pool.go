package script

import "sync"

// Pool has the states that nobody uses. The one that was given back last is given out next: its
// memory is near.
type Pool struct {
	options  Options
	retained int64 // how much a state may hold that waits

	mu    sync.Mutex
	free  []*State
	epoch uint64
}

const (
	// retainedMemory is how much a state may hold that waits, and at most such a part of what a
	// script may use, so that the next one has the rest: what has grown larger is closed.
	retainedMemory, retainedPart = 32 << 20, 4
	// retainedScripts is how many compiled scripts it may hold.
	retainedScripts = 1000
)

// NewPool makes an empty pool.
func NewPool(o Options) *Pool {
	return &Pool{options: o, retained: min(retainedMemory, o.Memory/retainedPart)}
}

// Get returns a state, a new one if all are in use.
func (p *Pool) Get() (*State, error) {
	p.mu.Lock()
	last, epoch := len(p.free)-1, p.epoch
	var s *State
	if last >= 0 {
		s = p.free[last]
		p.free = p.free[:last]
	}
	p.mu.Unlock()
	if s == nil {
		var err error
		if s, err = Open(p.options); err != nil {
			return nil, err
		}
	}
	if s.epoch != epoch || len(s.compiled) > retainedScripts {
		s.forgetAll()
		s.epoch = epoch
	}
	return s, nil
}

// Put gives a state back.
func (p *Pool) Put(s *State) {
	if s.Used() > p.retained {
		s.Close()
		return
	}
	p.mu.Lock()
	p.free = append(p.free, s)
	p.mu.Unlock()
}

// Forget has all states forget their scripts, each before it is used again.
func (p *Pool) Forget() {
	p.mu.Lock()
	p.epoch++
	p.mu.Unlock()
}

// Close closes the states that nobody uses.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.free {
		s.Close()
	}
	p.free = nil
}

// Used is how many bytes the states take that nobody uses now.
func (p *Pool) Used() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.free {
		bytes += s.Used()
	}
	return bytes
}
