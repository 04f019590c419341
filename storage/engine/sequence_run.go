package engine

import (
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// Who takes elements off an end of a sequence comes to those that only RocksDB has, sooner or
// later, and goes on among them. So who asks RocksDB for the neighbour of the element that was
// asked for before gets those behind it with it, twice as many each time: a walk over neighbours
// costs RocksDB a fraction of what it costs to look up each. Who says ahead which ones it reads
// gets them all at once.

const (
	leastInRun = 8
	mostInRun  = 64
	// runBytes are what the elements of a run may take together, but for the one that was asked
	// for.
	runBytes = 64 << 10
)

// sequenceRun are neighbouring elements of a sequence as RocksDB has them.
type sequenceRun struct {
	asOf

	space      uint32
	id         uint64
	row        Bounds // the elements that are going to be asked for, one after the other
	last       uint64 // the element that was asked for last
	next       int    // how many are read next
	first      uint64 // where they begin
	descending bool
	ends       []int  // where each one's value ends in memory
	memory     []byte // is replaced and not written to again, since values of it are in use
}

// get returns an element that was found nowhere above RocksDB. The key is that of an element of a
// sequence.
func (r *sequenceRun) get(s *Store, family *rocks.Family, space uint32, key []byte) (value []byte, found bool, err error) {
	id, index, last := layout.ElementID(key), layout.ElementIndex(key), r.last
	same := r.id == id && r.space == space
	if !same {
		r.row = Bounds{}
	}
	r.space, r.id, r.last = space, id, index
	if same && len(r.ends) > 0 && r.holds(s) {
		if value, found = r.at(index); found {
			return value, true, nil
		}
	}
	if same && r.row.Has(index) {
		r.next = r.leftInRow(index)
		return r.read(s, family, index, r.descending)
	}
	if same && (index == last+1 || index == last-1) {
		return r.read(s, family, index, index == last-1)
	}
	r.next, r.ends = leastInRun, r.ends[:0]
	return s.db().Get(family, nil, key, nil)
}

// expect says which elements of a sequence are going to be asked for, one after the other. None
// (Bounds{}) is the end of that.
func (r *sequenceRun) expect(space uint32, id uint64, row Bounds, descending bool) {
	r.space, r.id, r.row, r.descending, r.ends = space, id, row, descending, r.ends[:0]
}

// has tells whether an element of a sequence was read with the ones before it.
func (r *sequenceRun) has(id, index uint64) bool {
	_, found := r.at(index)
	return found && r.id == id
}

// leftInRow is how many elements of the row are read with one of them.
func (r *sequenceRun) leftInRow(index uint64) int {
	left := Bounds{index, r.row.Tail}
	if r.descending {
		left = Bounds{r.row.Head, index + 1}
	}
	return int(min(left.Length(), mostPoints))
}

// at returns an element of the run.
func (r *sequenceRun) at(index uint64) (value []byte, found bool) {
	distance := index - r.first
	if r.descending {
		distance = r.first - index
	}
	if distance >= uint64(len(r.ends)) {
		return nil, false
	}
	from := 0
	if distance > 0 {
		from = r.ends[distance-1]
	}
	to := r.ends[distance]
	return r.memory[from:to:to], true
}

// read reads the run that begins with an element, and returns that one.
func (r *sequenceRun) read(s *Store, family *rocks.Family, index uint64, descending bool) (value []byte, found bool, err error) {
	r.asOf = s.asOfNow()
	r.first, r.descending, r.ends, r.memory = index, descending, r.ends[:0], make([]byte, 0, min(cap(r.memory), runBytes))
	within := Bounds{index, index + uint64(r.next)}
	if descending {
		within = Bounds{index + 1 - uint64(r.next), index + 1}
	}
	it := r.below.NewIterator(family, nil, rocks.IteratorOptions{
		LowerBound: layout.AppendSequenceKey(nil, r.id, within.Head), UpperBound: layout.AppendSequenceKey(nil, r.id, within.Tail),
		Reverse: descending, Expected: r.next})
	defer it.Close()
	r.next = min(2*r.next, mostInRun)
	for it.Next() && r.add(it.Key(), it.Value()) {
	}
	if value, found = r.at(index); !found {
		return nil, false, it.Err()
	}
	if len(r.memory) > runBytes {
		r.ends, r.memory = r.ends[:0], nil // a large one isn't kept
	}
	return value, true, nil // what may have failed behind it was asked for by nobody: who needs it reads it again
}

// add takes the next element into the run; false if it isn't the next, or there are enough.
func (r *sequenceRun) add(key, value []byte) bool {
	next := r.first + uint64(len(r.ends))
	if r.descending {
		next = r.first - uint64(len(r.ends))
	}
	if _, index, ok := layout.DecodeSequenceKey(key); !ok || index != next || len(r.ends) > 0 && len(r.memory)+len(value) > runBytes {
		return false
	}
	r.memory = append(r.memory, value...)
	r.ends = append(r.ends, len(r.memory))
	return true
}
