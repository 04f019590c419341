package command

import (
	"sync"
	"sync/atomic"
	"time"
)

// pauseMode tells which commands wait while a pause lasts.
type pauseMode int32

const (
	pauseNothing pauseMode = iota
	pauseWrites
	pauseEverything
)

// pause is what CLIENT PAUSE began. Nothing waits in it: a command that has to wait is told so, and its
// connection asks to be woken.
type pause struct {
	mode atomic.Int32 // a pauseMode; what every command looks at

	mu      sync.Mutex
	end     time.Time
	timer   *time.Timer
	waiting []func()
}

// begin begins a pause, or makes one that lasts stricter or longer; it never makes it milder or shorter.
func (p *pause) begin(mode pauseMode, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode.Store(max(p.mode.Load(), int32(mode)))
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
	stale := !p.end.Equal(end)
	p.mu.Unlock()
	if !stale {
		p.finish()
	}
}

// finish ends the pause now.
func (p *pause) finish() {
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.end = time.Time{}
	p.mode.Store(int32(pauseNothing))
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

// holds tells whether a command has to wait.
func (p *pause) holds(s *Session, command *Command, args [][]byte) bool {
	switch pauseMode(p.mode.Load()) {
	case pauseWrites:
		flags := command.flagsWith(args)
		if command.runsQueue {
			flags |= s.Transaction.flags
		}
		return flags&(Write|MayReplicate) != 0
	case pauseEverything:
		return true
	}
	return false
}

// WhenUnpaused calls wake once as soon as no pause lasts, at once if none does.
func (e *Engine) WhenUnpaused(wake func()) {
	e.pause.mu.Lock()
	if pauseMode(e.pause.mode.Load()) == pauseNothing {
		e.pause.mu.Unlock()
		wake()
		return
	}
	e.pause.waiting = append(e.pause.waiting, wake)
	e.pause.mu.Unlock()
}

// paused tells that nothing may be written now.
func (e *Engine) paused() bool { return pauseMode(e.pause.mode.Load()) != pauseNothing }
