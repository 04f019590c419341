package server

import (
	"runtime"
	"time"
)

// linger is what a reactor needs to look at its sockets for a moment before it sleeps.
//
// Where every client waits for each of its replies, a reactor that has served all of them goes to sleep and is woken some ten microseconds
// later, which costs both sides more than the request, the more on a virtual machine, whose processors sleep with it. So a reactor that
// expects the next request soon looks for it for busy-poll microseconds. It expects it soon when this one came soon after the one before,
// and it does so only while there is a processor that nobody else wants (balance.go).
type linger struct {
	ready  *readiness // nil: it can't be told whether sockets are ready
	permit permit
	told   permit // the last one that was sent to the reactor; under the server's mu
	wanted bool   // this pass is to end with it
}

// permit says how a reactor may linger.
type permit struct {
	allowed bool // there is a processor for it
	shared  bool // other goroutines have only those of the reactors
}

// mayLinger says whether there is a processor for lingering, and whether others have none. The caller holds the server's mu.
func (r *reactor) mayLinger(allowed, shared bool) {
	if told := (permit{allowed, shared}); r.linger.told != told {
		r.linger.told = told
		r.post(func() { r.linger.permit = told })
	}
}

// expectSoon is told how long ago the last command ended, at the beginning of each pass and within it.
func (r *reactor) expectSoon(passed time.Duration) {
	if !r.linger.permit.allowed || r.linger.wanted || passed > 2*r.server.busyPoll() {
		return
	}
	r.linger.wanted = true
	r.schedule()
}

// lingerAfterPass waits for the next request for a moment. Other threads go first. Other goroutines do so only where they have no other processor: when Go is offered
// one, it wakes a thread to look for them on the others, which takes a processor from the clients.
func (r *reactor) lingerAfterPass() {
	if !r.linger.wanted {
		return
	}
	r.linger.wanted = false
	until := time.Now().Add(r.server.busyPoll())
	for !r.linger.ready.any() && !r.hasMail() && time.Now().Before(until) {
		if r.linger.permit.shared {
			runtime.Gosched()
		}
		giveWay()
	}
}

func (s *Server) busyPoll() time.Duration {
	return time.Duration(s.config.BusyPoll.Get()) * time.Microsecond
}
