package command

import (
	"kedis/server/execute"
	"kedis/storage"
)

func objectFamily() Family {
	return Family{Commands: []Command{
		{Name: "object", Arity: -2, Group: "generic", Since: "2.2.3", Complexity: "Depends on the subcommand",
			Summary: "Tells how a value is kept.", Subcommands: []Command{
				objectCommand("encoding", "2.2.3", "Returns the form in which Redis would keep the value.", func(c *Invocation, k storage.Key) error {
					c.Reply.BulkString(storage.Encoding(&k.Metadata))
					return nil
				}),
				objectCommand("freq", "4.0.0", "Refuses: how often keys are accessed is not counted.", func(*Invocation, storage.Key) error {
					return errNoFrequency
				}),
				objectCommand("idletime", "2.2.3", "Returns 0: when keys were accessed is not kept.", func(c *Invocation, _ storage.Key) error {
					c.Reply.Integer(0)
					return nil
				}),
				objectCommand("refcount", "2.2.3", "Returns 1: values are not shared.", func(c *Invocation, _ storage.Key) error {
					c.Reply.Integer(1)
					return nil
				}),
				execute.HelpRow("object", "6.2.0", Loading|Stale, CategoryKeyspace,
					"ENCODING <key>",
					"    The form in which Redis would keep the value of the key.",
					"FREQ <key>",
					"    An error: accesses are not counted.",
					"IDLETIME <key>",
					"    0: times of access are not kept.",
					"REFCOUNT <key>",
					"    1: values are not shared."),
			}},
	}}
}

// errNoFrequency is what Redis answers as long as maxmemory-policy is none of its LFU policies.
const errNoFrequency = Error("ERR An LFU maxmemory policy is not selected, access frequency not tracked. " +
	"Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")

// objectCommand is a subcommand that answers something of a key, or nothing if there is no such key.
func objectCommand(name, since, summary string, answer func(*Invocation, storage.Key) error) Command {
	return Command{Name: name, Arity: 3, Flags: ReadOnly, Categories: CategoryKeyspace,
		Keys: []KeySpec{oneKey(2, RO)}, Tips: []string{"nondeterministic_output"}, Since: since, Complexity: "O(1)", Syntax: "key",
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
