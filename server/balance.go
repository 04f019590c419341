package server

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// balance decides how many of the reactors serve, from what the last fractions of a second were
// like.
//
// As long as there is a processor for each, all do. Where others want the processors, the clients
// of the same machine above all, fewer can do more: the kernel's work for each request grows with
// the reactors, since fewer requests come in one pass, and more threads are put to sleep and woken.
//
//   - Requests come one by one: the kernel's work is most, and as many serve as there are processors
//     to be had.
//   - All write to one key: reactors wait for each other's locks, and one that has no processor is
//     waited for longest, so those that have one serve.
//   - Otherwise as many serve as the work takes. When processors are idle, those that have one serve,
//     and at least so many that none is busy all the time: clients would wait for it.
type balance struct {
	processors int  // that this process may use
	fixed      bool // all reactors serve, whatever happens

	last    processorTimes
	used    average // processors that this process uses
	idle    average // processors that nobody uses
	single  average // 1 while requests come one by one, 0 while they come in pipelines
	oneKey  average // 1 while clients write to one key, one after the other
	serving int     // reactors that serve; 0: nothing is decided yet
	placed  int     // connections that came while not all serve
}

func newBalance(fixed bool) balance {
	return balance{processors: runtime.GOMAXPROCS(0), fixed: fixed}
}

const (
	// quiet is a use of processors, in processors, below which nothing is decided.
	quiet = 0.25
	// pipelined is how many requests have to come at once for the reactors' own work to be taken
	// for most.
	pipelined = 4
	// nearly is how much of a processor may be missing from one that is there, or beyond one that
	// is enough.
	nearly = 0.1
	// room is how much of a processor has to be idle for reactors not to be busy all the time.
	room = 0.2
	// busy is the part of the time that a reactor is busy then at most.
	busy = 0.9
)

// average is a moving average over samples, of which the last has a weight between 0 and 1. It
// begins with the first.
type average struct {
	value float64
	begun bool
}

func (a *average) add(sample, weight float64) {
	if !a.begun {
		a.value, a.begun = sample, true
	}
	a.value += weight * (sample - a.value)
}

// sample looks at the time since the last sample, and at what came in it. It reports whether there
// was enough to do to decide anything.
func (b *balance) sample(now processorTimes, came counts, reactors int) bool {
	last := b.last
	b.last = now
	passed := (now.at - last.at).Seconds()
	if last.at == 0 || passed <= 0 || came.pieces == 0 {
		return false
	}
	used, idle := (now.used - last.used).Seconds(), (now.idle - last.idle).Seconds()
	if used < quiet*passed {
		return false
	}
	const steady = 0.4
	b.used.add(used/passed, steady)
	b.idle.add(idle/passed, steady)
	const atOnce = 0.7 // other clients, or others than before, are seen at once
	b.single.add(whole(came.requests < pipelined*came.pieces), atOnce)
	b.oneKey.add(whole(2*came.followed > came.pieces), atOnce)
	b.serving = b.choose(reactors)
	return true
}

func (b *balance) choose(reactors int) int {
	available := min(b.used.value+b.idle.value, float64(b.processors))
	var serving int
	switch {
	case b.single.value > 0.5:
		serving = int(available + 0.5)
	case b.oneKey.value > 0.5:
		serving = int(available + nearly)
	case b.idle.value <= room:
		serving = int(math.Ceil(b.used.value - nearly))
	default:
		serving = max(int(available+nearly), int(math.Ceil(b.used.value/busy)))
	}
	return min(reactors, max(1, serving))
}

// whole is 1 for what is so, and 0 for what isn't.
func whole(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// processorTimes are times since some moment in the past.
type processorTimes struct {
	at   time.Duration // of the clock on the wall
	used time.Duration // by this process
	idle time.Duration // of all processors together
}

// arrivals is what a reactor's connections send, period by period: from one tick to the next.
type arrivals struct {
	period int // the one that is counted; the first is 1
	now    counts
	last   atomic.Pointer[counts] // of the period before; nil: there was none
}

// counts are what came in a period.
type counts struct {
	clients  int   // that sent something
	pieces   int64 // that were read from a socket
	requests int64
	followed int64 // pieces that write to the key that another client has just written to
}

func (c *counts) add(other counts) {
	c.clients += other.clients
	c.pieces += other.pieces
	c.requests += other.requests
	c.followed += other.followed
}

// count takes note that a connection has sent something.
func (a *arrivals) count(c *connection) {
	a.now.pieces++
	if c.period != a.period {
		c.period = a.period
		a.now.clients++
	}
}

// turn begins a new period.
func (a *arrivals) turn() {
	last := a.now
	a.last.Store(&last)
	a.now = counts{}
	a.period++
}

// before are the counts of the last period. It may be called from anywhere.
func (a *arrivals) before() counts {
	if last := a.last.Load(); last != nil {
		return *last
	}
	return counts{}
}

// rebalance looks at what the machine has to do, and has connections moved to the reactors that
// should serve. The caller holds s.mu.
func (s *Server) rebalance() {
	if s.balance.fixed {
		return
	}
	var came counts
	for _, r := range s.reactors {
		came.add(r.arrivals.before())
	}
	if came.clients == 0 {
		s.balance.last = processorTimes{}
		return
	}
	now, err := readProcessorTimes()
	if err != nil {
		s.logger.Debug("asking for the processors' times", "error", err)
		return
	}
	if s.balance.sample(now, came, s.loops) {
		s.engine.Statistics.Serving.Store(int64(s.balance.serving))
		s.distribute(came.clients)
	}
}

// distribute has reactors that don't serve give away their clients, and those that do give away
// what is more than their share. A little more stays: it isn't worth the way. The caller holds
// s.mu.
func (s *Server) distribute(clients int) {
	serving := s.balance.serving
	share := (clients + serving - 1) / serving
	loads := make([]int, serving)
	for _, r := range s.reactors {
		if r.number < serving {
			loads[r.number] = r.arrivals.before().clients
		}
	}
	for _, r := range s.reactors {
		surplus := r.arrivals.before().clients
		if r.number < serving {
			surplus -= share + share/8
		}
		surplus = min(surplus, s.mostMoves())
		to := s.leastLoaded(loads)
		if surplus <= 0 || to == nil || to == r {
			continue
		}
		loads[to.number] += surplus
		s.moves.Add(1)
		r.post(func() {
			defer s.moves.Done()
			r.moveSome(to, surplus)
		})
	}
}

// leastLoaded returns the reactor with the fewest clients; nil if it has no loop yet.
func (s *Server) leastLoaded(loads []int) (least *reactor) {
	for _, r := range s.reactors {
		if r.number < len(loads) && (least == nil || loads[r.number] < loads[least.number]) {
			least = r
		}
	}
	return least
}

// nextServing returns the reactor that a new connection should come to; nil while all serve.
func (s *Server) nextServing() *reactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &s.balance
	if b.serving == 0 || b.serving >= s.loops {
		return nil
	}
	b.placed++
	for _, r := range s.reactors {
		if r.number == b.placed%b.serving {
			return r
		}
	}
	return nil
}

// mostMoves is how many connections a reactor may move at a time. While a socket is copied it takes
// more descriptors than one; when they run out, the connection would be lost.
func (s *Server) mostMoves() int {
	const most = 64
	return min(most, max(0, s.mostDescriptor/2-s.engine.Clients.Count()))
}
