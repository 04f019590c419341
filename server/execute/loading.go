package execute

import (
	"sync/atomic"
	"time"
)

// ErrLoading is the reply to most commands while the server applies its log at start.
const ErrLoading = Error("LOADING Redis is loading the dataset in memory")

// loading is nil, or what is known of the load that is under way.
type loading struct {
	now   atomic.Pointer[stretch]
	lasts condition
}

// stretch is the part of the log that is loaded.
type stretch struct {
	began    time.Time
	from, to int64
}

// BeginLoading has commands refused that aren't for a server that is loading, until EndLoading is
// called. Loading is over when the store is at a position of the log. It is called before anything
// is executed.
func (e *Engine) BeginLoading(to int64) {
	e.loading.now.Store(&stretch{began: time.Now(), from: e.Store.Position(), to: to})
	e.loading.lasts.Store(true)
}

// EndLoading lets all commands in.
func (e *Engine) EndLoading() {
	e.loading.now.Store(nil)
	e.loading.lasts.Store(false)
}

// Loading reports whether the server is loading.
func (e *Engine) Loading() bool { return e.loading.lasts.Load() }

func refuseWhileLoading(b *Batch, _ *Session, _ *Request) error {
	if !b.repeat.applying && b.engine.Loading() {
		return ErrLoading
	}
	return nil
}

// LoadingProgress is how far a load is.
type LoadingProgress struct {
	Loaded, Total int64 // bytes of the log
	Began         time.Time
	Remaining     time.Duration // as far as can be told
}

// LoadingProgress tells how far the load is; ok is false when there is none.
func (e *Engine) LoadingProgress() (p LoadingProgress, ok bool) {
	l := e.loading.now.Load()
	if l == nil {
		return p, false
	}
	p = LoadingProgress{Loaded: e.Store.Position() - l.from, Total: l.to - l.from, Began: l.began, Remaining: time.Second}
	// As in Redis, what takes less than a second is said to take one more.
	if seconds := int64(time.Since(l.began) / time.Second); seconds > 0 {
		p.Remaining = time.Duration(float64(seconds)*float64(p.Total-p.Loaded)/float64(p.Loaded+1)) * time.Second
	}
	return p, true
}

// Percent is how much of the load is done.
func (p LoadingProgress) Percent() float64 { return 100 * float64(p.Loaded) / float64(p.Total) }
