package command

import (
	"bytes"

	"kedis/internal/keyevent"
	"kedis/storage"
)

func setFamily() Family {
	return Family{Commands: append(append(setReads(), setWrites()...), setCombinations()...)}
}

func setReads() []Command {
	return []Command{
		{Name: "scard", Arity: 2, Flags: ReadOnly | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdSCard,
			Group: "set", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the number of members of a set."},
		{Name: "sismember", Arity: 3, Flags: ReadOnly | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdSIsMember,
			Group: "set", Since: "1.0.0", Complexity: "O(1)", Syntax: "key member", Prefetch: PrefetchElement,
			Summary: "Tells whether something is a member of a set."},
		{Name: "smismember", Arity: -3, Flags: ReadOnly | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdSMIsMember,
			Group: "set", Since: "6.2.0", Complexity: "O(N) where N is the number of members asked for",
			Syntax: "key member [member ...]", Prefetch: PrefetchElement, Summary: "Tells of several things whether they are members of a set."},
		{Name: "smembers", Arity: 2, Flags: ReadOnly, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output_order"}, Run: cmdSMembers,
			Group: "set", Since: "1.0.0", Complexity: "O(N) where N is the number of members", Syntax: "key",
			Summary: "Returns all members of a set."},
		{Name: "srandmember", Arity: -2, Flags: ReadOnly, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"}, Run: cmdSRandMember,
			Group: "set", Since: "1.0.0", Complexity: "O(N) where N is the number of members returned", Syntax: "key [count]",
			Summary: "Returns members of a set by chance."},
	}
}

func setWrites() []Command {
	return []Command{
		{Name: "sadd", Arity: -3, Flags: Write | DenyOOM | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RW|Insert)}, Run: cmdSAdd,
			Group: "set", Since: "1.0.0", Complexity: "O(N) where N is the number of members added",
			Syntax: "key member [member ...]", Prefetch: PrefetchElement, Summary: "Adds members to a set, and makes it if it is missing."},
		{Name: "srem", Arity: -3, Flags: Write | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Run: cmdSRem,
			Group: "set", Since: "1.0.0", Complexity: "O(N) where N is the number of members removed",
			Syntax: "key member [member ...]", Prefetch: PrefetchElement, Summary: "Removes members of a set, and the set with the last one."},
		{Name: "smove", Arity: 4, Flags: Write | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, RW|Insert)}, Run: cmdSMove,
			Group: "set", Since: "1.0.0", Complexity: "O(1)", Syntax: "source destination member", Prefetch: PrefetchLastElement,
			Summary: "Moves a member from one set to another."},
		{Name: "spop", Arity: -2, Flags: Write | Fast, Categories: CategorySet,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete)}, Tips: []string{"nondeterministic_output"}, Run: cmdSPop,
			Group: "set", Since: "1.0.0", Complexity: "O(N) where N is the number of members returned", Syntax: "key [count]",
			Summary: "Removes members of a set by chance, and returns them."},
	}
}

// setCombinations compute with several sets.
func setCombinations() []Command {
	const complexityOfIntersection = "O(N*M) where N is the size of the smallest set and M the number of sets"
	const complexityOfAll = "O(N) where N is the number of members of all sets"
	return []Command{
		setCombination("sinter", complexityOfIntersection, storage.SetIntersection, "Returns what is in all of several sets."),
		setCombination("sunion", complexityOfAll, storage.SetUnion, "Returns what is in any of several sets."),
		setCombination("sdiff", complexityOfAll, storage.SetDifference, "Returns what is in the first of several sets and in no other."),
		storedSetCombination("sinterstore", RW|Update, complexityOfIntersection, storage.DB.StoreIntersection,
			"Stores what is in all of several sets, as a set."),
		storedSetCombination("sunionstore", OW|Update, complexityOfAll, storage.DB.StoreUnion,
			"Stores what is in any of several sets, as a set."),
		storedSetCombination("sdiffstore", OW|Update, complexityOfAll, storage.DB.StoreDifference,
			"Stores what is in the first of several sets and in no other, as a set."),
		{Name: "sintercard", Arity: -3, Flags: ReadOnly | MovableKeys, Categories: CategorySet,
			Keys: []KeySpec{countedKeys(1, RO|Access)}, Run: cmdSInterCard,
			Group: "set", Since: "7.0.0", Complexity: complexityOfIntersection, Syntax: "numkeys key [key ...] [LIMIT limit]",
			Summary: "Returns how much is in all of several sets."},
	}
}

func setCombination(name, complexity string, combine func(sets []storage.Set, visit func(member []byte) bool) error, summary string) Command {
	return Command{Name: name, Arity: -2, Flags: ReadOnly, Categories: CategorySet,
		Keys: []KeySpec{keyRange(1, -1, 1, RO|Access)}, Tips: []string{"nondeterministic_output_order"},
		Group: "set", Since: "1.0.0", Complexity: complexity, Syntax: "key [key ...]", Summary: summary,
		Run: func(c *Invocation) error {
			sets, err := c.DB.Sets(c.Args[1:])
			if err != nil {
				return err
			}
			members, reply := 0, c.Reply.BeginSet()
			err = combine(sets, func(member []byte) bool {
				c.Reply.Bulk(member)
				members++
				return true
			})
			c.Reply.EndSet(reply, members)
			return err
		}}
}

func storedSetCombination(name string, flags KeyFlags, complexity string,
	combine func(db storage.DB, key []byte, sets []storage.Set) (int, error), summary string) Command {
	return Command{Name: name, Arity: -3, Flags: Write | DenyOOM, Categories: CategorySet,
		Keys:  []KeySpec{oneKey(1, flags), keyRange(2, -1, 1, RO|Access)},
		Group: "set", Since: "1.0.0", Complexity: complexity, Syntax: "destination key [key ...]", Summary: summary,
		Run: func(c *Invocation) error {
			sets, err := c.DB.Reading().Sets(c.Args[2:])
			if err != nil {
				return err
			}
			members, err := combine(c.DB, c.Args[1], sets)
			c.Reply.Integer(int64(members))
			return err
		}}
}

func cmdSInterCard(c *Invocation) error {
	count, err := parseInteger(c.Args[1])
	switch {
	case err != nil || count < 1:
		return Error("ERR numkeys should be greater than 0")
	case count > int64(len(c.Args)-2):
		return Error("ERR Number of keys can't be greater than number of args")
	}
	keys, limit := c.Args[2:2+count], int64(0)
	for a := (arguments{words: c.Args[2+count:]}); len(a.words) > 0; {
		if limit, err = parseLimit(&a); err != nil {
			return err
		}
	}
	sets, err := c.DB.Sets(keys)
	if err != nil {
		return err
	}
	found := int64(0)
	err = storage.SetIntersection(sets, func([]byte) bool {
		found++
		return found != limit
	})
	c.Reply.Integer(found)
	return err
}

// parseLimit reads SINTERCARD's option; 0 is no limit.
func parseLimit(a *arguments) (int64, error) {
	var word []byte
	if len(a.words) == 1 || !a.option("LIMIT", &word) {
		return 0, ErrSyntax
	}
	limit, err := parseInteger(word)
	if err != nil || limit < 0 {
		return 0, Error("ERR LIMIT can't be negative")
	}
	return limit, nil
}

func cmdSCard(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(s.Len()))
	return nil
}

func cmdSIsMember(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	return replyMember(c, &s, c.Args[2])
}

func replyMember(c *Invocation, s *storage.Set, member []byte) error {
	found, err := s.Contains(member)
	if err != nil {
		return err
	}
	replyBit(c, found)
	return nil
}

func cmdSMIsMember(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	members := c.Args[2:]
	c.Reply.Array(len(members))
	for _, member := range members {
		if err := replyMember(c, &s, member); err != nil {
			return err
		}
	}
	return nil
}

func cmdSMembers(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Set(s.Len())
	return s.All(func(member []byte) bool {
		c.Reply.Bulk(member)
		return true
	})
}

func cmdSRandMember(c *Invocation) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	count := int64(1)
	if len(c.Args) == 3 {
		var err error
		if count, err = parseSampleCount(c.Args[2]); err != nil {
			return err
		}
	}
	s, err := c.DB.Set(c.Args[1])
	switch {
	case err != nil:
		return err
	case !s.Exists() && len(c.Args) == 2:
		c.Reply.Null()
		return nil
	case !s.Exists():
		c.Reply.Array(0)
		return nil
	case len(c.Args) == 3:
		return replyRandomMembers(c, s, count)
	}
	member, err := s.Random()
	if err != nil {
		return err
	}
	c.Reply.Bulk(member)
	return nil
}

func replyRandomMembers(c *Invocation, s storage.Set, count int64) error {
	n, repeated := sampleSize(count, s.Len())
	pick := s.RandomDistinct
	if repeated {
		pick = s.RandomRepeated
	}
	limit := newSampleLimit(c, repeated)
	c.Reply.Array(n)
	err := pick(uint64(n), func(member []byte) bool {
		c.Reply.Bulk(member)
		return limit.within(c.Reply.Len())
	})
	return limit.check(err)
}

func cmdSAdd(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	members := c.Args[2:]
	s.Expect(len(members))
	return changeMembers(c, &s, keyevent.SAdd, s.Add)
}

func cmdSRem(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	return changeMembers(c, &s, keyevent.SRem, s.Remove)
}

// changeMembers applies a change to each member that the command names, and replies how many it
// changed.
func changeMembers(c *Invocation, s *storage.Set, name keyevent.Name, change func(member []byte) (bool, error)) error {
	changed := int64(0)
	for _, member := range c.Args[2:] {
		did, err := change(member)
		if err != nil {
			return err
		}
		if did {
			changed++
		}
	}
	c.Reply.Integer(changed)
	if changed == 0 {
		return nil
	}
	return s.Save(name)
}

func cmdSMove(c *Invocation) error {
	source, destination, member := c.Args[1], c.Args[2], c.Args[3]
	from, err := c.DB.Set(source)
	if err != nil {
		return err
	}
	if !from.Exists() {
		c.Reply.Integer(0)
		return nil
	}
	to, err := c.DB.Set(destination)
	if err != nil {
		return err
	}
	if bytes.Equal(source, destination) {
		return replyMember(c, &from, member)
	}
	found, err := from.Remove(member)
	if err != nil {
		return err
	}
	replyBit(c, found)
	if !found {
		return nil
	}
	if err := from.Save(keyevent.SRem); err != nil {
		return err
	}
	added, err := to.Add(member)
	if err != nil || !added {
		return err
	}
	return to.Save(keyevent.SAdd)
}

func cmdSPop(c *Invocation) error {
	switch len(c.Args) {
	case 2:
		return popMember(c)
	case 3:
		count, err := parsePositive(c.Args[2])
		if err != nil {
			return err
		}
		return popMembers(c, count)
	}
	return ErrSyntax
}

func popMember(c *Invocation) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	if !s.Exists() {
		c.Reply.Null()
		return nil
	}
	member, err := s.PopOne()
	if err != nil {
		return err
	}
	c.Reply.Bulk(member)
	c.Effect(wordSRem, c.Args[1], member)
	return s.Save(keyevent.SPop)
}

func popMembers(c *Invocation, count int64) error {
	s, err := c.DB.Set(c.Args[1])
	if err != nil {
		return err
	}
	count = min(count, int64(s.Len()))
	c.Reply.Set(int(count))
	if count == 0 {
		return nil
	}
	popped, err := s.Pop(int(count))
	if err != nil {
		return err
	}
	for _, member := range popped {
		c.Reply.Bulk(member)
	}
	removalEffects(c, &s, popped)
	return s.Save(keyevent.SPop)
}

// removalSize is how many members one command in the log removes at most.
const removalSize = 1024

// removalEffects say which members chance has removed.
func removalEffects(c *Invocation, s *storage.Set, removed [][]byte) {
	if s.Len() == 0 {
		c.Effect(wordDel, c.Args[1])
		return
	}
	words := make([][]byte, 0, 2+min(len(removed), removalSize))
	for len(removed) > 0 {
		n := min(len(removed), removalSize)
		words = append(append(words[:0], wordSRem, c.Args[1]), removed[:n]...)
		c.Effect(words...)
		removed = removed[n:]
	}
}

var wordSRem = []byte("SREM")
