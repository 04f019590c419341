package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// balance decides how many of the reactors serve, from what the last fractions of a second were like.
//
// As long as there is a processor for each, all do. On a machine whose processors are wanted by others, its clients above all, the work of
// the kernel for each request grows with the number of reactors that share too few processors: fewer requests come in one pass, and more
// threads are put to sleep and woken. So where that is most of the work, since requests come one by one, as many serve as there are
// processors to be had. Where the reactors' own work is most, as with deep pipelines, another one is worth its share of a processor,
// unless all clients write to the same key: then reactors wait for each other, and one that has no processor of its own is one too many.
type balance struct {
	processors int  // that this process may use
	rationed   bool // by time, so that one that is waited with is taken from the others
	fixed      bool // all reactors serve, whatever happens

	last      processorTimes
	available average // processors that this process uses or could use
	single    average // 1 while requests come one by one, 0 while they come in pipelines
	same      average // 1 while clients write to the same key, one after the other
	serving   int
}

// newBalance asks Go, which asks the kernel: for the processors that the process may run on, and for how long, when it is in a control group.
func newBalance(fixed bool) balance {
	processors := runtime.GOMAXPROCS(0)
	return balance{processors: processors, rationed: processors < runtime.NumCPU(), fixed: fixed}
}

const (
	// quiet is a use of processors, in processors, below which nothing is decided.
	quiet = 0.25
	// mostly is the share of the pieces that make it so.
	mostly = 0.5
	// pipelined is how many requests have to come at once for the reactors' own work to be taken for most.
	pipelined = 4
	// nearly is how much of a processor may be missing from one that is there.
	nearly = 0.1
)

// average is a moving average over some samples, of which the last has a weight between 0 and 1; it begins with the first.
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

// sample looks at the time since the last sample, and what came in it, while so many threads of this process had other work. It tells whether
// there was enough to do to decide anything.
func (b *balance) sample(now processorTimes, came counts, reactors, others int) bool {
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
	b.available.add(min((used+idle)/passed, float64(b.processors))-float64(others), 0.4)
	const atOnce = 0.7 // other clients, or others than before, are seen at once
	b.single.add(oneIf(came.requests < pipelined*came.pieces), atOnce)
	b.same.add(oneIf(float64(came.followed) > mostly*float64(came.pieces)), atOnce)
	b.serving = reactors
	switch {
	case b.fixed:
	case b.single.value > 0.5:
		b.serving = min(reactors, max(1, int(b.available.value+0.5)))
	case b.same.value > 0.5:
		b.serving = min(reactors, max(1, int(b.available.value+nearly)))
	}
	return true
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// spare tells that each of the serving reactors has a processor, which it may use up.
func (b *balance) spare() bool {
	return !b.rationed && float64(b.serving) <= b.available.value+nearly
}

// patient tells that reactors should leave their processor to others until those sleep: they have none for themselves, and those who send pipelines
// are among the others.
func (b *balance) patient() bool { return !b.rationed && b.single.value <= 0.5 && !b.spare() }

// all tells that the serving reactors leave no processor of Go's to other goroutines.
func (b *balance) all() bool { return b.serving >= b.processors }

// processorTimes are times since some moment in the past.
type processorTimes struct {
	at   time.Duration // of the clock on the wall
	used time.Duration // by this process
	idle time.Duration // of all processors together
}

// load is what a reactor tells of its connections, period by period: from one tick to the next.
type load struct {
	period int // the one that is counted
	now    counts
	last   atomic.Pointer[counts]
	coming atomic.Int32 // clients that were sent here since the last one
	held   atomic.Int32 // connections
}

// counts are what came in a period.
type counts struct {
	clients          int // that sent something
	pieces, requests int64
	followed         int64 // pieces of one client that write to the key that another one's wrote to just before
}

// count takes note that a connection has sent something.
func (l *load) count(c *connection) {
	l.now.pieces++
	if c.period != l.period {
		c.period = l.period
		l.now.clients++
	}
}

// rests tells that a reactor has served nobody in the last period, has nobody to serve, and nobody was sent to it, so that a new period would change nothing.
func (l *load) rests() bool { return l.held.Load() == 0 && l.clients() == 0 }

// turn begins a new period.
func (l *load) turn() {
	last := l.now
	l.last.Store(&last)
	l.coming.Store(0)
	l.now = counts{}
	l.period++
}

// clients are those of the last period and those that came since.
func (l *load) clients() int { return l.last.Load().clients + int(l.coming.Load()) }

// rebalance looks at what the machine has to do and has connections moved to where they are best served. The caller holds s.mu.
func (s *Server) rebalance() {
	var all counts
	for _, r := range s.reactors {
		last := r.load.last.Load()
		all.clients += last.clients
		all.pieces += last.pieces
		all.requests += last.requests
		all.followed += last.followed
	}
	if all.clients == 0 {
		s.balance.last = processorTimes{} // nobody is asked for times that nobody needs
		s.bePatient(false)
		return
	}
	now, err := readProcessorTimes()
	if err != nil {
		s.logger.Debug("asking for the processors' times", "error", err)
		s.bePatient(false)
		return
	}
	others := 0
	if s.engine.Store.Flushing() {
		others = 1
	}
	if !s.balance.sample(now, all, len(s.reactors), others) {
		s.bePatient(false)
		return
	}
	s.bePatient(s.balance.patient())
	serving, spare, shared := s.balance.serving, s.balance.spare(), s.balance.all()
	most := s.mostMoves()
	share := (all.clients + serving - 1) / serving
	for _, r := range s.reactors {
		r.mayLinger(spare && r.linger.ready != nil, shared)
		surplus := r.load.clients()
		if r.number < serving {
			surplus -= share
		}
		if surplus = min(surplus, most); surplus > 0 {
			to := s.leastLoaded()
			to.load.coming.Add(int32(surplus))
			r.post(func() { r.moveSome(to, surplus) })
		}
	}
}

// elsewhere is the reactor that a new connection of a reactor's should rather be served by; nil if it serves.
func (s *Server) elsewhere(r *reactor) *reactor {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.balance.serving == 0 || r.number < s.balance.serving || s.mostMoves() == 0 {
		return nil
	}
	to := s.leastLoaded()
	to.load.coming.Add(1)
	return to
}

// mostMoves is how many connections a reactor may move at a time. While a socket is copied it takes more descriptors than one; when they run
// out, it would be lost.
func (s *Server) mostMoves() int {
	const most = 64
	return min(most, max(0, s.mostDescriptor/2-s.engine.Clients.Count()))
}

// leastLoaded returns the reactor, of those that serve, that has the fewest clients.
func (s *Server) leastLoaded() (least *reactor) {
	for _, r := range s.reactors {
		if r.number < s.balance.serving && (least == nil || r.load.clients() < least.load.clients()) {
			least = r
		}
	}
	return least
}
