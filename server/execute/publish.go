package execute

import (
	"bytes"
	"slices"
	"sync"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/storage"
)

// Receivers lists who gets a message. Patterns that take long to be matched are looked at without the lock, and within the budget.
func (l *listeners) Receivers(txn *storage.Txn, channel []byte) (Receivers, error) {
	found, slow := l.quickReceivers(channel)
	for _, pattern := range slow {
		if err := txn.SpendSteps(pattern.compiled.Steps(len(channel))); err != nil {
			return nil, err
		}
		if pattern.compiled.Match(channel) {
			l.mu.RLock()
			found = l.listening(found, pattern.text)
			l.mu.RUnlock()
		}
	}
	return found, nil
}

// deliver sends a message to all who listen, outside of any command. Patterns that take long to be matched are matched by another goroutine,
// one message after the other.
func (l *listeners) deliver(channel, message []byte) {
	found, slow := l.quickReceivers(channel)
	found.Send(channel, message)
	if len(slow) == 0 {
		return
	}
	message = bytes.Clone(message)
	l.slow.do(func() {
		for _, pattern := range slow {
			if !pattern.compiled.Match(channel) {
				continue
			}
			l.mu.RLock()
			late := l.listening(nil, pattern.text)
			l.mu.RUnlock()
			late.Send(channel, message)
		}
	})
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

// ShardReceivers lists who gets a message to a shard channel.
func (l *listeners) ShardReceivers(channel []byte) (found Receivers) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for s := range l.byName[ShardKind][string(channel)] {
		found = append(found, receiver{session: s, way: ShardKind})
	}
	return found
}

// slowPattern is one that takes long to be matched with a channel.
type slowPattern struct {
	text     string
	compiled *glob.Pattern
}

// ManySteps is how many steps of a match are counted against the budget.
const ManySteps = 1 << 12

// quickReceivers lists who is found at once, and the patterns that take longer.
func (l *listeners) quickReceivers(channel []byte) (found Receivers, slow []slowPattern) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for s := range l.byName[ChannelKind][string(channel)] {
		found = append(found, receiver{session: s, way: ChannelKind})
	}
	for text, compiled := range l.patterns {
		if compiled.Steps(len(channel)) > ManySteps {
			slow = append(slow, slowPattern{text, compiled})
		} else if compiled.Match(channel) {
			found = l.listening(found, text)
		}
	}
	return found, slow
}

// listening appends those who listen to a pattern. It needs mu to be held.
func (l *listeners) listening(found Receivers, pattern string) Receivers {
	for s := range l.byName[PatternKind][pattern] {
		found = append(found, receiver{session: s, way: PatternKind, pattern: pattern})
	}
	return found
}

// Receivers are those who get a message; who listens in several ways gets it several times.
type Receivers []receiver

// receiver is somebody who gets a message.
type receiver struct {
	session *Session
	pattern string // that the channel matched
	way     ListenKind
}

// Of are those of a session.
func (r Receivers) Of(s *Session) (own Receivers) {
	for i := range r {
		if r[i].session == s {
			own = append(own, r[i])
		}
	}
	return own
}

// Without are those of other sessions. It takes the place of what it is called with.
func (r Receivers) Without(s *Session) Receivers {
	return slices.DeleteFunc(r, func(one receiver) bool { return one.session == s })
}

// Write writes the messages as they are delivered.
func (r Receivers) Write(w *resp.Writer, channel, message []byte) {
	for i := range r {
		r[i].write(w, channel, message)
	}
}

func (r *receiver) write(w *resp.Writer, channel, message []byte) {
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

// Send sends the messages outside of the order of replies. Those who listen in the same way follow each other and share the bytes.
func (r Receivers) Send(channel, message []byte) {
	var text []byte
	protocol, before := 0, receiver{}
	for i := range r {
		speaks := int(r[i].session.listening.protocol.Load())
		if text == nil || speaks != protocol || r[i].way != before.way || r[i].pattern != before.pattern {
			w := resp.NewWriter(speaks)
			r[i].write(w, channel, message)
			text, protocol, before = w.Bytes(), speaks, r[i]
		}
		r[i].session.Peer.Send(text)
	}
}
