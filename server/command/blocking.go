package command

import (
	"math"
	"time"

	"kedis/internal/number"
	"kedis/internal/resp"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

// blockingFamily has the commands that wait for an element when there is none.
func blockingFamily() Family {
	return Family{Commands: []Command{
		blockingPop("blpop", true, "Removes the head of the first list that has any, or waits for one."),
		blockingPop("brpop", false, "Removes the tail of the first list that has any, or waits for one."),
		{Name: "blmove", Arity: 6, Flags: Write | DenyOOM | Blocking, Categories: CategoryList, Run: cmdBLMove,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, RW|Insert)}, Group: "list", Since: "6.2.0", Complexity: "O(1)",
			Syntax:  "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout:double",
			Summary: "Moves an element from one end of a list to one of another, or waits for one."},
		{Name: "brpoplpush", Arity: 4, Flags: Write | DenyOOM | Blocking, Categories: CategoryList, Run: cmdBRPopLPush,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, RW|Insert)}, Group: "list", Since: "2.2.0", Complexity: "O(1)",
			Syntax: "source destination timeout:double", Summary: "Moves the tail of a list to the head of another, or waits for one."},
		{Name: "blmpop", Arity: -5, Flags: Write | Blocking | MovableKeys, Categories: CategoryList, Run: cmdBLMPop,
			Keys: []KeySpec{countedKeys(2, RW|Access|Delete)}, Group: "list", Since: "7.0.0",
			Complexity: "O(N+M), N being the number of keys and M of elements returned",
			Syntax:     "timeout:double numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
			Summary:    "Removes elements from the first list that has any, or waits for one."},
		blockingZSetPop("bzpopmin", false, "Removes the member with the lowest score from the first sorted set that has any, or waits for one."),
		blockingZSetPop("bzpopmax", true, "Removes the member with the highest score from the first sorted set that has any, or waits for one."),
		{Name: "bzmpop", Arity: -5, Flags: Write | Blocking | MovableKeys, Categories: CategorySortedSet, Run: cmdBZMPop,
			Keys: []KeySpec{countedKeys(2, RW|Access|Delete)}, Group: "sorted-set", Since: "7.0.0",
			Complexity: "O(K) + O(M*log(N)), K being the number of keys and M of members returned",
			Syntax:     "timeout:double numkeys key [key ...] <MIN | MAX> [COUNT count]",
			Summary:    "Removes members from the first sorted set that has any, or waits for one."},
	}}
}

func blockingPop(name string, left bool, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: Write | Blocking, Categories: CategoryList,
		Keys: []KeySpec{keyRange(1, -2, 1, RW|Access|Delete)}, Group: "list", Since: "2.0.0",
		Complexity: "O(N), N being the number of keys", Syntax: "key [key ...] timeout:double", Summary: summary,
		Run: func(c *Invocation) error { return cmdBlockingPop(c, left) }}
}

func blockingZSetPop(name string, highest bool, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: Write | Blocking | Fast, Categories: CategorySortedSet,
		Keys: []KeySpec{keyRange(1, -2, 1, RW|Access|Delete)}, Group: "sorted-set", Since: "5.0.0",
		Complexity: "O(log(N)), N being the number of members", Syntax: "key [key ...] timeout:double", Summary: summary,
		Run: func(c *Invocation) error { return cmdBlockingZSetPop(c, highest) }}
}

// parseSeconds reads a timeout in seconds, which may have a fraction. The time is rounded up to
// milliseconds; 0 is for ever.
func parseSeconds(word []byte) (time.Duration, error) {
	if n, ok := number.ParseInt(word); ok && n >= 0 && n < math.MaxInt32 {
		return time.Duration(n) * time.Second, nil
	}
	if _, ok := number.ParseLongDouble(word); !ok {
		return 0, Error("ERR timeout is not a float or out of range")
	}
	seconds, ok := number.ParseDouble(word) // too large is infinity, too small 0
	if !ok && seconds == 0 {
		seconds = math.SmallestNonzeroFloat64
	}
	milliseconds := math.Ceil(seconds * 1000)
	switch {
	case milliseconds > math.MaxInt64:
		return 0, Error("ERR timeout is out of range")
	case milliseconds < 0:
		return 0, errNegative
	case milliseconds > math.MaxInt64/float64(time.Millisecond):
		return math.MaxInt64, nil // some three hundred years
	}
	return time.Duration(milliseconds) * time.Millisecond, nil
}

// taking is how a command takes an element from a key that can have one.
type taking struct {
	kind    layout.Type
	keys    [][]byte
	timeout time.Duration
	// take takes from a key, replies, and says how that is repeated. It returns false when the key
	// has nothing.
	take    func(c *Invocation, key []byte) (taken bool, err error)
	nothing execute.Answer // the reply when there is nothing, and no waiting
}

// takeOrWait takes from the first key that has something, or waits for one. Who waits has written
// nothing: that keys which have expired are gone is committed before.
func takeOrWait(c *Invocation, t taking) error {
	var savepoint storage.Savepoint
	c.Txn.Mark(&savepoint)
	for _, key := range t.keys {
		if taken, err := t.take(c, key); taken || err != nil {
			return err
		}
	}
	if !c.MayBlock() {
		t.nothing(c.Reply)
		return nil
	}
	if c.Txn.Written(&savepoint) > 0 && c.MayKeep() {
		return c.Keep()
	}
	c.Txn.Rollback(&savepoint)
	blocked := &execute.Blocked{Expired: replyNullArray}
	if t.timeout > 0 {
		blocked.Deadline = c.Engine.After(t.timeout)
	}
	return c.BlockForKeys(blocked, execute.WaitForKeys{Type: t.kind, Keys: t.keys, Serve: t.take})
}

func replyNullArray(reply *resp.Writer) { reply.NullArray() }
func replyNull(reply *resp.Writer)      { reply.Null() }

func cmdBlockingPop(c *Invocation, left bool) error {
	last := len(c.Args) - 1
	timeout, err := parseSeconds(c.Args[last])
	if err != nil {
		return err
	}
	return takeOrWait(c, taking{kind: layout.List, keys: c.Args[1:last], timeout: timeout, nothing: replyNullArray,
		take: func(c *Invocation, key []byte) (bool, error) {
			l, err := c.DB.List(key)
			if err != nil || !l.Exists() {
				return false, err
			}
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			if err := l.Pop(left, 1, c.Reply.Bulk); err != nil {
				return false, err
			}
			c.Effect(popName(left), key)
			return true, l.Save(popped(left))
		}})
}

// popName is the command that takes an element off an end.
func popName(left bool) []byte {
	if left {
		return wordLPop
	}
	return wordRPop
}

func cmdBRPopLPush(c *Invocation) error {
	timeout, err := parseSeconds(c.Args[3])
	if err != nil {
		return err
	}
	return moveOrWait(c, timeout, false, true, wordRPopLPush)
}

func cmdBLMove(c *Invocation) error {
	fromLeft, err := parseEnd(c.Args[3])
	if err != nil {
		return err
	}
	toLeft, err := parseEnd(c.Args[4])
	if err != nil {
		return err
	}
	timeout, err := parseSeconds(c.Args[5])
	if err != nil {
		return err
	}
	return moveOrWait(c, timeout, fromLeft, toLeft, wordLMove, c.Args[3], c.Args[4])
}

var wordLMove, wordRPopLPush = []byte("LMOVE"), []byte("RPOPLPUSH")

// moveOrWait moves an element, or waits for one. It is repeated as a command that doesn't wait.
func moveOrWait(c *Invocation, timeout time.Duration, fromLeft, toLeft bool, name []byte, ends ...[]byte) error {
	return takeOrWait(c, taking{kind: layout.List, keys: c.Args[1:2], timeout: timeout, nothing: replyNull,
		take: func(c *Invocation, key []byte) (bool, error) {
			source, err := c.DB.List(key)
			if err != nil || !source.Exists() {
				return false, err
			}
			if err := c.LockKey(c.Session.Database, c.Args[2]); err != nil {
				return false, err
			}
			if err := moveElement(c, fromLeft, toLeft); err != nil {
				return false, err
			}
			c.Effect(append([][]byte{name, key, c.Args[2]}, ends...)...)
			return true, nil
		}})
}

func cmdBLMPop(c *Invocation) error {
	keys, rest, err := parseKeyCount(c.Args[2:])
	if err != nil {
		return err
	}
	a := arguments{words: rest}
	left, err := parseEnd(a.next())
	if err != nil {
		return err
	}
	count, err := parseCountOption(&a)
	if err != nil {
		return err
	}
	timeout, err := parseSeconds(c.Args[1])
	if err != nil {
		return err
	}
	return takeOrWait(c, taking{kind: layout.List, keys: keys, timeout: timeout, nothing: replyNullArray,
		take: func(c *Invocation, key []byte) (bool, error) {
			l, err := c.DB.List(key)
			if err != nil || !l.Exists() {
				return false, err
			}
			return true, popFrom(c, &l, key, left, count)
		}})
}

func cmdBlockingZSetPop(c *Invocation, highest bool) error {
	last := len(c.Args) - 1
	timeout, err := parseSeconds(c.Args[last])
	if err != nil {
		return err
	}
	return takeOrWait(c, taking{kind: layout.ZSet, keys: c.Args[1:last], timeout: timeout, nothing: replyNullArray,
		take: func(c *Invocation, key []byte) (bool, error) {
			z, err := c.DB.ZSet(key)
			if err != nil || !z.Exists() {
				return false, err
			}
			popped, err := popEnd(&z, highest, 1)
			if err != nil {
				return false, err
			}
			c.Reply.Array(3)
			c.Reply.Bulk(key)
			c.Reply.Bulk(popped[0].member)
			c.Reply.Double(popped[0].score)
			c.Effect(zsetPopName(highest), key)
			return true, z.Save(zsetPopped(highest))
		}})
}

func cmdBZMPop(c *Invocation) error {
	keys, rest, err := parseKeyCount(c.Args[2:])
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
	timeout, err := parseSeconds(c.Args[1])
	if err != nil {
		return err
	}
	return takeOrWait(c, taking{kind: layout.ZSet, keys: keys, timeout: timeout, nothing: replyNullArray,
		take: func(c *Invocation, key []byte) (bool, error) {
			z, err := c.DB.ZSet(key)
			if err != nil || !z.Exists() {
				return false, err
			}
			return true, popFromZSet(c, &z, key, highest, count)
		}})
}
