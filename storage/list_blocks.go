package storage

import (
	"bytes"
	"cmp"
	"fmt"

	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// A list gets blocks (layout.Blocks) when it becomes spread, and when it comes as a whole, by
// RESTORE, from a file or a primary (see list_build.go): that costs a fraction of a record for
// each element, as does to read them all. What is pushed later stands single, before and behind
// them: to push and pop single elements costs less so.

// A block grows to mostEdited bytes when elements in it are replaced, and further inside of the
// list to mostEditedInside: what is larger is left, and all blocks between it and the nearer end
// with it.
const (
	mostEdited       = 64 << 10
	mostEditedInside = 256 << 10
	innerElements    = 1024 // from an end on
)

// mostEdited is the size that the block at an index may grow to. (A transaction keeps all versions
// that it writes: of a large block only one.)
func (l *List) mostEdited(at uint64) int {
	most := l.db.limits().mostEdited
	if most == 0 {
		most = mostEdited
	}
	if min(at-min(at, l.next.Head), l.next.Tail-min(at, l.next.Tail)) <= innerElements {
		return most
	}
	if _, again := l.db.txn.Own(l.db.space, l.blockKey(at)); again {
		return most
	}
	return most * (mostEditedInside / mostEdited)
}

func (l *List) blockKey(index uint64) []byte {
	l.db.txn.scratch.key2 = layout.AppendBlockKey(l.db.txn.scratch.key2[:0], l.next.ID, index)
	return l.db.txn.scratch.key2
}

// block reads the block that begins at an index.
func (l *List) block(index uint64) (listpack.Listpack, error) {
	value, found, err := l.db.txn.Get(l.db.space, l.blockKey(index))
	if err == nil && (!found || !l.isBlock(value)) {
		err = fmt.Errorf("%w: list %q has no block of %d elements at %d", layout.ErrCorrupt, l.key, l.next.Blocks.Size(), index)
	}
	return value, err
}

func (l *List) isBlock(value listpack.Listpack) bool {
	return len(value) > listpack.EmptySize && value.Len() == int(l.next.Blocks.Size())
}

// rangeBlocks is Range for elements in blocks. It reports whether visit wants more.
func (l *List) rangeBlocks(within engine.Bounds, reverse bool, visit func(index int, value []byte) bool) (goesOn bool, err error) {
	r := l.readBlocks(within, reverse)
	for goesOn = true; goesOn && r.next(); {
		goesOn = l.walkPack(r.pack, int(r.row.Head-r.at), int(r.row.Length()), int(r.row.Head-l.next.Head), reverse, visit)
	}
	return goesOn, r.close()
}

// fewBlocks are looked up one by one, so that copies of them are kept. Of more those are that
// memory has, and others are walked over: then nobody waits for the disk on a reactor. The first
// walk goes over someBlocks, since a search may end there, and each one over more. Walks over
// manyBlocks displace nothing in RocksDB's cache.
const (
	fewBlocks  = 32
	someBlocks = 64
	moreBlocks = 8 // times those of the walk before
	manyBlocks = 4096
)

// blockReader reads neighbouring blocks. It has to be closed. (It keeps nothing of the list's, and
// visits nobody: so both stay on the stack of who reads.)
type blockReader struct {
	db       DB
	key      []byte // of the list
	metadata layout.Metadata
	left     engine.Bounds // elements that are to be read
	reverse  bool
	few      bool
	passed   int       // blocks that were looked up
	it       *Iterator // over the next blocks, while they are walked over
	walking  int       // how many it has left
	window   int       // how many it has at most

	pack listpack.Listpack // a block, valid until the next one is read
	at   uint64            // where it begins
	row  engine.Bounds     // its elements that are to be read
	err  error
}

// readBlocks begins to read the blocks that have elements within bounds.
func (l *List) readBlocks(within engine.Bounds, reverse bool) blockReader {
	return blockReader{db: l.db, key: l.key, metadata: l.next, left: within, reverse: reverse,
		few: within.Length() <= fewBlocks<<l.next.Blocks.Shift, window: someBlocks / moreBlocks}
}

// next reads the next block; false at the end, or when that fails.
func (r *blockReader) next() bool {
	if r.it != nil && r.walking == 0 {
		r.err = r.endWalk()
	}
	if r.err != nil || r.left.Length() == 0 {
		return false
	}
	b := &r.metadata.Blocks
	r.at = b.At(inTurn(r.left, 0, r.reverse))
	if r.it == nil {
		r.pack = r.lookUp()
	}
	if r.it != nil {
		r.pack = r.walk()
	}
	if r.err == nil && (len(r.pack) <= listpack.EmptySize || r.pack.Len() != int(b.Size())) {
		r.err = fmt.Errorf("%w: list %q has no block of %d elements at %d", layout.ErrCorrupt, r.key, b.Size(), r.at)
	}
	if r.err == nil {
		r.err = r.db.txn.Spend(int(b.Size()) / residentShare)
	}
	if r.row = r.left.And(engine.Bounds{Head: r.at, Tail: r.at + b.Size()}); r.reverse {
		r.left.Tail = r.row.Head
	} else {
		r.left.Head = r.row.Tail
	}
	return r.err == nil
}

// lookUp looks the next block up, or begins to walk over it and some others.
func (r *blockReader) lookUp() (pack listpack.Listpack) {
	ahead := r.passed % engine.PrefetchBatch // of many blocks the first may be enough: a search ends soon
	if r.left.Length() > r.metadata.Blocks.Size() && (ahead == 0 && r.few || ahead == 1 && !r.few) {
		r.prefetch()
	}
	r.passed++
	key := r.blockKey(r.at)
	if r.few {
		pack, _, r.err = r.db.txn.Get(r.db.space, key)
		return pack
	}
	pack, _, known := r.db.txn.Resident(r.db.space, key)
	if !known {
		r.beginWalk()
		return nil
	}
	r.err = r.db.txn.Spend(1)
	return pack
}

func (r *blockReader) blockKey(index uint64) []byte {
	r.db.txn.scratch.key2 = layout.AppendBlockKey(r.db.txn.scratch.key2[:0], r.metadata.ID, index)
	return r.db.txn.scratch.key2
}

// prefetch has the processor read some blocks together.
func (r *blockReader) prefetch() {
	at, left, size, reverse := r.at, r.left, r.metadata.Blocks.Size(), r.reverse
	r.db.txn.PrefetchRecords(r.db.space, func() []byte {
		if at+size <= left.Head || at >= left.Tail {
			return nil
		}
		key := r.blockKey(at)
		if reverse {
			at -= size
		} else {
			at += size
		}
		return key
	})
}

// beginWalk begins to walk over some blocks.
func (r *blockReader) beginWalk() {
	b := &r.metadata.Blocks
	r.window = min(moreBlocks*r.window, 1<<30)
	row := engine.Bounds{Head: b.At(r.left.Head), Tail: b.At(r.left.Tail + b.Size() - 1)}
	if some := uint64(r.window) << b.Shift; row.Length() > some {
		if r.reverse {
			row.Head = row.Tail - some
		} else {
			row.Tail = row.Head + some
		}
	}
	r.walking = int(row.Length() >> b.Shift)
	lower, upper := layout.AppendBlockKey(nil, r.metadata.ID, row.Head), layout.AppendBlockKey(nil, r.metadata.ID, row.Tail)
	if r.walking >= manyBlocks {
		r.it = r.db.txn.IterateOnce(r.db.space, lower, upper, r.reverse)
	} else {
		r.it = r.db.txn.Iterate(r.db.space, lower, upper, IteratorOptions{Reverse: r.reverse}).Passing()
	}
}

// walk goes on to the next block.
func (r *blockReader) walk() listpack.Listpack {
	if r.walking--; r.it.Next() && layout.ElementIndex(r.it.Key()) == r.at {
		return r.it.Value()
	}
	r.err = r.endWalk()
	return nil
}

func (r *blockReader) endWalk() error {
	it := r.it
	r.it = nil
	return it.Close()
}

// close ends reading, and returns why it has ended before its end.
func (r *blockReader) close() error {
	if r.it != nil {
		return cmp.Or(r.err, r.endWalk())
	}
	return r.err
}

// residentShare is how many elements of a block cost about as much as one record.
const residentShare = 4

// editedBlock is a block that is being changed.
type editedBlock struct {
	at   uint64
	pack listpack.Listpack // nil: none is
}

// endEdit writes the block that was changed.
func (l *List) endEdit() error {
	if l.edited.pack == nil {
		return nil
	}
	pack := l.edited.pack
	l.edited.pack = nil
	return l.db.txn.Put(l.db.space, l.blockKey(l.edited.at), pack)
}

// atInBlock is at for an element in a block.
func (l *List) atInBlock(index uint64) ([]byte, error) {
	at, pack := l.next.Blocks.At(index), l.edited.pack
	if pack == nil || l.edited.at != at {
		var err error
		if pack, err = l.block(at); err != nil {
			return nil, err
		}
	}
	return text(pack.At(pack.Seek(int(index-at))), &l.db.txn.scratch.element), nil
}

// putInBlock is put for an element in a block. A block that became too large with it is left, as
// are those between it and the nearer end.
func (l *List) putInBlock(index uint64, value []byte) error {
	at := l.next.Blocks.At(index)
	if l.edited.pack != nil && l.edited.at != at {
		if err := l.endEdit(); err != nil {
			return err
		}
	}
	pack := l.edited.pack
	if pack == nil {
		var err error
		if pack, err = l.block(at); err != nil {
			return err
		}
	}
	if len(pack)+len(value) > l.mostEdited(at) {
		value = bytes.Clone(value) // it may stand in the scratch that blocks are left with
		if err := l.leaveFrom(at); err != nil {
			return err
		}
		return l.put(index, value)
	}
	if err := cmp.Or(l.db.txn.Spend(1), l.db.txn.SpendBytes(len(pack))); err != nil {
		return err
	}
	l.edited.at = at
	l.edit(func(dst []byte) listpack.Listpack {
		l.edited.pack = pack.Replace(dst, pack.Seek(int(index-at)), listpack.Of(value))
		return l.edited.pack
	})
	return nil
}

// leaveFrom gives the elements of a block, and of those between it and the nearer end, records of
// their own.
func (l *List) leaveFrom(at uint64) error {
	if err := l.endEdit(); err != nil {
		return err
	}
	left := at-l.next.Blocks.First < l.next.Blocks.Beyond-at
	for b := &l.next.Blocks; b.Count() > 0 && b.Has(at); {
		if err := l.leaveBlock(left); err != nil {
			return err
		}
	}
	return nil
}

// leaveEnd makes an end single whose elements stand in a block: others are going to be pushed
// there.
func (l *List) leaveEnd(left bool) error {
	if b := &l.next.Blocks; b.Count() == 0 || left && b.First >= l.next.Head || !left && b.Beyond <= l.next.Tail {
		return nil
	}
	return l.leaveBlock(left)
}

// leaveBlock gives the elements of the outermost block at an end records of their own.
func (l *List) leaveBlock(left bool) error {
	b := &l.next.Blocks
	at := b.Beyond - b.Size()
	if left {
		at = b.First
	}
	pack, err := l.block(at)
	if err != nil {
		return err
	}
	l.dropBlock(left)
	index := at
	for _, e := range pack.All() {
		if index >= l.next.Head && index < l.next.Tail {
			if err := l.putSingle(index, text(e, &l.db.txn.scratch.element)); err != nil {
				return err
			}
		}
		index++
	}
	return nil
}

// dropBlock takes the outermost block at an end from those that there are.
func (l *List) dropBlock(left bool) {
	b := &l.next.Blocks
	if left {
		b.First += b.Size()
	} else {
		b.Beyond -= b.Size()
	}
	if b.Count() == 0 {
		*b = layout.Blocks{Shift: b.Shift}
	}
}

// leaveBlocks leaves the blocks that have no element of the list any more.
func (l *List) leaveBlocks() error {
	b := &l.next.Blocks
	if l.packed() || b.Count() == 0 {
		return nil
	}
	if err := l.endEdit(); err != nil {
		return err
	}
	b.First = max(b.First, b.At(l.next.Head))
	b.Beyond = min(b.Beyond, b.At(l.next.Tail+b.Size()-1))
	if b.First >= b.Beyond {
		*b = layout.Blocks{Shift: b.Shift}
	}
	return nil
}

// listVisitor visits elements of a list: those of blocks in runs, the others one by one.
type listVisitor struct {
	element func(element []byte) error
	run     func(r listpack.Run) error
}

// eachListElement visits all elements of a spread list. Those of a long one pass caches by. The
// bytes live until visit returns.
func (d DB) eachListElement(m *layout.Metadata, visit func(element []byte) error) error {
	return d.eachListRun(m, listVisitor{visit, func(r listpack.Run) error {
		for e := range r.All() {
			if err := visit(text(e, &d.txn.scratch.element)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// eachListRun is eachListElement for who takes runs.
func (d DB) eachListRun(m *layout.Metadata, visit listVisitor) error {
	if m.Blocks.Shift == 0 {
		return d.scanAll(m, m.Type.Elements()[0], false, func(_, element []byte) error { return visit.element(element) })
	}
	l := List{db: d, next: *m}
	e := extentOf(m)
	single := e.Single()
	if err := l.eachSingle(single[0], visit); err != nil {
		return err
	}
	r := l.readBlocks(e.Blocks.And(e.All), false)
	var failed error
	for failed == nil && r.next() {
		run, _ := r.pack.Run(r.pack.Seek(int(r.row.Head-r.at)), int(r.row.Length()))
		failed = visit.run(run)
	}
	if err := cmp.Or(failed, r.close()); err != nil {
		return err
	}
	return l.eachSingle(single[1], visit)
}

// eachSingle visits elements that stand single.
func (l *List) eachSingle(row engine.Bounds, visit listVisitor) (failed error) {
	if row.Length() >= fewElements {
		return l.scanSingle(row, visit)
	}
	_, err := l.rangePoints(row, false, func(_ int, value []byte) bool {
		failed = visit.element(value)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// scanSingle is eachSingle for many.
func (l *List) scanSingle(row engine.Bounds, visit listVisitor) error {
	it := l.db.iterateSingle(&l.next, row)
	for it.Next() && layout.ElementIndex(it.Key()) == row.Head {
		if row.Head++; it.Fail(visit.element(it.Value())) {
			break
		}
	}
	err := it.Close()
	if err == nil && row.Length() > 0 {
		err = l.lacks(row.Head)
	}
	return err
}
