package command

import (
	"bytes"
	"slices"
	"time"

	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func streamReadCommands() []Command {
	keys := func(from int) []KeySpec {
		return []KeySpec{{Flags: RO | Access, Keyword: "STREAMS", From: from, Last: -1, Step: 1, Limit: 2}}
	}
	const complexity = "O(N) where N is the number of entries returned"
	return []Command{
		{Name: "xread", Arity: -4, Flags: ReadOnly | Blocking | MovableKeys, Categories: CategoryStream,
			Keys: keys(1), GetKeys: streamReadKeys, Run: func(c *Invocation) error { return readStreams(c, false) },
			Adapt: readingFlags,
			Group: "stream", Since: "5.0.0", Complexity: complexity, Syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
			Summary: "Returns the entries of several streams that come behind an id of each, or waits for one."},
		{Name: "xreadgroup", Arity: -7, Flags: Write | Blocking | MovableKeys, Categories: CategoryStream,
			Keys: keys(4), GetKeys: streamReadKeys, Run: func(c *Invocation) error { return readStreams(c, true) },
			Group: "stream", Since: "5.0.0", Complexity: complexity,
			Syntax:  "GROUP group consumer [COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time:integer] [NOACK] STREAMS key [key ...] id [id ...]",
			Summary: "Returns entries of several streams to a consumer of a group, new ones or those that are pending for it, or waits for one."},
	}
}

// readingFlags says that who doesn't ask to wait doesn't.
func readingFlags(flags Flags, args [][]byte) Flags {
	for _, word := range args[1:] {
		switch {
		case equalFold(word, "BLOCK"):
			return flags
		case equalFold(word, "STREAMS"):
			return flags &^ Blocking
		}
	}
	return flags
}

// streamReadKeys finds the keys behind the word STREAMS, which may be the name of a group and a
// consumer too. Other words, and an odd number of them behind STREAMS, the command itself refuses.
func streamReadKeys(args [][]byte) ([]KeyReference, error) {
	at := 1
	for ; at < len(args) && !equalFold(args[at], "STREAMS"); at++ {
		switch {
		case equalFold(args[at], "BLOCK"), equalFold(args[at], "COUNT"), equalFold(args[at], "CLAIM"):
			at++
		case equalFold(args[at], "GROUP"):
			at += 2
		}
	}
	words := len(args) - at - 1
	if words < 2 {
		return nil, execute.ErrInvalidKeys
	}
	flags := RO | Access
	if equalFold(args[0], "XREADGROUP") {
		flags = RW | Access // the group changes, which Redis doesn't count as the key's content
	}
	keys := make([]KeyReference, words/2)
	for i := range keys {
		keys[i] = KeyReference{Index: at + 1 + i, Flags: flags}
	}
	return keys, nil
}

// streamReading is what XREAD and XREADGROUP were asked to do.
type streamReading struct {
	count           int64 // 0: all
	group, consumer []byte
	noAck           bool
	blocks          bool          // it waits when there is nothing
	timeout         time.Duration // 0: for ever
	claims          *idleClaim    // nil: what is pending for others isn't asked for
	keys, ids       [][]byte
	streams         []readingFrom
}

// readingFrom is one of the streams.
type readingFrom struct {
	*storage.Stream
	key     []byte
	group   *storage.Group
	behind  storage.StreamID // what comes behind it is read
	last    bool             // the last entry is
	history bool             // what is pending for the consumer is
}

func readStreams(c *Invocation, grouped bool) error {
	var r streamReading
	if err := r.parse(c, grouped); err != nil {
		return err
	}
	var one [1]readingFrom
	if r.streams = one[:]; len(r.keys) > 1 {
		r.streams = make([]readingFrom, len(r.keys))
	}
	if err := r.open(c, grouped); err != nil {
		return err
	}
	if r.claims != nil {
		if err := r.index(c); err != nil {
			return err
		}
	}
	var savepoint storage.Savepoint
	c.Txn.Mark(&savepoint)
	served, err := r.replyStreams(c, grouped)
	if err != nil || served {
		return err
	}
	if !r.blocks || !c.MayBlock() {
		c.Reply.NullArray()
		return nil
	}
	if grouped && c.MayKeep() { // since Redis 7.2 a consumer is there, and has been seen, from when it asks on
		return c.Keep()
	}
	c.Txn.Rollback(&savepoint)
	return r.wait(c)
}

// replyStreams replies what there is; it tells whether there is anything.
func (r *streamReading) replyStreams(c *Invocation, grouped bool) (bool, error) {
	served, reply := 0, c.Reply.BeginArray()
	for i := range r.streams {
		if grouped && (i > 0 || r.claims != nil) { // it may be the same stream again, or have got its index
			if err := r.find(c, &r.streams[i]); err != nil {
				return false, err
			}
		}
		did, err := r.serve(c, &r.streams[i])
		if err != nil {
			return false, err
		}
		if did {
			served++
		}
	}
	switch {
	case served == 0:
		c.Reply.Rewind(reply)
	case c.Reply.Protocol() == 2:
		c.Reply.EndArray(reply, served)
	default:
		c.Reply.EndMap(reply, served)
	}
	return served > 0, nil
}

// wait has the client wait for entries. Who waits on behalf of a group is told, too, when the
// stream or the group is gone.
func (r *streamReading) wait(c *Invocation) error {
	waiting := *r
	waiting.streams = slices.Clone(r.streams)
	blocked := &execute.Blocked{Expired: replyNullArray}
	if r.timeout > 0 {
		blocked.Deadline = c.Engine.After(r.timeout)
	}
	if r.claims != nil {
		blocked.Again = c.Engine.After(r.claims.wait(c.Now))
	}
	return c.BlockForKeys(blocked, execute.WaitForKeys{Type: layout.Stream, Keys: r.keys, Gone: r.group != nil,
		Serve: func(c *Invocation, key []byte) (bool, error) {
			served, err := waiting.serveBlocked(c, key)
			if !served && err == nil && waiting.claims.soon() {
				blocked.End(nil) // it is to wait anew, for less long
			}
			return served, err
		}})
}

// serveBlocked replies what has come to a stream that the client waits for.
func (r *streamReading) serveBlocked(c *Invocation, key []byte) (bool, error) {
	for i := range r.streams {
		f := &r.streams[i]
		if !bytes.Equal(f.key, key) {
			continue
		}
		if err := r.find(c, f); err != nil {
			return false, err
		}
		var savepoint storage.Savepoint
		c.Txn.Mark(&savepoint)
		reply := c.Reply.BeginArray()
		served, err := r.serve(c, f)
		if err != nil {
			return false, err
		}
		if !served { // no change may be left: it would be a reason to look again
			c.Reply.Rewind(reply)
			c.Txn.Rollback(&savepoint)
			continue
		}
		if c.Reply.Protocol() == 3 {
			c.Reply.EndMap(reply, 1)
		} else {
			c.Reply.EndArray(reply, 1)
		}
		return true, nil
	}
	return false, nil
}

func (r *streamReading) parse(c *Invocation, grouped bool) (err error) {
	a := arguments{words: c.Args[1:]}
	for a.more() && r.keys == nil {
		switch more := len(a.words) - 1; {
		case more >= 1 && a.integer("COUNT", &r.count):
			r.count = max(r.count, 0)
		case more >= 1 && a.flag("BLOCK"):
			r.blocks = true
			if r.timeout, err = parseTimeout(a.next()); err != nil {
				return err
			}
		case more >= 1 && a.flag("STREAMS"):
			r.split(&a, grouped)
		case more >= 2 && a.flag("GROUP"):
			if !grouped {
				return Error("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.")
			}
			r.group, r.consumer = a.next(), a.next()
		case a.flag("NOACK"):
			if !grouped {
				return Error("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.")
			}
			r.noAck = true
		case more >= 1 && grouped && a.flag("CLAIM"):
			if r.claims, err = parseIdleClaim(a.next()); err != nil {
				return err
			}
		default:
			return ErrSyntax
		}
	}
	switch {
	case a.err != nil:
		return a.err
	case r.keys == nil:
		return ErrSyntax
	case grouped && r.group == nil:
		return Error("ERR Missing GROUP option for XREADGROUP")
	}
	return nil
}

// split divides what stands behind STREAMS into keys and ids.
func (r *streamReading) split(a *arguments, grouped bool) {
	if len(a.words)%2 != 0 {
		command, ids := "xread", "ID, '+', or '$'"
		if grouped {
			command, ids = "xreadgroup", "ID or '>'"
		}
		a.fail(Errorf("ERR Unbalanced '%s' list of streams: for each stream key an %s must be specified.", command, ids))
		return
	}
	half := len(a.words) / 2
	r.keys, r.ids = a.words[:half], a.words[half:]
}

// open opens the streams and groups, and reads the ids.
func (r *streamReading) open(c *Invocation, grouped bool) (err error) {
	for i := range r.streams {
		from := &r.streams[i]
		from.key = r.keys[i]
		if err = r.find(c, from); err != nil {
			return err
		}
		if err := from.parse(r.ids[i], grouped); err != nil {
			return err
		}
	}
	return nil
}

// find finds a stream, and its group, as they are now: they may have gone while the client has
// waited.
func (r *streamReading) find(c *Invocation, f *readingFrom) (err error) {
	if f.Stream, err = c.DB.Stream(f.key); err != nil || r.group == nil {
		return err
	}
	found := false
	if f.group, found, err = f.Group(r.group); err == nil && !found {
		err = Errorf("NOGROUP No such key '%s' or consumer group '%s' in XREADGROUP with GROUP option",
			execute.UntilZero(f.key), execute.UntilZero(r.group))
	}
	return err
}

// parse reads the id behind which a stream is read.
func (f *readingFrom) parse(word []byte, grouped bool) (err error) {
	switch {
	case string(word) == "$" && grouped:
		return Error("ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by " +
			"specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.")
	case string(word) == "$":
		f.behind = f.Head().Last
	case string(word) == ">" && !grouped:
		return Error("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.")
	case string(word) == ">":
		f.behind = f.group.State().Last
	case string(word) == "+" && grouped:
		return Error("ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by " +
			"specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set.")
	case string(word) == "+":
		f.last = true
	default:
		f.behind, err = parseStreamID(word, 0)
		f.history = grouped
		if f.history && f.behind == layout.LastStreamID { // which is how Redis notes that new entries are asked for
			f.history, f.behind = false, f.group.State().Last
		}
	}
	return err
}

// serve replies what there is of a stream; it tells whether there is anything.
func (r *streamReading) serve(c *Invocation, f *readingFrom) (bool, error) {
	if f.group == nil {
		return f.read(c, r.count)
	}
	consumer, found, err := f.group.Consumer(r.consumer)
	if err != nil {
		return false, err
	}
	if !found {
		if consumer, err = f.group.NewConsumer(r.consumer, c.Now); err != nil {
			return false, err
		}
	}
	var few [4]storage.StreamID
	d := delivery{Invocation: c, readingFrom: f, consumer: consumer, created: !found, count: r.count, noAck: r.noAck,
		taken: claimed{key: f.key, group: f.group, consumer: consumer, entries: few[:0]}}
	if !f.history {
		d.claims = r.claims
	}
	return d.deliver()
}

func (f *readingFrom) read(c *Invocation, count int64) (served bool, err error) {
	from, more := f.behind.Next()
	if f.last {
		var found bool
		if from, found, err = f.LastEntry(); err != nil || !found {
			return false, err
		}
		more, count = true, 1
	}
	if !more {
		return false, nil
	}
	mark := c.Reply.Mark()
	replyStreamKey(c, f.key)
	entries, err := replyEntries(c, f.Stream, from, layout.LastStreamID, false, count)
	if entries == 0 {
		c.Reply.Rewind(mark)
	}
	return entries > 0, err
}

// replyStreamKey begins what is replied of a stream.
func replyStreamKey(c *Invocation, key []byte) {
	if c.Reply.Protocol() == 2 {
		c.Reply.Array(2)
	}
	c.Reply.Bulk(key)
}

// delivery delivers entries to a consumer.
type delivery struct {
	*Invocation
	*readingFrom
	consumer *storage.Consumer
	created  bool
	count    int64
	noAck    bool
	claims   *idleClaim

	delivered int
	advanced  bool // the group got new entries
	taken     claimed
	claimed   map[storage.StreamID]bool // what CLAIM 0 would find again, as it was delivered now
}

func (d *delivery) deliver() (served bool, err error) {
	if d.history {
		served, err = true, d.replyHistory()
	} else {
		err = d.replyEntries()
		served = d.delivered > 0
	}
	if err != nil {
		return false, err
	}
	d.taken.say(d.Invocation)
	if d.advanced {
		effectGroupID(d.Invocation, d.key, d.group)
	}
	d.consumer.Saw(d.Now, d.delivered > 0)
	if d.created && (d.delivered == 0 || d.noAck) {
		d.Effect(wordXGroup, wordCreateConsumer, d.key, d.group.Name(), d.consumer.State().Name)
	}
	if err := d.group.Save(); err != nil {
		return false, err
	}
	d.NoEffect()
	if d.created {
		return served, d.SaveGroups(keyevent.XGroupCreateConsumer)
	}
	return served, d.SaveGroups()
}

// replyEntries replies what has been pending for long, if that is asked for, and entries that
// nobody of the group has got.
func (d *delivery) replyEntries() error {
	mark := d.Reply.Mark()
	replyStreamKey(d.Invocation, d.key)
	reply := d.Reply.BeginArray()
	if d.claims != nil {
		if err := d.replyIdle(); err != nil {
			return err
		}
	}
	if d.count == 0 || int64(d.delivered) < d.count {
		if err := d.replyNew(); err != nil {
			return err
		}
	}
	d.Reply.EndArray(reply, d.delivered)
	if d.delivered == 0 {
		d.Reply.Rewind(mark)
	}
	return nil
}

// replyNew replies entries that nobody of the group has got.
func (d *delivery) replyNew() error {
	if d.Len() == 0 || !d.group.State().Last.Less(d.Head().Last) {
		return nil
	}
	from, _ := d.group.State().Last.Next()
	return d.Range(from, layout.LastStreamID, false, func(id storage.StreamID, fields [][]byte) (bool, error) {
		if d.claims == nil {
			replyEntry(d.Invocation, id, fields)
		} else {
			replyClaimed(d.Invocation, id, fields, 0, 0)
		}
		d.delivered++
		d.advanced = true
		d.group.Advance(id)
		if !d.noAck {
			if err := d.take(id); err != nil {
				return false, err
			}
		}
		return int64(d.delivered) != d.count, nil
	})
}

// take makes an entry pending for the consumer. It may be so for somebody already, if the group was
// set back.
func (d *delivery) take(id storage.StreamID) error {
	former, found, err := d.group.Pending(id)
	if err != nil {
		return err
	}
	p := storage.Pending{Entry: id, PendingState: layout.PendingState{DeliveredMs: d.Now, Deliveries: 1}}
	was := &former
	if !found {
		was = nil
	}
	if err := d.group.Deliver(&p, d.consumer, was); err != nil {
		return err
	}
	d.taken.add(d.Invocation, &p)
	return nil
}

// replyHistory replies what is pending for the consumer, and counts that it was delivered once
// more.
func (d *delivery) replyHistory() error {
	replyStreamKey(d.Invocation, d.key)
	reply, entries := d.Reply.BeginArray(), 0
	from, _ := d.behind.Next()
	err := d.group.Walk(from, layout.LastStreamID, d.consumer, func(p *storage.Pending) (bool, error) {
		entries++
		fields, found, err := d.Entry(p.Entry)
		if err != nil {
			return false, err
		}
		if !found {
			d.Reply.Array(2)
			replyStreamID(d.Invocation, p.Entry)
			d.Reply.NullArray()
			return int64(entries) != d.count, nil
		}
		replyEntry(d.Invocation, p.Entry, fields)
		d.delivered++
		former := *p
		p.DeliveredMs = d.Now
		p.CountDelivery()
		if err := d.group.Deliver(p, d.consumer, &former); err != nil {
			return false, err
		}
		d.taken.add(d.Invocation, p)
		return int64(entries) != d.count, nil
	})
	d.Reply.EndArray(reply, entries)
	return err
}
