package command

import (
	"cmp"
	"runtime"
	"slices"

	"kedis/internal/keyevent"
	"kedis/server/access"
	"kedis/storage"
	"kedis/storage/layout"
	"kedis/storage/sortorder"
)

func sortFamily() Family {
	patterns := KeySpec{Flags: RO | Access, Unknown: true, FindKeysUnspecified: true,
		Notes: "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort"}
	target := KeySpec{Flags: OW | Update, Unknown: true, FindKeysUnspecified: true,
		Notes: "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array"}
	categories := CategorySet | CategorySortedSet | CategoryList | CategoryDangerous
	const complexity = "O(N+M*log(M)) where N is the number of elements and M the number of those that are returned; O(N) when nothing is sorted"
	const syntax = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"
	return Family{Commands: []Command{
		{Name: "sort", Arity: -2, Flags: Write | DenyOOM | MovableKeys, Categories: categories,
			Keys: []KeySpec{oneKey(1, RO|Access), patterns, target}, GetKeys: sortKeys, Adapt: sortFlags,
			Run:   func(c *Invocation) error { return sortElements(c, true) },
			Group: "generic", Since: "1.0.0", Complexity: complexity, Syntax: syntax + " [STORE destination]",
			Summary: "Sorts the elements of a list, set or sorted set, by themselves or by other keys, and returns or stores them."},
		{Name: "sort_ro", Arity: -2, Flags: ReadOnly | MovableKeys, Categories: categories,
			Keys: []KeySpec{oneKey(1, RO|Access), patterns}, Adapt: sortFlags,
			Run:   func(c *Invocation) error { return sortElements(c, false) },
			Group: "generic", Since: "7.0.0", Complexity: complexity, Syntax: syntax,
			Summary: "Sorts the elements of a list, set or sorted set, by themselves or by other keys, and returns them."},
	}}
}

// sorting is what SORT was asked to do.
type sorting struct {
	by            *sortorder.Pattern // nil: the elements themselves
	gets          []sortorder.Pattern
	order         sortorder.Order
	unsorted      bool // the elements stay in the order that they have
	offset, count int64
	store         []byte // nil: they are returned
	elsewhere     string // the first option that reads other keys: BY or GET
}

func parseSort(words [][]byte, mayStore bool) (sorting, error) {
	s := sorting{count: -1}
	a := arguments{words: words}
	for a.more() {
		var word []byte
		switch {
		case a.flag("ASC"):
			s.order.Descending = false
		case a.flag("DESC"):
			s.order.Descending = true
		case a.flag("ALPHA"):
			s.order.Alpha = true
		case a.option("LIMIT", &word):
			s.limit(&a, word)
		case mayStore && a.option("STORE", &s.store):
		case a.option("BY", &word):
			by := sortorder.ParsePattern(word)
			s.by, s.unsorted = &by, s.unsorted || by.Constant
			if !by.Constant {
				s.elsewhere = cmp.Or(s.elsewhere, "BY")
			}
		case a.option("GET", &word):
			s.gets = append(s.gets, sortorder.ParsePattern(word))
			s.elsewhere = cmp.Or(s.elsewhere, "GET") // # too, as in Redis
		default:
			a.fail(ErrSyntax)
		}
	}
	s.order.By, s.order.Exact = s.by != nil, s.store != nil
	return s, a.err
}

func (s *sorting) limit(a *arguments, offset []byte) {
	count := a.next()
	if a.err == nil {
		s.offset, a.err = parseInteger(offset)
	}
	if a.err == nil {
		s.count, a.err = parseInteger(count)
	}
}

// looksElsewhere tells that other keys are read, whose names nobody knows before the elements are.
func (s *sorting) looksElsewhere() bool {
	return s.by != nil && !s.by.Constant ||
		slices.ContainsFunc(s.gets, func(p sortorder.Pattern) bool { return !p.Constant })
}

// sortFlags makes SORT a read when it stores nothing, and tells whether it follows patterns.
func sortFlags(flags Flags, args [][]byte) Flags {
	s, err := parseSort(args[2:], flags&Write != 0)
	if err != nil || s.store == nil {
		flags &^= Write
	}
	if err == nil && s.looksElsewhere() {
		flags |= Follow
	}
	return flags
}

// sortKeys finds the key and, if there is one, the key behind the last STORE.
func sortKeys(args [][]byte) ([]KeyReference, error) {
	keys := []KeyReference{{Index: 1, Flags: RO | Access}}
	store := 0
	for i := 2; i < len(args); i++ {
		switch {
		case equalFold(args[i], "LIMIT"):
			i += 2
		case equalFold(args[i], "GET"), equalFold(args[i], "BY"):
			i++
		case equalFold(args[i], "STORE") && i+1 < len(args):
			i++
			store = i
		}
	}
	if store > 0 {
		keys = append(keys, KeyReference{Index: store, Flags: OW | Update})
	}
	return keys, nil
}

const errWeights = Error("ERR One or more scores can't be converted into double")

func sortElements(c *Invocation, mayStore bool) error {
	s, err := parseSort(c.Args[2:], mayStore)
	if s.elsewhere != "" && !c.MayUseEveryKey(access.Read) {
		return Errorf("ERR %s option of SORT denied due to insufficient ACL permissions.", s.elsewhere)
	}
	if err != nil {
		return err
	}
	source, err := c.DB.Reading().SortSource(c.Args[1])
	if err != nil {
		return err
	}
	if s.unsorted && source.Type == layout.Set && (s.store != nil || c.InScript()) {
		// What is stored, or what a script goes on with, must not depend on the order in which a
		// set happens to be kept.
		s.unsorted, s.by, s.order.Alpha, s.order.By = false, nil, true, false
	}
	if s.store == nil {
		return replySorted(c, &s, &source)
	}
	values, err := sortForStore(c, &s, &source)
	if err != nil {
		return err
	}
	return storeSorted(c, s.store, values)
}

// sortForStore returns what is to be stored. The target may be one of the keys that are read, so
// all is read before it is written.
func sortForStore(c *Invocation, s *sorting, source *storage.SortSource) (*sortorder.Elements, error) {
	db := c.DB
	if s.looksElsewhere() {
		var end func()
		db, end = c.ReadBeside()
		defer end()
	}
	r := patternReader{c: c, db: db}
	elements, err := s.collect(&r, source)
	if err != nil || len(s.gets) == 0 {
		return elements, err
	}
	values := &sortorder.Elements{}
	err = s.each(&r, elements, func(value []byte, _ bool) { values.Add(value) })
	return values, err
}

// collect returns the elements in their order, cut down to the window that LIMIT leaves.
func (s *sorting) collect(r *patternReader, source *storage.SortSource) (*sortorder.Elements, error) {
	first, limit := sortorder.Window(s.offset, s.count, source.Len())
	elements := &sortorder.Elements{}
	if s.unsorted && source.Type != layout.Set {
		return elements, source.Elements(first, limit, s.order.Descending, elements.Add)
	}
	if err := source.Elements(0, source.Len(), false, elements.Add); err != nil {
		return nil, err
	}
	if s.unsorted {
		elements.Cut(first, limit)
		return elements, nil
	}
	if err := s.weigh(r, elements); err != nil {
		return nil, err
	}
	s.order.Sort(elements, first, limit)
	return elements, nil
}

// weigh finds out what each element is sorted by.
func (s *sorting) weigh(r *patternReader, elements *sortorder.Elements) error {
	for i := range elements.Len() {
		letOthersRun(i)
		weight, found := elements.Value(i), true
		if s.by != nil {
			var err error
			if weight, found, err = r.value(s.by, weight); err != nil {
				return err
			}
		}
		switch {
		case !found:
		case s.order.Alpha && s.by != nil:
			elements.SetWeight(i, weight)
		case !s.order.Alpha:
			number, ok := sortorder.ParseNumber(weight)
			if !ok {
				return errWeights
			}
			elements.SetNumber(i, number)
		}
	}
	return nil
}

// letOthersRun yields the processor now and then, in a loop over elements in memory that there can
// be millions of.
func letOthersRun(i int) {
	if i%1024 == 1023 {
		runtime.Gosched()
	}
}

// patternReader reads what patterns name.
type patternReader struct {
	c     *Invocation
	db    storage.DB
	key   []byte // scratch memory
	found int    // keys
}

// mostFound is how many keys that turn up are locked, in a transaction, before it runs again
// without others.
const mostFound = 100_000

// value returns what a pattern names for an element. It is valid until the next one is read.
func (r *patternReader) value(p *sortorder.Pattern, element []byte) (value []byte, found bool, err error) {
	switch {
	case p.Self:
		return element, true, r.c.Txn.SpendLong(len(element)) // it may be named again and again
	case p.Constant:
		return nil, false, nil
	}
	r.key = p.AppendKey(r.key[:0], element)
	if r.found++; r.found > mostFound {
		err = r.c.NeedAlone()
	} else {
		err = r.c.LockFound(r.db.Number(), r.key)
	}
	if err != nil {
		return nil, false, err
	}
	return r.db.SortValue(r.key, p.Field)
}

// each visits what SORT returns: the elements, or what the patterns of GET name for each of them.
func (s *sorting) each(r *patternReader, elements *sortorder.Elements, visit func(value []byte, found bool)) error {
	for i := range elements.Len() {
		letOthersRun(i)
		if len(s.gets) == 0 {
			visit(elements.Value(i), true)
		}
		for j := range s.gets {
			value, found, err := r.value(&s.gets[j], elements.Value(i))
			if err != nil {
				return err
			}
			visit(value, found)
		}
	}
	return nil
}

func replySorted(c *Invocation, s *sorting, source *storage.SortSource) error {
	r := patternReader{c: c, db: c.DB}
	elements, err := s.collect(&r, source)
	if err != nil {
		return err
	}
	c.Reply.Array(elements.Len() * max(len(s.gets), 1))
	return s.each(&r, elements, func(value []byte, found bool) {
		if found {
			c.Reply.Bulk(value)
		} else {
			c.Reply.Null()
		}
	})
}

// sortedPerPush is how many elements of the result are stored at a time.
const sortedPerPush = 1024

// storeSorted stores the result as a list, which isn't kept when it is empty. It is repeated as the
// list that came out: what other keys weigh may not be known where it is repeated.
func storeSorted(c *Invocation, key []byte, values *sortorder.Elements) error {
	list, err := c.DB.ReplaceList(key)
	if err != nil {
		return err
	}
	c.NoEffect()
	if list.Exists() {
		c.Effect(wordDel, key)
	}
	c.Reply.Integer(int64(values.Len()))
	some := make([][]byte, 0, sortedPerPush)
	for i := 0; i < values.Len(); i += len(some) {
		some = some[:0]
		for k := i; k < min(i+sortedPerPush, values.Len()); k++ {
			some = append(some, values.Value(k))
		}
		if err := list.Push(false, some); err != nil {
			return err
		}
		c.Effect(append([][]byte{wordRPush, key}, some...)...)
	}
	return list.Save(keyevent.SortStore)
}

var wordRPush = []byte("RPUSH")
