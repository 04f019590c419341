package command

import (
	"math"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
)

func listFamily() Family {
	return Family{Commands: append(listEndCommands(), listIndexCommands()...)}
}

// listEndCommands work at the ends of lists.
func listEndCommands() []Command {
	return []Command{
		listPush("lpush", "1.0.0", true, false, "Adds elements at the head of a list, which it creates when needed."),
		listPush("rpush", "1.0.0", false, false, "Adds elements at the tail of a list, which it creates when needed."),
		listPush("lpushx", "2.2.0", true, true, "Adds elements at the head of a list that exists."),
		listPush("rpushx", "2.2.0", false, true, "Adds elements at the tail of a list that exists."),
		listPop("lpop", true, "Removes elements from the head of a list and returns them."),
		listPop("rpop", false, "Removes elements from the tail of a list and returns them."),
		{Name: "rpoplpush", Arity: 3, Flags: Write | DenyOOM, Categories: CategoryList, Run: cmdRPopLPush,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, RW|Insert)}, Group: "list", Since: "1.2.0",
			Complexity: "O(1)", Syntax: "source destination",
			Summary: "Moves the tail of a list to the head of another, and returns it."},
		{Name: "lmove", Arity: 5, Flags: Write | DenyOOM, Categories: CategoryList, Run: cmdLMove,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete), oneKey(2, RW|Insert)}, Group: "list", Since: "6.2.0",
			Complexity: "O(1)", Syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
			Summary: "Moves an element from one end of a list to one of another, and returns it."},
		{Name: "lmpop", Arity: -4, Flags: Write | MovableKeys, Categories: CategoryList, Run: cmdLMPop,
			Keys: []KeySpec{countedKeys(1, RW|Access|Delete)}, Group: "list", Since: "7.0.0",
			Complexity: "O(N+M), N being the number of keys and M the number of elements returned",
			Syntax:     "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
			Summary:    "Removes elements from the first list that has any, and returns them with its key."},
	}
}

// listIndexCommands look at and change elements by their place.
func listIndexCommands() []Command {
	return []Command{
		{Name: "llen", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryList, Run: cmdLLen,
			Keys: []KeySpec{oneKey(1, RO)}, Group: "list", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the length of a list."},
		{Name: "lindex", Arity: 3, Flags: ReadOnly, Categories: CategoryList, Run: cmdLIndex,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "list", Since: "1.0.0", Complexity: "O(1)", Syntax: "key index",
			Summary: "Returns the element at an index of a list."},
		{Name: "lrange", Arity: 4, Flags: ReadOnly, Categories: CategoryList, Run: cmdLRange,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "list", Since: "1.0.0",
			Complexity: "O(N), N being the number of elements returned", Syntax: "key start stop",
			Summary: "Returns the elements of a part of a list."},
		{Name: "lset", Arity: 4, Flags: Write | DenyOOM, Categories: CategoryList, Run: cmdLSet,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "list", Since: "1.0.0",
			Complexity: "O(1), or O(N) to the nearer end where the element doesn't fit into its block", Syntax: "key index element",
			Summary: "Replaces the element at an index of a list."},
		{Name: "linsert", Arity: 5, Flags: Write | DenyOOM, Categories: CategoryList, Run: cmdLInsert,
			Keys: []KeySpec{oneKey(1, RW|Insert)}, Group: "list", Since: "2.2.0",
			Complexity: "O(N), N being the number of elements to look at and to move",
			Syntax:     "key <BEFORE | AFTER> pivot element", Summary: "Inserts an element before or after another one."},
		{Name: "lrem", Arity: 4, Flags: Write, Categories: CategoryList, Run: cmdLRem,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Group: "list", Since: "1.0.0",
			Complexity: "O(N), N being the length of the list", Syntax: "key count element",
			Summary: "Removes elements that equal a value."},
		{Name: "ltrim", Arity: 4, Flags: Write, Categories: CategoryList, Run: cmdLTrim,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Group: "list", Since: "1.0.0",
			Complexity: "O(N), N being the number of elements removed", Syntax: "key start stop",
			Summary: "Removes everything but a part of a list."},
		{Name: "lpos", Arity: -3, Flags: ReadOnly, Categories: CategoryList, Run: cmdLPos,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "list", Since: "6.0.6",
			Complexity: "O(N), N being the number of elements looked at",
			Syntax:     "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
			Summary:    "Returns where in a list elements are that equal a value."},
	}
}

func listPush(name, since string, left, onlyExisting bool, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: Write | DenyOOM | Fast, Categories: CategoryList,
		Keys: []KeySpec{oneKey(1, RW|Insert)}, Group: "list", Since: since,
		Complexity: "O(N), N being the number of elements added", Syntax: "key element [element ...]", Summary: summary,
		Run: func(c *Invocation) error {
			l, err := c.DB.List(c.Args[1])
			if err != nil {
				return err
			}
			if onlyExisting && !l.Exists() {
				c.Reply.Integer(0)
				return nil
			}
			if err := l.Push(left, c.Args[2:]); err != nil {
				return err
			}
			c.Reply.Integer(int64(l.Len()))
			return l.Save(pushed(left))
		}}
}

func listPop(name string, left bool, summary string) Command {
	end := PrefetchRight
	if left {
		end = PrefetchLeft
	}
	return Command{Name: name, Arity: -2, Flags: Write | Fast, Categories: CategoryList,
		Keys: []KeySpec{oneKey(1, RW|Access|Delete)}, Group: "list", Since: "1.0.0",
		Complexity: "O(N), N being the number of elements returned", Syntax: "key [count]", Prefetch: end, Summary: summary,
		Run: func(c *Invocation) error { return popList(c, left) }}
}

func popList(c *Invocation, left bool) error {
	if len(c.Args) > 3 {
		return execute.WrongArity(c.Command.FullName())
	}
	count, counted := int64(1), len(c.Args) == 3
	if counted {
		var err error
		if count, err = parsePositive(c.Args[2]); err != nil {
			return err
		}
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	switch {
	case !l.Exists() && counted:
		c.Reply.NullArray()
		return nil
	case !l.Exists():
		c.Reply.Null()
		return nil
	case count == 0:
		c.Reply.Array(0)
		return nil
	}
	n := int(min(count, int64(l.Len())))
	if counted {
		c.Reply.Array(n)
	}
	if err := l.Pop(left, n, c.Reply.Bulk); err != nil {
		return err
	}
	return l.Save(popped(left))
}

// pushed and popped are the events of an end of a list.
func pushed(left bool) keyevent.Name {
	if left {
		return keyevent.LPush
	}
	return keyevent.RPush
}

func popped(left bool) keyevent.Name {
	if left {
		return keyevent.LPop
	}
	return keyevent.RPop
}

// parsePositive is a number from 0 on.
func parsePositive(word []byte) (int64, error) {
	n, err := parseInteger(word)
	if err != nil || n < 0 {
		return 0, ErrNotReal
	}
	return n, nil
}

func cmdRPopLPush(c *Invocation) error { return moveElement(c, false, true) }

func cmdLMove(c *Invocation) error {
	fromLeft, err := parseEnd(c.Args[3])
	if err != nil {
		return err
	}
	toLeft, err := parseEnd(c.Args[4])
	if err != nil {
		return err
	}
	return moveElement(c, fromLeft, toLeft)
}

func parseEnd(word []byte) (left bool, err error) {
	switch {
	case equalFold(word, "LEFT"):
		return true, nil
	case equalFold(word, "RIGHT"):
		return false, nil
	}
	return false, ErrSyntax
}

// moveElement takes an element from the list at the first key to the one at the second, which may
// be the same.
func moveElement(c *Invocation, fromLeft, toLeft bool) error {
	source, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	if !source.Exists() {
		c.Reply.Null()
		return nil
	}
	same := string(c.Args[1]) == string(c.Args[2])
	if !same {
		if _, err := c.DB.List(c.Args[2]); err != nil {
			return err
		}
	}
	var value []byte
	err = source.Pop(fromLeft, 1, func(v []byte) { value = append(value, v...) })
	if err != nil {
		return err
	}
	c.Reply.Bulk(value)
	if same {
		if err := source.Push(toLeft, [][]byte{value}); err != nil {
			return err
		}
		err := source.Save(pushed(toLeft))
		c.DB.Notify(popped(fromLeft), c.Args[1])
		return err
	}
	emptied := source.Len() == 0
	if err := source.Save(keyevent.Changed); err != nil {
		return err
	}
	target, err := c.DB.List(c.Args[2])
	if err != nil {
		return err
	}
	if err := target.Push(toLeft, [][]byte{value}); err != nil {
		return err
	}
	if err := target.Save(pushed(toLeft)); err != nil {
		return err
	}
	c.DB.Notify(popped(fromLeft), c.Args[1]) // Redis tells of it behind the push
	if emptied {
		c.DB.Notify(keyevent.Del, c.Args[1])
	}
	return nil
}

func cmdLMPop(c *Invocation) error {
	keys, rest, err := parseKeyCount(c.Args[1:])
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
	for _, key := range keys {
		l, err := c.DB.List(key)
		if err != nil {
			return err
		}
		if !l.Exists() {
			continue
		}
		return popFrom(c, &l, key, left, count)
	}
	c.Reply.NullArray()
	return nil
}

// parseKeyCount reads a number of keys and the keys.
func parseKeyCount(words [][]byte) (keys, rest [][]byte, err error) {
	count, err := parseInteger(words[0])
	if err != nil || count <= 0 {
		return nil, nil, Error("ERR numkeys should be greater than 0")
	}
	if count >= int64(len(words)-1) {
		return nil, nil, ErrSyntax // at least one word has to follow
	}
	return words[1 : 1+count], words[1+count:], nil
}

// parseCountOption reads what may follow: COUNT and a number from 1 on. Without it, it is 1.
func parseCountOption(a *arguments) (int64, error) {
	count, given := int64(1), false
	for a.more() {
		var word []byte
		if given || !a.option("COUNT", &word) || a.err != nil {
			return 0, ErrSyntax
		}
		given = true
		n, err := parseInteger(word)
		if err != nil || n <= 0 {
			return 0, Error("ERR count should be greater than 0")
		}
		count = n
	}
	return count, nil
}

func popFrom(c *Invocation, l *storage.List, key []byte, left bool, count int64) error {
	n := int(min(count, int64(l.Len())))
	c.Reply.Array(2)
	c.Reply.Bulk(key)
	c.Reply.Array(n)
	if err := l.Pop(left, n, c.Reply.Bulk); err != nil {
		return err
	}
	c.Effect(popName(left), key, number.AppendInt(nil, int64(n)))
	return l.Save(popped(left))
}

var wordLPop, wordRPop = []byte("LPOP"), []byte("RPOP")

func cmdLLen(c *Invocation) error {
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(l.Len()))
	return nil
}

// indexIn turns an index that may count from the tail into one from the head; false when the list
// has no such element.
func indexIn(l *storage.List, index int64) (int, bool) {
	if index < 0 {
		index += int64(l.Len())
	}
	return int(index), index >= 0 && index < int64(l.Len())
}

func cmdLIndex(c *Invocation) error {
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	if !l.Exists() {
		c.Reply.Null()
		return nil
	}
	index, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	at, ok := indexIn(&l, index)
	if !ok {
		c.Reply.Null()
		return nil
	}
	value, err := l.Get(at)
	if err == nil {
		c.Reply.Bulk(value)
	}
	return err
}

// parseRange reads start and stop.
func parseRange(start, stop []byte) (from, to int64, err error) {
	if from, err = parseInteger(start); err == nil {
		to, err = parseInteger(stop)
	}
	return from, to, err
}

// clampRange turns start and stop, which may count from the end, into a first place and a number of
// elements; 0 when the range is empty.
func clampRange(from, to int64, length int) (first, n int) {
	size := int64(length)
	if from < 0 {
		from = max(from+size, 0)
	}
	if to < 0 {
		to += size
	}
	to = min(to, size-1)
	if from > to || from >= size {
		return 0, 0
	}
	return int(from), int(to - from + 1)
}

func cmdLRange(c *Invocation) error {
	from, to, err := parseRange(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	first, n := clampRange(from, to, l.Len())
	c.Reply.Array(n)
	return l.Range(first, n, false, func(_ int, value []byte) bool {
		c.Reply.Bulk(value)
		return true
	})
}

func cmdLSet(c *Invocation) error {
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	if !l.Exists() {
		return ErrNoSuchKey
	}
	index, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	at, ok := indexIn(&l, index)
	if !ok {
		return ErrOutOfRange
	}
	if err := l.Set(at, c.Args[3]); err != nil {
		return err
	}
	c.Reply.OK()
	return l.Save(keyevent.LSet)
}

func cmdLInsert(c *Invocation) error {
	after := equalFold(c.Args[2], "AFTER")
	if !after && !equalFold(c.Args[2], "BEFORE") {
		return ErrSyntax
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	if !l.Exists() {
		c.Reply.Integer(0)
		return nil
	}
	at := -1
	err = l.Range(0, l.Len(), false, func(index int, value []byte) bool {
		if string(value) == string(c.Args[3]) {
			at = index
		}
		return at < 0
	})
	if err != nil {
		return err
	}
	if at < 0 {
		c.Reply.Integer(-1)
		return nil
	}
	if after {
		at++
	}
	if err := l.Insert(at, c.Args[4]); err != nil {
		return err
	}
	c.Reply.Integer(int64(l.Len()))
	return l.Save(keyevent.LInsert)
}

func cmdLRem(c *Invocation) error {
	count, err := parseInteger(c.Args[2])
	if err == nil && count == math.MinInt64 {
		err = errLongRange
		if c.Applying() { // Redis 7.0 takes it, and its replicas have to
			count, err = -math.MaxInt64, nil
		}
	}
	if err != nil {
		return err
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	reverse := count < 0
	if reverse {
		count = -count
	}
	removed, err := l.RemoveEqual(c.Args[3], int(count), reverse)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(removed))
	if removed == 0 {
		return nil
	}
	return l.Save(keyevent.LRem)
}

func cmdLTrim(c *Invocation) error {
	from, to, err := parseRange(c.Args[2], c.Args[3])
	if err != nil {
		return err
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.OK()
	if !l.Exists() {
		return nil
	}
	first, n := clampRange(from, to, l.Len())
	if err := l.Trim(first, n); err != nil {
		return err
	}
	return l.Save(keyevent.LTrim)
}

// positions are LPOS's options.
type positions struct {
	rank, count, longest int64
	counted              bool
}

func (p *positions) parse(words [][]byte) error {
	p.rank, p.count = 1, 1
	a := arguments{words: words}
	for a.more() {
		var word []byte
		switch {
		case a.option("RANK", &word):
			p.rank, a.err = parseRank(word, a.err)
		case a.option("COUNT", &word):
			p.counted = true
			p.count, a.err = parseFromZero(word, a.err, "ERR COUNT can't be negative")
		case a.option("MAXLEN", &word):
			p.longest, a.err = parseFromZero(word, a.err, "ERR MAXLEN can't be negative")
		default:
			a.fail(ErrSyntax)
		}
	}
	return a.err
}

// errLongRange is Redis 7.2's answer to the one number that has no negative.
const errLongRange = Error("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")

func parseRank(word []byte, earlier error) (int64, error) {
	if earlier != nil {
		return 0, earlier
	}
	rank, err := parseInteger(word)
	switch {
	case err != nil:
		return 0, err
	case rank == math.MinInt64:
		return 0, errLongRange
	case rank == 0:
		return 0, Error("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
	}
	return rank, nil
}

func parseFromZero(word []byte, earlier error, refusal Error) (int64, error) {
	if earlier != nil {
		return 0, earlier
	}
	n, err := parseInteger(word)
	if err != nil || n < 0 {
		return 0, refusal
	}
	return n, nil
}

func cmdLPos(c *Invocation) error {
	var p positions
	if err := p.parse(c.Args[3:]); err != nil {
		return err
	}
	l, err := c.DB.List(c.Args[1])
	if err != nil {
		return err
	}
	var first [1]int64 // often all that is sought
	found, err := p.find(first[:0], &l, c.Args[2])
	if err != nil {
		return err
	}
	switch {
	case p.counted:
		c.Reply.Array(len(found))
		for _, index := range found {
			c.Reply.Integer(index)
		}
	case len(found) == 0:
		c.Reply.Null()
	default:
		c.Reply.Integer(found[0])
	}
	return nil
}

// find appends the indexes at which a value stands.
func (p *positions) find(dst []int64, l *storage.List, value []byte) (found []int64, err error) {
	skip, looked, reverse := p.rank, int64(0), p.rank < 0
	found = dst
	if reverse {
		skip = -skip
	}
	err = l.Range(0, l.Len(), reverse, func(index int, v []byte) bool {
		looked++
		if string(v) == string(value) {
			if skip--; skip <= 0 {
				found = append(found, int64(index))
			}
		}
		return (p.count == 0 || int64(len(found)) < p.count) && (p.longest == 0 || looked < p.longest)
	})
	return found, err
}
