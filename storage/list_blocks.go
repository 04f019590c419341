package storage

import (
	"bytes"
	"cmp"
	"fmt"

	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// A list gets blocks (layout.Blocks) when it comes as a whole, by RESTORE, from a file or a
// primary, or in a command with many elements (see list_build.go): that costs a fraction of a
// record for each, as does to read them all. What is pushed later stands single, before and
// behind them: to push and pop single elements costs less so.

// mostEdited is up to what size a block grows when elements in it are replaced.
const mostEdited = 64 << 10

// mostEdited is the size that a block may grow to.
func (d DB) mostEdited() int {
	if most := d.limits().mostEdited; most > 0 {
		return most
	}
	return mostEdited
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
	size := l.next.Blocks.Size()
	for n := uint64(0); within.Length() > 0; n++ {
		at := l.next.Blocks.At(inTurn(within, 0, reverse))
		if n%engine.PrefetchBatch == 0 && within.Length() > size {
			l.prefetchBlocks(at, within, reverse)
		}
		pack, err := l.block(at)
		if err != nil {
			return false, err
		}
		row := within.And(engine.Bounds{Head: at, Tail: at + size})
		if err := l.db.txn.Spend(int(row.Length()) / residentShare); err != nil {
			return false, err
		}
		if !l.walkPack(pack, int(row.Head-at), int(row.Length()), int(row.Head-l.next.Head), reverse, visit) {
			return false, nil
		}
		if reverse {
			within.Tail = row.Head
		} else {
			within.Head = row.Tail
		}
	}
	return true, nil
}

// residentShare is how many elements of a block cost about as much as one record.
const residentShare = 4

// prefetchBlocks has the processor read some blocks together.
func (l *List) prefetchBlocks(at uint64, within engine.Bounds, reverse bool) {
	size := l.next.Blocks.Size()
	l.db.txn.PrefetchRecords(l.db.space, func() []byte {
		if at < l.next.Blocks.At(within.Head) || at >= within.Tail {
			return nil
		}
		key := l.blockKey(at)
		if reverse {
			at -= size
		} else {
			at += size
		}
		return key
	})
}

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
	if len(pack)+len(value) > l.db.mostEdited() {
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
			if err := l.put(index, text(e, &l.db.txn.scratch.element)); err != nil {
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
	singles, blocks := l.eachSingle, l.eachBlock
	if m.Length() > manyRecords {
		singles, blocks = l.scanSingle, l.scanBlocks
	}
	single := singleOf(m)
	if err := singles(single[0], visit); err != nil {
		return err
	}
	if err := blocks(visit); err != nil {
		return err
	}
	return singles(single[1], visit)
}

// eachSingle visits elements that stand single.
func (l *List) eachSingle(row engine.Bounds, visit listVisitor) (failed error) {
	if row.Length() == 0 {
		return nil
	}
	_, err := l.rangeSingle(row, false, func(_ int, value []byte) bool {
		failed = visit.element(value)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// eachBlock visits the elements in blocks.
func (l *List) eachBlock(visit listVisitor) error {
	b := &l.next.Blocks
	within := engine.Bounds{Head: b.First, Tail: b.Beyond}
	for n, at := 0, b.First; at < b.Beyond; n, at = n+1, at+b.Size() {
		if n%engine.PrefetchBatch == 0 {
			l.prefetchBlocks(at, within, false)
		}
		pack, err := l.block(at)
		if err != nil {
			return err
		}
		if err := l.db.txn.Spend(int(b.Size()) / residentShare); err != nil {
			return err
		}
		if err := l.visitBlock(pack, at, visit); err != nil {
			return err
		}
	}
	return nil
}

// scanSingle is eachSingle for those of a long list.
func (l *List) scanSingle(row engine.Bounds, visit listVisitor) error {
	it := l.db.iterateSingle(&l.next, row)
	for it.Next() && layout.ElementIndex(it.Key()) == row.Head {
		if row.Head++; it.Fail(visit.element(it.Value())) || it.Fail(l.db.txn.SpendBytes(len(it.Value()))) {
			break
		}
	}
	err := it.Close()
	if err == nil && row.Length() > 0 {
		err = l.lacks(row.Head)
	}
	return err
}

// scanBlocks is eachBlock for those of a long list.
func (l *List) scanBlocks(visit listVisitor) error {
	b := l.next.Blocks
	it := l.db.iterateCollection(layout.KindListBlock, &l.next, false)
	for it.Next() && layout.ElementIndex(it.Key()) == b.First {
		if it.Fail(l.db.txn.SpendBytes(len(it.Value()))) || it.Fail(l.visitBlock(it.Value(), b.First, visit)) {
			break
		}
		b.First += b.Size()
	}
	err := it.Close()
	if err == nil && b.Count() > 0 {
		err = l.lacks(b.First)
	}
	return err
}

// visitBlock visits the elements of a block that are part of the list.
func (l *List) visitBlock(pack listpack.Listpack, at uint64, visit listVisitor) error {
	if !l.isBlock(pack) {
		return l.lacks(at)
	}
	row := engine.Bounds{Head: at, Tail: at + l.next.Blocks.Size()}.And(engine.Bounds{Head: l.next.Head, Tail: l.next.Tail})
	r, _ := pack.Run(pack.Seek(int(row.Head-at)), int(row.Length()))
	return visit.run(r)
}
