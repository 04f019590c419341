package generation

import (
	"bytes"
	"runtime"
	"sort"
)

// Looking for a place in an order by halves waits for memory at each step, since the entries lie
// wherever they were written. A sample lies beside the order: eight bytes of every sixteenth key,
// from where the keys of its block begin to differ. A few steps among the blocks' first entries,
// which stay in the processor's caches, some among the block's pieces, which lie side by side, and
// at last the sixteen entries that are left, for all of which the processor waits at once.

const (
	sampleStride = readAhead
	sampleBlock  = 128 * sampleStride // entries whose pieces begin at the same depth
	manySpaces   = -1                 // the depth of a block whose entries don't share their space
)

// sample is of an order.
type sample struct {
	depths []int    // of each block: bytes that all keys have in common
	pieces []uint64 // of every sampleStride-th key, see piece
}

// sampleOf makes the sample of an order.
func (g *Generation) sampleOf(refs []reference) *sample {
	s := &sample{
		depths: make([]int, 0, (len(refs)+sampleBlock-1)/sampleBlock),
		pieces: make([]uint64, 0, (len(refs)+sampleStride-1)/sampleStride),
	}
	for ; len(refs) > 0; refs = refs[min(sampleBlock, len(refs)):] {
		block := refs[:min(sampleBlock, len(refs))]
		depth := g.sharedBy(block)
		s.depths = append(s.depths, depth)
		for i := 0; i < len(block); i += sampleStride {
			s.pieces = append(s.pieces, piece(g.entry(block[i]).key(), max(depth, 0)))
		}
		runtime.Gosched() // reactors wait for the processor
	}
	return s
}

// sharedBy is how many bytes all keys of a part of an order have in common, or manySpaces.
func (g *Generation) sharedBy(refs []reference) int {
	first, last := g.entry(refs[0]), g.entry(refs[len(refs)-1])
	if first.space() != last.space() {
		return manySpaces
	}
	return sharedPrefix(first.key(), last.key())
}

func sharedPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func (s *sample) bytes() int64 {
	return 8 * int64(cap(s.depths)+cap(s.pieces))
}

// search returns the index of the first entry of the sample's order that doesn't come before a key.
// What it adds to warmed keeps the compiler from leaving out what is read ahead.
func (s *sample) search(g *Generation, refs []reference, space uint32, key []byte, warmed *byte) int {
	block := sort.Search(len(s.depths), func(i int) bool { return g.entry(refs[i*sampleBlock]).compare(space, key) >= 0 }) - 1
	if block < 0 {
		return 0
	}
	from, to := s.narrow(g, refs, block, space, key)
	if to-from <= sampleStride {
		for _, ref := range refs[from:to] {
			*warmed += g.entry(ref)[0]
		}
	}
	return from + sort.Search(to-from, func(i int) bool { return g.entry(refs[from+i]).compare(space, key) >= 0 })
}

// narrow returns between which entries of a block search has to look on: those before the first
// come before the key, as the block's first one does, and those from the last on don't.
func (s *sample) narrow(g *Generation, refs []reference, block int, space uint32, key []byte) (from, to int) {
	from, to = block*sampleBlock, min((block+1)*sampleBlock, len(refs))
	depth, first := s.depths[block], g.entry(refs[from])
	switch {
	case depth == manySpaces:
		return from, to
	case first.space() != space || !bytes.HasPrefix(key, first.key()[:depth]):
		return to, to // the first comes before it for what all have in common
	}
	p := piece(key, depth)
	pieces := s.pieces[from/sampleStride : (to+sampleStride-1)/sampleStride]
	// A piece that is the same says nothing.
	before := sort.Search(len(pieces), func(i int) bool { return pieces[i] >= p })
	behind := before + sort.Search(len(pieces)-before, func(i int) bool { return pieces[before+i] > p })
	return from + sampleStride*max(before-1, 0), min(from+sampleStride*behind, to)
}
