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
// threads are put to sleep and woken. So where that is most of the work, as many serve as there are processors to be had. Where the
// reactors' own work is most, as with deep pipelines, a second one is worth its share of a processor.
type balance struct {
	processors int  // that this process may use
	rationed   bool // by time, so that one that is waited with is taken from the others

	last      processorTimes
	available average // processors that this process uses or could use
	kernel    average // share of the kernel in what it uses
	serving   int
}

// newBalance asks Go, which asks the kernel: for the processors that the process may run on, and for how long, when it is in a control group.
func newBalance() balance {
	processors := runtime.GOMAXPROCS(0)
	return balance{processors: processors, rationed: processors < runtime.NumCPU()}
}

// quiet is a use of processors, in processors, below which nothing is decided.
const quiet = 0.25

// average is a moving average over some samples; it begins with the first.
type average struct {
	value float64
	begun bool
}

func (a *average) add(sample float64) {
	if !a.begun {
		a.value, a.begun = sample, true
	}
	a.value += 0.4 * (sample - a.value)
}

// sample looks at the time since the last sample. fixed says that all reactors are to serve whatever happens. It tells whether there was
// enough to do to decide anything.
func (b *balance) sample(now processorTimes, reactors int, fixed bool) bool {
	last := b.last
	b.last = now
	passed := (now.at - last.at).Seconds()
	if last.at == 0 || passed <= 0 {
		return false
	}
	user, kernel, idle := (now.user - last.user).Seconds(), (now.kernel - last.kernel).Seconds(), (now.idle - last.idle).Seconds()
	if user+kernel < quiet*passed {
		return false
	}
	b.available.add(min((user+kernel+idle)/passed, float64(b.processors)))
	b.kernel.add(kernel / (user + kernel))
	b.serving = reactors
	if b.kernel.value > 0.5 && !fixed {
		b.serving = min(reactors, max(1, int(b.available.value+0.5)))
	}
	return true
}

// spare tells that each of the serving reactors has a processor, which it may use up.
func (b *balance) spare() bool {
	return !b.rationed && float64(b.serving) <= b.available.value+0.25
}

// processorTimes are times since some moment in the past.
type processorTimes struct {
	at           time.Duration // of the clock on the wall
	user, kernel time.Duration // of this process
	idle         time.Duration // of all processors together
}

// load is what a reactor tells of its connections.
type load struct {
	period  int          // of those that are counted
	counted int32        // connections that sent something in this period
	active  atomic.Int32 // those of the last one
}

// count takes note that a connection has sent something.
func (l *load) count(c *connection) {
	if c.period != l.period {
		c.period = l.period
		l.counted++
	}
}

// turn begins a new period.
func (l *load) turn() {
	l.active.Store(l.counted)
	l.counted = 0
	l.period++
}

// mostMoves bounds how many connections a reactor moves at a time.
const mostMoves = 64

// rebalance looks at what the machine has to do and has connections moved to where they are best served.
func (s *Server) rebalance() {
	if !s.busy() {
		s.balance.last = processorTimes{}
		return
	}
	now, err := readProcessorTimes()
	if err != nil || !s.balance.sample(now, len(s.reactors), s.config.Reactors.Get() > 0) {
		return
	}
	spare := s.balance.spare()
	var serving, all []*reactor
	total := 0
	for _, r := range s.reactors {
		all = append(all, r)
		total += int(r.load.active.Load())
		if r.number < s.balance.serving {
			serving = append(serving, r)
		}
	}
	if len(serving) == 0 {
		return
	}
	share := (total + len(serving) - 1) / len(serving)
	for _, r := range all {
		r.post(func() { r.linger.allowed = spare && r.linger.ready != nil })
		surplus := int(r.load.active.Load())
		if r.number < s.balance.serving {
			surplus -= share
		}
		if surplus > 0 {
			to := leastLoaded(serving)
			to.load.active.Add(int32(min(surplus, mostMoves)))
			r.post(func() { r.moveSome(to, min(surplus, mostMoves)) })
		}
	}
}

// busy tells that some client has sent something in the last period.
func (s *Server) busy() bool {
	for _, r := range s.reactors {
		if r.load.active.Load() > 0 {
			return true
		}
	}
	return false
}

func leastLoaded(reactors []*reactor) *reactor {
	least := reactors[0]
	for _, r := range reactors[1:] {
		if r.load.active.Load() < least.load.active.Load() {
			least = r
		}
	}
	return least
}
