package command

import (
	"math"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
)

func expireFamily() Family {
	commands := []Command{
		expireCommand("expire", "1.0.0", "seconds", 1000, false, "Sets after how many seconds a key expires."),
		expireCommand("pexpire", "2.6.0", "milliseconds", 1, false, "Sets after how many milliseconds a key expires."),
		expireCommand("expireat", "1.2.0", "unix-time-seconds", 1000, true, "Sets at which Unix time in seconds a key expires."),
		expireCommand("pexpireat", "2.6.0", "unix-time-milliseconds", 1, true, "Sets at which Unix time in milliseconds a key expires."),
		timeCommand("ttl", "1.0.0", 1000, true, "Returns for how many seconds a key has still to live."),
		timeCommand("pttl", "2.6.0", 1, true, "Returns for how many milliseconds a key has still to live."),
		timeCommand("expiretime", "7.0.0", 1000, false, "Returns the Unix time in seconds at which a key expires."),
		timeCommand("pexpiretime", "7.0.0", 1, false, "Returns the Unix time in milliseconds at which a key expires."),
		{Name: "persist", Arity: 2, Flags: Write | Fast, Categories: CategoryKeyspace,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Run: cmdPersist,
			Group: "generic", Since: "2.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Makes a key stay that would have expired."},
	}
	return Family{Commands: commands}
}

func expireCommand(name, since, argument string, unit int64, absolute bool, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: Write | Fast, Categories: CategoryKeyspace,
		Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "generic", Since: since, Complexity: "O(1)",
		Syntax: "key " + argument + " [NX | XX | GT | LT]", Summary: summary,
		Run: func(c *Invocation) error { return expire(c, unit, absolute) }}
}

func timeCommand(name, since string, unit int64, relative bool, summary string) Command {
	command := Command{Name: name, Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryKeyspace,
		Keys: []KeySpec{oneKey(1, RO|Access)}, Touching: execute.LooksAtKeys, Group: "generic", Since: since, Complexity: "O(1)",
		Syntax: "key", Summary: summary,
		Run: func(c *Invocation) error { return expiry(c, unit, relative) }}
	if relative {
		command.Tips = []string{"nondeterministic_output"}
	}
	return command
}

// expireConditions say when a key's expiry is changed.
type expireConditions struct {
	nx, xx, gt, lt bool
}

func parseExpireConditions(words [][]byte) (o expireConditions, err error) {
	for a := (arguments{words: words}); a.more(); {
		switch {
		case a.flag("NX"):
			o.nx = true
		case a.flag("XX"):
			o.xx = true
		case a.flag("GT"):
			o.gt = true
		case a.flag("LT"):
			o.lt = true
		default:
			return o, Errorf("ERR Unsupported option %s", execute.UntilZero(a.words[0]))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return o, Error("ERR NX and XX, GT or LT options at the same time are not compatible")
	case o.gt && o.lt:
		return o, Error("ERR GT and LT options at the same time are not compatible")
	}
	return o, nil
}

// allow tells whether an expiry may become another; 0 is none, which is later than all others.
func (o expireConditions) allow(old, next int64) bool {
	switch {
	case o.nx && old != 0, o.xx && old == 0:
		return false
	case o.gt && (old == 0 || next <= old), o.lt && old != 0 && next >= old:
		return false
	}
	return true
}

// expire makes a key expire. It is repeated as the time at which it does, or as the key's removal
// when that time has passed.
func expire(c *Invocation, unit int64, absolute bool) error {
	conditions, err := parseExpireConditions(c.Args[3:])
	if err != nil {
		return err
	}
	at, err := parseExpiry(c, c.Args[2], unit, absolute)
	if err != nil {
		return err
	}
	key := c.Args[1]
	var k storage.Key
	err = c.DB.LookupInto(key, &k)
	if err != nil {
		return err
	}
	switch {
	case !k.Exists || !conditions.allow(k.ExpireMs, at):
		c.NoEffect()
		c.Reply.Integer(0)
		return nil
	case at <= c.Now && !c.Applying():
		c.Effect(wordDel, key)
		c.DB.Notify(keyevent.Del, key)
		err = c.DB.Remove(key, k)
	default:
		at = max(at, 1) // 0 would be none
		var digits [20]byte
		c.BeginEffect(3, wordPExpireAt, key)
		c.EffectNumber(number.AppendInt(digits[:0], at))
		c.DB.Notify(keyevent.Expire, key)
		err = c.DB.SetExpiry(key, &k, at)
	}
	if err == nil {
		c.Reply.Integer(1)
	}
	return err
}

// parseExpiry reads a time in units of so many milliseconds, and returns it as Unix ms. It may have
// passed, and be negative.
func parseExpiry(c *Invocation, word []byte, unit int64, absolute bool) (int64, error) {
	n, err := parseInteger(word)
	if err != nil {
		return 0, err
	}
	base := c.Now
	if absolute {
		base = 0
	}
	if n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit > math.MaxInt64-base {
		return 0, Errorf("ERR invalid expire time in '%s' command", c.Command.FullName())
	}
	return n*unit + base, nil
}

// expiry answers when a key expires, or, relative, how long that is from now: -1 for never, -2 for
// no such key.
func expiry(c *Invocation, unit int64, relative bool) error {
	k, err := c.DB.Lookup(c.Args[1])
	switch {
	case err != nil:
		return err
	case !k.Exists:
		c.Reply.Integer(-2)
		return nil
	case k.ExpireMs == 0:
		c.Reply.Integer(-1)
		return nil
	}
	at := k.ExpireMs
	if relative {
		at = max(at-c.Now, 0)
	}
	c.Reply.Integer(at/unit + (at%unit+unit/2)/unit) // rounded, and without overflow
	return nil
}

func cmdPersist(c *Invocation) error {
	var k storage.Key
	err := c.DB.LookupInto(c.Args[1], &k)
	if err != nil {
		return err
	}
	if !k.Exists || k.ExpireMs == 0 {
		c.NoEffect()
		c.Reply.Integer(0)
		return nil
	}
	c.Reply.Integer(1)
	c.DB.Notify(keyevent.Persist, c.Args[1])
	return c.DB.SetExpiry(c.Args[1], &k, 0)
}
