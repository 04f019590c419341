package execute

import (
	"sync"
	"sync/atomic"
	"time"
)

// pauseMode tells which commands wait while a pause lasts.
type pauseMode int32

const (
	pauseNothing pauseMode = iota
	PauseWrites
	PauseEverything
)

// pause is what CLIENT PAUSE or a failover began. Nothing waits in it: a command that has to wait
// is told so, and its connection asks to be woken.
type pause struct {
	lasts condition
	mode  atomic.Int32 // a pauseMode

	mu      sync.Mutex
	held    bool      // by a failover: nothing is written
	asked   pauseMode // by CLIENT PAUSE
	end     time.Time // of that
	timer   *time.Timer
	waiting []func()
}

// Begin begins a pause, or makes one that lasts stricter or longer; it never makes it milder or
// shorter.
func (p *pause) Begin(mode pauseMode, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = max(p.asked, mode)
	p.publish()
	if p.end.After(end) {
		return
	}
	p.end = end
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(time.Until(end), func() { p.over(end) })
}

// over ends the pause unless it was made longer meanwhile.
func (p *pause) over(end time.Time) {
	p.mu.Lock()
	if !p.end.Equal(end) {
		p.mu.Unlock()
		return
	}
	p.finish()
}

// publish tells the commands which of them are to wait. It needs mu to be held.
func (p *pause) publish() {
	mode := p.asked
	if p.held {
		mode = max(mode, PauseWrites)
	}
	p.mode.Store(int32(mode))
	p.lasts.Store(mode != pauseNothing)
}

// hold keeps writes waiting, or lets them go on, whatever CLIENT PAUSE says.
func (p *pause) hold(held bool) {
	p.mu.Lock()
	p.held = held
	p.wake()
}

// wake publishes what is paused now, and has those who wait look at it. It needs mu to be held, and
// gives it back.
func (p *pause) wake() {
	p.publish()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// Finish ends what CLIENT PAUSE began.
func (p *pause) Finish() {
	p.mu.Lock()
	p.finish()
}

// finish is Finish. It needs mu to be held, and gives it back.
func (p *pause) finish() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.end, p.asked = time.Time{}, pauseNothing
	p.wake()
}

// holds reports whether a pause has a request wait. As in Redis a command that may write does wait,
// whatever its words are: SORT without STORE, too. A monitor never does.
func (e *Engine) holds(s *Session, r *Request) bool {
	if s.Is(KindMonitor) {
		return false
	}
	switch pauseMode(e.Pause.mode.Load()) {
	case PauseWrites:
		flags := e.flagsOf(r)
		if r.Command.RunsQueue {
			for _, queued := range s.Transaction.Queue { // not Transaction.flags: a function may have been replaced since
				flags |= e.flagsOf(queued)
			}
		}
		return flags&(Write|MayReplicate) != 0
	case PauseEverything:
		return true
	}
	return false
}

// flagsOf are the flags of a request's command. A script, or a function, may say itself what it
// does.
func (e *Engine) flagsOf(r *Request) Flags {
	if declared := r.Command.Declared; declared != nil {
		return declared(e, r.Args)
	}
	return r.Command.Flags
}

// wait is what a held request waits for: that a pause ends. Another one may go on.
func (p *pause) wait() Wait {
	return Wait{Cause: ForPause, begin: func(wake func()) bool {
		p.whenOver(wake)
		return true
	}}
}

// whenOver calls wake once as soon as a pause ends, at once if none lasts.
func (p *pause) whenOver(wake func()) {
	p.mu.Lock()
	if pauseMode(p.mode.Load()) == pauseNothing {
		p.mu.Unlock()
		wake()
		return
	}
	p.waiting = append(p.waiting, wake)
	p.mu.Unlock()
}

// HoldWrites has all writes wait until ReleaseWrites, however long that takes. Those that run
// meanwhile go on: Exclude waits for them.
func (e *Engine) HoldWrites() { e.Pause.hold(true) }

// ReleaseWrites ends that.
func (e *Engine) ReleaseWrites() { e.Pause.hold(false) }

// paused tells that nothing may be written now.
func (e *Engine) paused() bool { return pauseMode(e.Pause.mode.Load()) != pauseNothing }

// awaitUnpaused returns when a pause that lasts has ended. The batch is a worker's and holds no
// locks.
func (b *Batch) awaitUnpaused() {
	b.yield(func() {
		unpaused := make(chan struct{})
		b.engine.Pause.whenOver(func() { close(unpaused) })
		select {
		case <-unpaused:
		case <-b.engine.stopped:
		}
	})
}
