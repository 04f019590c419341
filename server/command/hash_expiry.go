package command

import (
	"math"

	"kedis/internal/keyevent"
	"kedis/server/execute"
	"kedis/storage"
)

// hashExpiryCommands say and tell when fields of hashes expire.
func hashExpiryCommands() []Command {
	const each = "O(N) where N is the number of fields"
	const fields = " FIELDS numfields field [field ...]"
	expire := func(name, time, summary string, unit int64, relative bool) Command {
		return Command{Name: name, Arity: -6, Flags: Write | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "hash", Since: "7.4.0", Complexity: each,
			Syntax: "key " + time + " [NX | XX | GT | LT]" + fields, Summary: summary,
			Run: func(c *Invocation) error { return expireFields(c, unit, relative) }}
	}
	tell := func(name, summary string, answer func(c *Invocation, expireMs int64) int64) Command {
		return Command{Name: name, Arity: -5, Flags: ReadOnly | Fast, Categories: CategoryHash,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "hash", Since: "7.4.0", Complexity: each, Syntax: "key" + fields, Summary: summary,
			Run: func(c *Invocation) error { return tellExpiries(c, answer) }}
	}
	ttl, pttl := tell("httl", "Returns in how many seconds fields of a hash expire.", secondsLeft),
		tell("hpttl", "Returns in how many milliseconds fields of a hash expire.", millisecondsLeft)
	ttl.Tips, pttl.Tips = []string{"nondeterministic_output"}, []string{"nondeterministic_output"}
	changesExpiry := oneKey(1, RW|Access|Update)
	changesExpiry.Notes = "RW and UPDATE because it changes the TTL"
	return []Command{
		expire("hexpire", "seconds", "Says in how many seconds fields of a hash expire.", 1000, true),
		expire("hpexpire", "milliseconds", "Says in how many milliseconds fields of a hash expire.", 1, true),
		expire("hexpireat", "unix-time-seconds", "Says at which second fields of a hash expire.", 1000, false),
		expire("hpexpireat", "unix-time-milliseconds", "Says at which millisecond fields of a hash expire.", 1, false),
		ttl, pttl,
		tell("hexpiretime", "Returns at which second fields of a hash expire.", func(_ *Invocation, expireMs int64) int64 { return (expireMs + 999) / 1000 }),
		tell("hpexpiretime", "Returns at which millisecond fields of a hash expire.", func(_ *Invocation, expireMs int64) int64 { return expireMs }),
		{Name: "hpersist", Arity: -5, Flags: Write | Fast, Categories: CategoryHash, Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "hash", Since: "7.4.0",
			Complexity: each, Syntax: "key" + fields, Summary: "Says that fields of a hash don't expire.", Run: cmdHPersist},
		{Name: "hgetdel", Arity: -5, Flags: Write | Fast, Categories: CategoryHash, Keys: []KeySpec{oneKey(1, RW|Access|Delete)}, Group: "hash", Since: "8.0.0",
			Complexity: each, Syntax: "key" + fields, Summary: "Returns the values of fields of a hash, and removes them.", Run: cmdHGetDel},
		{Name: "hgetex", Arity: -5, Flags: Write | Fast, Categories: CategoryHash, Keys: []KeySpec{changesExpiry}, Group: "hash", Since: "8.0.0",
			Complexity: each, Summary: "Returns the values of fields of a hash, and perhaps changes when they expire.", Run: cmdHGetEx,
			Syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]" + fields},
		{Name: "hsetex", Arity: -6, Flags: Write | DenyOOM | Fast, Categories: CategoryHash, Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "hash", Since: "8.0.0",
			Complexity: each, Summary: "Sets fields of a hash, and perhaps when they expire.", Run: cmdHSetEx,
			Syntax: "key [NX | XX] [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]" +
				" FIELDS numfields field value [field value ...]"},
	}
}

const (
	errFieldsMissing = Error("ERR Mandatory argument FIELDS is missing or not at the right position")
	errFieldsNumber  = Error("ERR The `numfields` parameter must match the number of arguments")
	errFieldsCount   = Error("ERR Number of fields must be a positive integer")
)

// parseFields reads FIELDS, a number and as many fields, which words are; refused is what a bad
// number is answered with.
func parseFields(words [][]byte, refused Error) ([][]byte, error) {
	if len(words) < 2 || !equalFold(words[0], "FIELDS") {
		return nil, errFieldsMissing
	}
	n, err := parseInteger(words[1])
	if err != nil || n < 1 {
		return nil, refused
	}
	if n != int64(len(words)-2) {
		return nil, errFieldsNumber
	}
	return words[2:], nil
}

// latestFieldExpiry is the latest time at which fields may expire in Redis.
const latestFieldExpiry = latestWritten >> 2

// latestWritten is the latest that payloads and files have, and so what RESTORE repeats.
const latestWritten = 1<<48 - 2

// parseFieldExpiry reads a time in units of so many milliseconds, relative to now or absolute. What
// is repeated was taken elsewhere: of a time that there can't be here it is the nearest that can.
// Valkey takes any time, and 0 is none here.
func parseFieldExpiry(c *Invocation, word []byte, unit int64, relative bool) (expireMs int64, err error) {
	if expireMs, err = parseInteger(word); err != nil {
		return 0, err
	}
	if expireMs < 0 {
		return 0, Error("ERR invalid expire time, must be >= 0")
	}
	base, latest := int64(0), int64(latestFieldExpiry)
	if relative {
		base = c.Now
	}
	if c.Applying() {
		return max(min(expireMs, (latestWritten-base)/unit)*unit+base, 1), nil
	}
	if expireMs > latest/unit || expireMs*unit > latest-base {
		return 0, Errorf("ERR invalid expire time in '%s' command", c.Command.FullName())
	}
	return expireMs*unit + base, nil
}

// fieldCondition is one of EXPIRE's conditions, for a field.
type fieldCondition int

const (
	always fieldCondition = iota
	ifNone
	ifSome
	ifLater
	ifEarlier
)

// allows tells whether a field may expire at a time instead of when it does; 0 is never.
func (f fieldCondition) allows(was, expireMs int64) bool {
	switch f {
	case ifNone:
		return was == 0
	case ifSome:
		return was != 0
	case ifLater:
		return was != 0 && expireMs > was
	case ifEarlier:
		return was == 0 || expireMs < was
	}
	return true
}

func parseFieldCondition(word []byte) fieldCondition {
	switch {
	case equalFold(word, "NX"):
		return ifNone
	case equalFold(word, "XX"):
		return ifSome
	case equalFold(word, "GT"):
		return ifLater
	case equalFold(word, "LT"):
		return ifEarlier
	}
	return always
}

// What the commands answer of a field.
const (
	noSuchField  = -2
	neverExpires = -1
	notChanged   = 0
	changed      = 1
	removedField = 2
)

func expireFields(c *Invocation, unit int64, relative bool) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	expireMs, err := parseFieldExpiry(c, c.Args[2], unit, relative)
	if err != nil {
		return err
	}
	words := c.Args[3:]
	condition := parseFieldCondition(words[0])
	if condition != always {
		words = words[1:]
	}
	fields, err := parseFields(words, "ERR Parameter `numFields` should be greater than 0")
	if err != nil {
		return err
	}
	x := fieldExpiry{c: c, h: &h, expireMs: expireMs, condition: condition}
	c.Reply.Array(len(fields))
	for _, field := range fields {
		answer, err := x.apply(field)
		if err != nil {
			return err
		}
		c.Reply.Integer(answer)
	}
	return x.finish()
}

// fieldExpiry gives fields of a hash a time, and gathers what is to be repeated elsewhere.
type fieldExpiry struct {
	c         *Invocation
	h         *storage.Hash
	expireMs  int64
	condition fieldCondition

	expiring, removed [][]byte
	before            []keyevent.Name // what happened before
}

// apply gives a field the time, or removes it if that has come. Where the log is applied nothing
// has: an HDEL says so.
func (x *fieldExpiry) apply(field []byte) (answer int64, err error) {
	was, found, err := x.h.Expiry(field)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return noSuchField, nil
	case !x.condition.allows(was, x.expireMs):
		return notChanged, nil
	case x.expireMs <= x.c.Now && !x.c.Applying():
		x.removed = append(x.removed, field)
		_, err = x.h.Delete(field)
		return removedField, err
	}
	x.expiring = append(x.expiring, field)
	return changed, x.h.Expire(field, was, x.expireMs)
}

// finish saves the hash if it was changed, and says how that is repeated.
func (x *fieldExpiry) finish() error {
	if len(x.removed)+len(x.expiring) == 0 {
		return nil
	}
	key := x.c.Args[1]
	if len(x.removed) > 0 {
		x.c.Effect(append([][]byte{wordHDel, key}, x.removed...)...)
	}
	if len(x.expiring) > 0 {
		repeatExpiries(x.c, key, x.expireMs, x.expiring)
	}
	return x.h.Save(append(x.before, x.event())...)
}

// event is what has happened to the hash.
func (x *fieldExpiry) event() keyevent.Name {
	if len(x.removed) > 0 {
		return keyevent.HDel
	}
	return keyevent.HExpire
}

var (
	wordHDel       = []byte("HDEL")
	wordHPExpireAt = []byte("HPEXPIREAT")
	wordHPersist   = []byte("HPERSIST")
	wordFields     = []byte("FIELDS")
)

func repeatExpiries(c *Invocation, key []byte, expireMs int64, fields [][]byte) {
	c.Effect(append([][]byte{wordHPExpireAt, key, formatInteger(expireMs), wordFields, formatInteger(int64(len(fields)))}, fields...)...)
}

// repeatExpiry says elsewhere when a field expires that was set, if it does.
func repeatExpiry(c *Invocation, h *storage.Hash, field []byte) error {
	expireMs, _, err := h.Expiry(field)
	if err == nil && expireMs != 0 {
		repeatExpiries(c, c.Args[1], expireMs, [][]byte{field})
	}
	return err
}

// hashAndFields are the hash and the fields of a command with nothing else behind the key.
func hashAndFields(c *Invocation) (h storage.Hash, fields [][]byte, err error) {
	if h, err = c.DB.Hash(c.Args[1]); err != nil {
		return h, nil, err
	}
	fields, err = parseFields(c.Args[2:], errFieldsCount)
	return h, fields, err
}

// answerExpiry answers for a field that isn't there, or doesn't expire; false when it does.
func answerExpiry(c *Invocation, expireMs int64, found bool) bool {
	switch {
	case !found:
		c.Reply.Integer(noSuchField)
	case expireMs == 0:
		c.Reply.Integer(neverExpires)
	default:
		return false
	}
	return true
}

func tellExpiries(c *Invocation, answer func(c *Invocation, expireMs int64) int64) error {
	h, fields, err := hashAndFields(c)
	if err != nil {
		return err
	}
	c.Reply.Array(len(fields))
	for _, field := range fields {
		expireMs, found, err := h.Expiry(field)
		if err != nil {
			return err
		}
		if !answerExpiry(c, expireMs, found) {
			c.Reply.Integer(answer(c, expireMs))
		}
	}
	return nil
}

func millisecondsLeft(c *Invocation, expireMs int64) int64 { return expireMs - c.Now }

func secondsLeft(c *Invocation, expireMs int64) int64 { return (expireMs - c.Now + 999) / 1000 }

func cmdHPersist(c *Invocation) error {
	h, fields, err := hashAndFields(c)
	if err != nil {
		return err
	}
	var persisted [][]byte
	c.Reply.Array(len(fields))
	for _, field := range fields {
		expireMs, found, err := h.Expiry(field)
		if err != nil {
			return err
		}
		if answerExpiry(c, expireMs, found) {
			continue
		}
		if _, err := h.Persist(field); err != nil {
			return err
		}
		persisted = append(persisted, field)
		c.Reply.Integer(changed)
	}
	if len(persisted) == 0 {
		return nil
	}
	return savePersisted(c, &h, persisted)
}

// savePersisted saves a hash, and repeats nothing for fields that had expired: where that is
// applied, they are still there.
func savePersisted(c *Invocation, h *storage.Hash, fields [][]byte) error {
	c.Effect(append([][]byte{wordHPersist, c.Args[1], wordFields, formatInteger(int64(len(fields)))}, fields...)...)
	return h.Save(keyevent.HPersist)
}

func cmdHGetDel(c *Invocation) error {
	h, fields, err := hashAndFields(c)
	if err != nil {
		return err
	}
	var removed [][]byte
	c.Reply.Array(len(fields))
	for _, field := range fields {
		value, found, err := h.Get(field)
		if err != nil {
			return err
		}
		if !found {
			c.Reply.Null()
			continue
		}
		c.Reply.Bulk(value)
		removed = append(removed, field)
		if _, err := h.Delete(field); err != nil {
			return err
		}
	}
	if len(removed) == 0 {
		return nil
	}
	c.Effect(append([][]byte{wordHDel, c.Args[1]}, removed...)...)
	return h.Save(keyevent.HDel)
}

// expiryOption reads one of EX, PX, EXAT and PXAT and the time behind it.
func expiryOption(c *Invocation, a *arguments) (expireMs int64, ok bool) {
	for _, option := range []struct {
		name     string
		unit     int64
		relative bool
	}{{"EX", 1000, true}, {"PX", 1, true}, {"EXAT", 1000, false}, {"PXAT", 1, false}} {
		if a.flag(option.name) {
			if len(a.words) == 0 {
				a.fail(Error("ERR missing expire time"))
				return 0, true
			}
			expireMs, err := parseFieldExpiry(c, a.next(), option.unit, option.relative)
			a.fail(err)
			return expireMs, true
		}
	}
	return 0, false
}

func cmdHGetEx(c *Invocation) error {
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	a := arguments{words: c.Args[2:]}
	expireMs, expires := expiryOption(c, &a)
	persists := !expires && a.flag("PERSIST")
	if a.err != nil {
		return a.err
	}
	if len(a.words) < 2 {
		return execute.WrongArity(c.Command.FullName())
	}
	fields, err := parseFields(a.words, errFieldsCount)
	if err != nil {
		return err
	}
	x := fieldExpiry{c: c, h: &h, expireMs: expireMs}
	var persisted [][]byte
	c.Reply.Array(len(fields))
	for _, field := range fields {
		if err := replyField(c, &h, field); err != nil {
			return err
		}
		switch {
		case expires:
			_, err = x.apply(field)
		case persists:
			var did bool
			if did, err = h.Persist(field); did {
				persisted = append(persisted, field)
			}
		}
		if err != nil {
			return err
		}
	}
	if len(persisted) == 0 {
		return x.finish()
	}
	return savePersisted(c, &h, persisted)
}

// setFieldsOptions are HSETEX's.
type setFieldsOptions struct {
	ifKey, ifNoKey bool // Valkey's XX and NX
	ifNone, ifAll  bool
	expires, keep  bool
	expireMs       int64
	pairs          [][]byte
}

func (o *setFieldsOptions) parse(c *Invocation) error {
	a := arguments{words: c.Args[2:]}
	for a.more() && o.pairs == nil {
		timed := o.expires || o.keep
		switch {
		case a.flag("FIELDS"):
			o.parsePairs(c, &a)
		case timed && isExpiryOption(a.words[0]):
			a.fail(Error("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified"))
		case a.flag("KEEPTTL"):
			o.keep = true
		case (o.ifNone || o.ifAll) && (equalFold(a.words[0], "FXX") || equalFold(a.words[0], "FNX")):
			a.fail(Error("ERR Only one of FXX or FNX arguments can be specified"))
		case a.flag("FXX"):
			o.ifAll = true
		case a.flag("FNX"):
			o.ifNone = true
		case !o.ifKey && a.flag("NX"):
			o.ifNoKey = true
		case !o.ifNoKey && a.flag("XX"):
			o.ifKey = true
		case equalFold(a.words[0], "NX") || equalFold(a.words[0], "XX"):
			a.fail(ErrSyntax)
		default:
			if o.expireMs, o.expires = expiryOption(c, &a); !o.expires {
				a.fail(Errorf("ERR unknown argument: %s", a.words[0]))
			}
		}
	}
	if a.err == nil && o.pairs == nil {
		return execute.WrongArity(c.Command.FullName())
	}
	return a.err
}

func isExpiryOption(word []byte) bool {
	for _, name := range []string{"EX", "PX", "EXAT", "PXAT", "KEEPTTL"} {
		if equalFold(word, name) {
			return true
		}
	}
	return false
}

// parsePairs reads a number, and as many fields and values, which end the words.
func (o *setFieldsOptions) parsePairs(c *Invocation, a *arguments) {
	if len(a.words) < 3 {
		a.fail(execute.WrongArity(c.Command.FullName()))
		return
	}
	n, err := parseInteger(a.next())
	switch {
	case err != nil || n < 1 || n > math.MaxInt32:
		a.fail(Error("ERR invalid number of fields"))
	case len(a.words)%2 != 0 || n != int64(len(a.words)/2):
		a.fail(execute.WrongArity(c.Command.FullName()))
	default:
		o.pairs = a.words
	}
}

func cmdHSetEx(c *Invocation) error {
	var o setFieldsOptions
	if err := o.parse(c); err != nil {
		return err
	}
	h, err := c.DB.Hash(c.Args[1])
	if err != nil {
		return err
	}
	if allowed, err := o.allowed(&h); err != nil || !allowed {
		c.Reply.Integer(0)
		return err
	}
	if err := h.Expect(len(o.pairs) / 2); err != nil {
		return err
	}
	set := h.Set
	if o.keep {
		set = h.SetKeeping
	}
	for i := 0; i < len(o.pairs); i += 2 {
		if _, err := set(o.pairs[i], o.pairs[i+1]); err != nil {
			return err
		}
	}
	c.Reply.Integer(1)
	c.Effect(append([][]byte{wordHSet, c.Args[1]}, o.pairs...)...)
	x := fieldExpiry{c: c, h: &h, expireMs: o.expireMs, before: []keyevent.Name{keyevent.HSet}}
	for i := 0; i < len(o.pairs); i += 2 {
		switch {
		case o.expires:
			_, err = x.apply(o.pairs[i])
		case o.keep:
			err = repeatExpiry(c, &h, o.pairs[i])
		}
		if err != nil {
			return err
		}
	}
	if len(x.removed)+len(x.expiring) > 0 {
		return x.finish()
	}
	return h.Save(keyevent.HSet)
}

// allowed reports whether the hash, and its fields, are there or not as was asked for.
func (o *setFieldsOptions) allowed(h *storage.Hash) (bool, error) {
	if o.ifKey && !h.Exists() || o.ifNoKey && h.Exists() {
		return false, nil
	}
	if !o.ifNone && !o.ifAll {
		return true, nil
	}
	for i := 0; i < len(o.pairs); i += 2 {
		_, found, err := h.Get(o.pairs[i])
		if err != nil || found != o.ifAll {
			return false, err
		}
	}
	return true, nil
}
