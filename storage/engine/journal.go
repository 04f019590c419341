package engine

import (
	"bytes"
	"slices"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// journal holds the writes of a transaction until it commits: the last version of each record
// counts, and the versions before it are kept so that a command can be taken back. Resetting it
// keeps its memory.
type journal struct {
	buffer     []byte             // keys and values, one behind the other
	large      []generation.Large // records with memory of their own, which is handed over as it is
	largeBytes int                // of those
	entries    []change
	slots      []int32 // open addressing: index into entries plus 1
	keys       int
	unindexed  int // of them, those that have no slot yet
	unused     int // resets in a row that found the buffer too large
	kinds      [256]int32
	made       made
	touched    int // the sum of what publish reads ahead, so that the compiler doesn't drop the reads
}

// change is one version of a record. Its key and value stand in the journal's buffer, or are a
// large record.
type change struct {
	hash       uint64
	space      uint32
	keyLength  int32
	at         int   // in the buffer; below 0: -1 is the first large record, -2 the next
	length     int   // of the value; -1 when the record is deleted
	previous   int32 // index plus 1 of the version before, 0 if none
	superseded bool
	replaces   bool // a record of an ordered kind that was there already
	unindexed  bool // it has no slot yet: see made
}

const (
	smallJournal = 1 << 10 // slots that are reused by the next transaction
	largeBuffer  = 1 << 20
	LargeValue   = largeBuffer // a longer value has memory of its own
	hugeBuffer   = 64 << 20    // is never reused
	unusedResets = 8           // as many in a row give up a buffer that is too large
)

func (j *journal) key(c *change) []byte {
	if c.at < 0 {
		return j.large[-1-c.at].Key()
	}
	return j.buffer[c.at : c.at+int(c.keyLength) : c.at+int(c.keyLength)]
}

func (j *journal) value(c *change) []byte {
	if c.at < 0 {
		return j.large[-1-c.at].Value()
	}
	from := c.at + int(c.keyLength)
	return j.buffer[from : from+c.length : from+c.length]
}

// get returns what the transaction itself wrote. The value is valid until the journal is reset.
func (j *journal) get(hash uint64, space uint32, key []byte) ([]byte, generation.State) {
	if j.keys == 0 {
		return nil, generation.Unknown
	}
	if j.indexFor(key); len(j.slots) == 0 {
		return nil, generation.Unknown
	}
	at := j.slots[j.find(hash, space, key)]
	if at == 0 {
		return nil, generation.Unknown
	}
	c := &j.entries[at-1]
	if c.length < 0 {
		return nil, generation.Deleted
	}
	return j.value(c), generation.Present
}

// find returns the slot of a key, or the free one where it belongs.
func (j *journal) find(hash uint64, space uint32, key []byte) int {
	mask := len(j.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		at := j.slots[i]
		if at == 0 {
			return i
		}
		if c := &j.entries[at-1]; c.hash == hash && c.space == space && bytes.Equal(j.key(c), key) {
			return i
		}
	}
}

// put writes a record whose value is head and, behind it, tail.
func (j *journal) put(hash uint64, space uint32, key, head, tail []byte) {
	j.add(hash, space, key, head, tail, len(head)+len(tail))
}

func (j *journal) delete(hash uint64, space uint32, key []byte) {
	j.add(hash, space, key, nil, nil, -1)
}

// putLarge writes a record that has memory of its own.
func (j *journal) putLarge(hash uint64, space uint32, l generation.Large) {
	c := j.note(hash, space, l.Key())
	c.at, c.length = -1-len(j.large), len(l.Value())
	j.large = append(j.large, l)
	j.largeBytes += l.Bytes()
}

func (j *journal) add(hash uint64, space uint32, key, head, tail []byte, length int) {
	c := j.note(hash, space, key)
	c.at, c.length = len(j.buffer), length
	j.buffer = append(append(append(j.buffer, key...), head...), tail...)
}

// note adds a change of a record, in place of the version before. Where it stands and how long it
// is are to be filled in.
func (j *journal) note(hash uint64, space uint32, key []byte) *change {
	j.indexFor(key)
	j.makeRoom()
	slot := &j.slots[j.find(hash, space, key)]
	c := j.append(hash, space, key)
	c.previous = *slot
	if *slot != 0 {
		j.entries[*slot-1].superseded = true
	} else {
		j.keys++
	}
	*slot = int32(len(j.entries))
	return c
}

// append adds an entry, which has no slot yet.
func (j *journal) append(hash uint64, space uint32, key []byte) *change {
	j.entries = append(j.entries, change{})
	c := &j.entries[len(j.entries)-1] // filled in here: a literal is composed elsewhere, and copied
	c.hash, c.space, c.keyLength = hash, space, int32(len(key))
	j.kinds[key[0]]++
	return c
}

// size is the bytes of all keys and values.
func (j *journal) size() int { return len(j.buffer) + j.largeBytes }

// makeRoom makes room for the slot of one more key.
func (j *journal) makeRoom() {
	least, size := 2*(j.keys-j.unindexed+1), max(64, len(j.slots))
	if least <= len(j.slots) {
		return
	}
	for size < least {
		size *= 2
	}
	j.slots = make([]int32, size)
	j.fill()
}

// fill gives the keys their slots, all of which are free. They go in in the order in which they
// came, which rewind relies on. Of a key that was put twice without a slot, the first entry is
// superseded only now.
func (j *journal) fill() {
	for i := range j.entries {
		c := &j.entries[i]
		if c.unindexed {
			continue
		}
		slot := &j.slots[j.find(c.hash, c.space, j.key(c))]
		if *slot != 0 && c.previous == 0 {
			c.previous = *slot
			j.entries[c.previous-1].superseded = true
			j.keys--
		}
		*slot = int32(i + 1)
	}
}

// rewind takes back all but the first entries.
func (j *journal) rewind(entries int) {
	for i := len(j.entries) - 1; i >= entries; i-- {
		c := &j.entries[i]
		j.kinds[j.key(c)[0]]--
		if c.unindexed {
			j.unindexed--
		} else {
			// The last key that came can leave its slot empty: no other was placed behind it.
			j.slots[j.find(c.hash, c.space, j.key(c))] = c.previous
		}
		if c.previous != 0 {
			j.entries[c.previous-1].superseded = false
		} else {
			j.keys--
		}
		j.takeBack(c)
	}
	j.entries = j.entries[:entries]
	j.made.rewind(entries)
}

// takeBack gives up the memory of the last change.
func (j *journal) takeBack(c *change) {
	if c.at >= 0 {
		j.buffer = j.buffer[:c.at]
		return
	}
	last := len(j.large) - 1
	j.largeBytes -= j.large[last].Bytes()
	j.large[last] = generation.Large{}
	j.large = j.large[:last]
}

func (j *journal) reset() {
	if len(j.slots) > smallJournal && j.keys*8 < len(j.slots) {
		j.slots = nil
	}
	j.shrink()
	if j.keys > 0 {
		clear(j.slots)
	}
	if len(j.entries) > 0 {
		j.kinds = [256]int32{}
	}
	clear(j.large)
	j.large, j.largeBytes = j.large[:0], 0
	j.buffer, j.entries, j.keys, j.unindexed = j.buffer[:0], j.entries[:0], 0, 0
	j.made.reset()
}

// shrink gives up a buffer that is huge, or was mostly unused several times in a row. (Once says
// nothing: the end of a collection follows its large pieces, and the next one comes.)
func (j *journal) shrink() {
	if cap(j.buffer) > largeBuffer && len(j.buffer)*8 < cap(j.buffer) {
		j.unused++
	} else {
		j.unused = 0
	}
	if cap(j.buffer) > hugeBuffer || j.unused >= unusedResets {
		j.buffer, j.entries, j.unused = nil, nil, 0
	}
}

// publish hands the last version of each record over to a generation.
func (j *journal) publish(g *generation.Generation) {
	from := 0
	for i := range j.made.runs {
		if r := &j.made.runs[i]; r.abandoned > 0 {
			j.publishEntries(g, j.entries[from:r.from])
			from = r.to
		}
	}
	j.publishEntries(g, j.entries[from:])
}

// publishEntries first touches the index slots of a few records together, and then their older
// versions, so that the processor waits for all of them at once.
func (j *journal) publishEntries(g *generation.Generation, entries []change) {
	var slots [PrefetchBatch]uint64
	for len(entries) > 0 {
		few := entries[:min(PrefetchBatch, len(entries))]
		entries = entries[len(few):]
		for i := range few {
			slots[i] = g.Slot(few[i].hash)
		}
		for i := range few {
			j.touched += len(g.Peek(few[i].hash, slots[i]))
		}
		for i := range few {
			switch c := &few[i]; {
			case c.superseded:
			case c.length < 0:
				g.Delete(c.hash, c.space, j.key(c))
			case c.at < 0:
				g.PutLarge(c.hash, c.space, j.large[-1-c.at])
			default:
				g.Put(c.hash, c.space, j.key(c), j.value(c))
			}
		}
	}
}

// within lists the last versions of the records in a range, in order.
func (j *journal) within(r generation.Range, reverse bool) []int32 {
	if len(r.Lower) > 0 && j.kinds[r.Lower[0]] == 0 {
		return nil
	}
	var found []int32
	for i := range j.entries {
		if c := &j.entries[i]; !c.superseded && j.lies(c, r) {
			found = append(found, int32(i))
		}
	}
	slices.SortFunc(found, func(a, b int32) int {
		d := bytes.Compare(j.key(&j.entries[a]), j.key(&j.entries[b]))
		if reverse {
			return -d
		}
		return d
	})
	return found
}

// lies reports whether a change is of a record in a range.
func (j *journal) lies(c *change, r generation.Range) bool {
	if c.space != r.Space {
		return false
	}
	key := j.key(c)
	return bytes.Compare(key, r.Lower) >= 0 && (r.Upper == nil || bytes.Compare(key, r.Upper) < 0)
}

// hasAny reports whether there are changes of records of some kinds.
func (j *journal) hasAny(kinds []byte) bool {
	for _, kind := range kinds {
		if j.kinds[kind] > 0 {
			return true
		}
	}
	return false
}

// kindsWith lists the kinds of record that have a property.
func kindsWith(property func(k *layout.Kind) bool) (kinds []byte) {
	for kind := range layout.Kinds {
		if property(&layout.Kinds[kind]) {
			kinds = append(kinds, byte(kind))
		}
	}
	return kinds
}

// any reports whether there are changes of records in a range.
func (j *journal) any(r generation.Range) bool {
	if len(r.Lower) > 0 && j.kinds[r.Lower[0]] == 0 {
		return false
	}
	for i := range j.entries {
		if j.lies(&j.entries[i], r) {
			return true
		}
	}
	return false
}
