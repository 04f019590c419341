package command

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
)

// populateTogether is how many keys of DEBUG POPULATE are one commit at most, and populateBytes how
// many bytes their values have.
const (
	populateTogether = 1000
	populateBytes    = 8 << 20
)

// debugPopulate makes keys with values, commit by commit, while nothing else runs. Unlike in Redis
// replicas get them too: what is in the data is in the log.
func debugPopulate(c *Invocation) error {
	if c.Engine.Loading() { // what applies the log takes no locks
		return execute.ErrLoading
	}
	if !c.Alone() {
		return Error("ERR DEBUG POPULATE can't run inside of MULTI")
	}
	count, ok := number.ParseInt(c.Args[2])
	if !ok || count < 0 {
		return ErrNotReal
	}
	size := int64(0)
	if len(c.Args) > 4 {
		if size, ok = number.ParseInt(c.Args[4]); !ok || size < 0 {
			return ErrNotReal
		}
	}
	prefix := execute.UntilZero(wordOr(c, 3, "key"))
	switch {
	case size > c.Engine.Config.ProtoMaxBulkLen.Get():
		return ErrTooLong
	case c.Engine.IsReplica():
		return execute.ErrReadOnly
	}
	together := min(populateTogether, 1+populateBytes/max(size, 1))
	for from := int64(0); from < count && !c.Engine.Stopping(); from += together {
		if err := populate(c, prefix, from, min(from+together, count), int(size)); err != nil {
			return err
		}
	}
	c.Reply.OK()
	return nil
}

// populate makes the keys prefix:from up to prefix:before, those that there are not.
func populate(c *Invocation, prefix []byte, from, before int64, size int) error {
	if err := c.Writable(); err != nil {
		return Errorf("MISCONF Errors writing to the log: %v", err)
	}
	t := c.Engine.Store.NewTxn()
	t.Begin(storage.Mode{Writing: true, Notify: c.Engine.WantedEvents()}, c.Now, 0)
	db := t.DB(c.DB.Number())
	for n := from; n < before; n++ {
		key := strconv.AppendInt(append(slices.Clone(prefix), ':'), n, 10)
		old, err := db.Lookup(key)
		if err != nil {
			return err
		}
		if old.Exists {
			continue
		}
		value := fmt.Appendf(nil, "value:%d", n)
		if size > 0 {
			value = append(value, bytes.Repeat([]byte{0}, max(size-len(value), 0))...)[:size]
		}
		if err := db.SetString(key, &old, value, 0); err != nil {
			return err
		}
		t.Effect(c.DB.Number(), []byte("SET"), key, value)
	}
	c.Engine.Watches.Changed(t.KeyEvents(), 0)
	if err := c.Engine.Store.Commit(t); err != nil {
		return err
	}
	c.Engine.Tell(t)
	c.Session.Written = c.Engine.Store.Position()
	return nil
}

// debugProtocol replies with a value of each type that the protocol has.
func debugProtocol(c *Invocation) error {
	reply, known := protocolExamples[string(bytes.ToLower(c.Args[2]))]
	if !known {
		return Error("ERR Wrong protocol type name. Please use one of the following: " +
			"string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false")
	}
	return reply(c)
}

var protocolExamples = map[string]func(c *Invocation) error{
	"string":   func(c *Invocation) error { c.Reply.BulkString("Hello World"); return nil },
	"integer":  func(c *Invocation) error { c.Reply.Integer(12345); return nil },
	"double":   func(c *Invocation) error { c.Reply.Double(3.141); return nil },
	"bignum":   func(c *Invocation) error { c.Reply.BigNumber("1234567999999999999999999999999999999"); return nil },
	"null":     func(c *Invocation) error { c.Reply.Null(); return nil },
	"verbatim": func(c *Invocation) error { c.Reply.Verbatim("txt", "This is a verbatim\nstring"); return nil },
	"true":     func(c *Invocation) error { c.Reply.Bool(true); return nil },
	"false":    func(c *Invocation) error { c.Reply.Bool(false); return nil },
	"array": func(c *Invocation) error {
		c.Reply.Array(3)
		return replyIntegers(c, 0, 1, 2)
	},
	"set": func(c *Invocation) error {
		c.Reply.Set(3)
		return replyIntegers(c, 0, 1, 2)
	},
	"map": func(c *Invocation) error {
		c.Reply.Map(3)
		for n := range 3 {
			c.Reply.Integer(int64(n))
			c.Reply.Bool(n == 1)
		}
		return nil
	},
	"attrib": func(c *Invocation) error {
		if c.Reply.Protocol() > 2 {
			c.Reply.Attribute(1)
			c.Reply.BulkString("key-popularity")
			c.Reply.Array(2)
			c.Reply.BulkString("key:123")
			c.Reply.Integer(90)
		}
		c.Reply.BulkString("Some real reply following the attribute")
		return nil
	},
	"push": func(c *Invocation) error {
		if c.Reply.Protocol() < 3 {
			return Error("ERR RESP2 is not supported by this command")
		}
		c.Reply.Push(2)
		c.Reply.BulkString("server-cpu-usage")
		c.Reply.Integer(42)
		c.Reply.BulkString("Some real reply following the push reply")
		return nil
	},
}

func replyIntegers(c *Invocation, integers ...int64) error {
	for _, n := range integers {
		c.Reply.Integer(n)
	}
	return nil
}

// debugChangeHistory begins a new history, as a start after a crash does.
func debugChangeHistory(c *Invocation) error {
	if c.Engine.Loading() { // a start begins one when it has applied the log
		return execute.ErrLoading
	}
	if err := c.Engine.Replication().BeginHistory(); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}
