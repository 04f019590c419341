package command

import (
	"math/bits"

	"kedis/internal/number"
	"kedis/storage"
	bitmap "kedis/storage/bits"
)

const (
	errBitOffset    = Error("ERR bit offset is not an integer or out of range")
	errBit          = Error("ERR bit is not an integer or out of range")
	errBitArgument  = Error("ERR The bit argument must be 1 or 0.")
	errBitFieldType = Error("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	errBitOverflow  = Error("ERR Invalid OVERFLOW type specified")
	errBitFieldRO   = Error("ERR BITFIELD_RO only supports the GET subcommand")
	errBitOpNot     = Error("ERR BITOP NOT must be called with a single source key.")
	errBitOpSources = "ERR BITOP %s must be called with at least two source keys."
)

func bitmapFamily() Family {
	return Family{Commands: []Command{
		{Name: "bitcount", Arity: -2, Flags: ReadOnly, Categories: CategoryBitmap,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdBitCount,
			Group: "bitmap", Since: "2.6.0", Complexity: "O(N) where N is the length of the range", Syntax: "key [start end [BYTE | BIT]]",
			Summary: "Counts the bits of a string, or of a range of it, that are 1."},
		{Name: "bitfield", Arity: -2, Flags: Write | DenyOOM, Categories: CategoryBitmap,
			Keys: []KeySpec{{Flags: RW | Access | Update | VariableFlags, Index: 1, Step: 1,
				Notes: "This command allows both access and modification of the key"}},
			KeyFlags: bitFieldKeyFlags, Run: func(c *Invocation) error { return bitField(c, false) },
			Group: "bitmap", Since: "3.2.0", Complexity: "O(1) for each operation",
			Syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | INCRBY encoding offset increment> " +
				"[GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] <SET encoding offset value:integer | INCRBY encoding offset increment> ...]]",
			Summary: "Reads, sets and increments integers of any width within a string."},
		{Name: "bitfield_ro", Arity: -2, Flags: ReadOnly | Fast, Categories: CategoryBitmap,
			Keys:  []KeySpec{oneKey(1, RO|Access)},
			Run:   func(c *Invocation) error { return bitField(c, true) },
			Group: "bitmap", Since: "6.0.0", Complexity: "O(1) for each operation", Syntax: "key [GET encoding offset [GET encoding offset ...]]",
			Summary: "Reads integers of any width within a string."},
		{Name: "bitop", Arity: -4, Flags: Write | DenyOOM, Categories: CategoryBitmap,
			Keys: []KeySpec{oneKey(2, OW|Update), keyRange(3, -1, 1, RO|Access)}, Run: cmdBitOp,
			Group: "bitmap", Since: "2.6.0", Complexity: "O(N) where N is the length of the longest string",
			Syntax:  "<AND | OR | XOR | NOT | DIFF | DIFF1 | ANDOR | ONE> destkey key [key ...]",
			Summary: "Stores the bitwise combination of strings."},
		{Name: "bitpos", Arity: -3, Flags: ReadOnly, Categories: CategoryBitmap,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdBitPos,
			Group: "bitmap", Since: "2.8.7", Complexity: "O(N) where N is the length of the range", Syntax: "key bit [start [end [BYTE | BIT]]]",
			Summary: "Finds the first bit of a string, or of a range of it, that is 1 or 0."},
		{Name: "getbit", Arity: 3, Flags: ReadOnly | Fast, Categories: CategoryBitmap,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Run: cmdGetBit,
			Group: "bitmap", Since: "2.2.0", Complexity: "O(1)", Syntax: "key offset",
			Summary: "Returns a bit of a string."},
		{Name: "setbit", Arity: 4, Flags: Write | DenyOOM, Categories: CategoryBitmap,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdSetBit,
			Group: "bitmap", Since: "2.2.0", Complexity: "O(N) where N is the length of the string", Syntax: "key offset value:integer",
			Summary: "Sets a bit of a string to 1 or 0, and makes the string longer where need be."},
	}}
}

// bitOffset reads the offset of a bit. It has to lie within the longest string. Of width 0 it is a
// number of bits; of others it may also be one of integers of that width, behind a "#".
func bitOffset(c *Invocation, word []byte, width uint8) (uint64, error) {
	scale := uint64(1)
	if width > 0 && len(word) > 0 && word[0] == '#' {
		word, scale = word[1:], uint64(width)
	}
	n, ok := number.ParseInt(word)
	if !ok || n < 0 {
		return 0, errBitOffset
	}
	high, offset := bits.Mul64(uint64(n), scale)
	if high > 0 || offset/8 >= uint64(longestString(c)) {
		return 0, errBitOffset
	}
	return offset, nil
}

func cmdGetBit(c *Invocation) error {
	offset, err := bitOffset(c, c.Args[2], 0)
	if err != nil {
		return err
	}
	bit, err := c.DB.GetBit(c.Args[1], offset)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(bit))
	return nil
}

func cmdSetBit(c *Invocation) error {
	offset, err := bitOffset(c, c.Args[2], 0)
	if err != nil {
		return err
	}
	bit, ok := number.ParseInt(c.Args[3])
	if !ok || bit != 0 && bit != 1 {
		return errBit
	}
	old, err := c.DB.SetBit(c.Args[1], offset, int(bit))
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(old))
	return nil
}

// parseBitUnit reads whether the ends of a range count bytes or bits.
func parseBitUnit(word []byte) (bitmap.Unit, error) {
	switch {
	case equalFold(word, "BIT"):
		return bitmap.Bits, nil
	case equalFold(word, "BYTE"):
		return bitmap.Bytes, nil
	}
	return 0, ErrSyntax
}

func cmdBitCount(c *Invocation) error {
	r, err := parseCountRange(c.Args[2:])
	if err != nil {
		return err
	}
	count, err := c.DB.CountBits(c.Args[1], r)
	if err != nil {
		return err
	}
	c.Reply.Integer(count)
	return nil
}

func parseCountRange(words [][]byte) (r bitmap.Range, err error) {
	if len(words) == 0 {
		return bitmap.Range{Open: true}, nil
	}
	if len(words) == 1 || len(words) > 3 {
		return r, ErrSyntax
	}
	if r.Start, err = parseInteger(words[0]); err != nil {
		return r, err
	}
	if r.End, err = parseInteger(words[1]); err != nil {
		return r, err
	}
	if len(words) == 3 {
		r.Unit, err = parseBitUnit(words[2])
	}
	return r, err
}

func cmdBitPos(c *Invocation) error {
	bit, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	if bit != 0 && bit != 1 {
		return errBitArgument
	}
	r, err := parsePositionRange(c.Args[3:])
	if err != nil {
		return err
	}
	position, err := c.DB.BitPosition(c.Args[1], int(bit), r)
	if err != nil {
		return err
	}
	c.Reply.Integer(position)
	return nil
}

func parsePositionRange(words [][]byte) (r bitmap.Range, err error) {
	r.Open = len(words) < 2
	if len(words) == 0 {
		return r, nil
	}
	if len(words) > 3 {
		return r, ErrSyntax
	}
	if r.Start, err = parseInteger(words[0]); err != nil {
		return r, err
	}
	if len(words) == 3 {
		if r.Unit, err = parseBitUnit(words[2]); err != nil {
			return r, err
		}
	}
	if len(words) > 1 {
		r.End, err = parseInteger(words[1])
	}
	return r, err
}

// bitOperations are what BITOP is asked for.
var bitOperations = [...]struct {
	name        string
	operation   bitmap.Operation
	leastOthers int  // that the first source is combined with
	new         bool // since 8.2
}{
	{name: "AND", operation: bitmap.And}, {name: "OR", operation: bitmap.Or}, {name: "XOR", operation: bitmap.Xor}, {name: "NOT", operation: bitmap.Not},
	{"DIFF", bitmap.Diff, 1, true}, {"DIFF1", bitmap.Diff1, 1, true}, {"ANDOR", bitmap.AndOr, 1, true}, {"ONE", bitmap.One, 0, true},
}

func cmdBitOp(c *Invocation) error {
	for i := range bitOperations {
		o := &bitOperations[i]
		switch sources := len(c.Args) - 3; {
		case !equalFold(c.Args[1], o.name):
			continue
		case o.operation == bitmap.Not && sources != 1:
			return errBitOpNot
		case sources <= o.leastOthers:
			return Errorf(errBitOpSources, o.name)
		case o.new:
			return combineNewly(c, o.operation)
		}
		return combineBits(c, o.operation, nil)
	}
	return ErrSyntax
}

func combineBits(c *Invocation, operation bitmap.Operation, show func(part []byte)) error {
	length, err := c.DB.CombineBits(c.Args[2], operation, c.Args[3:], show)
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(length))
	return nil
}

// combineNewly combines strings in a way that not all replicas know: it is repeated as the string
// that comes out.
func combineNewly(c *Invocation, operation bitmap.Operation) error {
	target := c.Args[2]
	old, err := c.DB.Lookup(target)
	if err != nil {
		return err
	}
	r := repeatedString{c: c, key: target}
	err = combineBits(c, operation, r.add)
	switch {
	case r.length > 0:
		r.end()
	case old.Exists:
		c.Effect(wordDel, target)
	default:
		c.NoEffect()
	}
	return err
}

// repeatedString repeats a new string that has come out in parts. Of half a gigabyte with a bit at
// its end only the first part and the last are repeated: zeros between others come by themselves.
type repeatedString struct {
	c                *Invocation
	key              []byte
	length, repeated int
}

func (r *repeatedString) add(part []byte) {
	from := r.length
	r.length += len(part)
	switch {
	case from == 0:
		r.c.Effect(wordSet, r.key, part)
	case bitmap.Count(part) > 0:
		r.c.Effect(wordSetRange, r.key, formatInteger(int64(from)), part)
	default:
		return
	}
	r.repeated = r.length
}

// end repeats the length, where zeros end the string.
func (r *repeatedString) end() {
	if r.repeated < r.length {
		r.c.Effect(wordSetRange, r.key, formatInteger(int64(r.length-1)), []byte{0})
	}
}

// bitField is BITFIELD, and when nothing may be written BITFIELD_RO.
func bitField(c *Invocation, readOnly bool) error {
	operations, err := parseBitField(c, c.Args[2:], readOnly)
	if err != nil {
		return err
	}
	c.Reply.Array(len(operations))
	return c.DB.BitField(c.Args[1], operations, func(number int64, ok bool) {
		if ok {
			c.Reply.Integer(number)
		} else {
			c.Reply.Null()
		}
	})
}

func parseBitField(c *Invocation, words [][]byte, readOnly bool) ([]storage.FieldOperation, error) {
	operations := make([]storage.FieldOperation, 0, len(words)/3)
	overflow, writes := bitmap.Wrap, false
	a := arguments{words: words}
	for a.more() {
		o := storage.FieldOperation{Overflow: overflow}
		switch {
		case len(a.words) >= 2 && a.flag("OVERFLOW"):
			overflow = parseOverflow(&a)
			continue
		case len(a.words) >= 3 && a.flag("GET"):
			parseField(c, &a, &o)
		case len(a.words) >= 4 && a.flag("SET"):
			o.Action = storage.FieldSet
			parseField(c, &a, &o)
		case len(a.words) >= 4 && a.flag("INCRBY"):
			o.Action = storage.FieldIncrement
			parseField(c, &a, &o)
		default:
			a.fail(ErrSyntax)
		}
		writes = writes || o.Action != storage.FieldGet
		operations = append(operations, o)
	}
	if readOnly && writes {
		a.fail(errBitFieldRO)
	}
	return operations, a.err
}

func parseOverflow(a *arguments) bitmap.Overflow {
	switch {
	case a.flag("WRAP"):
		return bitmap.Wrap
	case a.flag("SAT"):
		return bitmap.Saturate
	case a.flag("FAIL"):
		return bitmap.Fail
	}
	a.fail(errBitOverflow)
	return bitmap.Wrap
}

// parseField consumes type and offset of a field, and the number of an operation that writes.
func parseField(c *Invocation, a *arguments, o *storage.FieldOperation) {
	var ok bool
	if o.Type, ok = bitmap.ParseType(a.next()); !ok {
		a.fail(errBitFieldType)
		return
	}
	var err error
	if o.Offset, err = bitOffset(c, a.next(), o.Type.Bits); err == nil && o.Action != storage.FieldGet {
		o.Number, err = parseInteger(a.next())
	}
	if err != nil {
		a.fail(err)
	}
}

// bitFieldKeyFlags tells BITFIELD that only reads from others, as far as the words make sense.
func bitFieldKeyFlags(args [][]byte) KeyFlags {
	for words := args[2:]; len(words) > 0; {
		switch {
		case equalFold(words[0], "get") && len(words) > 2:
			words = words[3:]
		case equalFold(words[0], "overflow") && len(words) > 1:
			words = words[2:]
		default:
			return RW | Access | Update
		}
	}
	return RO | Access
}
