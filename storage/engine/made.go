package engine

import (
	"bytes"
	"slices"

	"kedis/storage/layout"
)

// made are the collections that a transaction makes, of records each of which is put once. No
// version of them is there before. So they get no slots in the journal as long as nobody asks for
// one, and records of a collection that the transaction itself abandons are never published.
type made struct {
	runs   []madeRun // in the order of the entries, and of their ids
	lowest uint64    // id of those that have no slots
	exact  bool      // somebody has asked: all have slots, and those that come get theirs at once
}

// madeRun is entries of the journal that follow each other.
type madeRun struct {
	id        uint64
	from, to  int
	abandoned int // how many entries there were when the collection was abandoned; 0: it wasn't
}

// putNew is put for a record of a collection that is being made, which was not put before.
func (j *journal) putNew(hash uint64, space uint32, key, value []byte) {
	if j.made.exact {
		j.put(hash, space, key, value, nil)
	} else {
		c := j.append(hash, space, key)
		c.at, c.length, c.unindexed = len(j.buffer), len(value), true
		j.buffer = append(append(j.buffer, key...), value...)
		j.keys++
		j.unindexed++
	}
	j.made.note(layout.ElementID(key), len(j.entries)-1)
}

// note notes the entry of a record of a collection.
func (m *made) note(id uint64, entry int) {
	if last := len(m.runs) - 1; last >= 0 && m.runs[last].id == id && m.runs[last].to == entry {
		m.runs[last].to++
		return
	}
	if len(m.runs) == 0 {
		m.lowest = id
	}
	m.lowest = min(m.lowest, id)
	m.runs = append(m.runs, madeRun{id: id, from: entry, to: entry + 1})
}

// lastRun is where the run of a collection's records begins that ends with the last entry.
func (m *made) lastRun(id uint64, entries int) int {
	if last := len(m.runs) - 1; last >= 0 && m.runs[last].id == id && m.runs[last].to == entries {
		return m.runs[last].from
	}
	return entries
}

// indexFor gives all entries their slots if one that has none may be that of a key.
func (j *journal) indexFor(key []byte) {
	if m := &j.made; len(m.runs) > 0 && !m.exact && layout.Kinds[key[0]].Element && layout.ElementID(key) >= m.lowest {
		j.indexMade()
	}
}

// indexMade happens once in a transaction: all slots are given anew, since rewind relies on their
// order.
func (j *journal) indexMade() {
	for i := range j.made.runs {
		r := &j.made.runs[i]
		for n := r.from; n < r.to; n++ {
			j.entries[n].unindexed = false
		}
	}
	j.slots, j.unindexed, j.made.exact = nil, 0, true
	j.makeRoom()
}

// distinct reports whether no record of a collection that was made was put twice.
func (j *journal) distinct(id uint64) bool {
	records, size := 0, 16
	for _, r := range j.made.runs {
		if r.id == id {
			records += r.to - r.from
		}
	}
	for size < 2*records {
		size *= 2
	}
	slots := make([]int32, size) // open addressing: index into entries plus 1
	for _, r := range j.made.runs {
		for n := r.from; r.id == id && n < r.to; n++ {
			if !j.takeSlot(slots, n) {
				return false
			}
		}
	}
	return true
}

// repeated returns the key of a record of a collection that was put twice, as far as slots tell;
// nil if there is none.
func (j *journal) repeated() []byte {
	if !j.made.exact {
		return nil
	}
	for i := range j.made.runs {
		r := &j.made.runs[i]
		for n := r.from; n < r.to; n++ {
			if c := &j.entries[n]; c.superseded {
				return j.key(c)
			}
		}
	}
	return nil
}

// takeSlot gives an entry a slot, unless another one with its key has it.
func (j *journal) takeSlot(slots []int32, entry int) bool {
	c, mask := &j.entries[entry], len(slots)-1
	i := int(c.hash) & mask
	for ; slots[i] != 0; i = (i + 1) & mask {
		if other := &j.entries[slots[i]-1]; other.hash == c.hash && bytes.Equal(j.key(other), j.key(c)) {
			return false
		}
	}
	slots[i] = int32(entry + 1)
	return true
}

// abandon says that nothing refers to a collection any more.
func (m *made) abandon(id uint64, entries int) {
	for i := len(m.runs) - 1; i >= 0 && m.runs[i].id >= id; i-- {
		if r := &m.runs[i]; r.id == id && r.abandoned == 0 {
			r.abandoned = entries
		}
	}
}

// rewind takes back what was noted behind the first entries.
func (m *made) rewind(entries int) {
	m.runs = slices.DeleteFunc(m.runs, func(r madeRun) bool { return r.from >= entries })
	for i := range m.runs {
		r := &m.runs[i]
		r.to = min(r.to, entries)
		if r.abandoned > entries {
			r.abandoned = 0
		}
	}
}

func (m *made) reset() { m.runs, m.exact = m.runs[:0], false }
