package replication

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/psync"
)

// acknowledgements are what clients in WAIT and WAITAOF, and replies with synchronous-replicas,
// wait for. Whoever takes a replica's acknowledgement tells those who wait for it. What else may
// end a wait (this server's disk, replicas that come and go) is looked after by one goroutine for
// all of them, which runs only while somebody waits; it asks the replicas, too.
type acknowledgements struct {
	mu      sync.Mutex
	waiting []*awaited    // by position
	running bool          // the goroutine
	more    chan struct{} // tells the goroutine that replicas are to be asked how far they are

	asked    atomic.Int64 // Unix ms when all replicas were last asked; 0: one has come since
	hesitant atomic.Int32 // online replicas that acknowledge when they are asked, and then once
}

// awaited is enough servers that have everything up to a position.
type awaited struct {
	position int64
	enough   func(psync.Acknowledged) bool
	done     func(psync.Acknowledged)
}

const (
	// lookInterval is how often the goroutine looks though nobody has said anything: replicas come
	// and go.
	lookInterval = time.Second
	// A Kedis that was asked acknowledges each commit for a while, in which it needn't be asked
	// again. The primary's while begins before the replica's, and ends well before.
	acknowledgesFor = 3 * time.Second
	askAgain        = time.Second
)

// WhenAcknowledged calls done once, from any goroutine and perhaps before it returns, when enough
// have everything up to a position, and has replicas asked how far they are. cancel may be called
// at any time and more than once.
func (n *Node) WhenAcknowledged(position int64, enough func(psync.Acknowledged) bool, done func(psync.Acknowledged)) (cancel func()) {
	a, w := &n.acknowledgements, &awaited{position, enough, done}
	if a.add(w) {
		n.running.Go(n.watchAcknowledgements)
	}
	if a.toBeAsked() || position > n.Host.Log().Position() {
		select {
		case a.more <- struct{}{}:
		default:
		}
	}
	if have := n.Acknowledged(position); enough(have) && a.forget(w) {
		done(have)
	}
	return func() { a.forget(w) }
}

// add puts somebody on the list. first says that the goroutine is to be started.
func (a *acknowledgements) add(w *awaited) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.waiting, w.position+1, (*awaited).compare)
	a.waiting = slices.Insert(a.waiting, at, w)
	first = !a.running
	a.running = true
	return first
}

func (w *awaited) compare(position int64) int { return cmp.Compare(w.position, position) }

// forget takes somebody off the list, unless he was told.
func (a *acknowledgements) forget(w *awaited) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.waiting, w.position, (*awaited).compare)
	for ; at < len(a.waiting) && a.waiting[at].position == w.position; at++ {
		if a.waiting[at] == w {
			a.waiting = slices.Delete(a.waiting, at, at+1)
			return true
		}
	}
	return false
}

// toBeAsked reports whether replicas say how far they are only when they are asked.
func (a *acknowledgements) toBeAsked() bool {
	return a.hesitant.Load() > 0 || time.Since(time.UnixMilli(a.asked.Load())) > askAgain
}

// watchAcknowledgements looks after those who wait, until nobody does.
func (n *Node) watchAcknowledgements() {
	a := &n.acknowledgements
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		synced := n.Host.Log().Synced() // first: what comes after it is not overlooked
		n.settleAll()
		if a.ended() {
			return
		}
		asks := false
		select {
		case <-a.more:
			asks = true
		case <-synced:
		case <-look.C:
			asks = a.toBeAsked()
		case <-n.stop:
			return
		}
		if !asks {
			continue
		}
		if err := n.askReplicas(); err != nil {
			n.Logger.Warn("asking replicas how far they are", "error", err)
		}
	}
}

// settle tells those for whom enough is there, of those who wait for a position behind from, and up
// to to: that is where something has changed.
func (a *acknowledgements) settle(p progress, from, to int64) {
	a.mu.Lock()
	first, _ := slices.BinarySearchFunc(a.waiting, from+1, (*awaited).compare)
	end, _ := slices.BinarySearchFunc(a.waiting[first:], to+1, (*awaited).compare)
	var done []func()
	changed := slices.DeleteFunc(a.waiting[first:first+end:first+end], func(w *awaited) bool {
		have := p.at(w.position)
		if !w.enough(have) {
			return false
		}
		done = append(done, func() { w.done(have) })
		return true
	})
	a.waiting = slices.Delete(a.waiting, first+len(changed), first+end)
	a.mu.Unlock()
	for _, f := range done {
		f()
	}
}

// settleAll is settle when anything may have changed.
func (n *Node) settleAll() { n.acknowledgements.settle(n.progress(), -1, math.MaxInt64-1) }

// ended reports whether nobody is left, with the goroutine noted as ended.
func (a *acknowledgements) ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running = len(a.waiting) > 0
	return !a.running
}

// progress is how far this server's disk and its replicas are.
type progress struct {
	durable       int64
	acked, synced []int64 // of each replica
}

func (n *Node) progress() progress {
	p := progress{durable: n.Host.Log().Durable()}
	n.mu.Lock()
	defer n.mu.Unlock()
	for f := range n.feeds {
		if f.State() == feedOnline {
			p.acked = append(p.acked, f.acked.Load())
			p.synced = append(p.synced, f.synced.Load())
		}
	}
	return p
}

// at tells who has everything up to a position.
func (p *progress) at(position int64) psync.Acknowledged {
	return psync.Acknowledged{Here: p.durable >= position, Replicas: reached(p.acked, position), Synced: reached(p.synced, position)}
}

func reached(positions []int64, position int64) (count int) {
	for _, p := range positions {
		if p >= position {
			count++
		}
	}
	return count
}

// Acknowledged tells who has everything up to a position.
func (n *Node) Acknowledged(position int64) psync.Acknowledged {
	p := n.progress()
	return p.at(position)
}

// Reached is the position up to which so many replicas have acknowledged everything; 0 with fewer.
func (n *Node) Reached(replicas int) int64 {
	acked := n.progress().acked
	if len(acked) < replicas {
		return 0
	}
	slices.Sort(acked)
	return acked[len(acked)-replicas]
}

// Online is how many replicas get the stream.
func (n *Node) Online() int { return int(n.online.Load()) }

// nextAcknowledgement is closed when a replica says how far it is.
func (n *Node) nextAcknowledgement() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.acks
}

// getAck is what asks the replicas how far they are.
const getAck = "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n"

// askReplicas has the replicas say how far they are.
func (n *Node) askReplicas() error {
	n.roles.Lock()
	defer n.roles.Unlock()
	if n.link != nil || n.failover != nil || len(n.sorted(false)) == 0 {
		return nil
	}
	n.acknowledgements.asked.Store(time.Now().UnixMilli())
	return n.say(getAck)
}
