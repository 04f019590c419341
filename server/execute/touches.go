package execute

import (
	"kedis/storage"
	"kedis/storage/touches"
)

// initTouches has accesses to keys noted as maxmemory-policy says. With the policies that ask for nothing it begins when
// somebody asks for the time of an access, and goes on.
func (e *Engine) initTouches() {
	c, notes := e.Config, &e.Store.Touches
	notes.Init(touches.Options{
		Always:       func() bool { return c.MaxmemoryPolicy.Get().NotesAccesses() },
		Frequencies:  func() bool { return c.MaxmemoryPolicy.Get().NotesFrequencies() },
		LogFactor:    c.LFULogFactor.Get,
		DecayMinutes: c.LFUDecayTime.Get,
		Bytes:        func() int64 { return c.MemoryTier.Get().Bytes / touchesShare },
	})
	c.OnChange("maxmemory-policy", func() error {
		notes.Follow()
		return nil
	})
}

// touchesShare: one part in so many of the memory tier is for notes of accesses.
const touchesShare = 64

// Touching says whether a command accesses its keys.
type Touching uint8

const (
	// TouchesKeys is what most commands do.
	TouchesKeys Touching = iota
	// LooksAtKeys: it only tells of them.
	LooksAtKeys
	// TouchesAlways: after CLIENT NO-TOUCH, too.
	TouchesAlways
)

// touches says which accesses of an invocation are noted.
func (c *Invocation) touches() storage.Touches {
	switch {
	case !c.Engine.Store.Touches.Active():
		return storage.TouchesNothing
	case c.Command.Touching == LooksAtKeys, c.Session.NoTouch.Load() && c.Command.Touching != TouchesAlways:
		return storage.TouchesNew
	}
	return storage.TouchesAll
}
