package command

import (
	"slices"

	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func streamFamily() Family {
	rows := slices.Concat(streamEntryCommands(), streamReferenceCommands(), streamReadCommands(), streamGroupCommands(), streamInfoCommands())
	return Family{Commands: rows, Errors: map[error]string{
		storage.ErrStreamOrder: string(errStreamOrder),
		storage.ErrStreamSize:  "ERR Elements are too large to be stored",
	}}
}

func streamEntryCommands() []Command {
	const trimming = "<MAXLEN | MINID> [= | ~] threshold [LIMIT count]"
	return []Command{
		{Name: "xadd", Arity: -5, Flags: Write | DenyOOM | Fast, Categories: CategoryStream,
			Keys: []KeySpec{{Flags: RW | Update, Index: 1, Step: 1, Notes: "UPDATE instead of INSERT because of the optional trimming feature"}},
			Tips: []string{"nondeterministic_output"}, Run: cmdXAdd,
			Group: "stream", Since: "5.0.0", Complexity: "O(1) when adding; O(N) where N is the number of entries that are trimmed",
			Syntax:  "key [NOMKSTREAM] " + referenceOptions + " [" + trimming + "] <* | id> field value [field value ...]",
			Summary: "Adds an entry to a stream, and makes it if it is missing."},
		{Name: "xlen", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdXLen,
			Group: "stream", Since: "5.0.0", Complexity: "O(1)", Syntax: "key", Summary: "Returns the number of entries of a stream."},
		{Name: "xrange", Arity: -4, Flags: ReadOnly, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: func(c *Invocation) error { return rangeEntries(c, c.Args[2], c.Args[3], false) },
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of entries returned", Syntax: "key start:string end:string [COUNT count]",
			Summary: "Returns the entries of a stream between two ids."},
		{Name: "xrevrange", Arity: -4, Flags: ReadOnly, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: func(c *Invocation) error { return rangeEntries(c, c.Args[3], c.Args[2], true) },
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of entries returned", Syntax: "key end:string start:string [COUNT count]",
			Summary: "Returns the entries of a stream between two ids, the last one first."},
		{Name: "xdel", Arity: -3, Flags: Write | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Run: cmdXDel,
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of entries removed", Syntax: "key id [id ...]",
			Summary: "Removes entries of a stream."},
		{Name: "xtrim", Arity: -4, Flags: Write, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Tips: []string{"nondeterministic_output"}, Run: cmdXTrim,
			Group: "stream", Since: "5.0.0", Complexity: "O(N) where N is the number of nodes that are removed", Syntax: "key " + trimming + " " + referenceOptions,
			Summary: "Removes entries at the beginning of a stream."},
		{Name: "xsetid", Arity: -3, Flags: Write | DenyOOM | Fast, Categories: CategoryStream,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdXSetID,
			Group: "stream", Since: "5.0.0", Complexity: "O(1)", Syntax: "key last-id [ENTRIESADDED entries-added:integer] [MAXDELETEDID max-deleted-id]",
			Summary: "Sets what a stream knows of its past. For internal use."},
	}
}

const errStreamOrder = Error("ERR The ID specified in XADD is equal or smaller than the target stream top item")

// trimOptions are those of XADD and XTRIM.
type trimOptions struct {
	storage.Trim
	referenceOption
	given, limited bool
	noMakeStream   bool
}

// parseTrim reads options up to one that it doesn't know.
func (o *trimOptions) parse(a *arguments, adding bool) {
	for a.more() {
		switch {
		case len(a.words) > 1 && a.flag("MAXLEN"):
			o.strategy(a)
			length := int64(0)
			if word := a.next(); a.err == nil {
				length, a.err = parseInteger(word)
			}
			if length < 0 {
				a.fail(Error("ERR The MAXLEN argument must be >= 0."))
			}
			o.MaxLength = uint64(length)
		case len(a.words) > 1 && a.flag("MINID"):
			o.strategy(a)
			o.ByID = true
			if word := a.next(); a.err == nil {
				o.MinID, a.err = parseStreamID(word, 0)
			}
		case len(a.words) > 1 && a.integer("LIMIT", &o.Limit):
			o.limited = true
			if o.Limit < 0 {
				a.fail(Error("ERR The LIMIT argument must be >= 0."))
			}
		case adding && a.flag("NOMKSTREAM"):
			o.noMakeStream = true
		case o.referenceOption.parse(a):
		default:
			return
		}
	}
}

// strategy reads what may stand before a threshold.
func (o *trimOptions) strategy(a *arguments) {
	if o.given {
		a.fail(Error("ERR syntax error, MAXLEN and MINID options at the same time are not compatible"))
	}
	o.given, o.Approximate = true, false
	if len(a.words) >= 2 && len(a.words[0]) == 1 && (a.words[0][0] == '~' || a.words[0][0] == '=') {
		o.Approximate = a.words[0][0] == '~'
		a.words = a.words[1:]
	}
}

// check refuses options that contradict each other, and limits what is trimmed approximately.
func (o *trimOptions) check(c *Invocation, adding bool) error {
	switch {
	case o.Limit != 0 && !o.given:
		return Error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
	case !adding && !o.given:
		return Error("ERR syntax error, XTRIM must be called with a trimming strategy")
	case c.Applying():
		o.Limit = 0
	case o.limited && !o.Approximate:
		return Error("ERR syntax error, LIMIT cannot be used without the special ~ option")
	case !o.limited && o.Approximate:
		const nodes, least, most = 100, 10_000, 1_000_000
		o.Limit = min(nodes*min(c.Engine.Config.StreamNodeMaxEntries.Get(), most), most)
		if o.Limit <= 0 {
			o.Limit = least
		}
	}
	return nil
}

// approach counts in steps what a trim takes off; others have their turn in between. Trimming is
// one small write afterwards. It is called before anything was changed.
func (o *trimOptions) approach(c *Invocation, s *storage.Stream) error {
	most := c.Txn.CountsAtMost()
	if most == 0 || !c.MayBeUnfinished() {
		return nil
	}
	near, err := s.Approach(&o.Trim, uint64(most))
	if err != nil || near {
		return err
	}
	if err := s.Keep(); err != nil {
		return err
	}
	return c.Unfinished()
}

// effectOfTrim is how many words trimOptions.effect adds.
const effectOfTrim = 3

// effect says how the same is trimmed elsewhere, where nodes may have other borders, and groups
// aren't asked.
func (o *trimOptions) effect(c *Invocation, s *storage.Stream) {
	by := func(strategy []byte) {
		c.EffectWord(strategy)
		c.EffectWord(wordExactly)
	}
	asItIs := o.Approximate || o.References != storage.KeepReferences
	switch {
	case asItIs && (!o.ByID || s.Len() == 0):
		by(wordMaxLen)
		effectInteger(c, int64(s.Len()))
	case asItIs:
		by(wordMinID)
		effectStreamID(c, s.Head().First)
	case o.ByID:
		by(wordMinID)
		effectStreamID(c, o.MinID)
	default:
		by(wordMaxLen)
		effectInteger(c, int64(o.MaxLength))
	}
}

func cmdXAdd(c *Invocation) error {
	var o trimOptions
	a := arguments{words: c.Args[2:]}
	o.parse(&a, true)
	if a.err != nil {
		return a.err
	}
	word := a.next()
	var id storage.StreamID
	var err error
	automatic, open := string(word) == "*", false
	if !automatic && word != nil {
		if id, open, err = readStreamID(word, 0, true); err != nil {
			return err
		}
	}
	if err := o.check(c, true); err != nil {
		return err
	}
	fields := a.words
	if len(fields) < 2 || len(fields)%2 == 1 {
		return execute.WrongArity("xadd")
	}
	if !automatic && !open && id == (storage.StreamID{}) {
		return Error("ERR The ID specified in XADD must be greater than 0-0")
	}
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	if o.noMakeStream && !s.Exists() {
		c.Reply.Null()
		return nil
	}
	if id, err = nextStreamID(c, s, id, automatic, open); err != nil {
		return err
	}
	return addEntry(c, s, id, fields, &o)
}

// nextStreamID completes the id of a new entry.
func nextStreamID(c *Invocation, s *storage.Stream, id storage.StreamID, automatic, open bool) (storage.StreamID, error) {
	last := s.Head().Last
	switch {
	case last == layout.LastStreamID:
		return id, Error("ERR The stream has exhausted the last possible ID, unable to add more items")
	case automatic:
		id, _ = s.NextID(c.Now)
	case open && id.Ms == last.Ms:
		next, _ := last.Next()
		if next.Ms != last.Ms {
			return id, errStreamOrder
		}
		return next, nil
	}
	return id, nil
}

func addEntry(c *Invocation, s *storage.Stream, id storage.StreamID, fields [][]byte, o *trimOptions) error {
	referenced := o.given && o.References != storage.KeepReferences && s.Head().Groups > 0
	if o.given && !referenced {
		if err := o.approach(c, s); err != nil {
			return err
		}
	}
	if err := s.Append(id, fields); err != nil {
		return err
	}
	var text [48]byte
	name := appendStreamID(text[:0], id)
	c.Reply.Bulk(name)
	effect := func() {
		words := 3 + len(fields)
		trimmed := o.given && !referenced
		if trimmed {
			words += effectOfTrim
		}
		c.BeginEffect(words, wordXAdd, c.Args[1])
		if trimmed {
			o.effect(c, s)
		}
		c.EffectNumber(name)
		for _, text := range fields {
			c.EffectWord(text)
		}
	}
	if !o.given {
		effect()
		return s.Save(keyevent.XAdd)
	}
	removed, err := uint64(0), error(nil)
	if referenced {
		effect()
		t := referencedTrim{trimOptions: o}
		err, removed = t.run(c, s), t.removed
	} else {
		removed, err = s.Trim(&o.Trim)
		effect()
	}
	switch {
	case err != nil:
		return err
	case removed > 0:
		return s.Save(keyevent.XAdd, keyevent.XTrim)
	}
	return s.Save(keyevent.XAdd)
}

func cmdXLen(c *Invocation) error {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(s.Len()))
	return nil
}

func rangeEntries(c *Invocation, start, end []byte, reverse bool) error {
	from, to, err := parseInterval(start, end)
	if err != nil {
		return err
	}
	count := int64(-1)
	a := arguments{words: c.Args[4:]}
	for a.more() {
		if len(a.words) < 2 || !a.integer("COUNT", &count) {
			return ErrSyntax
		}
		count = max(count, 0)
	}
	if a.err != nil {
		return a.err
	}
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	if !s.Exists() {
		c.Reply.Array(0)
		return nil
	}
	if count == 0 {
		c.Reply.NullArray()
		return nil
	}
	_, err = replyEntries(c, s, from, to, reverse, count)
	return err
}

// replyEntries replies the entries between two ids, up to a number, or all if that isn't above 0.
func replyEntries(c *Invocation, s *storage.Stream, from, to storage.StreamID, reverse bool, count int64) (entries int, err error) {
	reply := c.Reply.BeginArray()
	err = s.Range(from, to, reverse, func(id storage.StreamID, fields [][]byte) (bool, error) {
		replyEntry(c, id, fields)
		entries++
		return int64(entries) != count, nil
	})
	c.Reply.EndArray(reply, entries)
	return entries, err
}

func cmdXDel(c *Invocation) error {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	if !s.Exists() {
		c.Reply.Integer(0)
		return nil
	}
	ids, err := parseStreamIDs(c.Args[2:])
	if err != nil {
		return err
	}
	deleted, err := s.Delete(ids)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(deleted))
	if deleted == 0 {
		return nil
	}
	return s.Save(keyevent.XDel)
}

func cmdXTrim(c *Invocation) error {
	var o trimOptions
	a := arguments{words: c.Args[2:]}
	o.parse(&a, false)
	if a.err != nil {
		return a.err
	}
	if len(a.words) > 0 {
		return ErrSyntax
	}
	if err := o.check(c, false); err != nil {
		return err
	}
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	removed, err := uint64(0), error(nil)
	switch {
	case o.References == storage.KeepReferences || s.Head().Groups == 0:
		if err := o.approach(c, s); err != nil {
			return err
		}
		if removed, err = s.Trim(&o.Trim); removed > 0 {
			c.BeginEffect(2+effectOfTrim, wordXTrim, c.Args[1])
			o.effect(c, s)
		}
	case c.MayBeUnfinished():
		return (&referencedTrim{trimOptions: &o}).runInSteps(c)
	default:
		t := referencedTrim{trimOptions: &o}
		err, removed = t.run(c, s), t.removed
	}
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(removed))
	if removed == 0 {
		return nil
	}
	return s.Save(keyevent.XTrim)
}

func cmdXSetID(c *Invocation) error {
	id, err := parseStreamID(c.Args[2], 0)
	if err != nil {
		return err
	}
	added := int64(-1)
	var deleted storage.StreamID
	a := arguments{words: c.Args[3:]}
	for a.more() {
		var word []byte
		switch {
		case len(a.words) > 1 && a.integer("ENTRIESADDED", &added):
			if a.err == nil && added < 0 {
				a.fail(Error("ERR entries_added must be positive"))
			}
		case len(a.words) > 1 && a.option("MAXDELETEDID", &word):
			if deleted, err = parseStreamID(word, 0); err != nil {
				a.fail(err)
			} else if id.Less(deleted) {
				a.fail(Error("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"))
			}
		default:
			a.fail(ErrSyntax)
		}
	}
	if a.err != nil {
		return a.err
	}
	return setStreamID(c, id, added, deleted)
}

func setStreamID(c *Invocation, id storage.StreamID, added int64, deleted storage.StreamID) error {
	s, err := c.DB.Stream(c.Args[1])
	if err != nil {
		return err
	}
	if !s.Exists() {
		return ErrNoSuchKey
	}
	h := s.Head()
	if id.Less(h.Deleted) && !c.Applying() { // since 7.2; what an earlier version has written is repeated
		return Error("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id")
	}
	if err := s.SetLast(id); err == storage.ErrStreamOrder {
		return Error("ERR The ID specified in XSETID is smaller than the target stream top item")
	} else if err != nil {
		return err
	}
	if added != -1 {
		if s.Len() > uint64(added) {
			return Error("ERR The entries_added specified in XSETID is smaller than the target stream length")
		}
		h.Added = uint64(added)
	}
	if deleted != (storage.StreamID{}) {
		h.Deleted = deleted
	}
	c.Reply.OK()
	return s.SaveGroups(keyevent.XSetID)
}
