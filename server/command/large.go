package command

import "sync"

// largeAtOnce is how many bytes requests on large values may go over at the same time: each takes several times as much memory as
// the value that it is about. A single request may go over more.
const largeAtOnce = 256 << 20

// fromLarge is how many bytes make a request large.
const fromLarge = 8 << 20

// largeWork bounds the memory of requests on large values. Who has to wait holds nothing: neither locks nor a worker's token. The first
// that came is the first that goes on.
type largeWork struct {
	mu      sync.Mutex
	taken   int64
	waiting []largeRequest
}

type largeRequest struct {
	bytes   int64
	granted chan struct{}
}

// take waits until there is room for a request, and returns what gives it back.
func (w *largeWork) take(bytes int64) (giveBack func()) {
	bytes = min(bytes, largeAtOnce)
	w.mu.Lock()
	if len(w.waiting) == 0 && w.fits(bytes) {
		w.taken += bytes
		w.mu.Unlock()
	} else {
		granted := make(chan struct{})
		w.waiting = append(w.waiting, largeRequest{bytes, granted})
		w.mu.Unlock()
		<-granted
	}
	return func() { w.give(bytes) }
}

func (w *largeWork) fits(bytes int64) bool { return w.taken+bytes <= largeAtOnce }

// give has those go on for whom there is room now.
func (w *largeWork) give(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken -= bytes
	for len(w.waiting) > 0 && w.fits(w.waiting[0].bytes) {
		w.taken += w.waiting[0].bytes
		close(w.waiting[0].granted)
		w.waiting = w.waiting[1:]
	}
}

// admitLarge waits until a session's request on a large value may run, and returns what ends it. A write waits, besides, until RocksDB has
// taken what those before it have written.
func (e *Engine) admitLarge(s *Session) (end func()) {
	bytes := s.large
	s.large = 0
	if bytes < fromLarge {
		return func() {}
	}
	end = e.large.take(bytes)
	e.Store.AwaitRoom()
	return end
}
