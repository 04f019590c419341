// Package walks keeps copies of what was found by walks over the records of a collection, so that who walks there again
// looks into one piece of memory, and not for each record into everything that may hold a version of it.
//
// A walk goes over the records within some bounds, in the order of their keys or backwards, and may stop before it has
// passed all of them. A copy is right as long as none of the records is written that lie between where the walk began and where it
// stopped: who writes one says so (Changed, Forget). What happens elsewhere in the collection, such as a score far from the highest
// ones, leaves the copy as it is.
//
// Only how far it came is kept of a walk at first, and its records when it is repeated: what is read once isn't worth the memory.
//
// The memory is bounded. All methods may be called from any goroutine; none of them waits. The package imports the standard
// library only and knows nothing of what records mean.
package walks

import (
	"bytes"
	"encoding/binary"
	"sync/atomic"
)

// Walk says which records are walked over: those of a collection from Lower on, before Upper (nil: all that follow).
type Walk struct {
	Space        uint32
	Collection   uint64 // a number that is never given to another one
	Lower, Upper []byte
	Reverse      bool
	KeysOnly     bool // the values are left out
}

func (w *Walk) is(other *Walk) bool {
	return w.Collection == other.Collection && w.Space == other.Space && w.Reverse == other.Reverse && w.KeysOnly == other.KeysOnly &&
		bytes.Equal(w.Lower, other.Lower) && bytes.Equal(w.Upper, other.Upper) && (w.Upper == nil) == (other.Upper == nil)
}

const (
	// LargestCopy is how many bytes a copy may have. What is longer takes so long to reply that finding it doesn't matter.
	LargestCopy = 64 << 10

	bucketCount = 4096
	ways        = 4

	overhead    = 256 // bytes that a copy takes besides those of keys and values
	largestPart = 8   // a copy takes no more than this part of the limit
)

// Copies holds copies of walks. The zero value keeps none until it is given a limit.
type Copies struct {
	buckets [bucketCount]bucket
	limit   atomic.Int64
	bytes   atomic.Int64
	hand    atomic.Uint32 // the bucket that is emptied next when there is no room
}

// bucket has the copies of the collections with a remainder. It takes one line of the processor's cache, since each write
// to one of those collections looks at it.
type bucket struct {
	version atomic.Uint64 // counts the writes
	copies  [ways]atomic.Pointer[Copy]
	next    atomic.Uint32 // the way that is given to the next one
	_       [20]byte
}

// Copy is what a walk has found. It never changes.
type Copy struct {
	walk    Walk
	reach   []byte // the last key that it came to; nil when it has passed all
	kept    bool   // its records are there
	count   int
	bytes   int    // that its records take
	records []byte // | key length:4 | value length:4 | key | value | …   little endian
}

// Version is the state of a collection, or an earlier one of others'.
type Version uint64

// SetLimit changes how many bytes the copies may take. A smaller limit takes effect as copies come.
func (c *Copies) SetLimit(bytes int64) { c.limit.Store(bytes) }

// Limit is how many bytes the copies may take.
func (c *Copies) Limit() int64 { return c.limit.Load() }

// Bytes is the memory in use.
func (c *Copies) Bytes() int64 { return c.bytes.Load() }

// Clear forgets everything.
func (c *Copies) Clear() {
	if c.bytes.Load() == 0 {
		return // there are thousands of places to look at
	}
	for i := range c.buckets {
		c.empty(&c.buckets[i])
	}
}

func (c *Copies) empty(b *bucket) {
	for i := range b.copies {
		c.exchange(&b.copies[i], b.copies[i].Load(), nil)
	}
}

// exchange puts a copy in the place of another one, unless somebody else was faster.
func (c *Copies) exchange(place *atomic.Pointer[Copy], old, now *Copy) bool {
	if old == now || !place.CompareAndSwap(old, now) {
		return false
	}
	c.bytes.Add(now.size() - old.size())
	return true
}

func (c *Copies) bucket(collection uint64) *bucket { return &c.buckets[collection%bucketCount] }

// Changed says that records of a collection were written, all of which readers that come later see. It tells whether there are copies that
// have to be told of each of them (Forget).
func (c *Copies) Changed(collection uint64) (known bool) {
	b := c.bucket(collection)
	// In this order: who keeps a copy puts it there, and then asks for the version.
	b.version.Add(1)
	for i := range b.copies {
		known = known || b.copies[i].Load() != nil
	}
	return known
}

// Forget forgets the copies of walks that have been where a record was written.
func (c *Copies) Forget(space uint32, collection uint64, key []byte) {
	b := c.bucket(collection)
	for i := range b.copies {
		if old := b.copies[i].Load(); old != nil && old.covers(space, collection, key) {
			c.exchange(&b.copies[i], old, nil)
		}
	}
}

// Version is asked for before a walk that Keep is told of.
func (c *Copies) Version(w *Walk) Version { return Version(c.bucket(w.Collection).version.Load()) }

// Find returns what is known of a walk: a copy, which has its records if it is Kept; nil if it was not walked lately.
func (c *Copies) Find(w *Walk) *Copy {
	b := c.bucket(w.Collection)
	for i := range b.copies {
		if known := b.copies[i].Load(); known != nil && known.walk.is(w) {
			return known
		}
	}
	return nil
}

// Keep takes what a walk has found since a version, all of it or, when it stopped, what came up to there.
func (c *Copies) Keep(w *Walk, since Version, r *Recorder, stopped bool) {
	most := min(LargestCopy, c.limit.Load()/largestPart-overhead)
	if int64(r.bytes+len(w.Lower)+len(w.Upper)+len(r.last)) > most || stopped && r.count == 0 {
		return
	}
	found := &Copy{walk: *w, kept: r.keeping, count: r.count, bytes: r.bytes, records: r.records}
	found.own(r.last, stopped)
	b := c.bucket(w.Collection)
	place := b.place(w)
	if !c.exchange(place, place.Load(), found) {
		return
	}
	if Version(b.version.Load()) != since {
		c.exchange(place, found, nil)
		return
	}
	c.makeRoom()
}

// own copies the keys by which the walk is known, in one piece of memory.
func (c *Copy) own(last []byte, stopped bool) {
	lower, upper := len(c.walk.Lower), len(c.walk.Lower)+len(c.walk.Upper)
	keys := append(append(append(make([]byte, 0, upper+len(last)), c.walk.Lower...), c.walk.Upper...), last...)
	c.walk.Lower = keys[:lower:lower]
	if c.walk.Upper != nil {
		c.walk.Upper = keys[lower:upper:upper]
	}
	if stopped {
		c.reach = keys[upper:len(keys):len(keys)]
	}
}

// place is where a walk's copy belongs: in place of an older one of the same walk, where nothing is, or of the one that came first.
func (b *bucket) place(w *Walk) *atomic.Pointer[Copy] {
	free := -1
	for i := range b.copies {
		switch known := b.copies[i].Load(); {
		case known == nil:
			free = i
		case known.walk.is(w):
			return &b.copies[i]
		}
	}
	if free < 0 {
		free = int(b.next.Add(1) % ways)
	}
	return &b.copies[free]
}

func (c *Copies) makeRoom() {
	for range bucketCount {
		if c.bytes.Load() <= c.limit.Load() {
			return
		}
		c.empty(&c.buckets[c.hand.Add(1)%bucketCount])
	}
}

// size is what a copy takes; none takes nothing.
func (c *Copy) size() int64 {
	if c == nil {
		return 0
	}
	return int64(len(c.walk.Lower)+len(c.walk.Upper)+len(c.reach)+cap(c.records)) + overhead
}

// covers tells whether a record lies where the walk has been.
func (c *Copy) covers(space uint32, collection uint64, key []byte) bool {
	w := &c.walk
	switch {
	case w.Collection != collection || w.Space != space:
		return false
	case bytes.Compare(key, w.Lower) < 0 || w.Upper != nil && bytes.Compare(key, w.Upper) >= 0:
		return false
	case c.reach == nil:
		return true
	case w.Reverse:
		return bytes.Compare(key, c.reach) >= 0
	}
	return bytes.Compare(key, c.reach) <= 0
}

// Kept tells whether there is a copy that has its records.
func (c *Copy) Kept() bool { return c != nil && c.kept }

// Len is the number of its records.
func (c *Copy) Len() int { return c.count }

// Size is the number of bytes of its records.
func (c *Copy) Size() int { return c.bytes }

// Rest is what of the walk lies behind the copy; there is nothing when ok is false.
func (c *Copy) Rest() (rest Walk, ok bool) {
	rest = c.walk
	switch {
	case c.reach == nil:
		return rest, false
	case rest.Reverse:
		rest.Upper = c.reach
	default:
		rest.Lower = append(c.reach[:len(c.reach):len(c.reach)], 0)
	}
	return rest, true
}

// Visit shows the records in the order of the walk, until visit returns false; it tells whether it did. Their bytes stay valid for good.
func (c *Copy) Visit(visit func(key, value []byte) bool) (stopped bool) {
	for left := c.records; len(left) > 0; {
		behindKey := recordHeader + int(binary.LittleEndian.Uint32(left))
		end := behindKey + int(binary.LittleEndian.Uint32(left[4:]))
		if !visit(left[recordHeader:behindKey:behindKey], left[behindKey:end:end]) {
			return true
		}
		left = left[end:]
	}
	return false
}

const recordHeader = 8

// Recorder is told of the records of a walk, for Keep. It is one goroutine's.
type Recorder struct {
	keeping bool
	records []byte
	count   int
	bytes   int
	last    []byte // the key
}

// NewRecorder records a walk of which so much is known.
func NewRecorder(known *Copy) *Recorder {
	switch {
	case known == nil:
		return new(Recorder)
	case known.kept:
		return &Recorder{true, known.records[:known.bytes:known.bytes], known.count, known.bytes, known.reach}
	}
	return &Recorder{keeping: true, records: make([]byte, 0, known.bytes)}
}

// Add takes a record. Its key stays as it is until Keep.
func (r *Recorder) Add(key, value []byte) {
	r.count++
	r.last = key
	if r.bytes += recordHeader + len(key) + len(value); r.bytes > LargestCopy {
		r.records = nil
		return
	}
	if !r.keeping {
		return
	}
	r.records = binary.LittleEndian.AppendUint32(r.records, uint32(len(key)))
	r.records = binary.LittleEndian.AppendUint32(r.records, uint32(len(value)))
	r.records = append(append(r.records, key...), value...)
}
