package command

import (
	"math"
	"slices"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/lcs"
)

const (
	errOverflow    = Error("ERR increment or decrement would overflow")
	errNotFinite   = Error("ERR increment would produce NaN or Infinity")
	errLCSOperands = Error("ERR The specified keys must contain string values")
	errLCSBoth     = Error("ERR If you want both the length and indexes, please just use IDX.")
	errLCSTooLarge = Error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len")
)

func stringFamily() Family {
	return Family{
		Commands: slices.Concat(stringReads(), stringWrites(), stringConditionCommands(), []Command{msetexCommand()}),
		Errors: map[error]string{
			storage.ErrNotInteger: string(ErrNotInteger),
			storage.ErrNotFloat:   string(ErrNotFloat),
			storage.ErrOverflow:   string(errOverflow),
			storage.ErrNotFinite:  string(errNotFinite),
			storage.ErrTooLong:    string(ErrTooLong),
		},
	}
}

func stringReads() []Command {
	const complexityOfRange = "O(N) where N is the length of the returned string"
	return []Command{
		{Name: "get", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdGet,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the value of a key that holds a string."},
		{Name: "getrange", Arity: 4, Flags: ReadOnly, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdGetRange,
			Group: "string", Since: "2.4.0", Complexity: complexityOfRange, Syntax: "key start end",
			Summary: "Returns the part of a string between two offsets, both included."},
		{Name: "substr", Arity: 4, Flags: ReadOnly, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdGetRange,
			Group: "string", Since: "1.0.0", Complexity: complexityOfRange, Syntax: "key start end",
			Summary: "Is an older name of GETRANGE."},
		{Name: "strlen", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO)}, Run: cmdStrLen,
			Group: "string", Since: "2.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the length of a string in bytes."},
		{Name: "mget", Arity: -2, Flags: ReadOnly | Fast, Categories: CategoryString,
			Keys: []KeySpec{keyRange(1, -1, 1, RO|Access)}, Tips: []string{"request_policy:multi_shard"}, Run: cmdMGet,
			Group: "string", Since: "1.0.0", Complexity: "O(N) where N is the number of keys", Syntax: "key [key ...]",
			Summary: "Returns the values of several keys, and nothing for those that hold no string."},
		{Name: "lcs", Arity: -3, Flags: ReadOnly, Categories: CategoryString,
			Keys: []KeySpec{keyRange(1, 1, 1, RO|Access)}, Run: cmdLCS,
			Group: "string", Since: "7.0.0", Complexity: "O(N*M) where N and M are the lengths of the strings",
			Syntax:  "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
			Summary: "Returns the longest common subsequence of two strings, its length, or where it stands in them."},
	}
}

func stringWrites() []Command {
	return append(stringSetters(), []Command{
		{Name: "append", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Insert)}, Run: cmdAppend,
			Group: "string", Since: "2.0.0", Complexity: "O(N) where N is the length of the resulting string", Syntax: "key value",
			Summary: "Puts bytes behind a string, and makes it if it is missing."},
		{Name: "setrange", Arity: 4, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdSetRange,
			Group: "string", Since: "2.2.0", Complexity: "O(N) where N is the length of the resulting string", Syntax: "key offset value",
			Summary: "Writes bytes over a string from an offset on, and makes it longer where need be."},
		{Name: "incr", Arity: 2, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: func(c *Invocation) error { return increment(c, 1) },
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Adds one to a string that is an integer."},
		{Name: "decr", Arity: 2, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: func(c *Invocation) error { return increment(c, -1) },
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Subtracts one from a string that is an integer."},
		{Name: "incrby", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdIncrBy,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key increment",
			Summary: "Adds an integer to a string that is one."},
		{Name: "decrby", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdDecrBy,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key decrement",
			Summary: "Subtracts an integer from a string that is one."},
		{Name: "incrbyfloat", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdIncrByFloat,
			Group: "string", Since: "2.6.0", Complexity: "O(1)", Syntax: "key increment:double",
			Summary: "Adds a number, which may have a fraction, to a string that is a number."},
		incrementExCommand(),
	}...)
}

// What SET and its kin take.
const expiryTimes = "EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds"

func stringSetters() []Command {
	return []Command{
		{Name: "set", Arity: -3, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{{Flags: RW | Access | Update | VariableFlags, Index: 1, Step: 1,
				Notes: "RW and ACCESS due to the optional `GET` argument"}}, KeyFlags: setKeyFlags, Run: cmdSet,
			Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Syntax:  "key value [NX | XX | " + stringConditions + "] [GET] [" + expiryTimes + " | KEEPTTL]",
			Summary: "Sets a key to a string, whatever it held before, and perhaps when it expires."},
		{Name: "setnx", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, OW|Insert)}, Run: cmdSetNX,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key value",
			Summary: "Sets a key to a string unless the key exists."},
		{Name: "setex", Arity: 4, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, OW|Update)}, Run: func(c *Invocation) error { return setExpiring(c, &expiryUnits[0]) },
			Group: "string", Since: "2.0.0", Complexity: "O(1)", Syntax: "key seconds value",
			Summary: "Sets a key to a string that expires after some seconds."},
		{Name: "psetex", Arity: 4, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, OW|Update)}, Run: func(c *Invocation) error { return setExpiring(c, &expiryUnits[1]) },
			Group: "string", Since: "2.6.0", Complexity: "O(1)", Syntax: "key milliseconds value",
			Summary: "Sets a key to a string that expires after some milliseconds."},
		{Name: "mset", Arity: -3, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{keyRange(1, -1, 2, OW|Update)}, Run: cmdMSet,
			Tips:  []string{"request_policy:multi_shard", "response_policy:all_succeeded"},
			Group: "string", Since: "1.0.1", Complexity: "O(N) where N is the number of keys", Syntax: "key value [key value ...]",
			Summary: "Sets several keys to strings, whatever they held before."},
		{Name: "msetnx", Arity: -3, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{keyRange(1, -1, 2, OW|Insert)}, Run: cmdMSetNX,
			Tips:  []string{"request_policy:multi_shard", "response_policy:agg_min"},
			Group: "string", Since: "1.0.1", Complexity: "O(N) where N is the number of keys", Syntax: "key value [key value ...]",
			Summary: "Sets several keys to strings unless one of the keys exists."},
		{Name: "getset", Arity: 3, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdGetSet,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key value",
			Summary: "Sets a key to a string and returns the string that it held before."},
		{Name: "getdel", Arity: 2, Flags: Write | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RW|Access|Delete)}, Run: cmdGetDel,
			Group: "string", Since: "6.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns a string and deletes its key."},
		{Name: "getex", Arity: -2, Flags: Write | Fast, Categories: CategoryString,
			Keys: []KeySpec{{Flags: RW | Access | Update, Index: 1, Step: 1,
				Notes: "RW and UPDATE because it changes the TTL"}}, Run: cmdGetEx,
			Group: "string", Since: "6.2.0", Complexity: "O(1)",
			Syntax:  "key [" + expiryTimes + " | PERSIST]",
			Summary: "Returns a string, and perhaps changes when it expires."},
	}
}

// bulkOrNull replies with a string, or that there is none.
func bulkOrNull(c *Invocation, k *storage.Key) error {
	if k.Exists {
		return bulkPart(c, &k.Metadata, 0, k.StringLength())
	}
	c.Reply.Null()
	return nil
}

// bulkPart replies with what lies between two offsets of a string.
func bulkPart(c *Invocation, m *layout.Metadata, from, to int) error {
	if err := c.Txn.SpendLong(to - from); err != nil {
		return err
	}
	if m.Encoding != layout.Spread {
		c.Reply.Bulk(m.Value[from:to])
		return nil
	}
	c.Reply.BulkHeader(to - from)
	err := c.DB.EachString(m, from, to, c.Reply.Raw)
	c.Reply.BulkEnd()
	return err
}

// longestString is how long a command may make a string. What is repeated was allowed elsewhere,
// where the limit may have been another.
func longestString(c *Invocation) int64 {
	if c.Applying() {
		return storage.MaxStringBytes
	}
	return min(c.Engine.Config.ProtoMaxBulkLen.Get(), storage.MaxStringBytes)
}

func cmdGet(c *Invocation) error {
	var k storage.Key
	if err := c.DB.LookupTypeInto(c.Args[1], layout.String, &k); err != nil {
		return err
	}
	return bulkOrNull(c, &k)
}

func cmdGetRange(c *Invocation) error {
	start, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	end, err := parseInteger(c.Args[3])
	if err != nil {
		return err
	}
	var k storage.Key
	if err := c.DB.LookupTypeInto(c.Args[1], layout.String, &k); err != nil {
		return err
	}
	from, to := between(k.StringLength(), start, end)
	return bulkPart(c, &k.Metadata, from, to)
}

// between returns where the part of a string begins and ends that lies between two offsets, both
// included; negative ones count from the end.
func between(size int, start, end int64) (from, to int) {
	length := int64(size)
	if start < 0 && end < 0 && start > end {
		return 0, 0 // both may lie before the string, where they would become the same
	}
	if start < 0 {
		start = max(start+length, 0)
	}
	if end < 0 {
		end = max(end+length, 0)
	}
	end = min(end, length-1)
	if start > end {
		return 0, 0
	}
	return int(start), int(end + 1)
}

func cmdStrLen(c *Invocation) error {
	var k storage.Key
	err := c.DB.LookupTypeInto(c.Args[1], layout.String, &k)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(k.StringLength()))
	return nil
}

func cmdMGet(c *Invocation) error {
	c.Reply.Array(len(c.Args) - 1)
	for i, key := range c.Args[1:] {
		if i%storage.PrefetchBatch == 0 {
			c.DB.PrefetchKeys(c.Args[1+i:], 1)
		}
		k, err := c.DB.Lookup(key)
		if err != nil {
			return err
		}
		k.Exists = k.Exists && k.Type == layout.String
		if err := bulkOrNull(c, &k); err != nil {
			return err
		}
	}
	return nil
}

// expiryUnit is a way to say when something expires.
type expiryUnit struct {
	name         string
	milliseconds int64
	relative     bool // to now
}

var expiryUnits = [...]expiryUnit{{"EX", 1000, true}, {"PX", 1, true}, {"EXAT", 1000, false}, {"PXAT", 1, false}}

// stringOptions are what may stand behind the words of SET and GETEX.
type stringOptions struct {
	nx, xx, get, keepTTL, persist bool

	condition stringCondition

	unit *expiryUnit // nil: no time is given
	time []byte
}

// parseSet and parseGetExOptions read all words before they look at the time, as Redis does.
func (o *stringOptions) parseSet(words [][]byte) error {
	a := arguments{words: words}
	for a.more() {
		switch {
		case !o.xx && !o.condition.given() && a.flag("NX"):
			o.nx = true
		case !o.nx && !o.condition.given() && a.flag("XX"):
			o.xx = true
		case a.flag("GET"):
			o.get = true
		case o.unit == nil && a.flag("KEEPTTL"):
			o.keepTTL = true
		case !o.nx && !o.xx && o.condition.parse(&a):
		default:
			o.parseTime(&a)
		}
	}
	return a.err
}

// refuses reports whether what a key holds is against the options.
func (o *stringOptions) refuses(c *Invocation, old *storage.Key) (bool, error) {
	if o.condition.given() {
		holds, err := o.condition.holds(c, old)
		return !holds, err
	}
	return o.nx && old.Exists || o.xx && !old.Exists, nil
}

func parseGetExOptions(words [][]byte) (stringOptions, error) {
	var o stringOptions
	a := arguments{words: words}
	for a.more() {
		if o.unit == nil && a.flag("PERSIST") {
			o.persist = true
		} else {
			o.parseTime(&a)
		}
	}
	return o, a.err
}

// parseTime consumes a time, which may be given again, but in the same unit.
func (o *stringOptions) parseTime(a *arguments) {
	for i := range expiryUnits {
		unit := &expiryUnits[i]
		allowed := !o.keepTTL && !o.persist && (o.unit == nil || o.unit == unit)
		if allowed && a.option(unit.name, &o.time) {
			o.unit = unit
			return
		}
	}
	a.fail(ErrSyntax)
}

// expireMs is the time that was given, in Unix ms; 0 if there was none.
func (o *stringOptions) expireMs(c *Invocation) (int64, error) {
	if o.unit == nil {
		return 0, nil
	}
	return o.unit.parse(c, o.time)
}

func (u *expiryUnit) parse(c *Invocation, word []byte) (int64, error) {
	if u.relative {
		return expireTime(c, word, u.milliseconds, c.Now)
	}
	return expireTime(c, word, u.milliseconds, 0)
}

// expireTime is a time at which something expires, in Unix ms. It has to be positive, and to be
// below 2^63 in milliseconds.
func expireTime(c *Invocation, word []byte, unit, base int64) (int64, error) {
	n, err := parseInteger(word)
	if err != nil {
		return 0, err
	}
	if n <= 0 || n > math.MaxInt64/unit || n*unit > math.MaxInt64-base {
		return 0, Errorf("ERR invalid expire time in '%s' command", c.Command.FullName())
	}
	return n*unit + base, nil
}

func cmdSet(c *Invocation) error {
	var o stringOptions
	if err := o.parseSet(c.Args[3:]); err != nil {
		return err
	}
	expireMs, err := o.expireMs(c)
	if err != nil {
		return err
	}
	key, value := c.Args[1], c.Args[2]
	db := c.DB
	if o.get {
		db = db.Reading()
	}
	var old storage.Key
	if err := db.LookupInto(key, &old); err != nil {
		return err
	}
	if (o.get || o.condition.given()) && old.Exists && old.Type != layout.String {
		return ErrWrongType
	}
	refused, err := o.refuses(c, &old)
	if err != nil {
		return err
	}
	if o.get {
		if err := bulkOrNull(c, &old); err != nil {
			return err
		}
	}
	if refused {
		c.NoEffect()
		if !o.get {
			c.Reply.Null()
		}
		return nil
	}
	if !o.get {
		c.Reply.OK()
	}
	plain := !o.get && !o.nx && !o.xx && !o.condition.given() // the command says what it does
	switch {
	case o.unit != nil:
		return setUntil(c, key, &old, value, expireMs)
	case o.keepTTL:
		if !plain {
			c.Effect(wordSet, key, value, wordKeepTTL)
		}
		return setString(c, key, &old, value, old.ExpireMs)
	case !plain:
		c.Effect(wordSet, key, value)
	}
	return setString(c, key, &old, value, 0)
}

// setString is what SET does to a key, and the event of it.
func setString(c *Invocation, key []byte, old *storage.Key, value []byte, expireMs int64) error {
	err := c.DB.SetString(key, old, value, expireMs)
	c.DB.Notify(keyevent.StringSet, key)
	return err
}

// setUntil stores a string that expires, and says so with the time itself: what is left until then
// is another when the command is repeated.
func setUntil(c *Invocation, key []byte, old *storage.Key, value []byte, expireMs int64) error {
	if expireMs > c.Now || c.Applying() {
		var digits [20]byte
		c.Effect(wordSet, key, value, wordPXAT, number.AppendInt(digits[:0], expireMs))
		err := setString(c, key, old, value, expireMs)
		c.DB.Notify(keyevent.Expire, key)
		return err
	}
	// It is over before it began: what was there is gone. What is told is what Redis tells, which
	// removes the key a moment later.
	if !old.Exists {
		c.DB.Notify(keyevent.New, key)
	}
	for _, name := range []keyevent.Name{keyevent.StringSet, keyevent.Expire, keyevent.Expired} {
		c.DB.Notify(name, key)
	}
	if !old.Exists {
		c.NoEffect()
		c.Txn.KeyEvents().Add(c.DB.Number(), key, keyevent.Changed, layout.String) // it was there for a moment
		return nil
	}
	c.Effect(wordDel, key)
	return c.DB.Remove(key, *old)
}

func setExpiring(c *Invocation, unit *expiryUnit) error {
	expireMs, err := unit.parse(c, c.Args[2])
	if err != nil {
		return err
	}
	old, err := c.DB.Lookup(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.OK()
	return setUntil(c, c.Args[1], &old, c.Args[3], expireMs)
}

// setKeyFlags tells SET with GET or a condition, which read the old value, from SET without.
func setKeyFlags(args [][]byte) KeyFlags {
	for _, word := range args[min(3, len(args)):] {
		if equalFold(word, "get") || isStringCondition(word) {
			return RW | Access | Update
		}
	}
	return OW | Update
}

func cmdSetNX(c *Invocation) error {
	old, err := c.DB.Lookup(c.Args[1])
	if err != nil {
		return err
	}
	if old.Exists {
		c.Reply.Integer(0)
		return nil
	}
	c.Reply.Integer(1)
	return setString(c, c.Args[1], &old, c.Args[2], 0)
}

func cmdMSet(c *Invocation) error {
	if len(c.Args)%2 == 0 {
		return execute.WrongArity(c.Command.FullName())
	}
	c.Reply.OK()
	return setPairs(c)
}

func setPairs(c *Invocation) error {
	for i := 1; i < len(c.Args); i += 2 {
		if i%(2*storage.PrefetchBatch) == 1 {
			c.DB.PrefetchKeys(c.Args[i:], 2)
		}
		old, err := c.DB.Lookup(c.Args[i])
		if err != nil {
			return err
		}
		if err := setString(c, c.Args[i], &old, c.Args[i+1], 0); err != nil {
			return err
		}
	}
	return nil
}

func cmdMSetNX(c *Invocation) error {
	if len(c.Args)%2 == 0 {
		return execute.WrongArity(c.Command.FullName())
	}
	for i := 1; i < len(c.Args); i += 2 {
		k, err := c.DB.Lookup(c.Args[i])
		if err != nil {
			return err
		}
		if k.Exists {
			c.NoEffect()
			c.Reply.Integer(0)
			return nil
		}
	}
	c.Reply.Integer(1)
	return setPairs(c)
}

func cmdGetSet(c *Invocation) error {
	old, err := c.DB.Reading().LookupType(c.Args[1], layout.String)
	if err != nil {
		return err
	}
	if err := bulkOrNull(c, &old); err != nil {
		return err
	}
	c.Effect(wordSet, c.Args[1], c.Args[2])
	return setString(c, c.Args[1], &old, c.Args[2], 0)
}

func cmdGetDel(c *Invocation) error {
	var k storage.Key
	err := c.DB.Reading().LookupTypeInto(c.Args[1], layout.String, &k)
	if err != nil {
		return err
	}
	if err := bulkOrNull(c, &k); err != nil {
		return err
	}
	if !k.Exists {
		c.NoEffect()
		return nil
	}
	c.Effect(wordDel, c.Args[1])
	c.DB.Notify(keyevent.Del, c.Args[1])
	return c.DB.Remove(c.Args[1], k)
}

func cmdGetEx(c *Invocation) error {
	o, err := parseGetExOptions(c.Args[2:])
	if err != nil {
		return err
	}
	key := c.Args[1]
	var k storage.Key
	err = c.DB.Reading().LookupTypeInto(key, layout.String, &k)
	if err != nil {
		return err
	}
	if err := bulkOrNull(c, &k); err != nil {
		return err
	}
	if !k.Exists {
		c.NoEffect()
		return nil
	}
	expireMs, err := o.expireMs(c)
	switch {
	case err != nil:
		return err
	case o.unit != nil && expireMs <= c.Now && !c.Applying():
		c.Effect(wordDel, key)
		c.DB.Notify(keyevent.Del, key)
		return c.DB.Remove(key, k)
	case o.unit != nil:
		var digits [20]byte
		c.BeginEffect(3, wordPExpireAt, key)
		c.EffectNumber(number.AppendInt(digits[:0], expireMs))
		c.DB.Notify(keyevent.Expire, key)
		return c.DB.SetExpiry(key, &k, expireMs)
	case o.persist && k.ExpireMs != 0:
		c.Effect(wordPersist, key)
		c.DB.Notify(keyevent.Persist, key)
		return c.DB.SetExpiry(key, &k, 0)
	}
	return nil
}

func cmdAppend(c *Invocation) error {
	length, err := c.DB.Append(c.Args[1], c.Args[2], longestString(c))
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(length))
	return nil
}

func cmdSetRange(c *Invocation) error {
	offset, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	if offset < 0 {
		return Error("ERR offset is out of range")
	}
	length, err := c.DB.SetRange(c.Args[1], offset, c.Args[3], longestString(c))
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(length))
	return nil
}

func cmdIncrBy(c *Invocation) error {
	delta, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	return increment(c, delta)
}

func cmdDecrBy(c *Invocation) error {
	delta, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	if delta == math.MinInt64 {
		return Error("ERR decrement would overflow")
	}
	return increment(c, -delta)
}

func increment(c *Invocation, delta int64) error {
	sum, err := c.DB.Increment(c.Args[1], delta)
	if err != nil {
		return err
	}
	c.Reply.Integer(sum)
	return nil
}

// cmdIncrByFloat says what the sum is, so that it needn't be the same wherever it is computed.
func cmdIncrByFloat(c *Invocation) error {
	sum, err := c.DB.IncrementFloat(c.Args[1], c.Args[2])
	if err != nil {
		return err
	}
	c.Effect(wordSet, c.Args[1], sum, wordKeepTTL)
	c.Reply.Bulk(sum)
	return nil
}

// lcsOptions are what LCS is asked for.
type lcsOptions struct {
	length, indexes, withLengths bool
	minimum                      int64
}

func parseLCSOptions(words [][]byte) (lcsOptions, error) {
	var o lcsOptions
	a := arguments{words: words}
	for a.more() {
		switch {
		case a.flag("IDX"):
			o.indexes = true
		case a.flag("LEN"):
			o.length = true
		case a.flag("WITHMATCHLEN"):
			o.withLengths = true
		case a.integer("MINMATCHLEN", &o.minimum):
		default:
			a.fail(ErrSyntax)
		}
	}
	if a.err == nil && o.indexes && o.length {
		a.fail(errLCSBoth)
	}
	return o, a.err
}

func cmdLCS(c *Invocation) error {
	var keys [2]storage.Key
	for i := range keys {
		var err error
		if keys[i], err = c.DB.Lookup(c.Args[1+i]); err != nil {
			return err
		}
		if keys[i].Exists && keys[i].Type != layout.String {
			return errLCSOperands
		}
	}
	o, err := parseLCSOptions(c.Args[3:])
	if err != nil {
		return err
	}
	size := lcs.TableSize(keys[0].StringLength(), keys[1].StringLength())
	if size > uint64(longestString(c)) {
		return errLCSTooLarge // before strings are read that may be of any length
	}
	a, err := c.DB.StringBytes(&keys[0].Metadata)
	if err != nil {
		return err
	}
	b, err := c.DB.StringBytes(&keys[1].Metadata)
	if err != nil {
		return err
	}
	if err := c.Txn.SpendBytes(int(size / 16)); err != nil {
		return err
	}
	switch {
	case o.indexes:
		matches, length := lcs.Matches(a, b, int(o.minimum))
		replyMatches(c, matches, length, o.withLengths)
	case o.length:
		c.Reply.Integer(int64(lcs.Length(a, b)))
	default:
		c.Reply.Bulk(lcs.Sequence(a, b))
	}
	return nil
}

func replyMatches(c *Invocation, matches []lcs.Match, length int, withLengths bool) {
	c.Reply.Map(2)
	c.Reply.BulkString("matches")
	c.Reply.Array(len(matches))
	for _, m := range matches {
		if withLengths {
			c.Reply.Array(3)
		} else {
			c.Reply.Array(2)
		}
		for _, start := range [...]int{m.A, m.B} {
			c.Reply.Array(2)
			c.Reply.Integer(int64(start))
			c.Reply.Integer(int64(start + m.Length - 1))
		}
		if withLengths {
			c.Reply.Integer(int64(m.Length))
		}
	}
	c.Reply.BulkString("len")
	c.Reply.Integer(int64(length))
}
