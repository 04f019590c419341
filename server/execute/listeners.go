package execute

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/storage"
)

// ListenKind is what somebody can listen to.
type ListenKind int

const (
	ChannelKind ListenKind = iota
	PatternKind
	ListenKinds
)

// listeners knows who listens to what. Messages are delivered under its lock's shared side, so that
// after UNSUBSCRIBE was answered no more come.
type listeners struct {
	mu       sync.RWMutex
	byName   [ListenKinds]map[string]map[*Session]struct{}
	patterns map[string]*glob.Pattern // those that somebody listens to
	someone  atomic.Bool              // listens to something

	slow inOrder // messages that take long to be delivered
}

// subscriptions are what a session listens to. They are the session's; the counts are for others.
type subscriptions struct {
	names  [ListenKinds]map[string]struct{}
	counts [ListenKinds]atomic.Int32

	protocol atomic.Int32 // of the session when it last subscribed
}

// Subscriptions is the number of channels and of patterns that a session listens to.
func (s *Session) Subscriptions() (channels, patterns int) {
	return int(s.listening.counts[ChannelKind].Load()), int(s.listening.counts[PatternKind].Load())
}

// SubscriptionCount is the number of channels and patterns that the session listens to.
func (s *Session) SubscriptionCount() int {
	channels, patterns := s.Subscriptions()
	return channels + patterns
}

// Count is how many channels and patterns somebody listens to.
func (l *listeners) Count() (channels, patterns int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int64(len(l.byName[ChannelKind])), int64(len(l.byName[PatternKind]))
}

// any reports whether anybody listens to anything.
func (l *listeners) any() bool { return l.someone.Load() }

// Channels lists the channels that somebody listens to, in order.
func (l *listeners) Channels() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.byName[ChannelKind]))
}

// Subscribers is how many listen to each of some channels. They are counted as of one moment.
func (l *listeners) Subscribers(names [][]byte) []int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	counts := make([]int, len(names))
	for i, name := range names {
		counts[i] = len(l.byName[ChannelKind][string(name)])
	}
	return counts
}

// ListeningTo lists what a session listens to.
func (s *Session) ListeningTo(kind ListenKind) (names [][]byte) {
	for name := range s.listening.names[kind] {
		names = append(names, []byte(name))
	}
	return names
}

// Add has a session listen to a channel or a pattern.
func (l *listeners) Add(s *Session, kind ListenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[kind] == nil {
		l.byName[kind] = map[string]map[*Session]struct{}{}
	}
	if l.byName[kind][name] == nil {
		l.byName[kind][name] = map[*Session]struct{}{}
		if kind == PatternKind {
			l.compile(name)
		}
	}
	l.byName[kind][name][s] = struct{}{}
	l.someone.Store(true)
	own := &s.listening
	own.protocol.Store(int32(s.Reply.Protocol()))
	if own.names[kind] == nil {
		own.names[kind] = map[string]struct{}{}
	}
	own.names[kind][name] = struct{}{}
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.Mark(KindPubSub, true)
}

// compile notes a pattern that nobody has listened to yet. It needs mu to be held.
func (l *listeners) compile(pattern string) {
	if l.patterns == nil {
		l.patterns = map[string]*glob.Pattern{}
	}
	l.patterns[pattern] = glob.Compile([]byte(pattern))
}

// Remove ends that.
func (l *listeners) Remove(s *Session, kind ListenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := l.byName[kind][name]
	delete(sessions, s)
	if len(sessions) == 0 {
		delete(l.byName[kind], name)
		if kind == PatternKind {
			delete(l.patterns, name)
		}
		l.someone.Store(len(l.byName[ChannelKind])+len(l.byName[PatternKind]) > 0)
	}
	own := &s.listening
	delete(own.names[kind], name)
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.Mark(KindPubSub, s.SubscriptionCount() > 0)
}

// Forget ends all that a session listens to.
func (l *listeners) Forget(s *Session) {
	for kind := range ListenKinds {
		for name := range s.listening.names[kind] {
			l.Remove(s, kind, name)
		}
	}
}

// Receivers lists who gets a message. Patterns that take long to be matched are looked at without the lock, and within the budget.
func (l *listeners) Receivers(txn *storage.Txn, channel []byte) ([]receiver, error) {
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
	for _, r := range found {
		r.Send(channel, message)
	}
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
			for _, r := range late {
				r.Send(channel, message)
			}
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

// slowPattern is one that takes long to be matched with a channel.
type slowPattern struct {
	text     string
	compiled *glob.Pattern
}

// ManySteps is how many steps of a match are counted against the budget.
const ManySteps = 1 << 12

// quickReceivers lists who is found at once, and the patterns that take longer.
func (l *listeners) quickReceivers(channel []byte) (found []receiver, slow []slowPattern) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for s := range l.byName[ChannelKind][string(channel)] {
		found = append(found, receiver{Session: s})
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
func (l *listeners) listening(found []receiver, pattern string) []receiver {
	for s := range l.byName[PatternKind][pattern] {
		found = append(found, receiver{s, []byte(pattern)})
	}
	return found
}

// receiver is somebody who gets a message, and the pattern that it matched, if any.
type receiver struct {
	Session *Session
	pattern []byte
}

// Write writes a message as it is delivered.
func (r receiver) Write(w *resp.Writer, channel, message []byte) {
	if r.pattern == nil {
		w.Push(3)
		w.BulkString("message")
	} else {
		w.Push(4)
		w.BulkString("pmessage")
		w.Bulk(r.pattern)
	}
	w.Bulk(channel)
	w.Bulk(message)
}

// Send sends it outside of the order of replies.
func (r receiver) Send(channel, message []byte) {
	w := resp.NewWriter(int(r.Session.listening.protocol.Load()))
	r.Write(w, channel, message)
	r.Session.Peer.Send(w.Bytes())
}
