package listpack

import (
	"math"
	"slices"
)

// Append returns l with elements added at its tail.
func (l Listpack) Append(dst []byte, elements ...Element) Listpack {
	end := len(l) - 1
	return l.insertAt(dst, end, elements)
}

// Push returns l with an element added at its tail, in place if there is room, by a caller that
// owns l's memory. l must not be used again, and the element isn't a view into it.
func (l Listpack) Push(element Element) Listpack {
	count := l.headerCount()
	if count != countUnknown {
		count++
	}
	out := Listpack(append(appendElement(l[:len(l)-1], element), endMark))
	if len(out) > math.MaxUint32 {
		panic("listpack: larger than 4 GiB")
	}
	out.setHeader(count)
	return out
}

// Prepend returns l with elements added at its head, the first of them first.
func (l Listpack) Prepend(dst []byte, elements ...Element) Listpack {
	return l.insertAt(dst, headerSize, elements)
}

// InsertBefore returns l with elements added before the one at pos, or at the tail if pos is
// None. The first of them is then at pos.
func (l Listpack) InsertBefore(dst []byte, pos int, elements ...Element) Listpack {
	if pos == None {
		pos = len(l) - 1
	}
	return l.insertAt(dst, pos, elements)
}

// InsertAfter returns l with elements added after the one at pos.
func (l Listpack) InsertAfter(dst []byte, pos int, elements ...Element) Listpack {
	return l.insertAt(dst, l.skip(pos), elements)
}

func (l Listpack) insertAt(dst []byte, pos int, elements []Element) Listpack {
	gap := 0
	for _, e := range elements {
		gap += e.Size()
	}
	out := l.splice(dst, pos, pos, gap, len(elements))
	at := out[:pos]
	for _, e := range elements {
		at = appendElement(at, e)
	}
	return out
}

// Replace returns l with the element at pos replaced. The new one is at pos, too.
func (l Listpack) Replace(dst []byte, pos int, element Element) Listpack {
	out := l.splice(dst, pos, l.skip(pos), element.Size(), 0)
	appendElement(out[:pos], element)
	return out
}

// Delete returns l without count elements from the one at pos on, or as many as there are, and
// the position of the element after them, which may be None.
func (l Listpack) Delete(dst []byte, pos, count int) (Listpack, int) {
	end, deleted := pos, 0
	for ; deleted < count && l[end] != endMark; deleted++ {
		end = l.skip(end)
	}
	out := l.splice(dst, pos, end, 0, -deleted)
	return out, out.orNone(pos)
}

// DeleteRange returns l without count elements from the given index on, or as many as there
// are. Negative indexes count from the tail.
func (l Listpack) DeleteRange(dst []byte, index, count int) Listpack {
	pos := l.Seek(index)
	if pos == None {
		return l.Clone(dst)
	}
	out, _ := l.Delete(dst, pos, count)
	return out
}

// Clone returns a copy of l.
func (l Listpack) Clone(dst []byte) Listpack {
	end := len(l) - 1
	return l.splice(dst, end, end, 0, 0)
}

// splice copies l with gap uninitialized bytes instead of those from..to, and with the header
// set to the new size and the count changed by delta.
func (l Listpack) splice(dst []byte, from, to, gap, delta int) Listpack {
	size := len(l) - (to - from) + gap
	if size > math.MaxUint32 {
		panic("listpack: larger than 4 GiB")
	}
	count := l.headerCount()
	if count != countUnknown { // once lost, the count stays unknown, as in Redis
		count += delta
	}
	out := Listpack(slices.Grow(dst[:0], size)[:size])
	// In place, the tail has to move before anything is written in front of it.
	copy(out[from+gap:], l[to:])
	copy(out[:from], l[:from])
	out.setHeader(count)
	return out
}
