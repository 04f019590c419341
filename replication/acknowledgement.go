package replication

import (
	"slices"
	"sync"
	"time"

	"kedis/internal/psync"
)

// acknowledgements are what clients in WAIT and WAITAOF wait for. One goroutine looks after all of
// them, and runs only while somebody waits.
type acknowledgements struct {
	mu      sync.Mutex
	waiting map[*awaited]struct{}
	asked   bool          // replicas are to be asked how far they are
	running bool          // the goroutine
	more    chan struct{} // tells it that asked was set
}

// awaited is enough servers that have everything up to a position.
type awaited struct {
	position int64
	enough   func(psync.Acknowledged) bool
	done     func(psync.Acknowledged)
}

// lookInterval is how often the goroutine looks though nobody has said anything: replicas come and
// go.
const lookInterval = time.Second

// WhenAcknowledged calls done once, from any goroutine, when enough have everything up to a
// position, and has replicas asked how far they are. cancel may be called at any time and more than
// once.
func (n *Node) WhenAcknowledged(position int64, enough func(psync.Acknowledged) bool, done func(psync.Acknowledged)) (cancel func()) {
	a, w := &n.acknowledgements, &awaited{position, enough, done}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[w] = struct{}{}
	a.asked = true
	if !a.running {
		a.running = true
		n.running.Go(n.watchAcknowledgements)
	}
	select {
	case a.more <- struct{}{}:
	default:
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, w)
	}
}

// watchAcknowledgements tells those who wait, until nobody does.
func (n *Node) watchAcknowledgements() {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		synced := n.Host.Log().Synced() // first: what comes after it is not overlooked
		said := n.nextAcknowledgement()
		if !n.acknowledgements.settle(n.progress()) {
			return
		}
		if n.acknowledgements.ask() {
			if err := n.askReplicas(); err != nil {
				n.Logger.Warn("asking replicas how far they are", "error", err)
			}
		}
		select {
		case <-n.acknowledgements.more:
		case <-said:
		case <-synced:
		case <-look.C:
		case <-n.stop:
			return
		}
	}
}

// settle tells those for whom enough is there. It returns false when nobody is left, with the
// goroutine noted as ended.
func (a *acknowledgements) settle(p progress) (waiting bool) {
	a.mu.Lock()
	var done []func()
	for w := range a.waiting {
		if have := p.at(w.position); w.enough(have) {
			delete(a.waiting, w)
			done = append(done, func() { w.done(have) })
		}
	}
	waiting = len(a.waiting) > 0
	a.running = waiting
	a.mu.Unlock()
	for _, f := range done {
		f()
	}
	return waiting
}

// ask reports whether replicas are to be asked.
func (a *acknowledgements) ask() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = false
	return asked
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
	return n.say(getAck)
}
