package command

import (
	"bytes"
	"slices"

	"kedis/internal/glob"
	"kedis/internal/resp"
	"kedis/server/execute"
)

func pubSubFamily() Family {
	subscribed := func(c Command) Command {
		c.Flags, c.Group, c.Subscribed = PubSub|NoScript|Loading|Stale, "pubsub", true
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

var (
	subscribeWords   = [execute.ListenKinds]string{"subscribe", "psubscribe"}
	unsubscribeWords = [execute.ListenKinds]string{"unsubscribe", "punsubscribe"}
)

func subscribe(kind execute.ListenKind) func(*Invocation) error {
	return func(c *Invocation) error {
		for _, name := range c.Args[1:] {
			c.Engine.Listeners.Add(c.Session, kind, string(name))
			replySubscription(c, subscribeWords[kind], name)
		}
		c.Engine.CheckListening(c.Session)
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
			replySubscription(c, unsubscribeWords[kind], nil)
		}
		for _, name := range names {
			c.Engine.Listeners.Remove(c.Session, kind, string(name))
			replySubscription(c, unsubscribeWords[kind], name)
		}
		return nil
	}
}

// replySubscription confirms a subscription, or the end of one. CLIENT REPLY doesn't keep that back: it is a push, like messages.
func replySubscription(c *Invocation, word string, name []byte) {
	if c.Session.ReplyMode == execute.ReplyOn {
		writeSubscription(c, c.Reply, word, name)
		return
	}
	c.Push(func(w *resp.Writer) { writeSubscription(c, w, word, name) })
}

func writeSubscription(c *Invocation, w *resp.Writer, word string, name []byte) {
	w.Push(3)
	w.BulkString(word)
	if name == nil {
		w.Null()
	} else {
		w.Bulk(name)
	}
	w.Integer(int64(c.Session.SubscriptionCount()))
}

// cmdPublish sends a message when what was executed with it is committed, as the replies leave then.
// The session itself gets it behind the reply, as with Redis 7.2; 7.0 puts it in front of that, in the midst of EXEC's array.
func cmdPublish(c *Invocation) error {
	channel, message := bytes.Clone(c.Args[1]), bytes.Clone(c.Args[2])
	receivers, err := c.Engine.Listeners.Receivers(c.Txn, channel)
	if err != nil {
		return err
	}
	for _, r := range receivers {
		if r.Session == c.Session {
			c.Push(func(w *resp.Writer) { r.Write(w, channel, message) })
			continue
		}
		c.AfterCommit(func() { r.Send(channel, message) })
	}
	c.Reply.Integer(int64(len(receivers)))
	if !c.Txn.Mode().Replica && c.Engine.HasReplicas() {
		c.Effect(c.Args...)
	}
	return nil
}

func cmdPubSubChannels(c *Invocation) error {
	if len(c.Args) > 3 {
		return c.Misused()
	}
	names := c.Engine.Listeners.Channels()
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

func cmdPubSubNumSub(c *Invocation) error {
	names := c.Args[2:]
	c.Reply.Array(2 * len(names))
	for i, count := range c.Engine.Listeners.Subscribers(names) {
		c.Reply.Bulk(names[i])
		c.Reply.Integer(int64(count))
	}
	return nil
}

func cmdPubSubNumPat(c *Invocation) error {
	_, patterns := c.Engine.Listeners.Count()
	c.Reply.Integer(patterns)
	return nil
}
