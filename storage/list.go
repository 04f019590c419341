package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"kedis/internal/keyevent"
	"kedis/storage/digest"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// listType is the row of lists.
var listType = DataType{Name: "list", RDB: rdb.List, Digest: digest.List, encoding: named("quicklist"),
	encode:  encodeList,
	restore: restoreList,
	digest: func(v *digest.Value, d DB, key []byte, _ *layout.Metadata) error {
		l, err := d.List(key)
		if err != nil {
			return err
		}
		return l.Range(0, l.Len(), false, func(_ int, value []byte) bool { v.Element(value); return true })
	},
	elements: func(d DB, m *layout.Metadata, visit visitElement) error {
		return d.eachListElement(m, func(element []byte) error { return visit(element, nil, 0) })
	},
	pieces: Pieces{command: "RPUSH", words: appendElementWord, parse: parseElementWord,
		begin: beginWhole((*rdb.Encoder).BeginPlainList, func(e *rdb.Encoder, element *rdb.Element) { e.ListElement(element.Bytes) })},
}

// mostHeld is how many bytes of a list's payload are held.
const mostHeld = 1 << 20

var errLongList = errors.New("storage: a list is too long for its payload to be held")

// encodeList writes a list. The number of nodes that a spread one makes up comes first: those of a
// list that isn't long are held until they are counted, and the elements of a longer one are read
// twice.
func encodeList(d DB, m *layout.Metadata, e *rdb.Encoder) error {
	if m.Encoding == layout.Listpack {
		e.ListListpack(m.Value)
		return nil
	}
	e.BeginHeldList()
	held := func() error {
		if e.Held() > mostHeld {
			return errLongList
		}
		return nil
	}
	err := d.eachListRun(m, listVisitor{
		element: func(element []byte) error { e.ListElement(element); return held() },
		run:     func(r listpack.Run) error { e.ListRun(r); return held() },
	})
	switch {
	case err == nil:
		e.End()
	case errors.Is(err, errLongList):
		return encodeLongList(d, m, e)
	}
	return err
}

func encodeLongList(d DB, m *layout.Metadata, e *rdb.Encoder) error {
	var nodes rdb.ListNodes
	err := d.eachListRun(m, listVisitor{
		element: func(element []byte) error { nodes.Add(element); return nil },
		run:     func(r listpack.Run) error { nodes.AddRun(r); return nil },
	})
	if err != nil {
		return err
	}
	e.BeginAgain(nodes.Count())
	err = d.eachListRun(m, listVisitor{
		element: func(element []byte) error { e.ListElement(element); return nil },
		run:     func(r listpack.Run) error { e.ListRun(r); return nil },
	})
	if err == nil {
		e.End()
	}
	return err
}

// restoreList takes a list of one listpack as it comes when it is small enough, and packs one of
// the oldest form, which came without any. Any other is spread.
func restoreList(r *restoring) (layout.Metadata, error) {
	l := List{db: r.db}
	m := layout.Metadata{Type: layout.List, Encoding: layout.Listpack, Value: r.value.Listpack}
	if m.Value != nil && !l.exceeds(len(m.Value), r.value.Listpack.Len()) {
		return m, nil
	}
	pack := listpack.Empty(64)
	var made *listBuilder
	if r.value.Listpack != nil || r.value.Count == 0 {
		made = l.db.newListBuilder(l.db.txn.NewID())
	}
	for made == nil && r.value.Next() {
		if pack = pack.Push(listpack.Of(r.value.Element.Bytes)); l.exceeds(len(pack), pack.Len()) {
			made = l.db.newListBuilder(l.db.txn.NewID())
			if err := made.addAll(pack); err != nil {
				return m, err
			}
		}
	}
	if made == nil {
		m.Value = pack
		return m, r.value.Err()
	}
	m.Encoding, m.Value = layout.Spread, nil
	err := errors.Join(made.addRest(r.value), made.finish(&m))
	return m, err
}

// List is a list as a transaction sees it. Its methods change it in the transaction and keep its
// key in step; Save writes that down.
//
// A small list is a listpack in its key's record. The elements of a larger one have the indexes
// from Head up to Tail. Those that it has when it becomes spread stand in blocks (see
// list_blocks.go), the others have a record each: pushing at either end writes one of them, and
// popping only moves the end (see storage/engine/sequence_bounds.go). It never becomes packed
// again.
type List struct {
	db   DB
	key  []byte
	old  Key
	next layout.Metadata
	pack listpack.Listpack // when it is packed

	held     engine.Bounds // of a spread list that was there: where elements stand, single ones or in blocks
	replaces bool          // what the key held: elements are only pushed to its end, and may become very many
	made     *listBuilder  // which makes its records then
	edited   editedBlock
}

// List opens the list of a key, which may not exist: the list is empty then.
func (d DB) List(key []byte) (l List, err error) {
	if err = d.LookupTypeInto(key, layout.List, &l.old); err != nil {
		return l, err
	}
	l.db, l.key = d, key
	if l.next = l.old.Metadata; !l.old.Exists {
		l.next.Type, l.next.Encoding = layout.List, layout.Listpack
	}
	if !l.packed() {
		l.held = engine.Bounds{Head: l.next.Head, Tail: l.next.Tail}
	} else if l.pack = l.next.Value; l.pack == nil {
		l.pack = listpack.Empty(64)
	}
	return l, nil
}

// Exists reports whether the key was there when the list was opened.
func (l *List) Exists() bool { return l.old.Exists }

// Key is what Lookup found.
func (l *List) Key() Key { return l.old }

// Len is the number of elements.
func (l *List) Len() int {
	if l.packed() {
		return l.pack.Len()
	}
	return int(l.next.Length())
}

func (l *List) packed() bool { return l.next.Encoding == layout.Listpack }

// Save writes the list down: its record, or that the key is gone with the last element. name is the
// event that it is; of keyevent.Changed nobody is told.
func (l *List) Save(name keyevent.Name) error {
	err := l.save()
	if name != keyevent.Changed {
		l.db.notifySaved(name, l.key, l.Len() == 0, l.old.Exists)
	}
	return err
}

func (l *List) save() error {
	if l.made != nil {
		if err := l.made.finish(&l.next); err != nil {
			return err
		}
	}
	if err := l.endEdit(); err != nil {
		return err
	}
	if l.Len() == 0 {
		if !l.old.Exists {
			return nil
		}
		return l.db.Remove(l.key, l.old)
	}
	if l.packed() {
		l.next.Value = l.pack
	}
	return l.db.save(l.key, &l.old, &l.next)
}

// listSafetyBytes is the size that a listpack may have when the limit is a number of elements.
const listSafetyBytes = 8192

// exceeds reports whether a listpack of so many bytes and elements is more than
// list-max-listpack-size allows.
func (l *List) exceeds(bytes, elements int) bool {
	limit := l.db.limits().ListSize()
	if limit < 0 {
		return bytes > 2048<<min(-limit, 5)
	}
	return bytes > listSafetyBytes || int64(elements) > max(limit, 1)
}

// outgrows reports whether a packed list has no room for so many values more.
func (l *List) outgrows(values [][]byte) bool {
	bytes := len(l.pack)
	for _, v := range values {
		bytes += len(v)
	}
	return l.exceeds(bytes, l.pack.Len()+len(values))
}

// spreadIf makes a packed list that exceeds its limit spread.
func (l *List) spreadIf(exceeds bool) error {
	if !exceeds {
		return nil
	}
	return l.spread(false, nil)
}

func (l *List) indexKey(index uint64) []byte {
	l.db.txn.scratch.key2 = layout.AppendSequenceKey(l.db.txn.scratch.key2[:0], l.next.ID, index)
	return l.db.txn.scratch.key2
}

// put writes the element at an index.
func (l *List) put(index uint64, value []byte) error {
	held := l.held.Has(index)
	l.hold(index)
	switch {
	case l.next.Blocks.Has(index):
		return l.putInBlock(index, value)
	case held:
		return l.db.txn.Replace(l.db.space, l.indexKey(index), value)
	}
	return l.putSingle(index, value)
}

// hold notes that an element stands at an index, beside the others.
func (l *List) hold(index uint64) {
	if l.held.Length() == 0 {
		l.held = engine.Bounds{Head: index, Tail: index}
	}
	l.held = engine.Bounds{Head: min(l.held.Head, index), Tail: max(l.held.Tail, index+1)}
}

// putSingle gives an element a record of its own, which it didn't have.
func (l *List) putSingle(index uint64, value []byte) error {
	return l.db.txn.Put(l.db.space, l.indexKey(index), value)
}

// at is the element at an index. It is valid until the next one is asked for.
func (l *List) at(index uint64) ([]byte, error) {
	if l.next.Blocks.Has(index) {
		return l.atInBlock(index)
	}
	value, found, err := l.db.getLong(l.indexKey(index))
	if err == nil && !found {
		err = l.lacks(index)
	}
	return value, err
}

func (l *List) lacks(index uint64) error {
	return fmt.Errorf("%w: list %q has no element %d of [%d, %d)", layout.ErrCorrupt, l.key, index, l.next.Head, l.next.Tail)
}

// Push adds elements one after the other at an end.
func (l *List) Push(left bool, values [][]byte) error {
	switch {
	case !l.packed():
		return l.pushSpread(left, values)
	case l.outgrows(values):
		return l.spread(left, values)
	}
	for _, v := range values {
		l.edit(func(dst []byte) listpack.Listpack {
			if left {
				return l.pack.Prepend(dst, listpack.Of(v))
			}
			return l.pack.Append(dst, listpack.Of(v))
		})
	}
	return nil
}

// spread makes a spread list of a packed one and of values that are pushed at an end.
func (l *List) spread(left bool, values [][]byte) error {
	made := l.db.newListBuilder(l.db.txn.NewID())
	if left {
		for _, v := range slices.Backward(values) {
			if err := made.add(v); err != nil {
				return err
			}
		}
	}
	if err := made.addAll(l.pack); err != nil {
		return err
	}
	if !left {
		if err := made.addValues(values); err != nil {
			return err
		}
	}
	count := uint64(l.pack.Len() + len(values))
	l.next.Encoding, l.next.Value, l.pack = layout.Spread, nil, nil
	l.next.Head, l.next.Tail = layout.ListMiddle, layout.ListMiddle+count
	if l.replaces {
		l.made = made // others come
		return nil
	}
	return made.finish(&l.next)
}

// pushSpread adds elements at an end of a spread list, with records of their own.
func (l *List) pushSpread(left bool, values [][]byte) error {
	if l.made != nil {
		l.next.Tail += uint64(len(values))
		return l.made.addValues(values)
	}
	if err := l.leaveEnd(left); err != nil {
		return err
	}
	for _, v := range values {
		index := l.next.Tail
		if left {
			l.next.Head--
			index = l.next.Head
		} else {
			l.next.Tail++
		}
		if err := l.put(index, v); err != nil {
			return err
		}
	}
	return nil
}

func (l *List) edit(change func(dst []byte) listpack.Listpack) { l.pack = l.db.txn.edit(change) }

// edit makes a changed copy of a listpack. The transaction's two scratch buffers take turns, since
// the old one is read while the new one is written; so a command that edits two collections saves
// the first before it edits the second.
func (t *Txn) edit(change func(dst []byte) listpack.Listpack) listpack.Listpack {
	t.scratch.pack, t.scratch.pack2 = t.scratch.pack2, t.scratch.pack
	pack := change(t.scratch.pack[:0])
	t.scratch.pack = pack
	return pack
}

// Pop takes up to n elements from an end, the outermost first. The value is visit's only during
// the call.
func (l *List) Pop(left bool, n int, visit func(value []byte)) error {
	n = min(n, l.Len())
	from, reverse := 0, false
	if !left {
		from, reverse = l.Len()-n, true
	}
	if err := l.Range(from, n, reverse, func(_ int, value []byte) bool { visit(value); return true }); err != nil {
		return err
	}
	return l.Remove(from, n)
}

// fewElements is from how many elements on a list's tree is asked for those that stand single, if
// there are as many: below, to look them up takes as long.
const fewElements = engine.PrefetchBatch

// Range visits n elements from an index on, backwards from the last of them if reverse. visit
// returns false to stop. The list must have them. The value is valid during the call only, and
// visit reads nothing else in the transaction.
func (l *List) Range(from, n int, reverse bool, visit func(index int, value []byte) bool) error {
	switch {
	case n <= 0:
		return nil
	case l.packed():
		l.walkPack(l.pack, from, n, from, reverse, visit)
		return nil
	case n == 1 && l.next.Blocks.Has(l.next.Head+uint64(from)):
		value, err := l.atInBlock(l.next.Head + uint64(from))
		if err == nil {
			visit(from, value)
		}
		return err
	}
	return l.rangeParts(l.between(from, n), reverse, visit)
}

// rangeParts is Range over the parts of a spread list: before its blocks, in and behind them.
func (l *List) rangeParts(within engine.Bounds, reverse bool, visit func(index int, value []byte) bool) error {
	if err := l.endEdit(); err != nil {
		return err
	}
	e := extentOf(&l.next)
	single := e.Single()
	parts := [3]engine.Bounds{single[0], e.Blocks, single[1]}
	if reverse {
		parts[0], parts[2] = parts[2], parts[0]
	}
	few := min(within.Length(), l.next.Single()) < fewElements
	for i, goesOn := 0, true; goesOn && i < len(parts); i++ {
		row, err := within.And(parts[i]), error(nil)
		switch {
		case row.Length() == 0:
		case i == 1:
			goesOn, err = l.rangeBlocks(row, reverse, visit)
		case few:
			goesOn, err = l.rangePoints(row, reverse, visit)
		default:
			goesOn, err = l.rangeOrdered(row, reverse, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rangeOrdered is Range for many elements with records of their own. They are kept in the list's
// tree, but for those that are read to be written.
func (l *List) rangeOrdered(within engine.Bounds, reverse bool, visit func(index int, value []byte) bool) (goesOn bool, err error) {
	var lower, upper []byte
	if within.Head > l.next.Head {
		lower = binary.BigEndian.AppendUint64(nil, within.Head)
	}
	if within.Tail < l.next.Tail {
		upper = binary.BigEndian.AppendUint64(nil, within.Tail)
	}
	seen := uint64(0)
	goesOn = true
	element := func(key, value []byte) bool {
		if seen++; len(key) != 8 {
			return false
		}
		goesOn = visit(int(binary.BigEndian.Uint64(key)-l.next.Head), value)
		return goesOn
	}
	// (Called by name, not as a method value: so what is visited stays on the stack.)
	x := l.order()
	if l.db.txn.Mode().Writing {
		err = x.Walk(lower, upper, reverse, element)
	} else {
		err = x.Scan(lower, upper, reverse, element)
	}
	if err == nil && goesOn && seen != within.Length() {
		err = fmt.Errorf("%w: list %q has not the %d elements that it should have", layout.ErrCorrupt, l.key, l.Len())
	}
	return goesOn, err
}

// order is that of the elements with records of their own.
func (l *List) order() engine.Index {
	x := l.db.txn.NewIndex(l.db.space, layout.KindListElement, l.next.ID, int(l.next.Single()), true, l.key)
	x.Within(extentOf(&l.next))
	return x
}

// walkPack visits n elements of a listpack, which is the list or a block of it, from one of them
// on, whose index in the list is first. It reports whether visit wants more.
func (l *List) walkPack(pack listpack.Listpack, from, n, first int, reverse bool, visit func(index int, value []byte) bool) bool {
	step, index, forward := pack.Next, first, 1
	if reverse {
		step, index, forward = pack.Prev, first+n-1, -1
		from += n - 1
	}
	pos := pack.Seek(from)
	scratch := l.db.txn.scratch.element
	goesOn := true
	for ; n > 0 && goesOn; n-- {
		goesOn = visit(index, text(pack.At(pos), &scratch))
		pos = step(pos)
		index += forward
	}
	l.db.txn.scratch.element = scratch
	return goesOn
}

// between is where n elements from an index on lie.
func (l *List) between(from, n int) engine.Bounds {
	first := l.next.Head + uint64(from)
	return engine.Bounds{Head: first, Tail: first + uint64(n)}
}

// inTurn is the i-th index of those within bounds, from the last one if reverse.
func inTurn(within engine.Bounds, i uint64, reverse bool) uint64 {
	if reverse {
		return within.Tail - 1 - i
	}
	return within.Head + i
}

func (l *List) rangePoints(within engine.Bounds, reverse bool, visit func(index int, value []byte) bool) (goesOn bool, err error) {
	n := within.Length()
	if err := l.db.txn.Spend(int(n)); err != nil {
		return false, err
	}
	if n > 1 {
		l.prefetch(within)
	}
	for i := range n {
		index := inTurn(within, i, reverse)
		value, found, err := l.db.txn.Find(l.db.space, l.indexKey(index))
		if err == nil && !found {
			err = l.lacks(index)
		}
		if err == nil {
			err = l.db.txn.SpendLong(len(value))
		}
		if err != nil {
			return false, err
		}
		if !visit(int(index-l.next.Head), value) {
			return false, nil
		}
	}
	return true, nil
}

// prefetch has the processor read a few elements together.
func (l *List) prefetch(within engine.Bounds) {
	l.db.txn.PrefetchRecords(l.db.space, func() []byte {
		if within.Length() == 0 {
			return nil
		}
		within.Head++
		return l.indexKey(within.Head - 1)
	})
}

// Get returns the element at an index that the list has.
func (l *List) Get(index int) (value []byte, err error) {
	err = l.Range(index, 1, false, func(_ int, v []byte) bool { value = v; return true })
	return value, err
}

// Set replaces the element at an index that the list has.
func (l *List) Set(index int, value []byte) error {
	if l.packed() {
		pos := l.pack.Seek(index)
		l.edit(func(dst []byte) listpack.Listpack { return l.pack.Replace(dst, pos, listpack.Of(value)) })
		return l.spreadIf(l.exceeds(len(l.pack), 1))
	}
	return l.put(l.next.Head+uint64(index), value)
}

// Remove takes out n elements from an index on. Those at the shorter side move up.
func (l *List) Remove(from, n int) error {
	switch {
	case n <= 0:
		return nil
	case l.packed():
		l.edit(func(dst []byte) listpack.Listpack { return l.pack.DeleteRange(dst, from, n) })
		return nil
	case n == l.Len():
		return l.moveEnds(l.next.Head, l.next.Head)
	}
	before, behind := from, l.Len()-from-n
	if before <= behind {
		for i := before - 1; i >= 0; i-- {
			if err := l.shift(i, n); err != nil {
				return err
			}
		}
		return l.moveEnds(l.next.Head+uint64(n), l.next.Tail)
	}
	for i := from + n; i < l.Len(); i++ {
		if err := l.shift(i, -n); err != nil {
			return err
		}
	}
	return l.moveEnds(l.next.Head, l.next.Tail-uint64(n))
}

// moveEnds makes the list that which stands between two indexes. What it has elsewhere stays for
// the flusher and the reaper.
func (l *List) moveEnds(head, tail uint64) error {
	l.next.Head, l.next.Tail = head, tail
	e, left := extentOf(&l.next), engine.Bounds{Head: head, Tail: tail}
	e.All = l.held
	l.db.txn.LeaveOrder(l.db.space, l.next.ID, e, left)
	l.held = left
	return l.leaveBlocks()
}

// shift copies an element to another index.
func (l *List) shift(index, by int) error {
	value, err := l.at(l.next.Head + uint64(index))
	if err != nil {
		return err
	}
	return l.put(l.next.Head+uint64(index+by), value)
}

// Insert puts an element before the one at an index, or, with the list's length, at its end.
func (l *List) Insert(index int, value []byte) error {
	if l.packed() {
		pos := l.pack.Seek(index)
		l.edit(func(dst []byte) listpack.Listpack { return l.pack.InsertBefore(dst, pos, listpack.Of(value)) })
		return l.spreadIf(l.exceeds(len(l.pack), l.pack.Len()))
	}
	if index <= l.Len()/2 {
		l.next.Head--
		for i := range index {
			if err := l.shift(i+1, -1); err != nil {
				return err
			}
		}
	} else {
		l.next.Tail++
		for i := l.Len() - 2; i >= index; i-- {
			if err := l.shift(i, 1); err != nil {
				return err
			}
		}
	}
	return l.put(l.next.Head+uint64(index), value)
}

// RemoveEqual takes out elements that equal a value: up to limit of them (0: all) from the head on,
// or, reverse, from the tail on. It returns how many.
func (l *List) RemoveEqual(value []byte, limit int, reverse bool) (int, error) {
	var found []int
	err := l.Range(0, l.Len(), reverse, func(index int, v []byte) bool {
		if string(v) == string(value) {
			found = append(found, index)
		}
		return limit == 0 || len(found) < limit
	})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return len(found), l.removeIndexes(found)
}

// removeIndexes takes out elements by their indexes, which ascend or descend.
func (l *List) removeIndexes(indexes []int) error {
	if indexes[0] > indexes[len(indexes)-1] {
		slices.Reverse(indexes)
	}
	switch {
	case len(indexes) == l.Len() || len(indexes) == 1:
		return l.Remove(indexes[0], len(indexes))
	case l.packed():
		l.packWithout(indexes)
		return nil
	}
	// All behind the first gap move up, each once.
	to := indexes[0]
	for i := to; i < l.Len(); i++ {
		if len(indexes) > 0 && i == indexes[0] {
			indexes = indexes[1:]
			continue
		}
		if err := l.shift(i, to-i); err != nil {
			return err
		}
		to++
	}
	return l.moveEnds(l.next.Head, l.next.Head+uint64(to))
}

// packWithout packs the list without elements by their indexes, which ascend.
func (l *List) packWithout(indexes []int) {
	l.edit(func(dst []byte) listpack.Listpack {
		index := 0
		rebuilt := listpack.Empty(len(l.pack))
		for _, e := range l.pack.All() {
			if len(indexes) > 0 && index == indexes[0] {
				indexes = indexes[1:]
			} else {
				rebuilt = rebuilt.Push(e)
			}
			index++
		}
		return append(dst, rebuilt...)
	})
}

// Trim keeps only n elements from an index on.
func (l *List) Trim(from, n int) error {
	if err := l.Remove(from+n, l.Len()-from-n); err != nil {
		return err
	}
	return l.Remove(0, from)
}
