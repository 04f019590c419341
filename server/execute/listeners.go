package execute

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kedis/internal/glob"
)

// ListenKind is what somebody can listen to.
type ListenKind int

const (
	ChannelKind ListenKind = iota
	PatternKind
	ShardKind // a channel of SSUBSCRIBE's: patterns don't match it
	ListenKinds
)

// listeners knows who listens to what. Messages are delivered under its lock's shared side, so that
// after UNSUBSCRIBE was answered no more come.
type listeners struct {
	mu      sync.RWMutex
	byName  [ListenKinds]map[string]*subscribers
	someone atomic.Bool // listens to a channel or a pattern

	slow inOrder // messages that take long to be delivered
}

// subscribers are who listens to one name.
type subscribers struct {
	sessions map[*Session]struct{}
	list     atomic.Pointer[[]*Session] // of them, for whoever sends to all; nil: it is to be made
	pattern  *glob.Pattern              // what the name is, if it is one
}

// all lists them. The listeners' lock is held, perhaps shared.
func (s *subscribers) all() []*Session {
	if list := s.list.Load(); list != nil {
		return *list
	}
	list := slices.Collect(maps.Keys(s.sessions))
	s.list.Store(&list)
	return list
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

// ShardSubscriptions is the number of shard channels that the session listens to.
func (s *Session) ShardSubscriptions() int { return int(s.listening.counts[ShardKind].Load()) }

// Listens reports whether the session listens to anything.
func (s *Session) Listens() bool {
	channels, patterns := s.Subscriptions()
	return channels+patterns+s.ShardSubscriptions() > 0
}

// Count is how many names of a kind somebody listens to.
func (l *listeners) Count(kind ListenKind) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int64(len(l.byName[kind]))
}

// any reports whether anybody listens to anything.
func (l *listeners) any() bool { return l.someone.Load() }

// Channels lists the channels of a kind that somebody listens to, in order.
func (l *listeners) Channels(kind ListenKind) []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.byName[kind]))
}

// Subscribers is how many listen to each of some channels of a kind. They are counted as of one moment.
func (l *listeners) Subscribers(kind ListenKind, names [][]byte) []int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	counts := make([]int, len(names))
	for i, name := range names {
		if s := l.byName[kind][string(name)]; s != nil {
			counts[i] = len(s.sessions)
		}
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
		l.byName[kind] = map[string]*subscribers{}
	}
	to := l.byName[kind][name]
	if to == nil {
		to = &subscribers{sessions: map[*Session]struct{}{}}
		if kind == PatternKind {
			to.pattern = glob.Compile([]byte(name))
		}
		l.byName[kind][name] = to
	}
	to.sessions[s] = struct{}{}
	to.list.Store(nil)
	l.noteSomeone()
	own := &s.listening
	own.protocol.Store(int32(s.Reply.Protocol()))
	if own.names[kind] == nil {
		own.names[kind] = map[string]struct{}{}
	}
	own.names[kind][name] = struct{}{}
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.Mark(KindPubSub, true)
}

func (l *listeners) noteSomeone() {
	l.someone.Store(len(l.byName[ChannelKind])+len(l.byName[PatternKind]) > 0)
}

// Remove ends that.
func (l *listeners) Remove(s *Session, kind ListenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to := l.byName[kind][name]; to != nil {
		delete(to.sessions, s)
		to.list.Store(nil)
		if len(to.sessions) == 0 {
			delete(l.byName[kind], name)
			l.noteSomeone()
		}
	}
	own := &s.listening
	delete(own.names[kind], name)
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.Mark(KindPubSub, s.Listens())
}

// Forget ends all that a session listens to.
func (l *listeners) Forget(s *Session) {
	for kind := range ListenKinds {
		for name := range s.listening.names[kind] {
			l.Remove(s, kind, name)
		}
	}
}
