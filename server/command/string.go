package command

import (
	"math"

	"kedis/storage"
	"kedis/storage/layout"
)

func stringFamily() Family {
	return Family{Commands: []Command{
		{Name: "get", Arity: 2, Flags: ReadOnly | Fast, Categories: CategoryString,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdGet,
			Group: "string", Since: "1.0.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the value of a key that holds a string."},
		{Name: "set", Arity: -3, Flags: Write | DenyOOM, Categories: CategoryString,
			Keys: []KeySpec{{Flags: RW | Access | Update | VariableFlags, Index: 1, Step: 1,
				Notes: "RW and ACCESS due to the optional `GET` argument"}}, Run: cmdSet,
			Group: "string", Since: "1.0.0", Complexity: "O(1)",
			Syntax:  "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]",
			Summary: "Sets a key to a string, whatever it held before, and perhaps when it expires."},
	}}
}

func cmdGet(c *Context) error {
	k, err := c.DB.LookupType(c.Args[1], layout.String)
	if err != nil {
		return err
	}
	if !k.Exists {
		c.Reply.Null()
		return nil
	}
	c.Reply.Bulk(k.Value)
	return nil
}

// setOptions are what may stand behind SET's value.
type setOptions struct {
	nx, xx, get, keepTTL bool
	expireMs             int64 // Unix ms; 0: none
	timed                bool
}

func cmdSet(c *Context) error {
	options, err := parseSetOptions(c)
	if err != nil {
		return err
	}
	key, value := c.Args[1], c.Args[2]
	old, err := c.DB.Lookup(key)
	if err != nil {
		return err
	}
	if options.get {
		if old.Exists && old.Type != layout.String {
			return ErrWrongType
		}
		if old.Exists {
			c.Reply.Bulk(old.Value)
		} else {
			c.Reply.Null()
		}
	}
	if options.nx && old.Exists || options.xx && !old.Exists {
		if !options.get {
			c.Reply.Null()
		}
		return nil
	}
	next := layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: value, ExpireMs: options.expireMs}
	if options.keepTTL && old.Exists {
		next.ExpireMs = old.ExpireMs
	}
	if err := c.setString(key, old, next, options); err != nil {
		return err
	}
	if !options.get {
		c.Reply.OK()
	}
	return nil
}

// setString stores a string, and says how it is repeated: with the time at which it expires, since
// the time that is left is another when it is repeated.
func (c *Context) setString(key []byte, old storage.Key, next layout.Metadata, o setOptions) error {
	switch {
	case o.timed && next.ExpireMs <= c.Now && !c.Applying():
		// It is over before it began: what was there is gone.
		if !old.Exists {
			c.NoEffect()
			return nil
		}
		c.Effect(wordDel, key)
		return c.DB.Remove(key, old)
	case o.timed:
		c.Effect(wordSet, key, next.Value, wordPXAT, formatInteger(next.ExpireMs))
	case o.get || o.nx || o.xx:
		if o.keepTTL {
			c.Effect(wordSet, key, next.Value, wordKeepTTL)
		} else {
			c.Effect(wordSet, key, next.Value)
		}
	}
	return c.DB.Save(key, old, next)
}

func parseSetOptions(c *Context) (setOptions, error) {
	var o setOptions
	a := arguments{words: c.Args[3:]}
	for a.more() {
		var n []byte
		switch {
		case !o.xx && a.flag("NX"):
			o.nx = true
		case !o.nx && a.flag("XX"):
			o.xx = true
		case a.flag("GET"):
			o.get = true
		case !o.timed && a.flag("KEEPTTL"):
			o.keepTTL = true
		case o.timed || o.keepTTL:
			a.fail(ErrSyntax)
		case a.option("EX", &n):
			o.expires(c, &a, n, 1000, c.Now)
		case a.option("PX", &n):
			o.expires(c, &a, n, 1, c.Now)
		case a.option("EXAT", &n):
			o.expires(c, &a, n, 1000, 0)
		case a.option("PXAT", &n):
			o.expires(c, &a, n, 1, 0)
		default:
			a.fail(ErrSyntax)
		}
	}
	return o, a.err
}

// expires reads a time in units of so many milliseconds, after a base (Unix ms).
func (o *setOptions) expires(c *Context, a *arguments, word []byte, unit, base int64) {
	if a.err != nil {
		return
	}
	o.timed = true
	o.expireMs, a.err = c.expireTime(word, unit, base)
}

// expireTime is a time at which something expires, in Unix ms. It has to be positive, and to be
// below 2^63 in milliseconds.
func (c *Context) expireTime(word []byte, unit, base int64) (int64, error) {
	n, err := parseInteger(word)
	if err != nil {
		return 0, err
	}
	if n <= 0 || n > math.MaxInt64/unit || n*unit > math.MaxInt64-base {
		return 0, Errorf("ERR invalid expire time in '%s' command", c.Command.full)
	}
	return n*unit + base, nil
}
