package execute

import (
	"sync"
	"time"
)

// failures logs commands that failed for no fault of their clients, such as reads of a damaged
// file: one line a second, for clients may ask thousands of times.
type failures struct {
	mu     sync.Mutex
	told   time.Time
	untold int
}

const failuresEvery = time.Second

func (e *Engine) logFailure(command string, err error) {
	f, now := &e.failures, time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.told) < failuresEvery {
		f.untold++
		return
	}
	details := []any{"command", command, "error", err}
	if f.untold > 0 {
		details = append(details, "failures-not-logged-before", f.untold)
	}
	f.told, f.untold = now, 0
	e.Logger.Error("a command failed", details...)
}
