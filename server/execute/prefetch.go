package execute

import "kedis/storage"

// prefetch reads what requests will need before they run, for several requests at once: into the
// processor's caches, and from RocksDB's memory.
type prefetch struct {
	requests []storage.Prefetch // queued since the last run
	owners   []prefetchOwner    // of the requests
	cold     []Cold             // returned by run
	touched  uint32             // keeps the compiler from leaving out what run reads
}

// prefetchOwner is a queued request and its session.
type prefetchOwner struct {
	session *Session
	request *Request
}

// QueuePrefetch adds a request that is about to run to the next Prefetch. It returns false when the
// queue is full, and Prefetch must be called first.
func (b *Batch) QueuePrefetch(s *Session, r *Request) bool { return b.prefetch.queue(s, r) }

// Prefetch reads what the queued requests will need, as far as it is in memory or in RocksDB's
// memory. It returns the requests that would wait for the disk; they are valid until the next call.
func (b *Batch) Prefetch() []Cold { return b.prefetch.run(b) }

func (p *prefetch) queue(s *Session, r *Request) bool {
	if len(p.requests) == storage.PrefetchBatch {
		return false
	}
	if r.prefetches() {
		p.requests = append(p.requests, storage.Prefetch{})
		r.prefetch(&p.requests[len(p.requests)-1])
		p.owners = append(p.owners, prefetchOwner{s, r})
	}
	return true
}

func (p *prefetch) run(b *Batch) []Cold {
	clear(p.cold)
	p.cold = p.cold[:0]
	if len(p.requests) == 0 {
		return nil
	}
	for i := range p.owners {
		p.touched += b.locks.table.Peek(p.owners[i].request.keys[0].stripe)
	}
	if missing := b.txn.Prefetch(p.requests); missing != 0 && b.engine.loaders.worth(b.clock.last) {
		p.fetch(b, p.reading(missing))
	}
	clear(p.requests)
	clear(p.owners)
	p.requests, p.owners = p.requests[:0], p.owners[:0]
	return p.cold
}

// fetch reads from RocksDB's memory for some of the requests, and notes which of them are cold.
func (p *prefetch) fetch(b *Batch, which uint32) {
	if which == 0 || !b.locks.enter() {
		return
	}
	cold := b.txn.Fetch(p.requests, which)
	for i := range p.requests {
		if cold&(1<<i) != 0 {
			p.cold = append(p.cold, Cold{p.owners[i].session, p.requests[i]})
		}
	}
}

// reading returns those of some requests that will run, and be neither refused nor queued.
func (p *prefetch) reading(which uint32) (reading uint32) {
	for i := range p.owners {
		if s := p.owners[i].session; which&(1<<i) != 0 && s.Authenticated && !s.Transaction.Active {
			reading |= 1 << i
		}
	}
	return reading
}
