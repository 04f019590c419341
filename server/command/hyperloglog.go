package command

import (
	"kedis/server/execute"
	"kedis/storage"
	"kedis/storage/hyperloglog"
)

func hyperLogLogFamily() Family {
	return Family{
		Commands: []Command{
			{Name: "pfadd", Arity: -2, Flags: Write | DenyOOM | Fast, Categories: CategoryHyperLogLog,
				Keys: []KeySpec{oneKey(1, RW|Insert)}, Run: cmdPFAdd,
				Group: "hyperloglog", Since: "2.8.9", Complexity: "O(1) for each element", Syntax: "key [element [element ...]]",
				Summary: "Adds elements to a HyperLogLog, and makes it if it is missing."},
			{Name: "pfcount", Arity: -2, Flags: ReadOnly | MayReplicate, Categories: CategoryHyperLogLog,
				Keys: []KeySpec{{Flags: RW | Access, Index: 1, Last: -1, Step: 1,
					Notes: "RW because it may change the internal representation of the key, and propagate to replicas"}}, Run: cmdPFCount,
				Group: "hyperloglog", Since: "2.8.9", Complexity: "O(1) with one key, O(N) with N keys", Syntax: "key [key ...]",
				Summary: "Estimates how many distinct elements one or several HyperLogLogs have seen."},
			{Name: "pfmerge", Arity: -2, Flags: Write | DenyOOM, Categories: CategoryHyperLogLog,
				Keys: []KeySpec{oneKey(1, RW|Access|Insert), keyRange(2, -1, 1, RO|Access)}, Run: cmdPFMerge,
				Group: "hyperloglog", Since: "2.8.9", Complexity: "O(N) with N keys", Syntax: "destkey [sourcekey [sourcekey ...]]",
				Summary: "Adds what several HyperLogLogs have seen to one of them."},
			{Name: "pfdebug", Arity: 3, Flags: Write | DenyOOM | Admin, Categories: CategoryHyperLogLog,
				Keys: []KeySpec{oneKey(2, RW|Access)}, Run: cmdPFDebug,
				Group: "hyperloglog", Since: "2.8.9", Complexity: "N/A", Syntax: "subcommand key",
				Summary: "Shows a HyperLogLog's registers (GETREG), opcodes (DECODE) or encoding (ENCODING), or makes it dense (TODENSE)."},
			{Name: "pfselftest", Arity: 1, Flags: Admin | Worker, Categories: CategoryHyperLogLog, Run: cmdPFSelfTest,
				Group: "hyperloglog", Since: "2.8.9", Complexity: "N/A",
				Summary: "Checks that HyperLogLogs work as they should on this machine."},
		},
		Errors: map[error]string{
			hyperloglog.ErrInvalid:   "WRONGTYPE Key is not a valid HyperLogLog string value.",
			hyperloglog.ErrCorrupt:   "INVALIDOBJ Corrupted HLL object detected",
			hyperloglog.ErrNotSparse: "ERR HLL encoding is not sparse",
		},
	}
}

func sparseMaxBytes(c *Invocation) int { return int(c.Engine.Config.HLLSparseMaxBytes.Get()) }

func cmdPFAdd(c *Invocation) error {
	changed, err := c.DB.HyperLogLogAdd(c.Args[1], c.Args[2:], sparseMaxBytes(c))
	if err != nil {
		return err
	}
	replyBit(c, changed)
	return nil
}

// replyBit replies with 1 or 0, in both protocols.
func replyBit(c *Invocation, one bool) {
	c.Reply.Integer(bit(one))
}

// bit is 1 for yes, 0 for no.
func bit(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func cmdPFCount(c *Invocation) error {
	var count uint64
	var err error
	if len(c.Args) == 2 {
		count, err = c.DB.HyperLogLogCount(c.Args[1])
	} else {
		c.NoEffect()
		count, err = c.DB.HyperLogLogCountUnion(c.Args[1:])
	}
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(count))
	return nil
}

func cmdPFMerge(c *Invocation) error {
	if err := c.DB.HyperLogLogMerge(c.Args[1], c.Args[2:], sparseMaxBytes(c)); err != nil {
		return err
	}
	c.Reply.OK()
	return nil
}

func cmdPFDebug(c *Invocation) error {
	key := c.Args[2]
	k, err := c.DB.HyperLogLog(key)
	if err != nil {
		return err
	}
	if !k.Exists {
		return Error("ERR The specified key does not exist")
	}
	switch what := c.Args[1]; {
	case equalFold(what, "GETREG"):
		return replyRegisters(c, key, k)
	case equalFold(what, "DECODE"):
		opcodes, err := hyperloglog.Opcodes(nil, k.Value)
		if err != nil {
			return err
		}
		c.Reply.Bulk(opcodes)
	case equalFold(what, "ENCODING"):
		encoding, err := hyperloglog.EncodingOf(k.Value)
		if err != nil {
			return err
		}
		c.Reply.SimpleString(encoding.String())
	case equalFold(what, "TODENSE"):
		converted, err := c.DB.HyperLogLogDensify(key, k)
		if err != nil {
			return err
		}
		replyBit(c, converted)
	default:
		return Errorf("ERR Unknown PFDEBUG subcommand '%s'", execute.UntilZero(what))
	}
	return nil
}

// replyRegisters shows all registers. It makes the key dense, as in Redis.
func replyRegisters(c *Invocation, key []byte, k storage.Key) error {
	if _, err := c.DB.HyperLogLogDensify(key, k); err != nil {
		return err
	}
	registers, err := hyperloglog.RegistersOf(k.Value)
	if err != nil {
		return err
	}
	c.Reply.Array(len(registers))
	for _, rank := range registers {
		c.Reply.Integer(int64(rank))
	}
	return nil
}

func cmdPFSelfTest(c *Invocation) error {
	if err := hyperloglog.SelfTest(uint64(c.Now)); err != nil {
		return Errorf("TESTFAILED %v", err)
	}
	c.Reply.OK()
	return nil
}
