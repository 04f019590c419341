package execute

import (
	"runtime/debug"
	"sync"
	"time"
)

// largeAtOnce is how many bytes requests on large values may go over at the same time: each takes
// several times as much memory as the value that it is about. A single request may go over more.
const largeAtOnce = 256 << 20

// fromLarge is how many bytes make a request large.
const fromLarge = 8 << 20

// largeWork bounds the memory of requests on large values. Who has to wait holds nothing: neither
// locks nor a worker's token. The first that came is the first that goes on.
type largeWork struct {
	mu      sync.Mutex
	taken   int64
	waiting []largeRequest
	left    int64 // bytes of requests and replies that have ended since their garbage was collected
}

type largeRequest struct {
	bytes int64
	begin func(giveBack func())
}

// whenRoom calls begin as soon as there is room for a request, with what gives the room back.
func (w *largeWork) whenRoom(bytes int64, begin func(giveBack func())) {
	bytes = min(bytes, largeAtOnce)
	w.mu.Lock()
	if len(w.waiting) > 0 || !w.fits(bytes) {
		w.waiting = append(w.waiting, largeRequest{bytes, begin})
		w.mu.Unlock()
		return
	}
	w.taken += bytes
	w.mu.Unlock()
	begin(func() { w.give(bytes) })
}

func (w *largeWork) fits(bytes int64) bool { return w.taken+bytes <= largeAtOnce }

// give has those go on for whom there is room now.
func (w *largeWork) give(bytes int64) {
	w.mu.Lock()
	w.taken -= bytes
	var next []largeRequest
	for len(w.waiting) > 0 && w.fits(w.waiting[0].bytes) {
		w.taken += w.waiting[0].bytes
		next = append(next, w.waiting[0])
		w.waiting = w.waiting[1:]
	}
	w.leave(bytes)
	w.mu.Unlock()
	for _, request := range next {
		request.begin(func() { w.give(request.bytes) })
	}
}

// leave counts bytes that are garbage now. It is called under the lock.
func (w *largeWork) leave(bytes int64) {
	if w.left += bytes; w.left >= collectFrom && w.idle() {
		time.AfterFunc(collectAfter, w.collect)
	}
}

// ReleaseReply lets go of a session's reply, which was sent or is lost. Until then a large one is
// no garbage, however long ago its request has ended.
func (e *Engine) ReleaseReply(s *Session) {
	bytes := s.Reply.Len()
	s.Reply.Reset()
	e.Leave(bytes)
}

// Leave says that a request, a reply or a part of one was so long, and is garbage now.
func (e *Engine) Leave(bytes int) {
	if bytes < fromLarge {
		return
	}
	e.large.mu.Lock()
	e.large.leave(int64(bytes))
	e.large.mu.Unlock()
}

// Garbage of so many bytes is collected, and its memory given back to the system, when no large
// request has come for a while. The runtime collects when the heap grows, and what large requests
// leave may be most of it for minutes.
const (
	collectFrom  = 64 << 20
	collectAfter = time.Second
)

func (w *largeWork) idle() bool { return w.taken == 0 && len(w.waiting) == 0 }

func (w *largeWork) collect() {
	w.mu.Lock()
	collects := w.left >= collectFrom && w.idle()
	if collects {
		w.left = 0
	}
	w.mu.Unlock()
	if collects {
		debug.FreeOSMemory()
	}
}

// onceAdmitted calls begin when a session's request may run, with what is to be called when it has:
// at once, unless it is on a large value. A large one waits, besides, until RocksDB has taken what
// those before it have written.
func (e *Engine) onceAdmitted(s *Session, begin func(end func())) {
	bytes := s.worked.large
	s.worked.large = 0
	if bytes < fromLarge {
		begin(func() {})
		return
	}
	e.large.whenRoom(bytes, func(giveBack func()) {
		go func() {
			e.Store.AwaitRoom()
			begin(giveBack)
		}()
	})
}
