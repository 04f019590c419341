package command

import (
	"bytes"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage"
)

// zsetPopCommands take members off an end.
func zsetPopCommands() []Command {
	return []Command{
		zsetPop("zpopmin", false, "Removes the members with the lowest scores and returns them."),
		zsetPop("zpopmax", true, "Removes the members with the highest scores and returns them."),
		{Name: "zmpop", Arity: -4, Flags: Write | MovableKeys, Categories: CategorySortedSet, Run: cmdZMPop,
			Keys: []KeySpec{countedKeys(1, RW|Access|Delete)}, Group: "sorted-set", Since: "7.0.0",
			Complexity: "O(K) + O(M*log(N)), K being the number of keys and M of members returned",
			Syntax:     "numkeys key [key ...] <MIN | MAX> [COUNT count]",
			Summary:    "Removes members from the first sorted set that has any, and returns them with its key."},
	}
}

func zsetPop(name string, highest bool, summary string) Command {
	return Command{Name: name, Arity: -2, Flags: Write | Fast, Categories: CategorySortedSet,
		Keys: []KeySpec{oneKey(1, RW|Access|Delete)}, Group: "sorted-set", Since: "5.0.0",
		Complexity: "O(log(N)*M), N being the number of members and M of those returned",
		Syntax:     "key [count]", Summary: summary,
		Run: func(c *Invocation) error { return popScored(c, highest) }}
}

type scoredMember struct {
	member []byte
	score  float64
}

// popScored replies with what it takes off an end.
func popScored(c *Invocation, highest bool) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	count, counted := int64(1), len(c.Args) == 3
	if counted {
		var err error
		if count, err = parsePositive(c.Args[2]); err != nil {
			return err
		}
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	popped, err := popEnd(&z, highest, count)
	if err != nil {
		return err
	}
	if !counted {
		replyFlat(c, popped)
	} else {
		out := newScoredReply(c, len(popped), true)
		for _, p := range popped {
			out.add(p.member, p.score)
		}
	}
	if len(popped) == 0 {
		return nil
	}
	return z.Save(zsetPopped(highest))
}

// zsetPopped is the event of an end of a sorted set.
func zsetPopped(highest bool) keyevent.Name {
	if highest {
		return keyevent.ZPopMax
	}
	return keyevent.ZPopMin
}

// replyFlat replies with members and scores in one array, in either protocol.
func replyFlat(c *Invocation, members []scoredMember) {
	c.Reply.Array(2 * len(members))
	for _, m := range members {
		c.Reply.Bulk(m.member)
		c.Reply.Double(m.score)
	}
}

// popEnd takes up to count members off an end.
func popEnd(z *storage.ZSet, highest bool, count int64) ([]scoredMember, error) {
	if count = min(count, int64(z.Len())); count == 0 {
		return nil, nil
	}
	popped := make([]scoredMember, 0, min(count, 16))
	err := z.ByRank(0, int(count), highest, func(member []byte, score float64) bool {
		popped = append(popped, scoredMember{bytes.Clone(member), score})
		return true
	})
	if err != nil {
		return nil, err
	}
	return popped, removeScored(z, popped)
}

func removeScored(z *storage.ZSet, members []scoredMember) error {
	for _, m := range members {
		if err := z.Remove(m.member, m.score); err != nil {
			return err
		}
	}
	return nil
}

func cmdZMPop(c *Invocation) error {
	keys, rest, err := parseKeyCount(c.Args[1:])
	if err != nil {
		return err
	}
	a := arguments{words: rest}
	highest := a.flag("MAX")
	if !highest && !a.flag("MIN") {
		return ErrSyntax
	}
	count, err := parseCountOption(&a)
	if err != nil {
		return err
	}
	for _, key := range keys {
		z, err := c.DB.ZSet(key)
		if err != nil {
			return err
		}
		if z.Exists() {
			return popFromZSet(c, &z, key, highest, count)
		}
	}
	c.Reply.NullArray()
	return nil
}

func popFromZSet(c *Invocation, z *storage.ZSet, key []byte, highest bool, count int64) error {
	popped, err := popEnd(z, highest, count)
	if err != nil {
		return err
	}
	c.Reply.Array(2)
	c.Reply.Bulk(key)
	c.Reply.Array(len(popped))
	for _, p := range popped {
		c.Reply.Array(2)
		c.Reply.Bulk(p.member)
		c.Reply.Double(p.score)
	}
	c.Effect(zsetPopName(highest), key, number.AppendInt(nil, int64(len(popped))))
	return z.Save(zsetPopped(highest))
}

// zsetPopName is the command that takes members off an end.
func zsetPopName(highest bool) []byte {
	if highest {
		return wordZPopMax
	}
	return wordZPopMin
}

var wordZPopMin, wordZPopMax = []byte("ZPOPMIN"), []byte("ZPOPMAX")
