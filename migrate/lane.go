package migrate

import (
	"net"
	"strings"
	"time"

	"kedis/internal/resp"
)

// lane sends batches in order.
type lane struct {
	target      *Target
	index       int
	open        *batch
	queue       chan *batch
	spare       chan *batch            // empty ones, whose memory is used again
	connections map[string]*connection // by address
}

func (t *Target) newLane(index int) *lane {
	return &lane{target: t, index: index, open: &batch{}, queue: make(chan *batch, 1), spare: make(chan *batch, 2), connections: map[string]*connection{}}
}

// run sends what comes in, until the queue is closed.
func (l *lane) run() {
	for b := range l.queue {
		if l.target.ctx.Err() == nil {
			if err := l.deliver(b); err != nil {
				l.target.stop(err)
			}
		}
		if b = b.reset(); b != nil {
			select {
			case l.spare <- b:
			default:
			}
		}
		l.target.inFlight.Done()
	}
	for _, c := range l.connections {
		c.close()
	}
}

// next is an empty batch.
func (l *lane) next() *batch {
	select {
	case b := <-l.spare:
		return b
	default:
		return &batch{}
	}
}

// connection is the lane's own to a server.
func (l *lane) connection(address string) (*connection, error) {
	c := l.connections[address]
	if c != nil && time.Since(c.used) < idleLimit {
		return c, nil
	}
	if c != nil {
		c.close()
		delete(l.connections, address)
	}
	c, err := l.target.options.connect(l.target.ctx, address)
	if err == nil {
		l.connections[address] = c
	}
	return c, err
}

// deliver sends a batch and waits for the answers.
func (l *lane) deliver(b *batch) error {
	t := l.target
	requests, err := l.requests(b)
	deadline := time.Now().Add(t.options.Patience)
	for wait := time.Millisecond; err == nil && len(requests) > 0; wait = min(2*wait, time.Second) {
		if requests, err = l.exchange(requests); len(requests) == 0 || err != nil {
			break
		}
		if time.Now().After(deadline) {
			return requests[0].redirect
		}
		err = t.follow(requests, wait)
	}
	return err
}

// requests makes one of a batch, or in a cluster one for each slot.
func (l *lane) requests(b *batch) ([]*request, error) {
	t := l.target
	if t.cluster == nil {
		b.selects(0)
		return []*request{{batch: b, address: t.options.address(), entries: b.entries, mark: t.markWords(l, b, 0)}}, nil
	}
	bySlot, list := map[int]*request{}, []*request(nil)
	for _, e := range b.entries {
		r := bySlot[e.slot]
		if r == nil {
			r = &request{batch: b, slot: e.slot, mark: t.markWords(l, b, e.slot)}
			if err := t.locate(r); err != nil {
				return nil, err
			}
			bySlot[e.slot] = r
			list = append(list, r)
		}
		r.entries = append(r.entries, e)
	}
	return list, nil
}

// locate finds the owner of a request's slot.
func (t *Target) locate(r *request) error {
	client, err := t.cluster.MasterForKey(t.ctx, slotTags()[r.slot])
	if err == nil {
		r.address, r.asking = client.Options().Addr, false
	}
	return err
}

// exchange sends requests, all that are for one server at once, and returns those that have to be
// sent again.
func (l *lane) exchange(requests []*request) (again []*request, err error) {
	for len(requests) > 0 {
		address := requests[0].address
		var here, others []*request
		for _, r := range requests {
			if r.address == address {
				here = append(here, r)
			} else {
				others = append(others, r)
			}
		}
		if err := l.exchangeWith(address, here); err != nil {
			return nil, err
		}
		for _, r := range here {
			if r.redirect != nil {
				again = append(again, r)
			}
		}
		requests = others
	}
	return again, nil
}

// exchangeWith sends requests to one server.
func (l *lane) exchangeWith(address string, requests []*request) error {
	c, err := l.connection(address)
	if err != nil {
		return err
	}
	var encoded [][]byte
	for _, r := range requests {
		encoded = append(encoded, r.encode()...)
	}
	return c.exchange(func(replies *resp.Reader) error {
		for _, r := range requests {
			if err := r.take(replies); err != nil {
				return err
			}
		}
		return nil
	}, encoded...)
}

// follow finds the servers that have the requests' slots now. An ASK names one that has a slot's
// new keys while it is moved; where that is told to try again later, a transaction's keys are on
// both, and it waits until they aren't.
func (t *Target) follow(requests []*request, wait time.Duration) error {
	if t.cluster == nil {
		return failure(ExitTarget, "the target %s answers that its keys are elsewhere, and doesn't say that it is a cluster", t.options.address())
	}
	var others []*request
	for _, r := range requests {
		if address, ok := asked(r.redirect, r.address); ok {
			r.address, r.asking = address, true
		} else {
			others = append(others, r)
		}
	}
	if len(others) == 0 {
		return nil
	}
	t.cluster.ReloadState(t.ctx)
	select {
	case <-t.ctx.Done():
		return t.failed()
	case <-time.After(wait):
	}
	for _, r := range others {
		if err := t.locate(r); err != nil {
			return err
		}
	}
	return nil
}

// asked is the address that an ASK names; one without a host is at the same host.
func asked(redirect *replyError, from string) (address string, ok bool) {
	fields := strings.Fields(redirect.text)
	if len(fields) < 3 || fields[0] != "ASK" {
		return "", false
	}
	host, port, err := net.SplitHostPort(fields[2])
	if err != nil {
		return "", false
	}
	if host == "" {
		host, _, err = net.SplitHostPort(from)
	}
	return net.JoinHostPort(host, port), err == nil
}
