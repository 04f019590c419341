package command

import (
	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func streamGroupCommands() []Command {
	return []Command{
		xgroupCommand(),
		{Name: "xack", Arity: -4, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdXAck,
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of ids", Syntax: "key group id [id ...]",
			Summary: "Says that entries which were delivered to a group are done with."},
		{Name: "xpending", Arity: -3, Flags: ReadOnly, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"}, Run: cmdXPending,
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of entries returned, or of consumers",
			Syntax: "key group [[IDLE min-idle-time:integer] start:string end:string count [consumer]]", Summary: "Tells what is pending for a group."},
		{Name: "xclaim", Arity: -6, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Tips: []string{"nondeterministic_output"}, Run: cmdXClaim,
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of ids",
			Syntax:  "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
			Summary: "Gives entries that are pending to another consumer."},
		{Name: "xautoclaim", Arity: -6, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Tips: []string{"nondeterministic_output"}, Run: cmdXAutoClaim,
			Group: "stream", Since: "6.2.0", Complexity: "O(1) if COUNT is small",
			Syntax:  "key group consumer min-idle-time start:string [COUNT count] [JUSTID]",
			Summary: "Gives entries that have been pending for long to another consumer."},
	}
}

func xgroupCommand() Command {
	sub := func(name, since string, arity int, flags Flags, key KeyFlags, complexity, syntax, summary string, run func(*Invocation) error) Command {
		return Command{Name: name, Arity: arity, Flags: Write | flags, Categories: CategoryStream, Keys: []KeySpec{oneKey(2, key)}, Run: run,
			Since: since, Complexity: complexity, Syntax: syntax, Summary: summary}
	}
	const one = "O(1)"
	return Command{Name: "xgroup", Arity: -2, Group: "stream", Since: "5.0.0", Complexity: "Depends on the subcommand",
		Summary: "Makes and removes groups of consumers.", Subcommands: []Command{
			sub("create", "5.0.0", -5, DenyOOM, RW|Insert, one, "key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read:integer]", "Makes a group.", cmdXGroupCreate),
			sub("setid", "5.0.0", -5, 0, RW|Update, one, "key group <id | $> [ENTRIESREAD entries-read:integer]", "Sets which entry a group got last.", cmdXGroupSetID),
			sub("destroy", "5.0.0", 4, 0, RW|Delete, one, "key group", "Removes a group.", cmdXGroupDestroy),
			sub("createconsumer", "6.2.0", 5, DenyOOM, RW|Insert, one, "key group consumer", "Makes a consumer.", cmdXGroupCreateConsumer),
			sub("delconsumer", "5.0.0", 5, 0, RW|Delete, "O(N) where N is the number of entries that are pending for it, up to 1000", "key group consumer",
				"Removes a consumer, and what is pending for it.", cmdXGroupDelConsumer),
			execute.HelpRow("xgroup", "5.0.0", Loading|Stale, CategoryStream,
				"CREATE <key> <groupname> <id|$> [option]",
				"    Create a new consumer group. Options are:",
				"    * MKSTREAM",
				"      Create the empty stream if it does not exist.",
				"    * ENTRIESREAD entries_read",
				"      Set the group's entries_read counter (internal use).",
				"CREATECONSUMER <key> <groupname> <consumer>",
				"    Create a new consumer in the specified group.",
				"DELCONSUMER <key> <groupname> <consumer>",
				"    Remove the specified consumer.",
				"DESTROY <key> <groupname>",
				"    Remove the specified group.",
				"SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
				"    Set the current group ID and entries_read counter."),
		}}
}

// groupOptions are those of XGROUP CREATE and SETID.
type groupOptions struct {
	makeStream bool
	read       int64 // -1 is unknown
}

func parseGroupOptions(c *Invocation, creating bool) (o groupOptions, err error) {
	o.read = -1
	a := arguments{words: c.Args[5:]}
	for a.more() {
		switch {
		case creating && a.flag("MKSTREAM"):
			o.makeStream = true
		case len(a.words) > 1 && a.integer("ENTRIESREAD", &o.read):
			switch {
			case a.err != nil || o.read >= -1:
			case c.Applying(): // a count of Redis's that has become too large
				o.read = -1
			default:
				a.fail(Error("ERR value for ENTRIESREAD must be positive or -1"))
			}
		default:
			return o, c.Misused()
		}
	}
	return o, a.err
}

// streamOfGroup opens the stream of one of XGROUP's commands, which has to exist.
func streamOfGroup(c *Invocation) (s *storage.Stream, err error) {
	if s, err = c.DB.Stream(c.Args[2]); err == nil && !s.Exists() {
		err = Error("ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option " +
			"to create an empty stream automatically.")
	}
	return s, err
}

// openGroup opens a group that has to exist, as XGROUP and XINFO say it.
func openGroup(s *storage.Stream, key, name []byte) (*storage.Group, error) {
	g, found, err := s.Group(name)
	if err == nil && !found {
		err = Errorf("NOGROUP No such consumer group '%s' for key name '%s'", execute.UntilZero(name), execute.UntilZero(key))
	}
	return g, err
}

func cmdXGroupCreate(c *Invocation) error {
	o, err := parseGroupOptions(c, true)
	if err != nil {
		return err
	}
	var s *storage.Stream
	if o.makeStream {
		s, err = c.DB.Stream(c.Args[2])
	} else {
		s, err = streamOfGroup(c)
	}
	if err != nil {
		return err
	}
	if len(c.Args) > 8 {
		return c.Misused()
	}
	id, err := parseGroupID(s, c.Args[4], parseStreamID)
	if err != nil {
		return err
	}
	_, found, err := s.Group(c.Args[3])
	if err != nil {
		return err
	}
	if found {
		return Error("BUSYGROUP Consumer Group name already exists")
	}
	c.Reply.OK()
	return saveGroup(s, s.NewGroup(c.Args[3], id, o.read), keyevent.XGroupCreate)
}

// parseGroupID reads an id, or the word for that of the stream's last entry.
func parseGroupID(s *storage.Stream, word []byte, parse func(word []byte, missing uint64) (storage.StreamID, error)) (storage.StreamID, error) {
	if string(word) == "$" {
		return s.Head().Last, nil
	}
	return parse(word, 0)
}

func saveGroup(s *storage.Stream, g *storage.Group, events ...keyevent.Name) error {
	if err := g.Save(); err != nil {
		return err
	}
	return s.SaveGroups(events...)
}

func cmdXGroupSetID(c *Invocation) error {
	o, err := parseGroupOptions(c, false)
	if err != nil {
		return err
	}
	s, err := streamOfGroup(c)
	if err != nil {
		return err
	}
	g, err := openGroup(s, c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	if len(c.Args) != 5 && len(c.Args) != 7 {
		return c.Misused()
	}
	id, err := parseGroupID(s, c.Args[4], parseRangeID)
	if err != nil {
		return err
	}
	g.SetLast(id, o.read)
	c.Reply.OK()
	return saveGroup(s, g, keyevent.XGroupSetID)
}

func cmdXGroupDestroy(c *Invocation) error {
	s, err := streamOfGroup(c)
	if err != nil {
		return err
	}
	g, found, err := s.Group(c.Args[3])
	if err != nil {
		return err
	}
	replyBit(c, found)
	if !found {
		return nil
	}
	if err := g.Destroy(); err != nil {
		return err
	}
	return s.SaveAwaited(keyevent.XGroupDestroy)
}

func cmdXGroupCreateConsumer(c *Invocation) error {
	s, err := streamOfGroup(c)
	if err != nil {
		return err
	}
	g, err := openGroup(s, c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	_, found, err := g.Consumer(c.Args[4])
	if err != nil {
		return err
	}
	replyBit(c, !found)
	if found {
		return nil
	}
	if _, err := g.NewConsumer(c.Args[4], c.Now); err != nil {
		return err
	}
	return saveGroup(s, g, keyevent.XGroupCreateConsumer)
}

func cmdXGroupDelConsumer(c *Invocation) error {
	s, err := streamOfGroup(c)
	if err != nil {
		return err
	}
	g, err := openGroup(s, c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	consumer, found, err := g.Consumer(c.Args[4])
	if err != nil {
		return err
	}
	if !found {
		c.Reply.Integer(0)
		return nil
	}
	pending, err := g.RemoveConsumer(consumer)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(pending))
	return saveGroup(s, g, keyevent.XGroupDelConsumer)
}

func cmdXAck(c *Invocation) error {
	s, err := c.DB.Reading().Stream(c.Args[1])
	if err != nil {
		return err
	}
	var g *storage.Group
	found := false
	if s.Exists() {
		if g, found, err = s.Group(c.Args[2]); err != nil {
			return err
		}
	}
	if !found {
		c.Reply.Integer(0)
		return nil
	}
	ids, err := parseStreamIDs(c.Args[3:])
	if err != nil {
		return err
	}
	acknowledged := int64(0)
	for _, id := range ids {
		p, found, err := g.Pending(id)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := g.Acknowledge(&p); err != nil {
			return err
		}
		acknowledged++
	}
	c.Reply.Integer(acknowledged)
	if acknowledged == 0 {
		return nil
	}
	if err := g.MoveFrom(); err != nil {
		return err
	}
	return saveGroup(s, g)
}

// groupOfKey opens the group of a command that has them as its first words.
func groupOfKey(c *Invocation) (*storage.Stream, *storage.Group, error) {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return nil, nil, err
	}
	var g *storage.Group
	found := false
	if s.Exists() {
		if g, found, err = s.Group(c.Args[2]); err != nil {
			return nil, nil, err
		}
	}
	if !found {
		return nil, nil, Errorf("NOGROUP No such key '%s' or consumer group '%s'", execute.UntilZero(c.Args[1]), execute.UntilZero(c.Args[2]))
	}
	return s, g, nil
}

// pendingQuery is what XPENDING was asked for.
type pendingQuery struct {
	idle     int64
	from, to storage.StreamID
	count    int64
	consumer []byte // nil: all
}

func cmdXPending(c *Invocation) error {
	words := c.Args[3:]
	if len(words) != 0 && (len(words) < 3 || len(words) > 6) {
		return ErrSyntax
	}
	var q pendingQuery
	if len(words) > 0 {
		if err := q.parse(words); err != nil {
			return err
		}
	}
	_, g, err := groupOfKey(c)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return replyPendingSummary(c, g)
	}
	return q.reply(c, g)
}

func (q *pendingQuery) parse(words [][]byte) (err error) {
	a := arguments{words: words}
	if a.integer("IDLE", &q.idle) {
		if a.err != nil {
			return a.err
		}
		if len(a.words) < 3 {
			return ErrSyntax
		}
	}
	if q.count, err = parseInteger(a.words[2]); err != nil {
		return err
	}
	if q.from, q.to, err = parseInterval(a.words[0], a.words[1]); err != nil {
		return err
	}
	if len(a.words) > 3 {
		q.consumer = a.words[3]
	}
	return nil
}

func (q *pendingQuery) reply(c *Invocation, g *storage.Group) error {
	var of *storage.Consumer
	if q.consumer != nil {
		consumer, found, err := g.Consumer(q.consumer)
		if err != nil {
			return err
		}
		if !found {
			c.Reply.Array(0)
			return nil
		}
		of = consumer
	}
	reply, entries := c.Reply.BeginArray(), 0
	var err error
	if q.count > 0 {
		err = g.Walk(q.from, q.to, of, func(p *storage.Pending) (bool, error) {
			idle := c.Now - p.DeliveredMs
			if q.idle != 0 && idle < q.idle {
				return true, nil
			}
			owner, err := g.Owner(p)
			if err != nil {
				return false, err
			}
			c.Reply.Array(4)
			replyStreamID(c, p.Entry)
			c.Reply.Bulk(owner.State().Name)
			c.Reply.Integer(max(idle, 0))
			c.Reply.Integer(int64(p.Deliveries))
			entries++
			return int64(entries) != q.count, nil
		})
	}
	c.Reply.EndArray(reply, entries)
	return err
}

func replyPendingSummary(c *Invocation, g *storage.Group) error {
	c.Reply.Array(4)
	c.Reply.Integer(int64(g.State().Pending))
	if g.State().Pending == 0 {
		c.Reply.Null()
		c.Reply.Null()
		c.Reply.NullArray()
		return nil
	}
	first, last, err := g.Ends()
	if err != nil {
		return err
	}
	replyStreamID(c, first)
	replyStreamID(c, last)
	reply, consumers := c.Reply.BeginArray(), 0
	err = g.Consumers(func(consumer *storage.Consumer) error {
		if pending := consumer.State().Pending; pending > 0 {
			consumers++
			c.Reply.Array(2)
			c.Reply.Bulk(consumer.State().Name)
			c.Reply.Bulk(formatInteger(int64(pending)))
		}
		return nil
	})
	c.Reply.EndArray(reply, consumers)
	return err
}

// claiming is what XCLAIM and XAUTOCLAIM were asked to do.
type claiming struct {
	key         []byte
	stream      *storage.Stream
	group       *storage.Group
	consumer    *storage.Consumer
	created     bool
	minIdle     int64
	deliveredMs int64
	retries     int64 // -1: one more than before
	force       bool
	justIDs     bool

	changed int // entries that were claimed, or that are no longer pending since they are gone
	claimed int
	taken   claimed
}

// begin finds the consumer, and makes it if it is missing.
func (o *claiming) begin(c *Invocation, name []byte) (err error) {
	found := false
	if o.consumer, found, err = o.group.Consumer(name); err == nil && !found {
		o.created = true
		o.consumer, err = o.group.NewConsumer(name, o.seen(c))
	}
	o.taken = claimed{key: o.key, group: o.group, consumer: o.consumer}
	return err
}

// seen is when the consumer asked: repeated from the log, when entries were delivered.
func (o *claiming) seen(c *Invocation) int64 {
	if c.Applying() {
		return o.deliveredMs
	}
	return c.Now
}

// forget takes an entry that is gone off those that are pending.
func (o *claiming) forget(c *Invocation, p *storage.Pending) error {
	o.changed++
	c.Effect(wordXAck, o.key, o.group.Name(), formatStreamID(p.Entry))
	return o.group.Acknowledge(p)
}

// take gives the consumer an entry that is pending, or is to be (former is nil then).
func (o *claiming) take(c *Invocation, p *storage.Pending, former *storage.Pending) error {
	p.DeliveredMs = o.deliveredMs
	if o.retries >= 0 {
		p.Deliveries = uint64(o.retries)
	} else if !o.justIDs {
		p.CountDelivery()
	}
	if err := o.group.Deliver(p, o.consumer, former); err != nil {
		return err
	}
	o.changed++
	o.claimed++
	o.taken.add(c, p)
	return nil
}

// finish writes down what was done.
func (o *claiming) finish(c *Invocation) error {
	o.taken.say(c)
	o.consumer.Saw(o.seen(c), o.claimed > 0)
	if o.created && o.claimed == 0 {
		c.Effect(wordXGroup, wordCreateConsumer, o.key, o.group.Name(), o.consumer.State().Name)
	}
	if o.changed > 0 {
		if err := o.group.MoveFrom(); err != nil {
			return err
		}
	}
	c.NoEffect()
	if err := o.group.Save(); err != nil {
		return err
	}
	save := o.stream.SaveGroups
	if o.claimed > 0 && o.deliveredMs < c.Now {
		save = o.stream.SaveAwaited
	}
	if o.created {
		return save(keyevent.XGroupCreateConsumer)
	}
	return save()
}

func cmdXClaim(c *Invocation) error {
	s, g, err := groupOfKey(c)
	if err != nil {
		return err
	}
	o := claiming{key: c.Args[1], stream: s, group: g, deliveredMs: -1, retries: -1}
	if o.minIdle, err = parseInteger(c.Args[4]); err != nil {
		return Error("ERR Invalid min-idle-time argument for XCLAIM")
	}
	var ids []storage.StreamID
	words := c.Args[5:]
	for ; len(words) > 0; words = words[1:] {
		id, err := parseStreamID(words[0], 0)
		if err != nil {
			break
		}
		ids = append(ids, id)
	}
	last, err := o.parse(c, words)
	if err != nil {
		return err
	}
	advanced := g.State().Last.Less(last)
	if advanced {
		g.SetLast(last, g.State().Read)
	}
	if err := o.begin(c, c.Args[3]); err != nil {
		return err
	}
	if err := o.claim(c, ids); err != nil {
		return err
	}
	if advanced {
		effectGroupID(c, o.key, g)
	}
	return o.finish(c)
}

// parse reads XCLAIM's options, and returns the entry that the group has got last at least.
func (o *claiming) parse(c *Invocation, words [][]byte) (last storage.StreamID, err error) {
	a := arguments{words: words}
	for a.more() {
		var word []byte
		number := func(into *int64, name string) {
			if *into, err = parseInteger(word); err != nil {
				a.fail(Errorf("ERR Invalid %s option argument for XCLAIM", name))
			}
		}
		more := len(a.words) > 1
		switch {
		case a.flag("FORCE"):
			o.force = true
		case a.flag("JUSTID"):
			o.justIDs = true
		case more && a.option("IDLE", &word):
			number(&o.deliveredMs, "IDLE")
			o.deliveredMs = c.Now - o.deliveredMs
		case more && a.option("TIME", &word):
			number(&o.deliveredMs, "TIME")
		case more && a.option("RETRYCOUNT", &word):
			number(&o.retries, "RETRYCOUNT")
		case more && a.option("LASTID", &word):
			if last, err = parseStreamID(word, 0); err != nil {
				a.fail(err)
			}
		default:
			a.fail(Errorf("ERR Unrecognized XCLAIM option '%s'", execute.UntilZero(a.words[0])))
		}
	}
	if !c.Applying() && (o.deliveredMs < 0 || o.deliveredMs > c.Now) {
		o.deliveredMs = c.Now
	}
	return last, a.err
}

func (o *claiming) claim(c *Invocation, ids []storage.StreamID) error {
	reply := c.Reply.BeginArray()
	for _, id := range ids {
		p, pending, err := o.group.Pending(id)
		if err != nil {
			return err
		}
		fields, found, err := o.stream.Entry(id)
		switch {
		case err != nil:
			return err
		case !found && pending:
			err = o.forget(c, &p)
		case !found || !pending && !o.force, pending && o.minIdle > 0 && c.Now-p.DeliveredMs < o.minIdle:
		default:
			err = o.takeAndReply(c, id, &p, pending, fields)
		}
		if err != nil {
			return err
		}
	}
	c.Reply.EndArray(reply, o.claimed)
	return nil
}

func (o *claiming) takeAndReply(c *Invocation, id storage.StreamID, p *storage.Pending, pending bool, fields [][]byte) error {
	former := *p
	was := &former
	if !pending {
		was = nil
		*p = storage.Pending{Entry: id, PendingState: layout.PendingState{Deliveries: 1}}
	}
	o.reply(c, id, fields)
	return o.take(c, p, was)
}

func (o *claiming) reply(c *Invocation, id storage.StreamID, fields [][]byte) {
	if o.justIDs {
		replyStreamID(c, id)
		return
	}
	replyEntry(c, id, fields)
}

// attemptsFactor is how many times more entries XAUTOCLAIM looks at than it claims.
const attemptsFactor = 10

func cmdXAutoClaim(c *Invocation) error {
	o := claiming{key: c.Args[1], deliveredMs: c.Now, retries: -1}
	var err error
	if o.minIdle, err = parseInteger(c.Args[4]); err != nil {
		return Error("ERR Invalid min-idle-time argument for XAUTOCLAIM")
	}
	from, err := parseIntervalStart(c.Args[5])
	if err != nil {
		return err
	}
	count := int64(100)
	a := arguments{words: c.Args[6:]}
	for a.more() {
		var word []byte
		switch {
		case len(a.words) > 1 && a.option("COUNT", &word):
			const most = (1<<63 - 1) / 16
			if count, err = parseInteger(word); err != nil || count < 1 || count > most {
				a.fail(Error("ERR COUNT must be > 0"))
			}
		case a.flag("JUSTID"):
			o.justIDs = true
		default:
			a.fail(ErrSyntax)
		}
	}
	if a.err != nil {
		return a.err
	}
	if o.stream, o.group, err = groupOfKey(c); err != nil {
		return err
	}
	if err := o.begin(c, c.Args[3]); err != nil {
		return err
	}
	if err := o.claimFrom(c, from, count); err != nil {
		return err
	}
	return o.finish(c)
}

// claimFrom claims what has been pending for long, from an entry on. The reply begins with where
// the next call goes on.
func (o *claiming) claimFrom(c *Invocation, from storage.StreamID, count int64) error {
	var claimed []storage.Pending
	var gone []storage.StreamID
	var next storage.StreamID
	attempts := count * attemptsFactor
	err := o.group.Walk(from, layout.LastStreamID, nil, func(p *storage.Pending) (bool, error) {
		if attempts == 0 || count == 0 {
			next = p.Entry
			return false, nil
		}
		attempts--
		exists, err := o.stream.Has(p.Entry)
		switch {
		case err != nil:
			return false, err
		case !exists:
			gone = append(gone, p.Entry)
			count--
			return true, o.forget(c, p)
		case o.minIdle > 0 && c.Now-p.DeliveredMs < o.minIdle:
			return true, nil
		}
		claimed = append(claimed, *p)
		count--
		former := *p
		return true, o.take(c, p, &former)
	})
	if err != nil {
		return err
	}
	c.Reply.Array(3)
	replyStreamID(c, next)
	c.Reply.Array(len(claimed))
	for _, p := range claimed {
		fields, _, err := o.stream.Entry(p.Entry)
		if err != nil {
			return err
		}
		o.reply(c, p.Entry, fields)
	}
	c.Reply.Array(len(gone))
	for _, id := range gone {
		replyStreamID(c, id)
	}
	return nil
}
