package command

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

func pubSubFamily() Family {
	subscribed := func(c Command) Command {
		c.Flags, c.Group, c.subscribed = PubSub|NoScript|Loading|Stale, "pubsub", true
		return c
	}
	help := Command{Name: "help", Arity: 2, Flags: Loading | Stale, Since: "6.2.0", Complexity: "O(1)",
		Summary: "Describes the subcommands.", Run: func(c *Context) error {
			c.Reply.Array(len(pubSubHelp))
			for _, line := range pubSubHelp {
				c.Reply.SimpleString(line)
			}
			return nil
		}}
	return Family{Commands: []Command{
		subscribed(Command{Name: "subscribe", Arity: -2, Since: "2.0.0", Run: subscribe(channelKind),
			Complexity: "O(N), N being the number of channels", Syntax: "channel [channel ...]",
			Summary: "Listens for messages published to channels."}),
		subscribed(Command{Name: "psubscribe", Arity: -2, Since: "2.0.0", Run: subscribe(patternKind),
			Complexity: "O(N), N being the number of patterns", Syntax: "pattern [pattern ...]",
			Summary: "Listens for messages published to channels whose names match patterns."}),
		subscribed(Command{Name: "unsubscribe", Arity: -1, Since: "2.0.0", Run: unsubscribe(channelKind),
			Complexity: "O(N), N being the number of channels", Syntax: "[channel [channel ...]]",
			Summary: "Stops listening to channels."}),
		subscribed(Command{Name: "punsubscribe", Arity: -1, Since: "2.0.0", Run: unsubscribe(patternKind),
			Complexity: "O(N), N being the number of patterns", Syntax: "[pattern [pattern ...]]",
			Summary: "Stops listening to patterns."}),
		{Name: "publish", Arity: 3, Flags: PubSub | Loading | Stale | Fast | MayReplicate, Since: "2.0.0", Group: "pubsub", Run: cmdPublish,
			Complexity: "O(N+M), N being the number of clients that listen to the channel and M of patterns", Syntax: "channel message",
			Summary: "Sends a message to those who listen to a channel."},
		{Name: "pubsub", Arity: -2, Since: "2.8.0", Group: "pubsub", Complexity: "Depends on the subcommand",
			Summary: "A container for commands that tell of channels and listeners.",
			Subcommands: []Command{
				{Name: "channels", Arity: -2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: cmdPubSubChannels,
					Complexity: "O(N), N being the number of channels", Syntax: "[pattern]", Summary: "Lists the channels that somebody listens to."},
				{Name: "numsub", Arity: -2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: cmdPubSubNumSub,
					Complexity: "O(N), N being the number of channels asked for", Syntax: "[channel [channel ...]]", Summary: "Tells how many listen to channels."},
				{Name: "numpat", Arity: 2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: cmdPubSubNumPat,
					Complexity: "O(1)", Summary: "Tells how many patterns somebody listens to."},
				help,
			}},
	}}
}

var pubSubHelp = []string{
	"PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"CHANNELS [<pattern>]",
	"    Return the currently active channels matching a <pattern> (default: '*').",
	"NUMPAT",
	"    Return number of subscriptions to patterns.",
	"NUMSUB [<channel> ...]",
	"    Return the number of subscribers for the specified channels, excluding",
	"    pattern subscriptions(default: no channels).",
	"HELP",
	"    Prints this help.",
}

// listenKind is what somebody can listen to.
type listenKind int

const (
	channelKind listenKind = iota
	patternKind
	listenKinds
)

var (
	subscribeWords   = [listenKinds]string{"subscribe", "psubscribe"}
	unsubscribeWords = [listenKinds]string{"unsubscribe", "punsubscribe"}
)

// listeners knows who listens to what. Messages are delivered under its lock's shared side, so that
// after UNSUBSCRIBE was answered no more come.
type listeners struct {
	mu       sync.RWMutex
	byName   [listenKinds]map[string]map[*Session]struct{}
	patterns map[string]*glob.Pattern // those that somebody listens to
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

func (l *listeners) add(s *Session, kind listenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName[kind] == nil {
		l.byName[kind] = map[string]map[*Session]struct{}{}
	}
	if l.byName[kind][name] == nil {
		l.byName[kind][name] = map[*Session]struct{}{}
		if kind == patternKind {
			l.compile(name)
		}
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

// compile notes a pattern that nobody has listened to yet. It needs mu to be held.
func (l *listeners) compile(pattern string) {
	if l.patterns == nil {
		l.patterns = map[string]*glob.Pattern{}
	}
	l.patterns[pattern] = glob.Compile([]byte(pattern))
}

func (l *listeners) remove(s *Session, kind listenKind, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sessions := l.byName[kind][name]
	delete(sessions, s)
	if len(sessions) == 0 {
		delete(l.byName[kind], name)
		if kind == patternKind {
			delete(l.patterns, name)
		}
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

// mark sets or clears a session's kind.
func (s *Session) mark(kind SessionKind, is bool) {
	if is {
		s.kind.Or(int32(kind))
	} else {
		s.kind.And(^int32(kind))
	}
}

func subscribe(kind listenKind) func(*Context) error {
	return func(c *Context) error {
		for _, name := range c.Args[1:] {
			c.Engine.listeners.add(c.Session, kind, string(name))
			c.replySubscription(subscribeWords[kind], name)
		}
		return nil
	}
}

func unsubscribe(kind listenKind) func(*Context) error {
	return func(c *Context) error {
		names := c.Args[1:]
		if len(names) == 0 {
			for name := range c.Session.listening.names[kind] {
				names = append(names, []byte(name))
			}
		}
		if len(names) == 0 {
			c.replySubscription(unsubscribeWords[kind], nil)
		}
		for _, name := range names {
			c.Engine.listeners.remove(c.Session, kind, string(name))
			c.replySubscription(unsubscribeWords[kind], name)
		}
		return nil
	}
}

// replySubscription confirms a subscription, or the end of one. CLIENT REPLY doesn't keep that back: it is a push, like messages.
func (c *Context) replySubscription(word string, name []byte) {
	if c.Session.ReplyMode == ReplyOn {
		c.writeSubscription(c.Reply, word, name)
		return
	}
	c.push(func(w *resp.Writer) { c.writeSubscription(w, word, name) })
}

func (c *Context) writeSubscription(w *resp.Writer, word string, name []byte) {
	w.Push(3)
	w.BulkString(word)
	if name == nil {
		w.Null()
	} else {
		w.Bulk(name)
	}
	w.Integer(int64(c.Session.subscriptionCount()))
}

// push sends the client something that is no reply. It comes behind the reply to the running command, or to EXEC.
func (c *Context) push(write func(w *resp.Writer)) {
	w := resp.NewWriter(c.Reply.Protocol())
	write(w)
	c.batch.pushed = append(c.batch.pushed, w.Bytes()...)
}

// cmdPublish sends a message when what was executed with it is committed, as the replies leave then.
// The session itself gets it behind the reply, as with Redis 7.2; 7.0 puts it in front of that, in the midst of EXEC's array.
func cmdPublish(c *Context) error {
	channel, message := bytes.Clone(c.Args[1]), bytes.Clone(c.Args[2])
	receivers, err := c.Engine.listeners.receivers(c.Txn, channel)
	if err != nil {
		return err
	}
	for _, r := range receivers {
		if r.session == c.Session {
			c.push(func(w *resp.Writer) { r.write(w, channel, message) })
			continue
		}
		c.AfterCommit(func() { r.send(channel, message) })
	}
	c.Reply.Integer(int64(len(receivers)))
	if !c.Txn.Mode().Replica && c.Engine.role.hasReplicas() {
		c.Effect(c.Args...)
	}
	return nil
}

// receiver is somebody who gets a message, and the pattern that it matched, if any.
type receiver struct {
	session *Session
	pattern []byte
}

// receivers lists who gets a message. Patterns that take long to be matched are looked at without the lock, and within the budget.
func (l *listeners) receivers(txn *storage.Txn, channel []byte) ([]receiver, error) {
	found, slow := l.quickReceivers(channel)
	for _, pattern := range slow {
		m := matcher{pattern: pattern.compiled, txn: txn}
		if m.matches(channel) {
			l.mu.RLock()
			found = l.listening(found, pattern.text)
			l.mu.RUnlock()
		}
		if m.err != nil {
			return nil, m.err
		}
	}
	return found, nil
}

// slowPattern is one that takes long to be matched with a channel.
type slowPattern struct {
	text     string
	compiled *glob.Pattern
}

// quickReceivers lists who is found at once, and the patterns that take longer.
func (l *listeners) quickReceivers(channel []byte) (found []receiver, slow []slowPattern) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for s := range l.byName[channelKind][string(channel)] {
		found = append(found, receiver{session: s})
	}
	for text, compiled := range l.patterns {
		if compiled.Steps(len(channel)) > manySteps {
			slow = append(slow, slowPattern{text, compiled})
		} else if compiled.Match(channel) {
			found = l.listening(found, text)
		}
	}
	return found, slow
}

// listening appends those who listen to a pattern. It needs mu to be held.
func (l *listeners) listening(found []receiver, pattern string) []receiver {
	for s := range l.byName[patternKind][pattern] {
		found = append(found, receiver{s, []byte(pattern)})
	}
	return found
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

func cmdPubSubChannels(c *Context) error {
	if len(c.Args) > 3 {
		return c.misused()
	}
	l := &c.Engine.listeners
	l.mu.RLock()
	names := slices.Sorted(maps.Keys(l.byName[channelKind]))
	l.mu.RUnlock()
	if len(c.Args) == 3 {
		m := matcher{pattern: glob.Compile(c.Args[2]), txn: c.Txn}
		if names = slices.DeleteFunc(names, func(name string) bool { return !m.matches([]byte(name)) }); m.err != nil {
			return m.err
		}
	}
	c.Reply.Array(len(names))
	for _, name := range names {
		c.Reply.BulkString(name)
	}
	return nil
}

func cmdPubSubNumSub(c *Context) error {
	l := &c.Engine.listeners
	l.mu.RLock()
	defer l.mu.RUnlock()
	c.Reply.Array(2 * (len(c.Args) - 2))
	for _, name := range c.Args[2:] {
		c.Reply.Bulk(name)
		c.Reply.Integer(int64(len(l.byName[channelKind][string(name)])))
	}
	return nil
}

func cmdPubSubNumPat(c *Context) error {
	l := &c.Engine.listeners
	l.mu.RLock()
	defer l.mu.RUnlock()
	c.Reply.Integer(int64(len(l.byName[patternKind])))
	return nil
}
