package execute

import (
	"sync"
	"sync/atomic"
	"time"

	"kedis/lock"
	"kedis/storage"
)

// loaders bring what requests ask for from the disk into RocksDB's cache, many at once, while the
// reactors go on with other requests.
type loaders struct {
	requests chan load
	started  sync.Once
	running  sync.WaitGroup
	gone     chan struct{} // closed when they have stopped
	store    *storage.Store
	gate     *lock.Gate
	door     int

	took  atomic.Int64 // nanoseconds, of the loads of late
	tried atomic.Int64 // when they were last loaded anyway, as the engine's clock says
	ended atomic.Int64 // how many loads
}

// load is what is loaded: the records that a request asks for, or what a walk comes to.
type load struct {
	request storage.Prefetch
	walk    *storage.ColdWalk
	entries int // of the walk
	done    func()
}

const (
	loaderCount = 32
	// worthLoading is how long the disk has to take for a load to be worth its way to another
	// thread and back: what the system has in its page cache is there sooner.
	worthLoading = 50 * time.Microsecond
	// longLoad is what a single load counts for at most: it may have waited for the processor
	// rather than the disk.
	longLoad = 4 * worthLoading
	// loadAnyway is how often requests are loaded though it isn't worth it, to find out when it is.
	loadAnyway = 20 * time.Millisecond
	// mostLoads is how often a request waits for what its walks come to. Then its reactor reads the
	// rest, since what was loaded first may be displaced again.
	mostLoads = 8
	// firstLoad is how many entries of a walk are loaded at first, about two pieces of an index.
	// Each further time they are twice as many.
	firstLoad = 64
)

func (l *loaders) init(store *storage.Store, gate *lock.Gate, door int) {
	l.requests, l.store, l.gate, l.door = make(chan load, 1024), store, gate, door
	l.gone = make(chan struct{})
	l.took.Store(int64(worthLoading))
}

// begin has the loaders begin, with the first request: an engine that recovers, or fills a
// directory, needs none.
func (l *loaders) begin() {
	for range loaderCount {
		txn := l.store.NewTxn()
		l.running.Go(func() {
			for load := range l.requests {
				l.run(txn, &load)
				load.done()
			}
		})
	}
}

// stop has the loaders end. Nobody may call try any more.
func (l *loaders) stop() {
	close(l.requests)
	go func() {
		l.running.Wait()
		close(l.gone)
	}()
}

// stopped waits until stop was called and no loader runs any more: the disk may keep one for ever.
// It gives up after a while, and may be called again.
func (l *loaders) stopped(within time.Duration) bool {
	select {
	case <-l.gone:
		return true
	case <-time.After(within):
		return false
	}
}

func (l *loaders) run(txn *storage.Txn, of *load) {
	if !l.gate.TryEnter(l.door) {
		return // the request waits for the gate, too
	}
	defer l.gate.Leave(l.door)
	began := time.Now()
	if of.walk != nil {
		l.store.FetchWalk(*of.walk, of.entries)
	} else {
		txn.FetchCold(of.request)
	}
	l.ended.Add(1)
	took := l.took.Load()
	l.took.Store(took + (int64(min(time.Since(began), longLoad))-took)/8)
}

// worth tells that the disk takes long enough, or that it is time to find out.
func (l *loaders) worth(now int64) bool {
	if l.took.Load() >= int64(worthLoading) {
		return true
	}
	tried := l.tried.Load()
	return now-tried > int64(loadAnyway) && l.tried.CompareAndSwap(tried, now)
}

// try has something loaded, and calls done then. It returns false when there is too much to do.
func (l *loaders) try(what load) bool {
	l.started.Do(l.begin)
	select {
	case l.requests <- what:
		return true
	default:
		return false
	}
}

// Cold is a request of a session whose records are on the disk only.
type Cold struct {
	Session *Session
	request storage.Prefetch
}

// Wait is what the request waits for: that what it asks for is in memory. There is nothing to wait
// for when the loaders have too much to do.
func (c Cold) Wait(e *Engine) *Wait {
	return &Wait{Cause: ForDisk, begin: func(wake func()) bool { return e.loaders.try(load{request: c.request.Clone(), done: wake}) }}
}

// waitForWalk has a request of a session wait until what one of its walks comes to is in memory.
func (b *Batch) waitForWalk(s *Session) Outcome {
	walk, entries := b.txn.ColdWalk(), firstLoad<<s.loads
	s.loads++
	return s.waits(Wait{Cause: ForDisk, begin: func(wake func()) bool {
		return b.engine.loaders.try(load{walk: &walk, entries: entries, done: wake})
	}})
}

// Loads is how many requests were looked for on the disk so far, ahead of their execution.
func (e *Engine) Loads() int64 { return e.loaders.ended.Load() }
