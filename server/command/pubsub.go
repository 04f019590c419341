package command

import (
	"slices"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/server/execute"
)

func pubSubFamily() Family {
	subscribed := func(c Command) Command { // who listens is answered otherwise than who doesn't, or not yet
		c.Flags, c.Group, c.Subscribed = PubSub|NoScript|Loading|Stale|NoBatch, "pubsub", true
		return c
	}
	help := Command{Name: "help", Arity: 2, Flags: Loading | Stale, Since: "6.2.0", Complexity: "O(1)",
		Summary: "Describes the subcommands.", Run: func(c *Invocation) error {
			c.Reply.Array(len(pubSubHelp))
			for _, line := range pubSubHelp {
				c.Reply.SimpleString(line)
			}
			return nil
		}}
	return Family{Commands: []Command{
		subscribed(Command{Name: "subscribe", Arity: -2, Since: "2.0.0", Run: subscribe(execute.ChannelKind),
			Channels:   execute.ChannelWords{First: 1, Several: true},
			Complexity: "O(N), N being the number of channels", Syntax: "channel [channel ...]",
			Summary: "Listens for messages published to channels."}),
		subscribed(Command{Name: "psubscribe", Arity: -2, Since: "2.0.0", Run: subscribe(execute.PatternKind),
			Channels:   execute.ChannelWords{First: 1, Several: true, Patterns: true},
			Complexity: "O(N), N being the number of patterns", Syntax: "pattern [pattern ...]",
			Summary: "Listens for messages published to channels whose names match patterns."}),
		subscribed(Command{Name: "unsubscribe", Arity: -1, Since: "2.0.0", Run: unsubscribe(execute.ChannelKind),
			Complexity: "O(N), N being the number of channels", Syntax: "[channel [channel ...]]",
			Summary: "Stops listening to channels."}),
		subscribed(Command{Name: "punsubscribe", Arity: -1, Since: "2.0.0", Run: unsubscribe(execute.PatternKind),
			Complexity: "O(N), N being the number of patterns", Syntax: "[pattern [pattern ...]]",
			Summary: "Stops listening to patterns."}),
		{Name: "publish", Arity: 3, Flags: PubSub | Loading | Stale | Fast | MayReplicate, Since: "2.0.0", Group: "pubsub", Run: cmdPublish,
			Channels:   execute.ChannelWords{First: 1},
			Complexity: "O(N+M), N being the number of clients that listen to the channel and M of patterns", Syntax: "channel message",
			Summary: "Sends a message to those who listen to a channel."},
		subscribed(Command{Name: "ssubscribe", Arity: -2, Since: "7.0.0", Run: cmdSSubscribe, Keys: []KeySpec{keyRange(1, -1, 1, NotKey)},
			Channels:   execute.ChannelWords{First: 1, Several: true},
			Complexity: "O(N), N being the number of shard channels", Syntax: "shardchannel [shardchannel ...]",
			Summary: "Listens for messages published to shard channels."}),
		subscribed(Command{Name: "sunsubscribe", Arity: -1, Since: "7.0.0", Run: unsubscribe(execute.ShardKind), Keys: []KeySpec{keyRange(1, -1, 1, NotKey)},
			Complexity: "O(N), N being the number of shard channels", Syntax: "[shardchannel [shardchannel ...]]",
			Summary: "Stops listening to shard channels."}),
		{Name: "spublish", Arity: 3, Flags: PubSub | Loading | Stale | Fast | MayReplicate, Since: "7.0.0", Group: "pubsub", Run: cmdSPublish,
			Keys: []KeySpec{oneKey(1, NotKey)}, Channels: execute.ChannelWords{First: 1},
			Complexity: "O(N), N being the number of clients that listen to the shard channel",
			Syntax:     "shardchannel message", Summary: "Sends a message to those who listen to a shard channel."},
		{Name: "pubsub", Arity: -2, Since: "2.8.0", Group: "pubsub", Complexity: "Depends on the subcommand",
			Summary: "A container for commands that tell of channels and listeners.",
			Subcommands: []Command{
				{Name: "channels", Arity: -2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: listChannels(execute.ChannelKind),
					Complexity: "O(N), N being the number of channels", Syntax: "[pattern]", Summary: "Lists the channels that somebody listens to."},
				{Name: "numsub", Arity: -2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: countSubscribers(execute.ChannelKind),
					Complexity: "O(N), N being the number of channels asked for", Syntax: "[channel [channel ...]]", Summary: "Tells how many listen to channels."},
				{Name: "numpat", Arity: 2, Flags: PubSub | Loading | Stale, Since: "2.8.0", Run: cmdPubSubNumPat,
					Complexity: "O(1)", Summary: "Tells how many patterns somebody listens to."},
				{Name: "shardchannels", Arity: -2, Flags: PubSub | Loading | Stale, Since: "7.0.0", Run: listChannels(execute.ShardKind),
					Complexity: "O(N), N being the number of shard channels", Syntax: "[pattern]", Summary: "Lists the shard channels that somebody listens to."},
				{Name: "shardnumsub", Arity: -2, Flags: PubSub | Loading | Stale, Since: "7.0.0", Run: countSubscribers(execute.ShardKind),
					Complexity: "O(N), N being the number of shard channels asked for", Syntax: "[shardchannel [shardchannel ...]]",
					Summary: "Tells how many listen to shard channels."},
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
	"SHARDCHANNELS [<pattern>]",
	"    Return the currently active shard level channels matching a <pattern> (default: '*').",
	"SHARDNUMSUB [<shardchannel> ...]",
	"    Return the number of subscribers for the specified shard level channel(s)",
	"HELP",
	"    Prints this help.",
}

var (
	subscribeWords   = [execute.ListenKinds]string{"subscribe", "psubscribe", "ssubscribe"}
	unsubscribeWords = [execute.ListenKinds]string{"unsubscribe", "punsubscribe", "sunsubscribe"}
)

func subscribe(kind execute.ListenKind) func(*Invocation) error {
	return func(c *Invocation) error {
		for _, name := range c.Args[1:] {
			c.Engine.Listeners.Add(c.Session, kind, string(name))
			replySubscription(c, kind, subscribeWords[kind], name)
		}
		c.Engine.CheckBegun(c.Session)
		return nil
	}
}

func unsubscribe(kind execute.ListenKind) func(*Invocation) error {
	return func(c *Invocation) error {
		names := c.Args[1:]
		if len(names) == 0 {
			names = c.Session.ListeningTo(kind)
		}
		if len(names) == 0 {
			replySubscription(c, kind, unsubscribeWords[kind], nil)
		}
		for _, name := range names {
			c.Engine.Listeners.Remove(c.Session, kind, string(name))
			replySubscription(c, kind, unsubscribeWords[kind], name)
		}
		return nil
	}
}

// replySubscription confirms a subscription, or the end of one. CLIENT REPLY doesn't keep that
// back: it is a push, like messages.
func replySubscription(c *Invocation, kind execute.ListenKind, word string, name []byte) {
	if c.Session.ReplyMode == execute.ReplyOn {
		writeSubscription(c, c.Reply, kind, word, name)
		return
	}
	c.Push(func(w *resp.Writer) { writeSubscription(c, w, kind, word, name) })
}

func writeSubscription(c *Invocation, w *resp.Writer, kind execute.ListenKind, word string, name []byte) {
	w.Push(3)
	w.BulkString(word)
	if name == nil {
		w.Null()
	} else {
		w.Bulk(name)
	}
	if kind == execute.ShardKind {
		w.Integer(int64(c.Session.ShardSubscriptions()))
		return
	}
	channels, patterns := c.Session.Subscriptions()
	w.Integer(int64(channels + patterns))
}

func cmdSSubscribe(c *Invocation) error {
	if c.Nested() {
		return Error("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
	}
	return subscribe(execute.ShardKind)(c)
}

func cmdPublish(c *Invocation) error {
	receivers, err := c.Engine.Listeners.Receivers(c.Txn, c.Args[1])
	if err != nil {
		return err
	}
	publish(c, receivers)
	hearSentinel(c)
	return nil
}

// hearSentinel tells the server's part in replication what a Sentinel publishes, if that is who its
// user says it is.
func hearSentinel(c *Invocation) {
	if c.Engine.Config.SentinelQuorum.Get() == 0 || string(c.Args[1]) != "__sentinel__:hello" {
		return
	}
	s := c.Session
	if user := s.User; user != nil && s.Authenticated && !user.NeedsNoPassword() && user.Name() == c.Engine.Config.SentinelUser.Get() {
		c.Engine.Replication().HeardSentinel(s.ID, c.Args[2])
	}
}

func cmdSPublish(c *Invocation) error {
	publish(c, c.Engine.Listeners.ShardReceivers(c.Args[1]))
	return nil
}

func publish(c *Invocation, receivers execute.Receivers) {
	c.Reply.Integer(int64(receivers.Count()))
	c.Publish(receivers, c.Args[1], c.Args[2])
	// While the log takes nothing, who listens here is told all the same.
	if c.Txn.Mode().Writing && c.Engine.HasReplicas() {
		c.Effect(c.Args...)
	}
}

func listChannels(kind execute.ListenKind) func(*Invocation) error {
	return func(c *Invocation) error { return cmdPubSubChannels(c, kind) }
}

func cmdPubSubChannels(c *Invocation, kind execute.ListenKind) error {
	if len(c.Args) > 3 {
		return c.Misused()
	}
	names := c.Engine.Listeners.Channels(kind)
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

func countSubscribers(kind execute.ListenKind) func(*Invocation) error {
	return func(c *Invocation) error {
		names := c.Args[2:]
		c.Reply.Array(2 * len(names))
		for i, count := range c.Engine.Listeners.Subscribers(kind, names) {
			c.Reply.Bulk(names[i])
			c.Reply.Integer(int64(count))
		}
		return nil
	}
}

func cmdPubSubNumPat(c *Invocation) error {
	c.Reply.Integer(c.Engine.Listeners.Count(execute.PatternKind))
	return nil
}
