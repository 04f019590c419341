package ordered

import "bytes"

// Reading brings to a tree what a walk over records comes to: entries one behind the other, or
// backwards. It cuts them into pieces, and ends where a resident piece begins.
type Reading struct {
	tree    *Tree
	learns  Learning
	reverse bool
	edge    []byte // up to where, from where the walk began, all entries were learned
	limit   []byte // the end of the piece that is being read
	last    []byte
	begun   bool
	builder Builder
	wrong   bool
}

// Learning is what a reading tells its tree.
type Learning int

const (
	Nothing Learning = iota
	Counts           // how many entries there are where
	Entries          // and themselves
)

// Begin begins at a place within a piece that isn't resident: at its beginning, or, reverse, at its
// end, if it is to be read as a whole.
func (r *Reading) Begin(t *Tree, p *Piece, from []byte, reverse bool, learns Learning) {
	r.tree, r.learns, r.reverse, r.edge, r.begun, r.wrong = t, learns, reverse, from, false, false
	r.builder.Reset()
	r.limitTo(p)
}

func (r *Reading) limitTo(p *Piece) {
	if r.limit = p.Upper; r.reverse {
		r.limit = p.Lower
	}
}

// Learns reports whether the tree is told anything.
func (r *Reading) Learns() bool { return r.learns != Nothing }

// Wrong reports whether the tree had counted otherwise than the walk.
func (r *Reading) Wrong() bool { return r.wrong }

// Add takes the next entry. It returns false, and hasn't taken it, if it belongs to a resident
// piece.
func (r *Reading) Add(key, value []byte) bool {
	for r.passes(key) {
		r.cut(r.limit)
		p := r.tree.Find(r.limit, r.reverse)
		if p.Block.Resident() {
			return false
		}
		r.limitTo(&p)
	}
	if r.learns == Nothing {
		return true
	}
	switch {
	case !r.begun && r.edge == nil && len(key) > 0: // nothing lives at this end of the collection
		r.cut(r.behind(key))
	case r.Enough():
		r.cut(r.between(r.last, key))
	}
	r.begun = true
	r.builder.Add(key, value)
	r.last = append(r.last[:0], key...)
	return true
}

// passes reports whether a key lies behind the piece that is being read.
func (r *Reading) passes(key []byte) bool {
	switch {
	case r.limit == nil:
		return false
	case r.reverse:
		return bytes.Compare(key, r.limit) < 0
	}
	return bytes.Compare(key, r.limit) >= 0
}

// behind is a border such that an entry is the next one from there on.
func (r *Reading) behind(key []byte) []byte {
	if r.reverse {
		return append(bytes.Clone(key), 0)
	}
	return bytes.Clone(key)
}

// between is a border between an entry and the next.
func (r *Reading) between(last, next []byte) []byte {
	if r.reverse {
		return Separator(next, last)
	}
	return Separator(last, next)
}

// cut learns a piece that ends at a border.
func (r *Reading) cut(border []byte) {
	lower, upper := r.edge, border
	if r.reverse {
		lower, upper = border, r.edge
	}
	r.edge = border
	if r.learns == Nothing {
		r.builder.Reset()
		return
	}
	var block Block
	if r.learns == Entries {
		block = r.builder.Block(r.reverse)
	}
	if !r.tree.Learn(lower, upper, r.builder.Len(), block) {
		r.wrong = true
	}
	r.builder.Reset()
}

// Border is up to where everything was learned.
func (r *Reading) Border() []byte { return r.edge }

// Enough reports whether the entries since the last piece are enough for one: whether Stop may be
// called without leaving a small piece behind.
func (r *Reading) Enough() bool {
	entries, bytes := int(r.tree.target.Load()), cutBytes
	if r.learns == Counts { // what is resident may be cut smaller, and is joined when it isn't any more
		bytes *= max(entries/r.tree.usual, 1)
	}
	return r.builder.Len() >= entries || r.builder.Bytes() >= bytes
}

// Stop ends the reading behind the last entry, though there may be more.
func (r *Reading) Stop() {
	switch {
	case r.builder.Len() == 0:
	case r.reverse:
		r.cut(bytes.Clone(r.last))
	default:
		r.cut(append(bytes.Clone(r.last), 0))
	}
}

// End ends the reading at a place up to which there are no further entries; nil is the end of the
// collection.
func (r *Reading) End(place []byte) {
	for r.limit != nil && (place == nil || !r.reverse && bytes.Compare(r.limit, place) < 0 || r.reverse && bytes.Compare(r.limit, place) > 0) {
		r.cut(r.limit)
		p := r.tree.Find(r.limit, r.reverse)
		if p.Block.Resident() {
			return
		}
		r.limitTo(&p)
	}
	r.cut(place)
}
