package command

import (
	"math"

	"kedis/storage"
)

// msetexCommand is the row of a command that Redis 8.4 and Valkey 9.1 have.
func msetexCommand() Command {
	return Command{Name: "msetex", Arity: -4, Flags: Write | DenyOOM | MovableKeys, Categories: CategoryString,
		Keys: []KeySpec{{Flags: OW | Update, Index: 1, Counted: true, First: 1, Step: 2}},
		Tips: []string{"request_policy:multi_shard", "response_policy:all_succeeded"}, Run: cmdMSetEx,
		Group: "string", Since: "8.4.0", Complexity: "O(N) where N is the number of keys",
		Syntax:  "numkeys key value [key value ...] [NX | XX] [" + expiryTimes + " | KEEPTTL]",
		Summary: "Sets several keys to strings, all or none, and perhaps when they expire."}
}

func cmdMSetEx(c *Invocation) error {
	count, err := parseInteger(c.Args[1])
	if err != nil || count < 1 || count > math.MaxInt32 {
		return Error("ERR invalid numkeys value")
	}
	words := c.Args[2:]
	if count > int64(len(words)/2) {
		return Error("ERR wrong number of key-value pairs")
	}
	pairs := words[:2*count]
	o, err := parseMSetExOptions(words[2*count:])
	if err != nil {
		return err
	}
	expireMs, err := o.expireMs(c)
	if err != nil {
		return err
	}
	refused, err := o.refusesAny(c, pairs)
	if err != nil {
		return err
	}
	replyBit(c, !refused)
	if refused {
		c.NoEffect()
		return nil
	}
	for ; len(pairs) > 0; pairs = pairs[2:] {
		if err := o.set(c, pairs[0], pairs[1], expireMs); err != nil {
			return err
		}
	}
	return nil
}

func parseMSetExOptions(words [][]byte) (stringOptions, error) {
	var o stringOptions
	a := arguments{words: words}
	for a.more() {
		switch {
		case !o.xx && a.flag("NX"):
			o.nx = true
		case !o.nx && a.flag("XX"):
			o.xx = true
		case o.unit == nil && a.flag("KEEPTTL"):
			o.keepTTL = true
		default:
			o.parseTime(&a)
		}
	}
	return o, a.err
}

// refusesAny reports whether what one of the keys holds is against the options.
func (o *stringOptions) refusesAny(c *Invocation, pairs [][]byte) (bool, error) {
	if !o.nx && !o.xx {
		return false, nil
	}
	for i := 0; i < len(pairs); i += 2 {
		if i%(2*storage.PrefetchBatch) == 0 {
			c.DB.PrefetchKeys(pairs[i:], 2)
		}
		k, err := c.DB.Lookup(pairs[i])
		if err != nil {
			return false, err
		}
		if refused, err := o.refuses(c, &k); err != nil || refused {
			return refused, err
		}
	}
	return false, nil
}

// set sets one of the keys, and says so in the words of SET.
func (o *stringOptions) set(c *Invocation, key, value []byte, expireMs int64) error {
	old, err := c.DB.Lookup(key)
	if err != nil {
		return err
	}
	switch {
	case o.unit != nil:
		return setUntil(c, key, &old, value, expireMs)
	case o.keepTTL:
		c.Effect(wordSet, key, value, wordKeepTTL)
		return setString(c, key, &old, value, old.ExpireMs)
	}
	c.Effect(wordSet, key, value)
	return setString(c, key, &old, value, 0)
}
