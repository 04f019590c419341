package execute

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"kedis/internal/keyevent"
	"kedis/internal/resp"
	"kedis/server/tracking"
	"kedis/storage"
)

// clientCaching is what the server knows of caches in its clients (CLIENT TRACKING).
type clientCaching struct {
	readers  *tracking.Table[*reader]
	prefixes tracking.Prefixes[*Session]

	mu      sync.Mutex
	clients map[*Session]struct{} // that track
	any     condition             // there are some
}

// Tracking is how a client tracks. It doesn't change: another one takes its place.
type Tracking struct {
	Redirect  int64 // the id of the client that is told; 0: the client itself
	Broadcast bool  // it is told of all keys with one of the prefixes, rather than of those that it has read
	Prefixes  []string
	OptIn     bool // it only has the keys that it reads after CLIENT CACHING YES
	OptOut    bool // it doesn't have those that it reads after CLIENT CACHING NO
	NoLoop    bool // it isn't told of what it changes itself
}

// reader is a session in the table of readers, which remembers it for longer than it is there.
type reader struct {
	session atomic.Pointer[Session] // nil: it is gone
}

func (r *reader) gone() bool { return r.session.Load() == nil }

// cache is what is known of a session's cache.
type cache struct {
	tracking atomic.Pointer[Tracking] // nil: it has none
	reader   *reader                  // nil: it has never had one
	broken   atomic.Bool              // who was to be told for it is gone
}

// Tracking is how the session tracks; nil if it doesn't.
func (s *Session) Tracking() *Tracking { return s.cache.tracking.Load() }

// toldOfPrefixes reports whether the session is told of keys that it hasn't read.
func (s *Session) toldOfPrefixes() bool {
	tracking := s.Tracking()
	return tracking != nil && tracking.Broadcast
}

// TrackingBroken reports whether the client that was to be told for this one is gone.
func (s *Session) TrackingBroken() bool { return s.cache.broken.Load() }

// ChooseCaching has the next command's keys tracked, or, by a client that opts out, not.
func (s *Session) ChooseCaching() { s.cachingChosen = true }

// CachingChosen reports whether that was asked for.
func (s *Session) CachingChosen() bool { return s.cachingChosen }

func (c *clientCaching) init(e *Engine) {
	c.readers, c.clients = tracking.NewTable((*reader).gone), map[*Session]struct{}{}
	e.Config.OnChange("tracking-table-max-keys", func() error {
		e.limitTracking()
		return nil
	})
}

// Start has a session track. Its prefixes are added to those that it has.
func (c *clientCaching) Start(s *Session, mode Tracking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, prefix := range mode.Prefixes {
		c.prefixes.Add(s, prefix)
	}
	if was := s.cache.tracking.Load(); was != nil {
		mode.Prefixes = slices.Concat(was.Prefixes, mode.Prefixes)
	}
	slices.Sort(mode.Prefixes)
	if s.cache.reader == nil {
		s.cache.reader = new(reader)
		s.cache.reader.session.Store(s)
	}
	s.cache.tracking.Store(&mode)
	s.cache.broken.Store(false)
	c.clients[s] = struct{}{}
	c.any.Store(len(c.clients) > 0)
}

// Stop ends that. What the client has read stays in the table until it changes, or nobody tracks
// any more.
func (c *clientCaching) Stop(s *Session) {
	was := s.cache.tracking.Load()
	if was == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, prefix := range was.Prefixes {
		c.prefixes.Remove(s, prefix)
	}
	s.cache.tracking.Store(nil)
	s.cache.broken.Store(false)
	s.cachingChosen = false
	delete(c.clients, s)
	c.any.Store(len(c.clients) > 0)
	if len(c.clients) == 0 {
		c.readers.Clear()
	}
}

// Disconnect is Stop of a session whose connection is gone. The table may still have its reader.
func (c *clientCaching) Disconnect(s *Session) {
	c.Stop(s)
	if s.cache.reader != nil {
		s.cache.reader.session.Store(nil)
	}
}

// CachingStatistics is what INFO tells of caches in clients.
type CachingStatistics struct{ Clients, Keys, Items, Prefixes int64 }

// Statistics tells how much is tracked.
func (c *clientCaching) Statistics() CachingStatistics {
	keys, items := c.readers.Size()
	c.mu.Lock()
	defer c.mu.Unlock()
	return CachingStatistics{Clients: int64(len(c.clients)), Keys: keys, Items: items, Prefixes: c.prefixes.Count()}
}

// rememberReads notes that a client is about to read the keys of an invocation, whose locks are
// held. What is read from a view was noted before the view was taken; of what wasn't, since it
// turned up underway, the client is told at once that it is no longer as it was.
func (b *Batch) rememberReads(c *Invocation) {
	mode := c.Session.Tracking()
	if mode == nil || !c.tracks(mode) {
		return
	}
	if b.view == nil {
		b.remember(c.Session, c.Request, b.noteLate)
	} else if c.level > 1 || c.level == 1 && !b.running.noted {
		b.noteUnnoted(c)
	}
}

// noteUnnoted notes what is read from a view though it had not been noted, and may have changed.
func (b *Batch) noteUnnoted(c *Invocation) {
	if b.running.unnoted == nil {
		b.running.unnoted = map[string]*Session{}
	}
	for i := range c.keys {
		if c.keys[i].Flags&NotKey == 0 {
			b.running.unnoted[string(c.Args[c.keys[i].Index])] = c.Session
		}
	}
}

// tellUnnoted tells a client to forget what it has read so.
func (b *Batch) tellUnnoted() {
	if len(b.running.unnoted) == 0 {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(b.running.unnoted)) {
		b.engine.tellCache(b.running.unnoted[key], []string{key})
	}
}

// tracks reports whether the keys of an invocation are tracked.
func (c *Invocation) tracks(mode *Tracking) bool {
	if !c.readsKeys() || mode.Broadcast {
		return false
	}
	return !(mode.OptIn && !c.Session.cachingChosen || mode.OptOut && c.Session.cachingChosen)
}

// readsKeys reports whether a request reads its keys. A script reads what its calls read.
func (r *Request) readsKeys() bool {
	return r.flags&ReadOnly != 0 && len(r.keys) > 0 && !r.Command.RunsScript
}

// rememberView notes what a request is about to read from a view, while its locks are still held.
// What a transaction has queued may be noted in vain: CLIENT CACHING may be among it.
func (b *Batch) rememberView(c *Invocation) {
	mode := c.Session.Tracking()
	b.running.noted = c.Command.RunsQueue && mode != nil && !mode.Broadcast // else CLIENT TRACKING may be queued
	switch {
	case mode == nil || mode.Broadcast:
	case c.Command.RunsQueue:
		for _, r := range c.Session.Transaction.Queue {
			if r.readsKeys() {
				b.remember(c.Session, r, nil)
			}
		}
	case c.tracks(mode):
		b.remember(c.Session, c.Request, nil)
	}
}

// remember notes what a request of a client reads. note is told of each key, and whether the table
// didn't have it.
func (b *Batch) remember(s *Session, r *Request, note func(by *reader, key []byte, isNew bool)) {
	for i := range r.keys {
		if r.keys[i].Flags&NotKey != 0 {
			continue
		}
		key := r.Args[r.keys[i].Index]
		isNew := b.engine.Caching.readers.Remember(s.cache.reader, key)
		if note != nil {
			note(s.cache.reader, key, isNew)
		}
	}
	b.engine.limitTracking()
}

// reading is what a client reads.
type reading struct {
	by  *reader
	key string
}

// lateRead is when a client has read a key in a transaction that had changed something before: how
// many key events there were, the first time and the last.
type lateRead struct {
	earliest, latest int
	isNew            bool // the table of readers didn't have it
}

// noteLate notes a read that comes behind changes in the same transaction: the client isn't to be
// told of these. If the read is taken back, the client reads the key again, and sees the changes
// that are left.
func (b *Batch) noteLate(by *reader, key []byte, isNew bool) {
	events := b.txn.KeyEvents().Len()
	if events == 0 {
		return
	}
	if b.running.reads == nil {
		b.running.reads = map[reading]lateRead{}
	}
	what := reading{by, string(key)}
	read, known := b.running.reads[what]
	if !known {
		read = lateRead{events, events, isNew}
	}
	b.running.reads[what] = lateRead{min(read.earliest, events), max(read.latest, events), read.isNew}
}

// limitTracking has clients give up keys while more are tracked than may be.
func (e *Engine) limitTracking() {
	most := e.Config.TrackingTableMaxKeys.Get()
	for most > 0 {
		if keys, _ := e.Caching.readers.Size(); keys <= most {
			return
		}
		key, readers, found := e.Caching.readers.TakeAny()
		if !found {
			return
		}
		for _, r := range readers {
			e.tellReader(r, key)
		}
	}
}

// change is a part of a transaction's key events, and who has made it.
type change struct {
	from, to int
	by       *Session
}

// noteLoop notes what an outermost request has changed of a client that doesn't want to be told of
// that. The request may be taken back.
func (b *Batch) noteLoop(c *Invocation) {
	loops, from, to := b.running.loops, b.running.marked, b.txn.KeyEvents().Len()
	if last := len(loops) - 1; last >= 0 && loops[last].from >= from { // of one that was taken back
		loops = loops[:last]
	}
	if mode := c.Session.Tracking(); mode != nil && mode.NoLoop && to > from {
		loops = append(loops, change{from, to, c.Session})
	}
	b.running.loops = loops
}

// endChoice ends what CLIENT CACHING has chosen for a request, however that was answered.
func (s *Session) endChoice(r *Request) {
	if !s.Transaction.Active && (r.Command == nil || !r.Command.KeepsCaching) {
		s.cachingChosen = false
	}
}

// invalidate tells clients of changes of keys. loops are those that clients have made which don't
// want to be told of them; reads are those among the changes.
func (e *Engine) invalidate(events *storage.KeyEvents, loops []change, reads map[reading]lateRead) {
	if events.Len() == 0 || !e.Caching.any.Load() {
		return
	}
	if e.Caching.prefixes.Count() == 0 && !e.Caching.anyRead(events) {
		return
	}
	changed := gatherChanges(events, loops)
	for _, key := range changed.keys {
		missed := e.Caching.readers.Take([]byte(key), func(r *reader) (missed, has bool) {
			if changed.passesOver(key, r.session.Load()) {
				return false, true
			}
			if read, late := reads[reading{r, key}]; late {
				return read.beside(changed.last[key])
			}
			return true, false
		})
		for _, r := range missed {
			e.tellReader(r, key)
		}
	}
	if e.Caching.prefixes.Count() > 0 {
		e.broadcast(changed)
	}
}

// beside reports whether a reader missed the last change of a key, or one before it, after it had
// read the key, and whether it has read the key since. The last change is the event at last.
func (r lateRead) beside(last int) (missed, has bool) {
	return !r.isNew || r.earliest <= last, r.latest > last
}

// anyRead reports whether some client has read one of the keys that were changed.
func (c *clientCaching) anyRead(events *storage.KeyEvents) (any bool) {
	events.Each(0, func(event storage.KeyEvent) {
		any = any || event.Name.IsSeen() && c.readers.Knows(event.Key)
	})
	return any
}

// tellReader tells a client that has read a key to forget it.
func (e *Engine) tellReader(r *reader, key string) {
	s := r.session.Load()
	if s == nil {
		return
	}
	if mode := s.Tracking(); mode != nil && !mode.Broadcast {
		e.tellCache(s, []string{key})
	}
}

// changes are the keys that a transaction has changed, in order, and who has. A nil session is one
// that doesn't mind to be told of it.
type changes struct {
	keys []string
	by   map[string][]*Session
	last map[string]int // the last event of each key
}

func gatherChanges(events *storage.KeyEvents, loops []change) changes {
	changed := changes{by: map[string][]*Session{}, last: map[string]int{}}
	at := 0
	events.Each(0, func(event storage.KeyEvent) {
		for len(loops) > 0 && at >= loops[0].to {
			loops = loops[1:]
		}
		var by *Session
		if len(loops) > 0 && at >= loops[0].from && event.Name != keyevent.Expired { // which is nobody's doing
			by = loops[0].by
		}
		at++
		if !event.Name.IsSeen() {
			return
		}
		changed.last[string(event.Key)] = at - 1
		changers, known := changed.by[string(event.Key)]
		if !known {
			changed.keys = append(changed.keys, string(event.Key))
		}
		if !slices.Contains(changers, by) {
			changed.by[string(event.Key)] = append(changers, by)
		}
	})
	slices.Sort(changed.keys)
	return changed
}

// onlyBy reports whether nobody but a session has changed a key.
func (c *changes) onlyBy(key string, s *Session) bool {
	by := c.by[key]
	return len(by) == 1 && by[0] == s
}

// passesOver reports whether a reader isn't told of a key, which nobody else has changed.
func (c *changes) passesOver(key string, s *Session) bool {
	if s == nil {
		return false
	}
	mode := s.Tracking()
	return mode != nil && mode.NoLoop && c.onlyBy(key, s)
}

// broadcast tells those of changes who want to know of all keys with a prefix.
func (e *Engine) broadcast(changed changes) {
	e.Caching.prefixes.Each(changed.keys, func(with []string, clients []*Session) {
		for _, s := range clients {
			mode := s.Tracking()
			if mode == nil {
				continue
			}
			keys := with
			if mode.NoLoop {
				keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return changed.onlyBy(key, s) })
			}
			if len(keys) > 0 {
				e.tellCache(s, keys)
			}
		}
	})
}

// InvalidateAll tells all clients to forget all that they have: the data is another.
func (e *Engine) InvalidateAll() {
	c := &e.Caching
	if !c.any.Load() {
		return
	}
	c.readers.Clear()
	c.mu.Lock()
	clients := make([]*Session, 0, len(c.clients))
	for s := range c.clients {
		clients = append(clients, s)
	}
	c.mu.Unlock()
	for _, s := range clients {
		e.tellCache(s, nil)
	}
}

// invalidateChannel is where clients that speak RESP2 are told.
const invalidateChannel = "__redis__:invalidate"

// tellCache tells a client, or the one that is told for it, to forget keys; nil is all. Who speaks
// RESP2 is told if it listens to channels, and another client has named it. It arrives behind the
// replies to what the client has read before.
func (e *Engine) tellCache(s *Session, keys []string) {
	mode := s.Tracking()
	if mode == nil {
		return
	}
	to := s
	if mode.Redirect != 0 {
		if to = e.Clients.Get(mode.Redirect); to == nil || to.Closing() {
			e.tellBroken(s, mode.Redirect)
			return
		}
	}
	protocol := to.protocol.Load()
	takes := func() bool {
		return to.protocol.Load() == protocol && (protocol > 2 || mode.Redirect != 0 && to.Listens())
	}
	if !takes() {
		return
	}
	w := resp.NewWriter(int(protocol))
	if protocol > 2 {
		w.Push(2)
		w.BulkString("invalidate")
	} else {
		w.Push(3)
		w.BulkString("message")
		w.BulkString(invalidateChannel)
	}
	if keys == nil {
		w.Null()
	} else {
		w.Array(len(keys))
		for _, key := range keys {
			w.BulkString(key)
		}
	}
	to.Peer.Send(w.Bytes(), takes)
}

// tellBroken tells a client that the one is gone which was to be told for it.
func (e *Engine) tellBroken(s *Session, redirect int64) {
	s.cache.broken.Store(true)
	if protocol := s.protocol.Load(); protocol > 2 {
		w := resp.NewWriter(int(protocol))
		w.Push(2)
		w.BulkString("tracking-redir-broken")
		w.Integer(redirect)
		s.Peer.Send(w.Bytes(), func() bool { return s.protocol.Load() == protocol })
	}
}
