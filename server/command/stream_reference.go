package command

import (
	"cmp"
	"errors"

	"kedis/internal/keyevent"
	"kedis/storage"
)

// What Redis 8.2 added to the deletion of entries: what becomes of what groups know of them. A
// replica is told in older words: XDEL and XACK.

const referenceOptions = "[KEEPREF | DELREF | ACKED]"

func streamReferenceCommands() []Command {
	return []Command{
		{Name: "xdelex", Arity: -5, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Run: cmdXDelEx,
			Group: "stream", Since: "8.2.0", Complexity: "O(N) where N is the number of ids, for each group with DELREF and ACKED",
			Syntax: "key " + referenceOptions + " IDS numids:integer id [id ...]", Summary: "Removes entries of a stream, and what groups know of them, or only those that no group needs."},
		{Name: "xackdel", Arity: -6, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Update|Delete)}, Run: cmdXAckDel,
			Group: "stream", Since: "8.2.0", Complexity: "O(N) where N is the number of ids, for each group with DELREF and ACKED",
			Syntax:  "key group " + referenceOptions + " IDS numids:integer id [id ...]",
			Summary: "Says that entries which were delivered to a group are done with, and removes them, or only those that no other group needs."},
	}
}

var referenceWords = [...]string{storage.KeepReferences: "KEEPREF", storage.DropReferences: "DELREF", storage.Acknowledged: "ACKED"}

// referenceOption is the word among them that was given, if any.
type referenceOption struct {
	storage.References
	given bool
}

// parse consumes one of the words, unless one was given.
func (o *referenceOption) parse(a *arguments) bool {
	for i, word := range referenceWords {
		if !o.given && a.flag(word) {
			o.References, o.given = storage.References(i), true
			return true
		}
	}
	return false
}

// referenceRequest is what XDELEX and XACKDEL were asked to do.
type referenceRequest struct {
	referenceOption
	words [][]byte // the ids
}

func parseReferenceRequest(words [][]byte) (r referenceRequest, err error) {
	a := arguments{words: words}
	for a.more() {
		switch {
		case r.referenceOption.parse(&a):
		case len(a.words) > 1 && a.flag("IDS"):
			count, err := parseInteger(a.next())
			if err != nil || count < 1 {
				return r, Error("ERR Number of IDs must be a positive integer")
			}
			if count > int64(len(a.words)) {
				return r, Error("ERR The `numids` parameter must match the number of arguments")
			}
			r.words, a.words = a.words[:count], a.words[count:]
		default:
			a.fail(ErrSyntax)
		}
	}
	if a.err == nil && r.words == nil {
		a.fail(Error("ERR IDS option is required"))
	}
	return r, a.err
}

// replyNone replies that there is none of the entries.
func (r *referenceRequest) replyNone(c *Invocation) error {
	c.Reply.Array(len(r.words))
	for range r.words {
		c.Reply.Integer(entryMissing)
	}
	return nil
}

// What is replied of an entry.
const (
	entryMissing = -1
	entryDeleted = 1
	entryNeeded  = 2
)

// deletion deletes entries one by one.
type deletion struct {
	*Invocation
	storage.References
	stream    *storage.Stream
	referrers *storage.Referrers // nil with KEEPREF

	deleted []storage.StreamID
	dropped int // references
}

// take deletes an entry, unless a group needs it, and returns what is replied.
func (d *deletion) take(id storage.StreamID) (int64, error) {
	switch d.References {
	case storage.Acknowledged:
		if needed, err := d.referrers.Need(id); err != nil || needed {
			return entryNeeded, err
		}
	case storage.DropReferences:
		if err := d.drop([]storage.StreamID{id}); err != nil {
			return 0, err
		}
	}
	gone, err := d.stream.Delete([]storage.StreamID{id})
	if err != nil || gone == 0 {
		return entryMissing, err
	}
	d.deleted = append(d.deleted, id)
	return entryDeleted, nil
}

// drop makes entries, which ascend, pending for no group.
func (d *deletion) drop(entries []storage.StreamID) error {
	return d.referrers.Drop(entries, func(g *storage.Group, dropped []storage.StreamID) {
		d.dropped += len(dropped)
		effectIDs(d.Invocation, [][]byte{wordXAck, d.Args[1], g.Name()}, dropped)
	})
}

// finish writes down what was done.
func (d *deletion) finish(changed bool, events ...keyevent.Name) error {
	effectIDs(d.Invocation, [][]byte{wordXDel, d.Args[1]}, d.deleted)
	d.NoEffect()
	if d.referrers != nil {
		if err := d.referrers.Save(); err != nil {
			return err
		}
	}
	if len(d.deleted) > 0 {
		return d.stream.Save(append(events, keyevent.XDel)...)
	}
	if changed || d.dropped > 0 {
		return d.stream.SaveGroups(events...)
	}
	return nil
}

func cmdXDelEx(c *Invocation) error {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	r, err := parseReferenceRequest(c.Args[2:])
	if err != nil {
		return err
	}
	if !s.Exists() {
		return r.replyNone(c)
	}
	ids, err := parseStreamIDs(r.words)
	if err != nil {
		return err
	}
	d := deletion{Invocation: c, References: r.References, stream: s}
	if r.References != storage.KeepReferences {
		if d.referrers, err = s.Referrers(); err != nil {
			return err
		}
	}
	c.Reply.Array(len(ids))
	for _, id := range ids {
		result, err := d.take(id)
		if err != nil {
			return err
		}
		c.Reply.Integer(result)
	}
	return d.finish(false)
}

func cmdXAckDel(c *Invocation) error {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	r, err := parseReferenceRequest(c.Args[3:])
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
		return r.replyNone(c)
	}
	ids, err := parseStreamIDs(r.words)
	if err != nil {
		return err
	}
	d := deletion{Invocation: c, References: r.References, stream: s}
	if r.References != storage.KeepReferences {
		if d.referrers, err = s.Referrers(g); err != nil {
			return err
		}
	}
	return d.acknowledge(g, ids)
}

// acknowledge acknowledges entries that are pending for a group, and deletes them.
func (d *deletion) acknowledge(g *storage.Group, ids []storage.StreamID) error {
	var acknowledged []storage.StreamID
	d.Reply.Array(len(ids))
	for _, id := range ids {
		p, pending, err := g.Pending(id)
		if err != nil {
			return err
		}
		result := int64(entryMissing)
		if pending {
			if err := g.Acknowledge(&p); err != nil {
				return err
			}
			acknowledged = append(acknowledged, id)
			if result, err = d.take(id); err != nil {
				return err
			}
			if result == entryMissing { // it is gone already
				result = entryDeleted
			}
		}
		d.Reply.Integer(result)
	}
	if len(acknowledged) == 0 {
		d.NoEffect()
		return nil
	}
	effectIDs(d.Invocation, [][]byte{wordXAck, d.Args[1], g.Name()}, acknowledged)
	if err := g.MoveFrom(); err != nil {
		return err
	}
	if err := g.Save(); err != nil {
		return err
	}
	return d.finish(true)
}

// referencedTrim trims a stream with what its groups know of entries in view, a part at a time.
type referencedTrim struct {
	*trimOptions
	removed uint64
	between bool             // ACKED has come to what stands behind the first entry that a group needs
	next    storage.StreamID // there
}

// trimmedAtOnce is how many entries a part looks at, for all groups together, and trimmedAtLeast
// for many groups.
const trimmedAtOnce, trimmedAtLeast = 1024, 64

// part does a part; more is false when nothing is left to do.
func (t *referencedTrim) part(c *Invocation, s *storage.Stream) (more bool, err error) {
	d := deletion{Invocation: c, References: t.References, stream: s}
	if d.referrers, err = s.Referrers(); err != nil {
		return false, err
	}
	most := max(trimmedAtOnce/(1+d.referrers.Groups()), trimmedAtLeast)
	if t.between {
		return t.partBetween(&d, most)
	}
	o, before := t.Trim, storage.StreamID{}
	if t.Limit > 0 {
		if o.Limit -= int64(t.removed); o.Limit <= 0 {
			return false, nil
		}
	}
	if t.References == storage.Acknowledged {
		if before, err = d.referrers.FirstNeeded(); err != nil {
			return false, err
		}
	}
	removed, err := s.TrimPart(&o, before, most)
	if err != nil {
		return false, err
	}
	if len(removed) == 0 {
		t.between = t.References == storage.Acknowledged
		return t.between, nil
	}
	t.removed += uint64(len(removed))
	c.BeginEffect(2+effectOfTrim, wordXTrim, c.Args[1])
	t.effect(c, s)
	if t.References == storage.DropReferences {
		if err := d.drop(removed); err != nil {
			return false, err
		}
	}
	return true, d.referrers.Save()
}

func (t *referencedTrim) partBetween(d *deletion, most int) (more bool, err error) {
	var removed []storage.StreamID
	removed, t.next, more, err = d.stream.TrimBetween(&t.Trim, d.referrers, t.next, most)
	t.removed += uint64(len(removed))
	effectIDs(d.Invocation, [][]byte{wordXDel, d.Args[1]}, removed)
	return more, err
}

// run does all parts within the transaction that runs.
func (t *referencedTrim) run(c *Invocation, s *storage.Stream) error {
	for {
		more, err := t.part(c, s)
		if err != nil || !more {
			return err
		}
		if c.OnReactor() && !c.Nested() {
			return c.Offload()
		}
	}
}

// runInSteps does each part in a transaction of its own: others have their turn in between.
func (t *referencedTrim) runInSteps(c *Invocation) error {
	for more := true; more; {
		err := c.Step([][]byte{c.Args[1]}, true, func(db storage.DB) error {
			s, err := db.Stream(c.Args[1])
			if errors.Is(err, storage.ErrWrongType) && t.removed > 0 { // it is something else by now
				more = false
				return nil
			}
			if err == nil {
				before := t.removed
				if more, err = t.part(c, s); t.removed > before {
					err = cmp.Or(err, s.Save(keyevent.XTrim))
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	c.NoEffect()
	c.Reply.Integer(int64(t.removed))
	return nil
}
