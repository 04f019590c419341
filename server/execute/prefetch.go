package execute

import "kedis/storage"

// prefetch has memory, and RocksDB's memory, fetch what requests will look for before they are executed, for several of them at once.
type prefetch struct {
	expected  []storage.Prefetch // what was expected since warm
	expecting []expectedRequest  // whose it is
	cold      []Cold             // what warm returns
	warmed    uint32             // keeps the compiler from leaving out what warm reads
}

// expectedRequest is a request that is about to be executed, and whose it is.
type expectedRequest struct {
	session *Session
	request *Request
}

// Expect says that a request of a session is about to be executed. It returns false when Warm has to be called first.
func (b *Batch) Expect(s *Session, r *Request) bool { return b.prefetch.expect(s, r) }

// Warm has memory fetch what the requests that Expect was told of will look for, and reads what RocksDB has of it in
// memory. It returns the requests that would have to wait for the disk; they are valid until the next call.
func (b *Batch) Warm() []Cold { return b.prefetch.warm(b) }

func (p *prefetch) expect(s *Session, r *Request) bool {
	if len(p.expected) == storage.PrefetchBatch {
		return false
	}
	if upcoming, ok := r.prefetch(); ok {
		p.expected = append(p.expected, upcoming)
		p.expecting = append(p.expecting, expectedRequest{s, r})
	}
	return true
}

func (p *prefetch) warm(b *Batch) []Cold {
	clear(p.cold)
	p.cold = p.cold[:0]
	if len(p.expected) == 0 {
		return nil
	}
	for i := range p.expecting {
		p.warmed += b.locks.table.Peek(p.expecting[i].request.keys[0].stripe)
	}
	if missing := b.txn.Prefetch(p.expected); missing != 0 && b.engine.loaders.worth(b.clock.last) {
		p.fetch(b, p.reading(missing))
	}
	clear(p.expected)
	clear(p.expecting)
	p.expected, p.expecting = p.expected[:0], p.expecting[:0]
	return p.cold
}

// fetch reads what some of the expected requests will ask RocksDB for, and notes which of them are cold.
func (p *prefetch) fetch(b *Batch, which uint32) {
	if which == 0 || !b.locks.enter() {
		return
	}
	cold := b.txn.Fetch(p.expected, which)
	for i := range p.expected {
		if cold&(1<<i) != 0 {
			p.cold = append(p.cold, Cold{p.expecting[i].session, p.expected[i]})
		}
	}
}

// reading returns those of some requests that will be executed, and neither refused nor queued.
func (p *prefetch) reading(which uint32) (reading uint32) {
	for i := range p.expecting {
		if s := p.expecting[i].session; which&(1<<i) != 0 && s.Authenticated && !s.Transaction.Active {
			reading |= 1 << i
		}
	}
	return reading
}
