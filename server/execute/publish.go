package execute

import (
	"slices"
	"sync"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/storage"
)

// Receivers lists who gets a message. Patterns that take long to be matched are looked at without the lock, and within the budget.
func (l *listeners) Receivers(txn *storage.Txn, channel []byte) (Receivers, error) {
	found, slow := l.quickReceivers(channel, ManySteps)
	for _, s := range slow {
		if err := txn.SpendSteps(s.compiled.Steps(len(channel))); err != nil {
			return nil, err
		}
		found = append(found, l.slowReceivers(s, channel)...)
	}
	return found, nil
}

// ShardReceivers lists who gets a message to a shard channel.
func (l *listeners) ShardReceivers(channel []byte) Receivers {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if to := l.byName[ShardKind][string(channel)]; to != nil {
		return Receivers{{way: ShardKind, sessions: to.all()}}
	}
	return nil
}

// slowPattern is one that takes long to be matched with a channel.
type slowPattern struct {
	text     string
	compiled *glob.Pattern
}

// ManySteps is how many steps of a match are counted against the budget.
const ManySteps = 1 << 12

// quickReceivers lists who is found at once, and the patterns that take more than so many steps.
func (l *listeners) quickReceivers(channel []byte, steps int) (found Receivers, slow []slowPattern) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if to := l.byName[ChannelKind][string(channel)]; to != nil {
		found = append(found, receivers{way: ChannelKind, sessions: to.all()})
	}
	for text, to := range l.byName[PatternKind] {
		if to.pattern.Steps(len(channel)) > steps {
			slow = append(slow, slowPattern{text, to.pattern})
		} else if to.pattern.Match(channel) {
			found = append(found, receivers{way: PatternKind, pattern: text, sessions: to.all()})
		}
	}
	return found, slow
}

// slowReceivers lists who listens to a pattern, if it matches.
func (l *listeners) slowReceivers(s slowPattern, channel []byte) Receivers {
	if !s.compiled.Match(channel) {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if to := l.byName[PatternKind][s.text]; to != nil {
		return Receivers{{way: PatternKind, pattern: s.text, sessions: to.all()}}
	}
	return nil
}

// inOrder calls functions one after the other, on a goroutine that is there while there are any.
type inOrder struct {
	mu      sync.Mutex
	waiting []func()
}

func (o *inOrder) do(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting = append(o.waiting, f); len(o.waiting) == 1 {
		go o.run()
	}
}

func (o *inOrder) run() {
	for more := true; more; {
		o.mu.Lock()
		f := o.waiting[0]
		o.mu.Unlock()
		f()
		o.mu.Lock()
		o.waiting[0] = nil
		o.waiting = o.waiting[1:]
		more = len(o.waiting) > 0
		o.mu.Unlock()
	}
}

// Receivers are those who get a message; who listens in several ways gets it several times.
type Receivers []receivers

// receivers are those who get it in the same form.
type receivers struct {
	way      ListenKind
	pattern  string // that the channel matched
	sessions []*Session
}

// Count is how many messages there are.
func (r Receivers) Count() (count int) {
	for i := range r {
		count += len(r[i].sessions)
	}
	return count
}

// Write writes the messages that a session gets itself, as they are delivered.
func (r Receivers) Write(w *resp.Writer, own *Session, channel, message []byte) {
	for i := range r {
		if slices.Contains(r[i].sessions, own) {
			r[i].write(w, channel, message)
		}
	}
}

func (r *receivers) write(w *resp.Writer, channel, message []byte) {
	switch r.way {
	case ShardKind:
		w.Push(3)
		w.BulkString("smessage")
	case ChannelKind:
		w.Push(3)
		w.BulkString("message")
	case PatternKind:
		w.Push(4)
		w.BulkString("pmessage")
		w.BulkString(r.pattern)
	}
	w.Bulk(channel)
	w.Bulk(message)
}

// parcels appends the messages to those that are to be sent, but for those to the sender itself. All who get the same share the bytes.
func (r Receivers) parcels(sent []Parcel, sender *Session, channel, message []byte) []Parcel {
	for i := range r {
		var texts [4][]byte // by protocol
		for _, s := range r[i].sessions {
			if s == sender {
				continue
			}
			text := &texts[s.listening.protocol.Load()&3]
			if *text == nil {
				w := resp.NewWriter(int(s.listening.protocol.Load()))
				r[i].write(w, channel, message)
				*text = w.Bytes()
			}
			sent = append(sent, Parcel{s.Peer, *text})
		}
	}
	return sent
}

// Parcel is what one client is to be sent, outside of the order of requests and replies.
type Parcel struct {
	To   Peer
	Text []byte // stays as it is
}

// deliver sends parcels.
func (e *Engine) deliver(parcels []Parcel) {
	switch {
	case len(parcels) == 0:
	case e.Courier != nil:
		e.Courier(parcels)
	default:
		for _, p := range parcels {
			p.To.Send(p.Text)
		}
	}
}

// Publish sends a message when what was executed with it is committed. The session itself gets it behind the reply, as with Redis 7.2; 7.0
// puts it in front of that, in the midst of EXEC's array.
func (c *Invocation) Publish(to Receivers, channel, message []byte) {
	if len(to) == 0 {
		return
	}
	own, outbox := c.Session, &c.batch.running.outbox
	if own.Listens() {
		c.Push(func(w *resp.Writer) { to.Write(w, own, channel, message) })
	}
	c.AfterCommit(func() { outbox.parcels = to.parcels(outbox.parcels, own, channel, message) })
}

// sendParcels sends what was published, once replicas have what it tells of.
func (b *Batch) sendParcels(position int64) {
	outbox := &b.running.outbox
	if len(outbox.parcels) > 0 && b.engine.holdsMessages() {
		b.engine.deliverWhenReached(outbox.parcels, position)
	} else {
		b.engine.deliver(outbox.parcels)
	}
	clear(outbox.parcels)
	outbox.parcels = outbox.parcels[:0]
}
