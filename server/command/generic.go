package command

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"

	"kedis/internal/glob"
	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

const errSameObject = Error("ERR source and destination objects are the same")

func genericFamily() Family {
	return Family{Commands: append(keyCommands(), placeCommands()...)}
}

// keyCommands work on keys whatever they hold.
func keyCommands() []Command {
	return []Command{
		{Name: "del", Arity: -2, Flags: Write, Categories: CategoryKeyspace,
			Keys: []KeySpec{keyRange(1, -1, 1, RM|Delete)}, Run: cmdDel,
			Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
			Group: "generic", Since: "1.0.0", Complexity: "O(N) where N is the number of keys", Syntax: "key [key ...]",
			Summary: "Removes keys, and returns how many there were."},
		{Name: "unlink", Arity: -2, Flags: Write | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{keyRange(1, -1, 1, RM|Delete)}, Run: cmdDel,
			Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
			Group: "generic", Since: "4.0.0", Complexity: "O(N) where N is the number of keys", Syntax: "key [key ...]",
			Summary: "Does what DEL does: elements of large values are given back in the background either way."},
		{Name: "exists", Arity: -2, Flags: ReadOnly | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{keyRange(1, -1, 1, RO)}, Touching: execute.LooksAtKeys, Run: cmdExists,
			Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
			Group: "generic", Since: "1.0.0", Complexity: "O(N) where N is the number of keys", Syntax: "key [key ...]",
			Summary: "Counts the keys that exist; one that is named twice counts twice."},
		{Name: "touch", Arity: -2, Flags: ReadOnly | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{keyRange(1, -1, 1, RO)}, Touching: execute.TouchesAlways, Run: cmdExists,
			Tips:  []string{"request_policy:multi_shard", "response_policy:agg_sum"},
			Group: "generic", Since: "3.2.1", Complexity: "O(N) where N is the number of keys", Syntax: "key [key ...]",
			Summary: "Counts the keys that exist. OBJECT IDLETIME and OBJECT FREQ take it for an access."},
		{Name: "type", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RO)}, Touching: execute.LooksAtKeys, Run: cmdType,
			Group: "generic", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the type of the value that a key holds."},
		{Name: "keys", Arity: 2, Flags: ReadOnly | Walk, Categories: CategoryKeyspace | CategoryDangerous, Run: cmdKeys,
			Tips:  []string{"request_policy:all_shards", "nondeterministic_output_order"},
			Group: "generic", Since: "1.0.0", Complexity: "O(N) where N is the number of keys that begin as the pattern does",
			Syntax: "pattern", Summary: "Returns all keys that match a pattern."},
		{Name: "randomkey", Arity: 1, Flags: ReadOnly, Categories: CategoryKeyspace, Run: cmdRandomKey,
			Tips:  []string{"request_policy:all_shards", "response_policy:special", "nondeterministic_output"},
			Group: "generic", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns some key of the database."},
	}
}

// placeCommands bring values to other keys.
func placeCommands() []Command {
	return []Command{
		{Name: "rename", Arity: 3, Flags: Write, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, OW|Update)},
			Run:  func(c *Invocation) error { return rename(c, false) }, Group: "generic", Since: "1.0.0",
			Complexity: "O(1)", Syntax: "key newkey", Summary: "Renames a key, and takes the place of one that has the new name."},
		{Name: "renamenx", Arity: 3, Flags: Write | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, OW|Insert)},
			Run:  func(c *Invocation) error { return rename(c, true) }, Group: "generic", Since: "1.0.0",
			Complexity: "O(1)", Syntax: "key newkey", Summary: "Renames a key unless there is one with the new name."},
		{Name: "copy", Arity: -3, Flags: Write | DenyOOM, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RO|Access), oneKey(2, OW|Update)}, Run: cmdCopy, Elsewhere: copiesElsewhere,
			Group: "generic", Since: "6.2.0", Complexity: "O(N) where N is the number of elements; O(1) for strings and small collections",
			Syntax: "source destination [DB destination-db] [REPLACE]", Summary: "Copies a value to another key, in the same database or in another."},
		{Name: "move", Arity: 3, Flags: Write | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdMove, Elsewhere: movesElsewhere,
			Group: "generic", Since: "1.0.0", Complexity: "O(N) where N is the number of elements; O(1) for strings and small collections",
			Syntax: "key db", Summary: "Moves a key to another database, unless it is there."},
	}
}

// cmdDel is repeated as the removal of the keys that were there.
func cmdDel(c *Invocation) error {
	removed := 0
	for _, key := range c.Args[1:] {
		gone, err := c.DB.Delete(key)
		if err != nil {
			return err
		}
		if gone {
			removed++
		}
	}
	if removed == 0 {
		c.NoEffect()
	}
	c.Reply.Integer(int64(removed))
	return nil
}

func cmdExists(c *Invocation) error {
	count := int64(0)
	for _, key := range c.Args[1:] {
		k, err := c.DB.Lookup(key)
		if err != nil {
			return err
		}
		if k.Exists {
			count++
		}
	}
	c.Reply.Integer(count)
	return nil
}

func cmdType(c *Invocation) error {
	k, err := c.DB.Lookup(c.Args[1])
	if err == nil {
		c.Reply.SimpleString(storage.TypeOf(k.Type).Name)
	}
	return err
}

func cmdKeys(c *Invocation) error {
	pattern := newMatcher(c, c.Args[1])
	reply, found := c.Reply.BeginArray(), 0
	err := c.DB.KeysBetween(pattern.prefix, layout.Successor(nil, pattern.prefix), func(key []byte, _ *layout.Metadata) bool {
		if pattern.matches(key) {
			c.Reply.Bulk(key)
			found++
		}
		return pattern.err == nil
	})
	c.Reply.EndArray(reply, found)
	return cmp.Or(err, pattern.err)
}

// matcher is a pattern for names; the zero value takes all.
type matcher struct {
	pattern *glob.Pattern
	prefix  []byte // what every name that matches begins with
	txn     *storage.Txn
	err     error // the budget's end
}

// newMatcher prepares a pattern. A single star takes the empty name too, which no other pattern
// with a star does.
func newMatcher(c *Invocation, pattern []byte) matcher {
	if len(pattern) == 1 && pattern[0] == '*' {
		return matcher{}
	}
	compiled := glob.Compile(pattern)
	return matcher{pattern: compiled, prefix: compiled.Prefix(), txn: c.Txn}
}

// matches reports whether a name matches. Once the budget has ended nothing does, and err says so.
func (m *matcher) matches(name []byte) bool {
	if m.pattern == nil {
		return true
	}
	if steps := m.pattern.Steps(len(name)); steps > execute.ManySteps && m.err == nil {
		m.err = m.txn.SpendSteps(steps)
	}
	return m.err == nil && m.pattern.Match(name)
}

func cmdRandomKey(c *Invocation) error {
	key, found, err := c.DB.AnyKey(rand.IntN)
	switch {
	case err != nil:
		return err
	case found:
		c.Reply.Bulk(key)
	default:
		c.Reply.Null()
	}
	return nil
}

// rename gives a key another name; with unlessTaken only if no key has it.
func rename(c *Invocation, unlessTaken bool) error {
	key, name := c.Args[1], c.Args[2]
	k, err := c.DB.Lookup(key)
	if err != nil {
		return err
	}
	if !k.Exists {
		return ErrNoSuchKey
	}
	taken := bytes.Equal(key, name)
	if !taken && unlessTaken {
		target, err := c.DB.Lookup(name)
		if err != nil {
			return err
		}
		taken = target.Exists
	}
	if taken {
		c.NoEffect()
	} else if err := moveKey(c, key, k, name); err != nil {
		return err
	}
	switch {
	case !unlessTaken:
		c.Reply.OK()
	case taken:
		c.Reply.Integer(0)
	default:
		c.Reply.Integer(1)
	}
	return nil
}

// moveKey gives a key another name, and says so.
func moveKey(c *Invocation, key []byte, k storage.Key, name []byte) error {
	err := c.DB.Move(key, k, name)
	c.DB.Notify(keyevent.RenameFrom, key)
	c.DB.Notify(keyevent.RenameTo, name)
	return err
}

// copyOptions are what may stand behind COPY's keys.
type copyOptions struct {
	database int // -1: the selected one
	replace  bool
}

// parseCopyOptions reads them; there are so many databases.
func parseCopyOptions(words [][]byte, databases int) (copyOptions, error) {
	o := copyOptions{database: -1}
	a := arguments{words: words}
	for a.more() {
		var word []byte
		switch {
		case a.flag("REPLACE"):
			o.replace = true
		case a.option("DB", &word):
			if a.err == nil {
				o.database, a.err = parseDatabase(word, databases)
			}
		default:
			a.fail(ErrSyntax)
		}
	}
	return o, a.err
}

// parseDatabase reads the number of a database, of which there are so many.
func parseDatabase(word []byte, databases int) (int, error) {
	n, err := parseInteger(word)
	switch {
	case err != nil:
		return 0, err
	case n > math.MaxInt32 || n < math.MinInt32:
		return 0, Errorf("ERR value is out of range, value must between %d and %d", math.MinInt32, math.MaxInt32)
	case n < 0 || n >= int64(databases):
		return 0, ErrDBIndex
	}
	return int(n), nil
}

func copiesElsewhere(args [][]byte) (key KeyReference, ok bool) {
	o, err := parseCopyOptions(args[3:], math.MaxInt32)
	return execute.KeyElsewhere(2, OW|Update, o.database), err == nil && o.database >= 0
}

func cmdCopy(c *Invocation) error {
	o, err := parseCopyOptions(c.Args[3:], c.Engine.Store.Databases())
	if err != nil {
		return err
	}
	if o.database < 0 {
		o.database = c.DB.Number()
	}
	from, to, target := c.Args[1], c.Args[2], c.InDatabase(o.database)
	if o.database == c.DB.Number() && bytes.Equal(from, to) {
		return errSameObject
	}
	k, err := c.DB.Reading().Lookup(from)
	if err != nil || !k.Exists {
		return answerMoved(c, false, err)
	}
	old, err := target.Lookup(to)
	if err != nil || old.Exists && !o.replace {
		return answerMoved(c, false, err)
	}
	err = c.DB.CopyTo(k, target, to, old)
	target.NotifyReplaced(to, old)
	target.Notify(keyevent.CopyTo, to)
	return answerMoved(c, true, err)
}

func answerMoved(c *Invocation, moved bool, err error) error {
	switch {
	case err != nil:
		return err
	case moved:
		c.Reply.Integer(1)
	default:
		c.NoEffect()
		c.Reply.Integer(0)
	}
	return nil
}

func movesElsewhere(args [][]byte) (key KeyReference, ok bool) {
	database, err := parseDatabase(args[2], math.MaxInt32)
	return execute.KeyElsewhere(1, OW|Insert, database), err == nil
}

func cmdMove(c *Invocation) error {
	database, err := parseDatabase(c.Args[2], c.Engine.Store.Databases())
	switch {
	case err != nil:
		return err
	case database == c.DB.Number():
		return errSameObject
	}
	key, target := c.Args[1], c.InDatabase(database)
	k, err := c.DB.Lookup(key)
	if err != nil || !k.Exists {
		return answerMoved(c, false, err)
	}
	old, err := target.Lookup(key)
	if err != nil || old.Exists {
		return answerMoved(c, false, err)
	}
	err = c.DB.MoveTo(key, k, target)
	c.DB.Notify(keyevent.MoveFrom, key)
	target.Notify(keyevent.MoveTo, key)
	return answerMoved(c, true, err)
}
