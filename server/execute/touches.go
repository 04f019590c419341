package execute

import (
	"kedis/storage"
	"kedis/storage/touches"
)

// initTouches has accesses to keys noted as maxmemory-policy says.
func (e *Engine) initTouches() {
	c := e.Config
	e.Store.Touches.Init(touches.Options{
		Frequencies:  func() bool { return c.MaxmemoryPolicy.Get().NotesFrequencies() },
		LogFactor:    c.LFULogFactor.Get,
		DecayMinutes: c.LFUDecayTime.Get,
		Bytes:        func() int64 { return c.MemoryTier.Get().Bytes / touchesShare },
	})
	e.follow("maxmemory-policy", func() {
		if c.MaxmemoryPolicy.Get().NotesAccesses() {
			e.NoteTouches()
		} else {
			condition{&e.inUse, touching}.Store(false)
			e.Store.Touches.End()
		}
	})
}

// NoteTouches has accesses to keys noted from now on, until maxmemory-policy is set to what doesn't
// ask for that: for commands that need the times.
func (e *Engine) NoteTouches() {
	e.Store.Touches.Begin()
	condition{&e.inUse, touching}.Store(true)
}

// Notes of accesses take at most the memory tier divided by touchesShare.
const touchesShare = 64

// Touching says whether a command accesses its keys.
type Touching uint8

const (
	// TouchesKeys is what most commands do.
	TouchesKeys Touching = iota
	// LooksAtKeys is a command such as TYPE or OBJECT, which is no access.
	LooksAtKeys
	// TouchesAlways: after CLIENT NO-TOUCH, too.
	TouchesAlways
)

// touches says which accesses of an invocation are noted, while any are.
func (c *Invocation) touches() storage.Touches {
	if c.Command.Touching == LooksAtKeys || c.Session.NoTouch.Load() && c.Command.Touching != TouchesAlways {
		return storage.TouchesNew
	}
	return storage.TouchesAll
}
