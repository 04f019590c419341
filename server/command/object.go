package command

import (
	"math"

	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/layout"
)

func objectFamily() Family {
	return Family{Commands: []Command{
		{Name: "object", Arity: -2, Group: "generic", Since: "2.2.3", Complexity: "Depends on the subcommand",
			Summary: "Tells how a value is kept.", Subcommands: []Command{
				objectCommand("encoding", "2.2.3", "Returns the form in which Redis would keep the value.", func(c *Invocation, k storage.Key) error {
					c.Reply.BulkString(storage.Encoding(&k.Metadata))
					return nil
				}),
				objectCommand("freq", "4.0.0", "Returns the logarithm of how often a key is accessed, while maxmemory-policy is an LFU policy.", objectFrequency),
				objectCommand("idletime", "2.2.3", "Returns for how many seconds a key has not been accessed, as far as that is known.", objectIdleTime),
				objectCommand("refcount", "2.2.3", "Returns how often Redis would refer to the value: small integers are shared there.", func(c *Invocation, k storage.Key) error {
					c.Reply.Integer(redisReferences(k))
					return nil
				}),
				execute.HelpRow("object", "6.2.0", Loading|Stale, CategoryKeyspace,
					"ENCODING <key>",
					"    The form in which Redis would keep the value of the key.",
					"FREQ <key>",
					"    The logarithm of how often the key is accessed. maxmemory-policy has to be an LFU policy.",
					"IDLETIME <key>",
					"    For how many seconds the key has not been accessed: at least so many, when that is not known better.",
					"REFCOUNT <key>",
					"    How often Redis would refer to the value: very often if it is a small integer, else once."),
			}},
	}}
}

const (
	adjusts        = " Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
	errNoFrequency = Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked." + adjusts)
	errNoIdleTime  = Error("ERR An LFU maxmemory policy is selected, idle time not tracked." + adjusts)
)

func objectFrequency(c *Invocation, _ storage.Key) error {
	if !c.Engine.Config.MaxmemoryPolicy.Get().NotesFrequencies() {
		return errNoFrequency
	}
	c.Reply.Integer(int64(c.DB.Use(c.Args[2]).Frequency))
	return nil
}

// objectIdleTime has accesses noted from now on, if they weren't.
func objectIdleTime(c *Invocation, _ storage.Key) error {
	if c.Engine.Config.MaxmemoryPolicy.Get().NotesFrequencies() {
		return errNoIdleTime
	}
	c.Engine.NoteTouches()
	c.Reply.Integer(idleSeconds(c, c.Args[2]))
	return nil
}

// idleSeconds is for how long a key hasn't been accessed, as far as that is known.
func idleSeconds(c *Invocation, key []byte) int64 { return max(c.Now/1000-c.DB.Use(key).Last, 0) }

// redisReferences is how often Redis would refer to a value: small integers are shared by all who
// use them.
func redisReferences(k storage.Key) int64 {
	const sharedIntegers, shared = 10000, math.MaxInt32
	if k.Type == layout.String && k.Encoding == layout.Plain {
		if n, ok := number.ParseInt(k.Value); ok && n >= 0 && n < sharedIntegers {
			return shared
		}
	}
	return 1
}

// objectCommand is a subcommand that answers something of a key, or nothing if there is no such
// key.
func objectCommand(name, since, summary string, answer func(*Invocation, storage.Key) error) Command {
	return Command{Name: name, Arity: 3, Flags: ReadOnly, Categories: CategoryKeyspace,
		Keys: []KeySpec{oneKey(2, RO)}, Touching: execute.LooksAtKeys, Tips: []string{"nondeterministic_output"}, Since: since, Complexity: "O(1)", Syntax: "key",
		Summary: summary,
		Run: func(c *Invocation) error {
			k, err := c.DB.Silent().Lookup(c.Args[2])
			switch {
			case err != nil:
				return err
			case !k.Exists:
				c.Reply.Null()
				return nil
			}
			return answer(c, k)
		}}
}
