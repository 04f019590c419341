package listpack

import "iter"

// Run is some neighbouring elements of a listpack, as they stand there: an element's bytes don't
// depend on where it stands, so that a run is copied into another listpack as a whole.
type Run struct {
	entries []byte
	count   int
}

// Run returns up to most elements from the one at pos on, as a view into the listpack, and the
// position of the one after them, or None. A pos of None has an empty run.
func (l Listpack) Run(pos, most int) (r Run, next int) {
	if pos == None {
		return Run{}, None
	}
	if n := l.headerCount(); pos == headerSize && n != countUnknown && n <= most {
		return Run{l[pos : len(l)-1], n}, None
	}
	end := pos
	for r.count < most && l[end] != endMark {
		end = l.skip(end)
		r.count++
	}
	r.entries = l[pos:end]
	return r, l.orNone(end)
}

// Split divides a run into halves.
func (r Run) Split() (first, second Run) {
	at := 0
	for range r.count / 2 {
		at = Listpack(r.entries).skip(at)
	}
	return Run{r.entries[:at], r.count / 2}, Run{r.entries[at:], r.count - r.count/2}
}

// Len is the number of elements.
func (r Run) Len() int { return r.count }

// Size is how many bytes the elements take in a listpack.
func (r Run) Size() int { return len(r.entries) }

// All iterates over the elements.
func (r Run) All() iter.Seq[Element] {
	return func(yield func(Element) bool) {
		for rest := r.entries; len(rest) > 0; {
			e, size := decode(rest)
			if !yield(e) {
				return
			}
			rest = rest[size+backlenSize(size):]
		}
	}
}

// AddRun adds elements at the tail.
func (b *Builder) AddRun(r Run) {
	if len(b.pack) == 0 {
		b.pack = append(b.pack, make([]byte, headerSize)...)
	}
	b.pack = append(b.pack, r.entries...)
	b.count += r.count
}
