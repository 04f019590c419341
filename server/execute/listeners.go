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

// listeners knows who listens to what.
type listeners struct {
	mu       sync.RWMutex
	byName   [ListenKinds]map[string]*subscribers
	patterns []*subscribers // those of byName
	someone  atomic.Bool    // listens to a channel or a pattern
	changes  atomic.Int64   // rises whenever somebody begins or ends to listen

	slow inOrder // messages that take long to be delivered
}

// subscribers are who listens to one name.
type subscribers struct {
	kind     ListenKind
	name     string
	sessions map[*Session]int64       // listeners.changes when each began to listen
	audience atomic.Pointer[Audience] // of them, for whoever sends to all; nil: it is to be made
	pattern  *glob.Pattern            // what the name is, if it is one
	index    int                      // among the patterns
}

// Audience are the clients that listen to a name. It doesn't change: another one takes its place.
type Audience struct {
	// Lanes are the clients of each reactor.
	Lanes [][]*Session

	name      *subscribers
	count     int
	protocols [protocols]bool // that are spoken
	made      int64           // listeners.changes then
}

// all is the audience. The listeners' lock is held, perhaps shared.
func (s *subscribers) all(changes int64) *Audience {
	if audience := s.audience.Load(); audience != nil {
		return audience
	}
	a := &Audience{name: s, count: len(s.sessions), made: changes}
	for session := range s.sessions {
		lane := session.Peer.Lane()
		for len(a.Lanes) <= lane {
			a.Lanes = append(a.Lanes, nil)
		}
		a.Lanes[lane] = append(a.Lanes[lane], session)
		a.protocols[session.protocol.Load()-leastProtocol] = true
	}
	s.audience.Store(a)
	return a
}

// subscriptions are what a session listens to. They are the session's; the counts are for others.
type subscriptions struct {
	names  [ListenKinds]map[string]struct{}
	counts [ListenKinds]atomic.Int32
	ended  atomic.Int64 // listeners.changes when it last ended to listen to something
}

// Belongs reports whether a client of the audience has listened to the name ever since: when it was
// told that it doesn't any more, no message of before may come. It is called by who sends to the
// client.
func (a *Audience) Belongs(l *listeners, s *Session) bool {
	if s.listening.ended.Load() <= a.made {
		return true
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	since, listens := a.name.sessions[s]
	return listens && since <= a.made
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

// EverListened reports whether the session listens to anything or has, so that an Audience of
// before may have it among the clients of its reactor.
func (s *Session) EverListened() bool { return s.listening.ended.Load() > 0 || s.Listens() }

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

// Subscribers is how many listen to each of some channels of a kind. They are counted as of one
// moment.
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
		to = &subscribers{kind: kind, name: name, sessions: map[*Session]int64{}}
		l.byName[kind][name] = to
		l.addPattern(to)
	}
	if _, listens := to.sessions[s]; !listens {
		to.sessions[s] = l.changes.Add(1)
	}
	to.audience.Store(nil)
	l.noteSomeone()
	own := &s.listening
	if own.names[kind] == nil {
		own.names[kind] = map[string]struct{}{}
	}
	own.names[kind][name] = struct{}{}
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.Mark(KindPubSub, true)
}

// addPattern and removePattern keep the list of patterns.
func (l *listeners) addPattern(to *subscribers) {
	if to.kind == PatternKind {
		to.pattern, to.index = glob.Compile([]byte(to.name)), len(l.patterns)
		l.patterns = append(l.patterns, to)
	}
}

func (l *listeners) removePattern(to *subscribers) {
	if to.kind == PatternKind {
		last := l.patterns[len(l.patterns)-1]
		l.patterns[to.index], last.index = last, to.index
		l.patterns = slices.Delete(l.patterns, len(l.patterns)-1, len(l.patterns))
	}
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
		to.audience.Store(nil)
		if len(to.sessions) == 0 {
			delete(l.byName[kind], name)
			l.removePattern(to)
			l.noteSomeone()
		}
	}
	own := &s.listening
	own.ended.Store(l.changes.Add(1))
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
