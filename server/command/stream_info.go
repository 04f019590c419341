package command

import (
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func streamInfoCommands() []Command {
	sub := func(name string, arity int, tips []string, complexity, syntax, summary string, run func(*Invocation, *storage.Stream) error) Command {
		return Command{Name: name, Arity: arity, Flags: ReadOnly, Categories: CategoryStream, Keys: []KeySpec{oneKey(2, RO|Access)}, Tips: tips,
			Since: "5.0.0", Complexity: complexity, Syntax: syntax, Summary: summary, Run: func(c *Invocation) error {
				s, err := c.DB.Stream(c.Args[2])
				if err != nil {
					return err
				}
				if !s.Exists() {
					return ErrNoSuchKey
				}
				return run(c, s)
			}}
	}
	return []Command{{Name: "xinfo", Arity: -2, Group: "stream", Since: "5.0.0", Complexity: "Depends on the subcommand",
		Summary: "Tells of streams, their groups and consumers.", Subcommands: []Command{
			sub("consumers", 4, []string{"nondeterministic_output"}, "O(N) where N is the number of consumers", "key group",
				"Tells of the consumers of a group.", infoOfConsumers),
			sub("groups", 3, nil, "O(N) where N is the number of groups", "key", "Tells of a stream's groups.", infoOfGroups),
			sub("stream", -3, nil, "O(1); with FULL O(N) where N is what is told", "key [FULL [COUNT count]]", "Tells of a stream.", infoOfStream),
			execute.HelpRow("xinfo", "5.0.0", Loading|Stale, CategoryStream,
				"CONSUMERS <key> <groupname>",
				"    Show consumers of <groupname>.",
				"GROUPS <key>",
				"    Show the stream consumer groups.",
				"STREAM <key> [FULL [COUNT <count>]",
				"    Show information about the stream."),
		}}}
}

func infoOfConsumers(c *Invocation, s *storage.Stream) error {
	g, err := openGroup(s, c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	c.Reply.Array(int(g.State().Consumers))
	return g.Consumers(func(consumer *storage.Consumer) error {
		state := consumer.State()
		c.Reply.Map(4)
		c.Reply.BulkString("name")
		c.Reply.Bulk(state.Name)
		c.Reply.BulkString("pending")
		c.Reply.Integer(int64(state.Pending))
		c.Reply.BulkString("idle")
		c.Reply.Integer(max(c.Now-state.SeenMs, 0))
		c.Reply.BulkString("inactive")
		inactive := int64(-1)
		if state.ActiveMs != -1 {
			inactive = max(c.Now-state.ActiveMs, 0)
		}
		c.Reply.Integer(inactive)
		return nil
	})
}

func infoOfGroups(c *Invocation, s *storage.Stream) error {
	c.Reply.Array(int(s.Head().Groups))
	return s.Groups(func(g *storage.Group) error {
		c.Reply.Map(6)
		c.Reply.BulkString("name")
		c.Reply.Bulk(g.Name())
		c.Reply.BulkString("consumers")
		c.Reply.Integer(int64(g.State().Consumers))
		c.Reply.BulkString("pending")
		c.Reply.Integer(int64(g.State().Pending))
		replyProgress(c, g)
		return nil
	})
}

// replyProgress replies how far a group has come, three keys and values of a map.
func replyProgress(c *Invocation, g *storage.Group) {
	c.Reply.BulkString("last-delivered-id")
	replyStreamID(c, g.State().Last)
	c.Reply.BulkString("entries-read")
	replyKnown(c, g.State().Read, g.State().Read != -1)
	c.Reply.BulkString("lag")
	lag, known := g.Lag()
	replyKnown(c, lag, known)
}

func replyKnown(c *Invocation, n int64, known bool) {
	if known {
		c.Reply.Integer(n)
	} else {
		c.Reply.Null()
	}
}

func infoOfStream(c *Invocation, s *storage.Stream) error {
	full, count := len(c.Args) > 3, int64(10)
	a := arguments{words: c.Args[3:]}
	if full && (!a.flag("FULL") || len(a.words) != 0 && len(a.words) != 2 || len(a.words) == 2 && !equalFold(a.words[0], "COUNT")) {
		return c.Misused()
	}
	if a.integer("COUNT", &count); a.err != nil {
		return a.err
	}
	if count < 0 {
		count = 10
	}
	h := s.Head()
	pairs := 10
	if full {
		pairs = 9
	}
	c.Reply.Map(pairs)
	for _, number := range []struct {
		name  string
		value uint64
	}{{"length", s.Len()}, {"radix-tree-keys", h.Nodes}, {"radix-tree-nodes", h.Nodes + 1}} {
		c.Reply.BulkString(number.name)
		c.Reply.Integer(int64(number.value))
	}
	c.Reply.BulkString("last-generated-id")
	replyStreamID(c, h.Last)
	c.Reply.BulkString("max-deleted-entry-id")
	replyStreamID(c, h.Deleted)
	c.Reply.BulkString("entries-added")
	c.Reply.Integer(int64(h.Added))
	c.Reply.BulkString("recorded-first-entry-id")
	replyStreamID(c, h.First)
	if full {
		return replyFullInfo(c, s, count)
	}
	c.Reply.BulkString("groups")
	c.Reply.Integer(int64(h.Groups))
	c.Reply.BulkString("first-entry")
	if err := replyOneEntry(c, s, false); err != nil {
		return err
	}
	c.Reply.BulkString("last-entry")
	return replyOneEntry(c, s, true)
}

// replyOneEntry replies the first or the last entry, or that there is none.
func replyOneEntry(c *Invocation, s *storage.Stream, last bool) error {
	found := false
	err := s.Range(storage.StreamID{}, layout.LastStreamID, last, func(id storage.StreamID, fields [][]byte) (bool, error) {
		found = true
		replyEntry(c, id, fields)
		return false, nil
	})
	if !found {
		c.Reply.Null()
	}
	return err
}

func replyFullInfo(c *Invocation, s *storage.Stream, count int64) error {
	c.Reply.BulkString("entries")
	if _, err := replyEntries(c, s, storage.StreamID{}, layout.LastStreamID, false, count); err != nil {
		return err
	}
	c.Reply.BulkString("groups")
	c.Reply.Array(int(s.Head().Groups))
	return s.Groups(func(g *storage.Group) error {
		c.Reply.Map(7)
		c.Reply.BulkString("name")
		c.Reply.Bulk(g.Name())
		replyProgress(c, g)
		c.Reply.BulkString("pel-count")
		c.Reply.Integer(int64(g.State().Pending))
		c.Reply.BulkString("pending")
		if err := replyPending(c, g, nil, count); err != nil {
			return err
		}
		c.Reply.BulkString("consumers")
		c.Reply.Array(int(g.State().Consumers))
		return g.Consumers(func(consumer *storage.Consumer) error { return replyFullConsumer(c, g, consumer, count) })
	})
}

func replyFullConsumer(c *Invocation, g *storage.Group, consumer *storage.Consumer, count int64) error {
	state := consumer.State()
	c.Reply.Map(5)
	c.Reply.BulkString("name")
	c.Reply.Bulk(state.Name)
	c.Reply.BulkString("seen-time")
	c.Reply.Integer(state.SeenMs)
	c.Reply.BulkString("active-time")
	c.Reply.Integer(state.ActiveMs)
	c.Reply.BulkString("pel-count")
	c.Reply.Integer(int64(state.Pending))
	c.Reply.BulkString("pending")
	return replyPending(c, g, consumer, count)
}

// replyPending replies what is pending: for a consumer, or, with whom it is for, for all.
func replyPending(c *Invocation, g *storage.Group, consumer *storage.Consumer, count int64) error {
	reply, entries := c.Reply.BeginArray(), 0
	err := g.Walk(storage.StreamID{}, layout.LastStreamID, consumer, func(p *storage.Pending) (bool, error) {
		entries++
		if consumer != nil {
			c.Reply.Array(3)
			replyStreamID(c, p.Entry)
		} else {
			owner, err := g.Owner(p)
			if err != nil {
				return false, err
			}
			c.Reply.Array(4)
			replyStreamID(c, p.Entry)
			c.Reply.Bulk(owner.State().Name)
		}
		c.Reply.Integer(p.DeliveredMs)
		c.Reply.Integer(int64(p.Deliveries))
		return int64(entries) != count, nil
	})
	c.Reply.EndArray(reply, entries)
	return err
}
