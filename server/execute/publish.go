package execute

import (
	"slices"
	"sync"
	"sync/atomic"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/storage"
)

// Receivers lists who gets a message. Patterns that take long to be matched are looked at without
// the lock, and within the budget.
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
		return Receivers{{way: ShardKind, to: to.all(l.changes.Load())}}
	}
	return nil
}

// slowPattern is one that takes long to be matched with a channel.
type slowPattern struct {
	text     string
	compiled *glob.Pattern
}

// slowPatternBytes is what one takes in a list.
const slowPatternBytes = 24

// Unmatched is how many bytes of messages wait until they are matched with such patterns.
func (l *listeners) Unmatched() int64 { return l.slow.bytes.Load() }

// ManySteps is how many steps of a match are counted against the budget.
const ManySteps = 1 << 12

// quickReceivers lists who is found at once, and the patterns that take more than so many steps.
func (l *listeners) quickReceivers(channel []byte, steps int) (found Receivers, slow []slowPattern) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if to := l.byName[ChannelKind][string(channel)]; to != nil {
		found = append(found, receivers{way: ChannelKind, to: to.all(l.changes.Load())})
	}
	for _, to := range l.patterns {
		if to.pattern.Steps(len(channel)) > steps {
			slow = append(slow, slowPattern{to.name, to.pattern})
		} else if to.pattern.Match(channel) {
			found = append(found, receivers{way: PatternKind, pattern: to.name, to: to.all(l.changes.Load())})
		}
	}
	return found, slow
}

// slowReceivers lists who listens to a pattern, if it matches. When nobody does any more, it isn't
// matched.
func (l *listeners) slowReceivers(s slowPattern, channel []byte) Receivers {
	if l.listenTo(s) == nil || !s.compiled.Match(channel) {
		return nil
	}
	if to := l.listenTo(s); to != nil {
		return Receivers{{way: PatternKind, pattern: s.text, to: to}}
	}
	return nil
}

// listenTo are those who listen to a pattern; nil if there is nobody.
func (l *listeners) listenTo(s slowPattern) *Audience {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if to := l.byName[PatternKind][s.text]; to != nil {
		return to.all(l.changes.Load())
	}
	return nil
}

// inOrder calls functions one after the other, on a goroutine that is there while there are any.
type inOrder struct {
	mu      sync.Mutex
	waiting []func()
	bytes   atomic.Int64 // that the functions keep in memory
}

// do calls a function that keeps so many bytes in memory until it has returned.
func (o *inOrder) do(f func(), size int) {
	o.bytes.Add(int64(size))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, func() { f(); o.bytes.Add(-int64(size)) })
	if len(o.waiting) == 1 {
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
	way     ListenKind
	pattern string // that the channel matched
	to      *Audience
}

// Count is how many messages there are.
func (r Receivers) Count() (count int) {
	for i := range r {
		count += r[i].to.count
	}
	return count
}

// Write writes the messages that a session gets itself, as they are delivered.
func (r Receivers) Write(w *resp.Writer, own *Session, channel, message []byte) {
	for i := range r {
		lane := own.Peer.Lane() // which has no place where only lanes before it have listeners
		if lanes := r[i].to.Lanes; lane < len(lanes) && slices.Contains(lanes[lane], own) {
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

// messages appends what all are to be sent, but for the sender itself.
func (r Receivers) messages(sent []Message, sender *Session, channel, message []byte) []Message {
	for i := range r {
		m := Message{To: r[i].to, But: sender}
		for protocol := range m.texts {
			if m.To.protocols[protocol] {
				w := resp.NewWriter(leastProtocol + protocol)
				r[i].write(w, channel, message)
				m.texts[protocol] = w.Bytes()
			}
		}
		sent = append(sent, m)
	}
	return sent
}

// Message is something that many clients are sent, outside of the order of requests and replies.
type Message struct {
	To    *Audience
	But   *Session          // is not sent it
	texts [protocols][]byte // nil: nobody spoke the protocol when the audience was made
}

// Versions of the protocol, by which texts are numbered.
const (
	leastProtocol = 2
	protocols     = 2
)

// Text is what is sent to a client of the audience. It stays as it is, and others may get the same
// bytes.
func (m *Message) Text(s *Session) []byte {
	protocol := s.protocol.Load() - leastProtocol
	if text := m.texts[protocol]; text != nil {
		return text
	}
	// It speaks another one by now. The header of a push is all that differs.
	w := resp.NewWriter(leastProtocol + int(protocol))
	w.Push(0)
	other := m.texts[1-protocol]
	return append(w.Bytes()[:1:1], other[1:]...)
}

// Size is about how many bytes of memory the message takes until all have been sent it.
func (m *Message) Size() int { return len(m.texts[0]) + len(m.texts[1]) }

// deliver sends messages.
func (e *Engine) deliver(messages []Message) {
	switch {
	case len(messages) == 0:
	case e.Courier != nil:
		e.Courier(messages)
	default:
		for i := range messages {
			messages[i].send(&e.Listeners)
		}
	}
}

func (m *Message) send(l *listeners) {
	for _, lane := range m.To.Lanes {
		for _, s := range lane {
			if s != m.But {
				s.Peer.Send(m.Text(s), func() bool { return m.To.Belongs(l, s) })
			}
		}
	}
}

// Publish sends a message when what was executed with it is committed. The session itself gets it
// behind the reply, as with Redis 7.2; 7.0 puts it in front of that, in the midst of EXEC's array.
func (c *Invocation) Publish(to Receivers, channel, message []byte) {
	if len(to) == 0 || c.batch.repeat.starting() {
		return
	}
	own, outbox := c.Session, &c.batch.running.outbox
	if own.Listens() {
		c.Push(func(w *resp.Writer) { to.Write(w, own, channel, message) })
	}
	messages := to.messages(nil, own, channel, message)
	for i := range messages {
		outbox.published += messages[i].Size()
	}
	c.AfterCommit(func() { outbox.messages = append(outbox.messages, messages...) })
}

// dispatch is how messages go out that a commit has released.
type dispatch struct {
	engine   *Engine
	holds    bool  // messages wait for replicas to have the log
	position int64 // up to here
}

// dispatch returns how the batch's messages go out. A message may tell of the batch's writes and
// reads, so on a primary it waits until replicas have those.
func (b *Batch) dispatch(position int64, wrote bool) dispatch {
	asPrimary := wrote || !b.onReplica
	return dispatch{b.engine, asPrimary && !b.repeat.applying && b.engine.holdsMessages(wrote), position}
}

func (d dispatch) send(messages []Message) {
	switch {
	case !d.holds:
		d.engine.deliver(messages)
	case len(messages) > 0:
		d.engine.deliverWhenReached(messages, d.position)
	}
}
