package command

import (
	"math"
	"slices"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
)

func hashFamily() Family {
	return Family{
		Commands: slices.Concat(hashReads(), hashWrites(), hashExpiryCommands()),
		Errors: map[error]string{
			storage.ErrFieldNotInteger: "ERR hash value is not an integer",
			storage.ErrFieldNotFloat:   "ERR hash value is not a float",
		},
	}
}

func hashReads() []Command {
	const complexityOfAll = "O(N) where N is the number of fields"
	unordered := []string{"nondeterministic_output_order"}
	return []Command{
		{Name: "hget", Arity: 3, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdHGet,
			Group: "hash", Since: "2.0.0", Complexity: "O(1)", Syntax: "key field", Prefetch: PrefetchElement,
			Summary: "Returns the value of a field of a hash."},
		{Name: "hmget", Arity: -3, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdHMGet,
			Group: "hash", Since: "2.0.0", Complexity: "O(N) where N is the number of fields asked for",
			Syntax: "key field [field ...]", Prefetch: PrefetchElement, Summary: "Returns the values of several fields of a hash."},
		{Name: "hexists", Arity: 3, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdHExists,
			Group: "hash", Since: "2.0.0", Complexity: "O(1)", Syntax: "key field", Prefetch: PrefetchElement,
			Summary: "Tells whether a hash has a field."},
		{Name: "hlen", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdHLen,
			Group: "hash", Since: "2.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the number of fields of a hash."},
		{Name: "hstrlen", Arity: 3, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdHStrLen,
			Group: "hash", Since: "3.2.0", Complexity: "O(1)", Syntax: "key field", Prefetch: PrefetchElement,
			Summary: "Returns the length of a field's value."},
		{Name: "hgetall", Arity: 2, Flags: ReadOnly, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: unordered, Run: cmdHGetAll,
			Group: "hash", Since: "2.0.0", Complexity: complexityOfAll, Syntax: "key",
			Summary: "Returns all fields of a hash with their values."},
		{Name: "hkeys", Arity: 2, Flags: ReadOnly, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: unordered, Run: cmdHKeys,
			Group: "hash", Since: "2.0.0", Complexity: complexityOfAll, Syntax: "key",
			Summary: "Returns all fields of a hash."},
		{Name: "hvals", Arity: 2, Flags: ReadOnly, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: unordered, Run: cmdHVals,
			Group: "hash", Since: "2.0.0", Complexity: complexityOfAll, Syntax: "key",
			Summary: "Returns the values of all fields of a hash."},
		{Name: "hrandfield", Arity: -2, Flags: ReadOnly, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"}, Run: cmdHRandField,
			Group: "hash", Since: "6.2.0", Complexity: "O(N) where N is the number of fields returned",
			Syntax: "key [count [WITHVALUES]]", Summary: "Returns fields of a hash by chance."},
	}
}

func hashWrites() []Command {
	const complexityOfSetting = "O(N) where N is the number of fields set"
	return []Command{
		{Name: "hset", Arity: -4, Flags: Write | DenyOOM | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdHSet,
			Group: "hash", Since: "2.0.0", Complexity: complexityOfSetting, Syntax: "key field value [field value ...]", Prefetch: PrefetchElement,
			Summary: "Sets fields of a hash, and makes it if it is missing."},
		{Name: "hmset", Arity: -4, Flags: Write | DenyOOM | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdHMSet,
			Group: "hash", Since: "2.0.0", Complexity: complexityOfSetting, Syntax: "key field value [field value ...]", Prefetch: PrefetchElement,
			Summary: "Sets fields of a hash as HSET does, but doesn't tell how many are new."},
		{Name: "hsetnx", Arity: 4, Flags: Write | DenyOOM | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Insert)}, Run: cmdHSetNX,
			Group: "hash", Since: "2.0.0", Complexity: "O(1)", Syntax: "key field value", Prefetch: PrefetchElement,
			Summary: "Sets a field of a hash that it doesn't have yet."},
		{Name: "hincrby", Arity: 4, Flags: Write | DenyOOM | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdHIncrBy,
			Group: "hash", Since: "2.0.0", Complexity: "O(1)", Syntax: "key field increment", Prefetch: PrefetchElement,
			Summary: "Adds to a field that is an integer."},
		{Name: "hincrbyfloat", Arity: 4, Flags: Write | DenyOOM | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdHIncrByFloat,
			Group: "hash", Since: "2.6.0", Complexity: "O(1)", Syntax: "key field increment:double", Prefetch: PrefetchElement,
			Summary: "Adds to a field that is a number."},
		{Name: "hdel", Arity: -3, Flags: Write | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Run: cmdHDel,
			Group: "hash", Since: "2.0.0", Complexity: "O(N) where N is the number of fields removed",
			Syntax: "key field [field ...]", Prefetch: PrefetchElement, Summary: "Removes fields of a hash, and the hash with the last one."},
	}
}

func cmdHGet(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	return replyField(c, &h, c.Args[2])
}

func replyField(c *Invocation, h *storage.Hash, field []byte) error {
	value, found, err := h.Get(field)
	if err != nil {
		return err
	}
	if !found {
		c.Reply.Null()
		return nil
	}
	c.Reply.Bulk(value)
	return nil
}

func cmdHMGet(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	fields := c.Args[2:]
	c.Reply.Array(len(fields))
	for _, field := range fields {
		if err := replyField(c, &h, field); err != nil {
			return err
		}
	}
	return nil
}

func cmdHExists(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	_, found, err := h.Get(c.Args[2])
	if err != nil {
		return err
	}
	replyBit(c, found)
	return nil
}

func cmdHLen(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(h.Len()))
	return nil
}

func cmdHStrLen(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	value, _, err := h.Get(c.Args[2])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(len(value)))
	return nil
}

func cmdHGetAll(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	live, err := h.Live()
	if err != nil {
		return err
	}
	c.Reply.Map(live)
	return h.All(false, func(field, value []byte) bool {
		c.Reply.Bulk(field)
		c.Reply.Bulk(value)
		return true
	})
}

func cmdHKeys(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	live, err := h.Live()
	if err != nil {
		return err
	}
	c.Reply.Array(live)
	return h.All(true, func(field, _ []byte) bool {
		c.Reply.Bulk(field)
		return true
	})
}

func cmdHVals(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	live, err := h.Live()
	if err != nil {
		return err
	}
	c.Reply.Array(live)
	return h.All(false, func(_, value []byte) bool {
		c.Reply.Bulk(value)
		return true
	})
}

func cmdHRandField(c *Invocation) error {
	if len(c.Args) == 2 {
		return replyRandomField(c)
	}
	count, err := parseSampleCount(c.Args[2])
	if err != nil {
		return err
	}
	a := arguments{words: c.Args[3:]}
	withValues := a.flag("WITHVALUES")
	switch {
	case len(a.words) > 0:
		return ErrSyntax
	case withValues && (count < -math.MaxInt64/2 || count > math.MaxInt64/2):
		return errSampleTooLarge
	}
	return replyRandomFields(c, count, withValues)
}

const errSampleTooLarge = Error("ERR value is out of range")

// parseSampleCount is how many elements are asked for; a negative count allows for the same ones
// again.
func parseSampleCount(word []byte) (int64, error) {
	n, err := parseInteger(word)
	if err == nil && n == math.MinInt64 {
		err = Errorf("ERR value is out of range, value must between %d and %d", -math.MaxInt64, math.MaxInt64)
	}
	return n, err
}

func replyRandomField(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	live, err := h.Live()
	if err != nil {
		return err
	}
	if live == 0 {
		c.Reply.Null()
		return nil
	}
	field, err := h.Random(live)
	if err != nil {
		return err
	}
	c.Reply.Bulk(field)
	return nil
}

func replyRandomFields(c *Invocation, count int64, withValues bool) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	live, err := h.Live()
	if err != nil {
		return err
	}
	if live == 0 {
		c.Reply.Array(0)
		return nil
	}
	n, repeated := sampleSize(count, live)
	pick := h.RandomDistinct
	if repeated {
		pick = h.RandomRepeated
	}
	nested := withValues && c.Reply.Protocol() > 2
	if withValues && !nested {
		c.Reply.Array(2 * n)
	} else {
		c.Reply.Array(n)
	}
	limit := newSampleLimit(c, repeated)
	err = pick(uint64(n), live, !withValues, func(field, value []byte) bool {
		if nested {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(field)
		if withValues {
			c.Reply.Bulk(value)
		}
		return limit.within(c.Reply.Len())
	})
	return limit.check(err)
}

// sampleSize is how many elements a count asks for, and whether the same one may come again.
func sampleSize(count int64, length int) (n int, repeated bool) {
	if count < 0 {
		return int(-count), true
	}
	return int(min(count, int64(length))), false
}

// sampleLimit keeps a sample with repetition, whose size only the client knows, from growing beyond
// what a reply may be.
type sampleLimit struct {
	c        *Invocation
	end      int // of the reply
	exceeded bool
}

const errSampleReply = Error("ERR the reply would exceed the maximum allowed size (proto-max-bulk-len)")

func newSampleLimit(c *Invocation, repeated bool) sampleLimit {
	if !repeated {
		return sampleLimit{c: c, end: math.MaxInt}
	}
	length := c.Reply.Len()
	return sampleLimit{c: c, end: length + int(min(c.Engine.Config.ProtoMaxBulkLen.Get(), int64(math.MaxInt-length)))}
}

// within tells whether a reply of a length may grow further.
func (l *sampleLimit) within(length int) bool {
	l.exceeded = length > l.end
	return !l.exceeded && !l.c.Unwanted()
}

func (l *sampleLimit) check(err error) error {
	switch {
	case err != nil:
		return err
	case l.exceeded:
		return errSampleReply
	case l.c.Unwanted():
		return storage.ErrUnwanted
	}
	return nil
}

// setFields sets fields to the values behind them, and returns how many are new.
func setFields(c *Invocation) (added int64, err error) {
	pairs := c.Args[2:]
	if len(pairs)%2 != 0 {
		return 0, execute.WrongArity(c.Command.FullName())
	}
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return 0, err
	}
	if err := h.Expect(len(pairs) / 2); err != nil {
		return 0, err
	}
	for i := 0; i < len(pairs); i += 2 {
		fresh, err := h.Set(pairs[i], pairs[i+1])
		if err != nil {
			return 0, err
		}
		if fresh {
			added++
		}
	}
	return added, h.Save(keyevent.HSet)
}

func cmdHSet(c *Invocation) error {
	added, err := setFields(c)
	if err != nil {
		return err
	}
	c.Reply.Integer(added)
	return nil
}

func cmdHMSet(c *Invocation) error {
	if _, err := setFields(c); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdHSetNX(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	_, found, err := h.Get(c.Args[2])
	if err != nil {
		return err
	}
	replyBit(c, !found)
	if found {
		return nil
	}
	if err := h.Expect(1); err != nil {
		return err
	}
	if _, err := h.Set(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	repeatReplaced(c, &h, c.Args[3])
	return h.Save(keyevent.HSet)
}

func cmdHIncrBy(c *Invocation) error {
	delta, err := parseInteger(c.Args[3])
	if err != nil {
		return err
	}
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	sum, err := h.Increment(c.Args[2], delta)
	if err != nil {
		return err
	}
	c.Reply.Integer(sum)
	repeatReplaced(c, &h, formatInteger(sum))
	return h.Save(keyevent.HIncrBy)
}

// repeatReplaced repeats a command on one field as HSET where the field had expired.
func repeatReplaced(c *Invocation, h *storage.Hash, value []byte) {
	if h.Replaced() {
		c.Effect(wordHSet, c.Args[1], c.Args[2], value)
	}
}

func cmdHIncrByFloat(c *Invocation) error {
	delta, ok := number.ParseLongDouble(c.Args[3])
	switch {
	case !ok:
		return ErrNotFloat
	case delta.IsInf():
		return Error("ERR value is NaN or Infinity")
	}
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	sum, err := h.IncrementFloat(c.Args[2], delta)
	if err != nil {
		return err
	}
	c.Reply.Bulk(sum)
	c.Effect(wordHSet, c.Args[1], c.Args[2], sum)
	if err := repeatExpiry(c, &h, c.Args[2]); err != nil {
		return err
	}
	return h.Save(keyevent.HIncrByFloat)
}

func cmdHDel(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	removed := int64(0)
	for _, field := range c.Args[2:] {
		found, err := h.Delete(field)
		if err != nil {
			return err
		}
		if found {
			removed++
		}
	}
	c.Reply.Integer(removed)
	if removed == 0 {
		return nil
	}
	return h.Save(keyevent.HDel)
}

var wordHSet = []byte("HSET")
