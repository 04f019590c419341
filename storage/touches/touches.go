// Package touches notes when keys were accessed last, and how often, as maxmemory-policy has it in
// Redis.
//
// It takes a bounded table, and nothing before somebody has asked. A key that the table has no room
// for is told of by the entry in its place that is least in use: it hasn't been accessed since, or
// more often. The package imports the standard library only.
package touches

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Options say what is noted. Functions are asked each time, so that they can change live.
type Options struct {
	Frequencies  func() bool  // what is accessed most often stays in the table, and not what was accessed last
	LogFactor    func() int64 // how slowly a frequency grows
	DecayMinutes func() int64 // after how long without access it falls by one; 0: never
	Bytes        func() int64 // for the table
}

// Use is how a key was used: when it was accessed last (Unix s), and the logarithm of how often
// that was of late.
type Use struct {
	Last      int64
	Frequency uint8
}

// NewFrequency is that of a key that is new: above those that fell, so that it isn't the next to
// go.
const NewFrequency = 5

// Notes are notes of accesses to keys, which go by hashes. All methods may be called from any
// goroutine.
type Notes struct {
	options Options
	table   atomic.Pointer[table]
}

// table is open addressing within buckets of a cache line each. An entry is
//
//	| tag:24 | frequency:8 | last:32 |
//
// where the tag is the upper bits of the hash; 0 is free. Keys with the same tag share an entry.
type table struct {
	buckets []bucket
	began   int64 // Unix s
}

type bucket [8]atomic.Uint64

const (
	tagShift       = 40
	frequencyShift = 32
	bucketBytes    = 64
)

// Init gives the notes their options.
func (n *Notes) Init(o Options) { n.options = o }

// Begin notes accesses from now on.
func (n *Notes) Begin() {
	if n.Active() {
		return
	}
	buckets := 1
	for int64(buckets)*2*bucketBytes <= n.options.Bytes() {
		buckets *= 2
	}
	n.table.CompareAndSwap(nil, &table{make([]bucket, buckets), time.Now().Unix()})
}

// End ends that, and forgets what was noted.
func (n *Notes) End() { n.table.Store(nil) }

// Active reports whether accesses are noted.
func (n *Notes) Active() bool { return n.table.Load() != nil }

// Touch notes an access to a key at a time (Unix ms).
func (n *Notes) Touch(hash uint64, nowMs int64) {
	t := n.table.Load()
	if t == nil {
		return
	}
	now, frequencies := nowMs/1000, n.options.Frequencies()
	entry, word, found := t.find(hash, frequencies)
	use := Use{now, NewFrequency}
	if found {
		use = useOf(word)
	}
	if frequencies {
		use.Frequency = n.increased(n.decayed(use, now))
	}
	use.Last = now
	write(entry, hash, word, use)
}

// Set notes how a key was used that is new, or of which somebody says so.
func (n *Notes) Set(hash uint64, use Use) {
	if t := n.table.Load(); t != nil {
		entry, word, _ := t.find(hash, n.options.Frequencies())
		write(entry, hash, word, use)
	}
}

// Of returns how a key was used up to a time (Unix ms): at most so lately, and so often, if the
// table has no room for it.
func (n *Notes) Of(hash uint64, nowMs int64) Use {
	now := nowMs / 1000
	t := n.table.Load()
	if t == nil {
		return Use{now, NewFrequency}
	}
	use := Use{t.began, NewFrequency}
	if _, word, _ := t.find(hash, n.options.Frequencies()); word != 0 {
		use = useOf(word)
	}
	return Use{min(use.Last, now), n.decayed(use, now)}
}

// write writes an entry. That another goroutine is faster is as if this one had come first.
func write(entry *atomic.Uint64, hash, word uint64, use Use) {
	next := hash>>tagShift<<tagShift | uint64(use.Frequency)<<frequencyShift | uint64(uint32(use.Last))
	if next != word { // most often it isn't: all processors keep the line
		entry.CompareAndSwap(word, next)
	}
}

// find returns the entry of a key, and what is in it. If there is none, it is one that is free, or
// the one that is least in use.
func (t *table) find(hash uint64, frequencies bool) (entry *atomic.Uint64, word uint64, found bool) {
	b, least := t.bucket(hash), uint64(0)
	for i := range b {
		w := b[i].Load()
		if w == 0 {
			return &b[i], 0, false
		}
		if w>>tagShift == hash>>tagShift {
			return &b[i], w, true
		}
		weight := w & (1<<tagShift - 1)
		if !frequencies {
			weight &= 1<<frequencyShift - 1
		}
		if entry == nil || weight < least {
			entry, word, least = &b[i], w, weight
		}
	}
	return entry, word, false
}

func (t *table) bucket(hash uint64) *bucket { return &t.buckets[hash&uint64(len(t.buckets)-1)] }

func useOf(word uint64) Use {
	return Use{int64(uint32(word)), uint8(word >> frequencyShift)}
}

// decayed is what is left of a frequency.
func (n *Notes) decayed(use Use, now int64) uint8 {
	every := n.options.DecayMinutes()
	if every == 0 {
		return use.Frequency
	}
	return uint8(max(int64(use.Frequency)-max(now/60-use.Last/60, 0)/every, 0))
}

// increased is what an access makes of a frequency, by chance: the higher it is, the less likely
// does it grow.
func (n *Notes) increased(frequency uint8) uint8 {
	above := max(int64(frequency)-NewFrequency, 0)
	if frequency < 255 && rand.Float64()*float64(above*n.options.LogFactor()+1) < 1 {
		frequency++
	}
	return frequency
}
