// Package filter knows which records there are, in about ten bits for each: a record that it
// doesn't know isn't there, and one that it seems to know may be. So what isn't there is not looked
// for where looking is dear.
//
// The package knows hashes and no records, and nothing of where they are kept. It imports the
// standard library, xxhash and internal/hugepage only.
package filter

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"kedis/internal/hugepage"
)

// Hash is what a Filter knows a record by. It is the same in every process, since a Filter may be
// kept. Who chooses colliding keys only has them looked for in vain.
type Hash uint64

// HashOf returns the hash of a record's key.
func HashOf(key []byte) Hash { return Hash(xxhash.Sum64(key)) }

// Filter is a Bloom filter that grows, by layers the size of which grows with it. A layer is cut
// into blocks, each of which lies in one line of the processor's caches, and the bits of a record
// are all in one block: a layer costs a lookup one wait for memory.
//
// Records are never taken out. A Filter that holds many which are gone is replaced by a new one.
//
// All methods may be called from any goroutine. A record that has been added is known to whoever
// learns of that. Nobody waits but for somebody who adds a layer.
type Filter struct {
	layers   atomic.Pointer[[]*layer] // the newest first; nil as long as nothing was added
	room     Room
	expected int64
	growing  sync.Mutex // held by who adds a layer
}

// Room is asked for memory before it is made: for so many bytes, or as many as there may be. It
// returns how many.
type Room func(bytes int64) int64

// New makes an empty filter, the first layer of which will have room for so many records.
func New(expected int64, room Room) *Filter { return &Filter{room: room, expected: expected} }

const (
	blockBytes    = 64
	bitsPerRecord = 10
	leastBytes    = 4 << 10 // of the first layer, whatever room there is
	doubledUpTo   = 4 << 20 // a further layer is as large as all before it together up to this size, and half as large beyond
	worthAdding   = 4       // it is worth being looked at with this part, one in so many, of that
	askAgain      = 1 << 10 // after so many records it is tried again to get room for another layer
)

// layer is a part of a filter that doesn't grow.
type layer struct {
	blocks   []block
	capacity int64 // records, beyond which too many that aren't there would seem to be
	records  atomic.Int64
}

// MayHave is false only for a record that was never added.
func (f *Filter) MayHave(hash Hash) bool {
	layers := f.layers.Load()
	if layers == nil {
		return false
	}
	marks := marksOf(hash)
	for _, l := range *layers {
		if l.block(hash).has(marks) {
			return true
		}
	}
	return false
}

// Touch reads where MayHave and Add will look first. Touching those of several records before that
// lets the processor wait for all of them at once.
func (f *Filter) Touch(hash Hash) (touched uint64) {
	if layers := f.layers.Load(); layers != nil {
		for _, l := range *layers {
			touched += l.block(hash)[0].Load()
		}
	}
	return touched
}

// Add makes a record known. One that seems to be known already takes no room.
func (f *Filter) Add(hash Hash) {
	if f.MayHave(hash) {
		return
	}
	l := f.open()
	l.block(hash).set(marksOf(hash))
	l.records.Add(1)
}

// open returns the layer that takes records. Where there is no room for another one the last takes
// more than it was made for, and more that isn't there seems to be: a fifth of it when there are
// two and a half times as many records, half of it when there are four times as many.
func (f *Filter) open() *layer {
	if layers := f.all(); len(layers) > 0 {
		last := layers[0]
		if n := last.records.Load() - last.capacity; n < 0 || n%askAgain != 0 {
			return last
		}
	}
	f.growing.Lock()
	defer f.growing.Unlock()
	layers := f.all()
	if len(layers) > 0 && layers[0].records.Load() < layers[0].capacity {
		return layers[0] // somebody else has added it
	}
	return f.grow(layers)
}

// grow adds a layer, if there is room for it, and returns the newest.
func (f *Filter) grow(layers []*layer) *layer {
	want, least := BytesFor(f.expected), int64(leastBytes)
	if all := f.Bytes(); all > 0 {
		want = max(all/2, min(all, doubledUpTo))
		least = want / worthAdding
	}
	granted := f.room(want)
	if granted < least && len(layers) > 0 {
		return layers[0]
	}
	grown := append([]*layer{newLayer(max(granted, least))}, layers...)
	f.layers.Store(&grown)
	return grown[0]
}

// Bytes is the memory that the filter takes.
func (f *Filter) Bytes() (bytes int64) {
	for _, l := range f.all() {
		bytes += l.bytes()
	}
	return bytes
}

// Records is how many records were added, but for those that seemed to be known.
func (f *Filter) Records() (records int64) {
	for _, l := range f.all() {
		records += l.records.Load()
	}
	return records
}

// Layers is how many layers there are.
func (f *Filter) Layers() int { return len(f.all()) }

// Crowded tells that a layer has taken much more than it was made for.
func (f *Filter) Crowded() bool {
	layers := f.all()
	return len(layers) > 0 && layers[0].records.Load() > 2*layers[0].capacity
}

func (f *Filter) all() []*layer {
	if layers := f.layers.Load(); layers != nil {
		return *layers
	}
	return nil
}

// BytesFor is how much memory a filter takes that is made for so many records.
func BytesFor(records int64) int64 { return max(records*bitsPerRecord/8, leastBytes) }

// RecordsIn is how many records a filter of so many bytes is made for.
func RecordsIn(bytes int64) int64 { return bytes * 8 / bitsPerRecord }

func newLayer(bytes int64) *layer {
	blocks := make([]block, bytes/blockBytes)
	hugepage.Advise(blocks)
	return &layer{blocks: blocks, capacity: RecordsIn(int64(len(blocks)) * blockBytes)}
}

func (l *layer) bytes() int64 { return int64(len(l.blocks)) * blockBytes }

// block is where the bits of a record are.
func (l *layer) block(hash Hash) *block {
	number, _ := bits.Mul64(uint64(hash), uint64(len(l.blocks)))
	return &l.blocks[number]
}

// block is a line of the processor's caches.
type block [blockBytes / 8]atomic.Uint64

// Each record has so many bits in its block. marks says which: nine bits for each, three that tell
// the word and six that tell the bit.
const (
	bitsInBlock = 6
	markBits    = 9
	bitMask     = 1<<6 - 1
	wordMask    = blockBytes/8 - 1
)

// marksOf returns the marks of a hash. They are independent of its upper bits, which tell the
// block.
func marksOf(hash Hash) (marks uint64) {
	high, low := bits.Mul64(uint64(hash), 0x9E3779B97F4A7C15)
	return high ^ low
}

func (b *block) has(marks uint64) bool {
	for range bitsInBlock {
		if b[marks>>6&wordMask].Load()>>(marks&bitMask)&1 == 0 {
			return false
		}
		marks >>= markBits
	}
	return true
}

// set sets the bits that aren't yet: to write to a line of the caches that others read costs more
// than to read it.
func (b *block) set(marks uint64) {
	for range bitsInBlock {
		word, bit := &b[marks>>6&wordMask], uint64(1)<<(marks&bitMask)
		if word.Load()&bit == 0 {
			word.Or(bit)
		}
		marks >>= markBits
	}
}
