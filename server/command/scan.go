package command

import (
	"cmp"
	"math"
	"strconv"

	"kedis/storage"
	"kedis/storage/layout"
)

func scanFamily() Family {
	return Family{Commands: []Command{
		{Name: "scan", Arity: -2, Flags: ReadOnly, Categories: CategoryKeyspace, Run: cmdScan,
			Tips:  []string{"nondeterministic_output", "request_policy:special", "response_policy:special"},
			Group: "generic", Since: "2.8.0", Complexity: scanComplexity,
			Syntax:  "cursor [MATCH pattern] [COUNT count] [TYPE type]",
			Summary: "Walks the keys of the database, some with each call."},
		scanCommand("hscan", "hash", CategoryHash, layout.Hash, " [NOVALUES]", "Walks the fields and values of a hash, some with each call."),
		scanCommand("sscan", "set", CategorySet, layout.Set, "", "Walks the members of a set, some with each call."),
		scanCommand("zscan", "sorted-set", CategorySortedSet, layout.ZSet, "", "Walks the members and scores of a sorted set, some with each call."),
	}}
}

const scanComplexity = "O(M) for a call that looks at M elements, and O(N) for a whole walk over N"

func scanCommand(name, group string, category Categories, t layout.Type, more, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: ReadOnly, Categories: category,
		Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"},
		Group: group, Since: "2.8.0", Complexity: scanComplexity,
		Syntax: "key cursor [MATCH pattern] [COUNT count]" + more, Summary: summary,
		Run: func(c *Invocation) error { return scanElements(c, t) }}
}

// scanOptions are what may stand behind a cursor.
type scanOptions struct {
	names    matcher
	count    int
	kind     []byte // the name of a type; nil: all
	noValues bool   // of a hash, its fields alone
}

// defaultScanCount is how many elements a call looks at unless told otherwise.
const defaultScanCount = 10

// parseScanOptions reads the options of a walk over the elements of a type, or over keys, whose
// type is 0.
func parseScanOptions(c *Invocation, words [][]byte, of layout.Type) (scanOptions, error) {
	o := scanOptions{count: defaultScanCount}
	a := arguments{words: words}
	for a.more() {
		var word []byte
		switch {
		case a.option("MATCH", &word):
			o.names = newMatcher(c, word)
		case a.option("COUNT", &word):
			o.count = a.scanCount(word)
		case of == 0 && a.option("TYPE", &o.kind):
		case a.flag("NOVALUES"):
			if o.noValues = of == layout.Hash; !o.noValues {
				a.fail(Error("ERR NOVALUES option can only be used in HSCAN"))
			}
		default:
			a.fail(ErrSyntax)
		}
	}
	return o, a.err
}

func (a *arguments) scanCount(word []byte) int {
	if a.err != nil {
		return 0
	}
	n, err := parseInteger(word)
	if err == nil && n < 1 {
		err = ErrSyntax
	}
	a.err = err
	return int(min(n, math.MaxInt32))
}

// ofKind tells whether a key is of the type that was asked for. There are no keys of unknown types.
func (o *scanOptions) ofKind(m *layout.Metadata) bool {
	return o.kind == nil || equalFold(o.kind, storage.TypeOf(m.Type).Name)
}

func cmdScan(c *Invocation) error {
	cursor, err := parseCursor(c.Args[1])
	if err != nil {
		return err
	}
	o, err := parseScanOptions(c, c.Args[2:], 0)
	if err != nil {
		return err
	}
	return scan(c, walk{database: c.DB.Number()}, cursor, &o, func(step storage.ScanStep, found *int) ([]byte, error) {
		return c.DB.ScanKeys(step, func(key []byte, m *layout.Metadata) {
			if o.ofKind(m) && o.names.matches(key) {
				c.Reply.Bulk(key)
				*found++
			}
		})
	})
}

func scanElements(c *Invocation, t layout.Type) error {
	cursor, err := parseCursor(c.Args[2])
	if err != nil {
		return err
	}
	k, err := c.DB.LookupType(c.Args[1], t)
	if err != nil {
		return err
	}
	if !k.Exists {
		c.Reply.Array(2)
		c.Reply.BulkString("0")
		c.Reply.Array(0)
		return nil
	}
	o, err := parseScanOptions(c, c.Args[3:], t)
	if err != nil {
		return err
	}
	return scan(c, walk{c.DB.Number(), k.ID}, cursor, &o, func(step storage.ScanStep, found *int) ([]byte, error) {
		return c.DB.ScanElements(k, step, func(element, value []byte) {
			if !o.names.matches(element) {
				return
			}
			c.Reply.Bulk(element)
			*found++
			if t != layout.Set && !o.noValues {
				c.Reply.Bulk(value)
				*found++
			}
		})
	})
}

// scan answers one step of a walk: its new cursor, which is known last, and what it found.
func scan(c *Invocation, w walk, cursor uint64, o *scanOptions, advance func(step storage.ScanStep, found *int) (last []byte, err error)) error {
	step := storage.ScanStep{Behind: keptBy(c.Engine).cursors.find(cursor, w), Prefix: o.names.prefix, Count: o.count}
	c.Reply.Array(2)
	mark, found := c.Reply.Mark(), 0
	elements := c.Reply.BeginArray()
	last, err := advance(step, &found)
	if err = cmp.Or(err, o.names.err); err != nil {
		return err
	}
	c.Reply.EndArray(elements, found)
	c.Reply.InsertBulk(mark, strconv.AppendUint(nil, keptBy(c.Engine).cursors.step(w, cursor, last), 10))
	return nil
}
