package storage

import (
	"encoding/binary"

	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// Blocks hold about blockBytes: how many elements that is, is decided by the first ones of a list.
// Where they are large, or later ones are, elements stay single.
const (
	blockBytes    = 2 << 10
	maxBlockBytes = 32 << 10 // of one, and of the elements by which it is decided
	leastShift    = 3        // a block of fewer elements isn't worth it
)

// blockShift is how many elements a block has, as layout.Blocks says it, when so many elements take
// so many bytes; false when they are too large for blocks.
func (d DB) blockShift(elements, bytes int) (shift uint8, ok bool) {
	shift = d.mostShift()
	least := min(leastShift, shift)
	for shift > least && (bytes<<shift > blockBytes*elements || 1<<shift > elements) {
		shift--
	}
	return shift, bytes<<shift <= blockBytes*elements
}

// mostShift is the shift of the largest blocks.
func (d DB) mostShift() uint8 {
	if shift := d.limits().blockShift; shift > 0 {
		return shift
	}
	return layout.MaxShift
}

// listBuilder makes the records of a list whose elements come one after the other, from its head
// on: all that are full blocks' worth stand in blocks.
type listBuilder struct {
	db     DB
	made   *engine.Elements
	blocks layout.Blocks
	count  uint64           // elements that have records
	pack   listpack.Builder // those that have none yet
	single bool             // elements aren't for blocks, or those that come now
}

func (d DB) newListBuilder(id uint64) *listBuilder {
	return &listBuilder{db: d, made: d.txn.NewElements(d.space, layout.List, id)}
}

// addAll takes all elements of a listpack.
func (b *listBuilder) addAll(pack listpack.Listpack) error {
	for pos := pack.First(); pos != listpack.None; {
		var r listpack.Run
		r, pos = pack.Run(pos, b.lacks())
		if err := b.addRun(r); err != nil {
			return err
		}
	}
	return nil
}

// addValues takes the next elements.
func (b *listBuilder) addValues(values [][]byte) error {
	for _, v := range values {
		if err := b.add(v); err != nil {
			return err
		}
	}
	return nil
}

// addRest takes the elements of a value that haven't been read.
func (b *listBuilder) addRest(v *rdb.Value) error {
	for {
		if r := v.Run(b.lacks()); r.Len() > 0 {
			if err := b.addRun(r); err != nil {
				return err
			}
			continue
		}
		if !v.Next() {
			return v.Err()
		}
		if err := b.add(v.Element.Bytes); err != nil {
			return err
		}
	}
}

// add takes the next element.
func (b *listBuilder) add(value []byte) error {
	if err := b.outgrow(len(value)); err != nil {
		return err
	}
	if b.single {
		return b.put(value)
	}
	b.pack.Add(value)
	return b.endBlock()
}

// lacks is how many elements lack until something is to be done with those that came.
func (b *listBuilder) lacks() int {
	if b.decided() {
		return int(b.blocks.Size()) - b.pack.Len()
	}
	return 1<<b.db.mostShift() - b.pack.Len()
}

// addRun takes the next elements, as many as lack at most.
func (b *listBuilder) addRun(r listpack.Run) error {
	if err := b.outgrow(r.Size()); err != nil {
		return err
	}
	if b.single {
		return b.putAll(r)
	}
	b.pack.AddRun(r)
	return b.endBlock()
}

// outgrow gives up when what comes is too large for a block: it isn't copied to one first.
func (b *listBuilder) outgrow(bytes int) error {
	if b.single || bytes <= maxBlockBytes {
		return nil
	}
	return b.giveUp()
}

// endBlock makes a block of the elements that have no records, if they are as many as it has, or
// finds that they are too large for one.
func (b *listBuilder) endBlock() error {
	switch {
	case b.lacks() > 0 && b.pack.Size() <= maxBlockBytes:
		return nil
	case b.decided():
		return b.addBlock()
	}
	return b.decide()
}

// decided reports whether it is known how many elements blocks have.
func (b *listBuilder) decided() bool { return b.blocks.Shift > 0 }

// decide decides how many elements blocks have.
func (b *listBuilder) decide() error {
	shift, ok := b.db.blockShift(b.pack.Len(), b.pack.Size())
	if !ok || b.pack.Len() < 1<<shift || b.db.limits().noBlocks {
		return b.giveUp()
	}
	first := b.pack.Listpack()
	b.pack = listpack.Builder{}
	b.blocks = layout.Blocks{First: layout.ListMiddle, Beyond: layout.ListMiddle, Shift: shift}
	return b.addAll(first)
}

// addBlock makes a block of the elements that have no records.
func (b *listBuilder) addBlock() error {
	if b.pack.Size() > maxBlockBytes {
		return b.giveUp()
	}
	var index [8]byte
	binary.BigEndian.PutUint64(index[:], b.blocks.Beyond)
	b.blocks.Beyond += b.blocks.Size()
	b.count += b.blocks.Size()
	err := b.made.Put(layout.KindListBlock, index[:], b.pack.Listpack())
	b.pack.Reset()
	return err
}

// giveUp gives the elements that have no records, and all that come, one each.
func (b *listBuilder) giveUp() error {
	b.single = true
	held := b.pack.Listpack()
	b.pack = listpack.Builder{}
	return b.addAll(held)
}

func (b *listBuilder) putAll(r listpack.Run) error {
	for e := range r.All() {
		if err := b.put(text(e, &b.db.txn.scratch.element)); err != nil {
			return err
		}
	}
	return nil
}

// put gives an element its record.
func (b *listBuilder) put(value []byte) error {
	var index [8]byte
	binary.BigEndian.PutUint64(index[:], layout.ListMiddle+b.count)
	b.count++
	return b.made.Put(layout.KindListElement, index[:], value)
}

// finish completes the list: m says then where its elements are.
func (b *listBuilder) finish(m *layout.Metadata) error {
	if !b.decided() && !b.single {
		if err := b.decide(); err != nil {
			return err
		}
	}
	if err := b.giveUp(); err != nil {
		return err
	}
	m.ID, m.Head, m.Tail = b.made.ID(), layout.ListMiddle, layout.ListMiddle+b.count
	if b.blocks.Count() > 0 {
		m.Blocks = b.blocks
	}
	return b.made.Finish()
}
