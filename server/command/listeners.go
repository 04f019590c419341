package command

import (
	"kedis/internal/glob"
	"kedis/internal/resp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// listenKind is what somebody can listen to.
type listenKind int

const (
	channelKind listenKind = iota
	patternKind
	listenKinds
)

// listeners knows who listens to what. Messages are delivered under its lock's shared side, so that
// after UNSUBSCRIBE was answered no more come.
type listeners struct {
	mu     sync.RWMutex
	byName [listenKinds]map[string]map[*Session]struct{}
}

// subscriptions are what a session listens to. They are the session's; the counts are for others.
type subscriptions struct {
	names  [listenKinds]map[string]struct{}
	counts [listenKinds]atomic.Int32

	protocol atomic.Int32 // of the session when it last subscribed
}

// Subscriptions is the number of channels and of patterns that a session listens to.
func (s *Session) Subscriptions() (channels, patterns int) {
	return int(s.listening.counts[channelKind].Load()), int(s.listening.counts[patternKind].Load())
}

func (s *Session) subscriptionCount() int {
	channels, patterns := s.Subscriptions()
	return channels + patterns
}

// count is how many channels and patterns somebody listens to.
func (l *listeners) count() (channels, patterns int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return int64(len(l.byName[channelKind])), int64(len(l.byName[patternKind]))
}

// channels lists the channels that somebody listens to, in order.
func (l *listeners) channels() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.byName[channelKind]))
}

// subscribers is how many listen to each of some channels. They are counted as of one moment.
func (l *listeners) subscribers(names [][]byte) []int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	counts := make([]int, len(names))
	for i, name := range names {
		counts[i] = len(l.byName[channelKind][string(name)])
	}
	return counts
}

// listeningTo lists what a session listens to.
func (s *Session) listeningTo(kind listenKind) (names [][]byte) {
	for name := range s.listening.names[kind] {
		names = append(names, []byte(name))
	}
	return names
}

func (l *listeners) add(s *Session, kind listenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[kind] == nil {
		l.byName[kind] = map[string]map[*Session]struct{}{}
	}
	if l.byName[kind][name] == nil {
		l.byName[kind][name] = map[*Session]struct{}{}
	}
	l.byName[kind][name][s] = struct{}{}
	own := &s.listening
	own.protocol.Store(int32(s.Reply.Protocol()))
	if own.names[kind] == nil {
		own.names[kind] = map[string]struct{}{}
	}
	own.names[kind][name] = struct{}{}
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.mark(KindPubSub, true)
}

func (l *listeners) remove(s *Session, kind listenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := l.byName[kind][name]
	delete(sessions, s)
	if len(sessions) == 0 {
		delete(l.byName[kind], name)
	}
	own := &s.listening
	delete(own.names[kind], name)
	own.counts[kind].Store(int32(len(own.names[kind])))
	s.mark(KindPubSub, s.subscriptionCount() > 0)
}

// forget ends all that a session listens to.
func (l *listeners) forget(s *Session) {
	for kind := range listenKinds {
		for name := range s.listening.names[kind] {
			l.remove(s, kind, name)
		}
	}
}

func (l *listeners) receivers(channel []byte) []receiver {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var found []receiver
	for s := range l.byName[channelKind][string(channel)] {
		found = append(found, receiver{session: s})
	}
	for pattern, sessions := range l.byName[patternKind] {
		if !glob.Match([]byte(pattern), channel) {
			continue
		}
		for s := range sessions {
			found = append(found, receiver{s, []byte(pattern)})
		}
	}
	return found
}

// receiver is somebody who gets a message, and the pattern that it matched, if any.
type receiver struct {
	session *Session
	pattern []byte
}

func (r receiver) write(w *resp.Writer, channel, message []byte) {
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

func (r receiver) send(channel, message []byte) {
	w := resp.NewWriter(int(r.session.listening.protocol.Load()))
	r.write(w, channel, message)
	r.session.Peer.Send(w.Bytes())
}
