package sortorder

import (
	"encoding/binary"
	"math"
)

// Elements are what is sorted. They can be millions. So they hold no pointers, which the garbage
// collector would have to follow while others wait for the processor; and they stand in pieces,
// since what is one large allocation is cleared and copied in one go, during which the collector
// stops everybody else as soon as it wants all goroutines to stand still.
type Elements struct {
	pieces   [][]entry // all but the last have pieceEntries
	from, to int       // the window that is left of them
	texts    texts
}

// entry is an element and what it is sorted by: 16 bytes.
type entry struct {
	value textRef
	// weight is a number's bits, or, with Order.Alpha and Order.By, the place of a text.
	weight uint64
}

// pieceEntries are sorted together, before they are merged with others.
const (
	pieceBits    = 12
	pieceEntries = 1 << pieceBits
)

// Add adds a copy of an element.
func (e *Elements) Add(value []byte) { e.add(entry{value: e.texts.add(value)}) }

func (e *Elements) add(x entry) {
	last := len(e.pieces) - 1
	switch {
	case last < 0:
		e.pieces, last = append(e.pieces, nil), 0
	case len(e.pieces[last]) == pieceEntries:
		e.pieces = append(e.pieces, make([]entry, 0, pieceEntries))
		last++
	}
	e.pieces[last] = append(e.pieces[last], x)
	e.to++
}

// Reset forgets all elements, and keeps the memory of few for others.
func (e *Elements) Reset() {
	if len(e.pieces) > 1 || len(e.texts.blocks) > mostKeptBlocks {
		*e = Elements{}
		return
	}
	if len(e.pieces) == 1 {
		e.pieces[0] = e.pieces[0][:0]
	}
	e.from, e.to = 0, 0
	e.texts.reset()
}

// Len is the number of elements.
func (e *Elements) Len() int { return e.to - e.from }

// Value is the element with an index.
func (e *Elements) Value(i int) []byte { return e.texts.at(e.entry(i).value) }

// SetNumber says what an element is sorted by unless Order.Alpha. It is 0 where nobody said so, and
// never NaN.
func (e *Elements) SetNumber(i int, number float64) { e.entry(i).weight = math.Float64bits(number) }

// Number is what SetNumber has said of an element.
func (e *Elements) Number(i int) float64 { return math.Float64frombits(e.entry(i).weight) }

// SetWeight says what an element is sorted by with Order.Alpha and Order.By, and keeps a copy of
// it. One without weight comes first.
func (e *Elements) SetWeight(i int, weight []byte) { e.entry(i).weight = uint64(e.texts.add(weight)) }

// Cut leaves the elements of a window: those from first up to, but not including, limit.
func (e *Elements) Cut(first, limit int) { e.from, e.to = e.from+first, e.from+limit }

func (e *Elements) entry(i int) *entry {
	i += e.from
	return &e.pieces[i>>pieceBits][i&(pieceEntries-1)]
}

// texts keep many small texts in few blocks of memory, each behind its length.
type texts struct{ blocks [][]byte }

// textRef refers to a text: the number of its block, from 1 on, and its offset. 0 refers to none.
type textRef uint64

const (
	smallBlock = 64
	largeBlock = 64 << 10
	offsetBits = 32 // a block that holds one large text is below 4 GB
)

// mostKeptBlocks is how many blocks texts may have whose last one is kept for others.
const mostKeptBlocks = 12

// reset forgets all texts, and keeps the last block, which is the largest one of many small texts.
// One of a large text goes: effects refer to such a text until they are committed.
func (t *texts) reset() {
	if last := len(t.blocks) - 1; last >= 0 && cap(t.blocks[last]) > largeBlock {
		t.blocks = nil
	} else if last >= 0 {
		t.blocks[0] = t.blocks[last][:0]
		t.blocks = t.blocks[:1]
	}
}

func (t *texts) add(text []byte) textRef {
	last := len(t.blocks) - 1
	if needed := binary.MaxVarintLen32 + len(text); last < 0 || needed > cap(t.blocks[last])-len(t.blocks[last]) {
		size := smallBlock
		if last >= 0 {
			size = min(largeBlock, 2*cap(t.blocks[last]))
		}
		t.blocks = append(t.blocks, make([]byte, 0, max(size, needed)))
		last++
	}
	block := t.blocks[last]
	at := textRef(last+1)<<offsetBits | textRef(len(block))
	t.blocks[last] = append(binary.AppendUvarint(block, uint64(len(text))), text...)
	return at
}

// at returns the text at a place, nil if that is none.
func (t *texts) at(p textRef) []byte {
	if p == 0 {
		return nil
	}
	block := t.blocks[p>>offsetBits-1][uint32(p):]
	length, header := binary.Uvarint(block)
	end := header + int(length)
	return block[header:end:end]
}
