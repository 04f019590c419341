package generation

import (
	"bytes"
	"iter"
	"runtime"
	"slices"
	"sort"
)

// Sort orders a sealed chunk's entries, for those who iterate.
func (c *Chunk) Sort(scratch *Scratch) {
	if c.sorted.Load() != nil {
		return
	}
	p := c.part()
	recent := c.recentUpTo(p, c.end.Load(), scratch)
	sorted := c.merge(p.offsets, recent)
	c.sorted.Store(&sorted)
	c.partly.Store(nil)
}

// part is the beginning of a chunk, in order, and what came behind that, in an order of its own:
// each of them would take too long to be brought into that of many.
type part struct {
	end       uint32 // of what offsets name
	offsets   []uint32
	recentEnd uint32 // of what recent names
	recent    []uint32
}

// Those who iterate go over so large a part of a chunk's size each time that isn't in order. When
// more was written since, it comes to what is recent, as soon as that was gone over so often, or so
// large a part of it is in the range; and what is recent to the rest, when it is so much.
const (
	unsortedShare = 256 // of the chunk
	goneOver      = 8
	foundShare    = 4
	recentShare   = 16
)

func (c *Chunk) part() *part {
	if p := c.partly.Load(); p != nil {
		return p
	}
	return &part{end: firstOffset, recentEnd: firstOffset}
}

// beginning returns a part that has nearly all of a chunk to which entries are still added.
func (c *Chunk) beginning(scratch *Scratch) *part {
	end, p := c.end.Load(), c.part()
	if end <= p.recentEnd || end-p.recentEnd <= uint32(len(c.data)/unsortedShare) {
		return p
	}
	longer := &part{p.end, p.offsets, end, c.recentUpTo(p, end, scratch)}
	if end-p.end > uint32(len(c.data)/recentShare) {
		longer = &part{end, c.merge(p.offsets, longer.recent), end, nil}
	}
	c.partly.Store(longer) // perhaps in place of a longer one of somebody else's, which costs time only
	return longer
}

// recentUpTo sorts what is behind the beginning of a part, up to an offset that isn't before its
// end.
func (c *Chunk) recentUpTo(p *part, end uint32, scratch *Scratch) []uint32 {
	return c.merge(p.recent, c.matching(p.recentEnd, end, func(entry) bool { return true }, scratch))
}

// merge brings two ordered lists of entries into one order. All of the second are newer.
func (c *Chunk) merge(old, added []uint32) []uint32 {
	if len(old) == 0 {
		return added
	}
	merged := make([]uint32, 0, len(old)+len(added))
	for len(old) > 0 && len(added) > 0 {
		e := c.at(old[0])
		if c.at(added[0]).compare(e.space(), e.key()) <= 0 {
			merged, added = append(merged, added[0]), added[1:]
		} else {
			merged, old = append(merged, old[0]), old[1:]
		}
	}
	return append(append(merged, old...), added...)
}

// matching lists a chunk's entries between two offsets by space and key, the newest of a key first.
func (c *Chunk) matching(from, end uint32, keep func(entry) bool, scratch *Scratch) []uint32 {
	c.find(from, end, keep, scratch)
	return c.ordered(scratch)
}

// find lists a chunk's entries between two offsets in scratch, and returns how many it has gone
// over.
func (c *Chunk) find(from, end uint32, keep func(entry) bool, scratch *Scratch) (seen int) {
	items := scratch.items[:0]
	for at := from; at < end; seen++ {
		e := c.at(at)
		if keep(e) {
			items = append(items, item{uint64(e.space()), reference(at)})
		}
		at += e.size()
	}
	scratch.items = items
	return seen
}

// ordered lists what find has found by space and key, the newest of a key first.
func (c *Chunk) ordered(scratch *Scratch) []uint32 {
	items := scratch.items
	scratch.order(items, func(ref reference) entry { return c.at(uint32(ref)) })
	offsets := make([]uint32, len(items))
	for i := range items {
		offsets[i] = uint32(items[i].ref)
	}
	return offsets
}

// Merge brings all entries of a generation to which nothing is added any more into one order,
// only the newest of each key; iterating then needs no merging. It takes 8 bytes for each key, and
// 4 for each entry of a chunk that wasn't in order. Records and Newest then leave out what leave
// says, which may be nil. Nobody may ask for such records any more but by older marks.
func (g *Generation) Merge(leave func(key []byte) bool) {
	if g.merged.Load() != nil {
		return
	}
	spans := g.tidy()
	runs := runsOf(spans)
	var scratch Scratch
	for _, c := range (*g.chunks.Load())[behind(spans):] {
		c.Sort(&scratch)
		runs = append(runs, run{merged: c.newest()})
		runtime.Gosched() // reactors wait for the processor
	}
	refs := g.join(runs)
	if leave != nil {
		all := len(refs)
		refs = slices.DeleteFunc(refs, func(ref reference) bool { return g.leaves(ref, leave) })
		g.partly = len(refs) < all
	}
	g.bytes.Add(8 * int64(cap(refs)))
	g.merged.Store(&refs)
	if !g.partly {
		g.tidied(nil) // no walk begins there any more
	}
}

func (g *Generation) leaves(ref reference, leave func(key []byte) bool) bool {
	e := g.entry(ref)
	if !leave(e.key()) {
		return false
	}
	g.newest -= int64(e.size())
	return true
}

// newest are a complete generation's entries in a sorted chunk that have no newer version.
func (c *Chunk) newest() []reference {
	sorted := *c.sorted.Load()
	refs := make([]reference, 0, len(sorted))
	for _, offset := range sorted {
		if !c.isOlder(offset) {
			refs = append(refs, reference(c.number)<<32|reference(offset))
		}
	}
	return refs
}

// Range is a part of a space's keys: from Lower on, before Upper; nil means no bound.
type Range struct {
	Space        uint32
	Lower, Upper []byte
}

// Iterate scans the newest versions before the mark of a space's keys in a range, in the order of
// the keys or backwards. It shows deleted keys, too, since they hide what is in older generations.
func (g *Generation) Iterate(mark Mark, r Range, reverse bool) *Iterator {
	it := &Iterator{g: g, mark: mark, bounds: r, reverse: reverse}
	if merged := g.merged.Load(); merged != nil && (mark == End || !g.partly) {
		it.add(it.from(run{merged: *merged}))
	} else {
		it.addParts()
	}
	it.begin()
	return it
}

// Record is the newest version of what a generation has for a key. Its bytes stay valid for good.
type Record struct{ entry entry }

// Space is the record's key space.
func (r Record) Space() uint32 { return r.entry.space() }

// Key is the record's key.
func (r Record) Key() []byte { return r.entry.key() }

// Value is the record's value, or that it is Deleted.
func (r Record) Value() ([]byte, State) { return r.entry.value() }

// Records visits every record by space and key, once Merge has brought them into that order. Only
// one goroutine may do that at a time.
func (g *Generation) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		var entries [readAhead]entry
		var warmed byte
		for refs := *g.merged.Load(); len(refs) > 0; refs = refs[min(readAhead, len(refs)):] {
			group := refs[:min(readAhead, len(refs))]
			for i, ref := range group {
				entries[i] = g.entry(ref)
				warmed += entries[i][0]
			}
			for i := range group {
				if !yield(Record{entries[i]}) {
					return
				}
			}
		}
		g.touched = warmed
	}
}

// Span is a part of a space's records whose keys begin with the same byte.
type Span struct {
	Space       uint32
	First, Last []byte // keys
	Records     int
}

// Spans lists a merged generation's records by space and first byte, in their order. No key may be
// empty.
func (g *Generation) Spans() []Span {
	var spans []Span
	refs := *g.merged.Load()
	for len(refs) > 0 {
		first := g.entry(refs[0])
		space, begin := first.space(), first.key()[0]
		records := sort.Search(len(refs), func(i int) bool {
			e := g.entry(refs[i])
			return e.space() != space || e.key()[0] != begin
		})
		spans = append(spans, Span{space, first.key(), g.entry(refs[records-1]).key(), records})
		refs = refs[records:]
	}
	return spans
}

// Iterator walks a generation. It is one goroutine's.
type Iterator struct {
	g       *Generation
	mark    Mark
	bounds  Range
	reverse bool
	runs    []run
	first   int    // the run whose entry comes next
	losers  []int  // at each node of the tournament in which it was found, the run that has lost
	shared  []byte // what the keys of all runs' entries begin with
	ref     reference
	entry   entry
	warmed  byte
}

// run is a sorted sequence of entries: of one chunk, or of the whole generation.
type run struct {
	chunk   *Chunk
	offsets []uint32
	merged  []reference
	sample  *sample // of merged; nil if there is none
	at, end int     // what is left: [at, end)
	warmed  int     // entries that are still to come of those that were touched
	entry   entry   // nil at the end
	ref     reference
	piece   uint64 // of the entry's key, behind what is shared; see tournament.go
}

// addParts adds what is in order of a generation that isn't as a whole.
func (it *Iterator) addParts() {
	g, parts := it.g, 0
	spans := g.tidy()
	for i := range spans {
		if uint64(spans[i].first)<<32 < uint64(it.mark) {
			it.add(it.from(run{merged: spans[i].refs, sample: spans[i].sample}))
		}
	}
	var scratch Scratch
	for _, c := range (*g.chunks.Load())[behind(spans):] {
		if uint64(c.number)<<32 >= uint64(it.mark) {
			break
		}
		if sorted := c.sorted.Load(); sorted != nil {
			it.add(it.from(run{chunk: c, offsets: *sorted}))
			parts++
			continue
		}
		it.addUnsorted(c, &scratch)
	}
	if parts >= crowd && g.crowded != nil && g.walks.Add(1) >= crowdWalks {
		g.walks.Store(0)
		g.crowded(g)
	}
}

// addUnsorted adds what is in order of a chunk that isn't as a whole, and what else of it is in the
// range.
func (it *Iterator) addUnsorted(c *Chunk, scratch *Scratch) {
	p, end := c.part(), c.end.Load()
	seen := c.find(p.recentEnd, end, it.bounds.has, scratch)
	if end > p.recentEnd+uint32(len(c.data)/unsortedShare) && (len(scratch.items) > seen/foundShare || c.gone.Add(1) >= goneOver) {
		c.gone.Store(0)
		p, end = c.beginning(scratch), c.end.Load()
		c.find(p.recentEnd, end, it.bounds.has, scratch)
	}
	it.add(it.from(run{chunk: c, offsets: p.offsets}))
	it.add(it.from(run{chunk: c, offsets: p.recent}))
	offsets := c.ordered(scratch)
	it.add(run{chunk: c, offsets: offsets, end: len(offsets)})
}

// has reports whether an entry is in the range.
func (r *Range) has(e entry) bool {
	return e.space() == r.Space && bytes.Compare(e.key(), r.Lower) >= 0 && (r.Upper == nil || bytes.Compare(e.key(), r.Upper) < 0)
}

// passes reports whether an entry lies beyond the end of the scan: those before its beginning were
// passed over.
func (it *Iterator) passes(e entry) bool {
	switch b := &it.bounds; {
	case e.space() != b.Space:
		return true
	case it.reverse:
		return bytes.Compare(e.key(), b.Lower) < 0
	default:
		return b.Upper != nil && bytes.Compare(e.key(), b.Upper) >= 0
	}
}

// from moves an ordered run to where the scan begins. Its end is checked on the way: most scans
// don't reach it.
func (it *Iterator) from(r run) run {
	r.end, r.warmed = len(r.offsets)+len(r.merged), 2 // many runs give one entry, or none
	switch b := &it.bounds; {
	case !it.reverse:
		r.at = it.search(&r, b.Space, b.Lower)
	case b.Upper != nil:
		r.end = it.search(&r, b.Space, b.Upper)
	default:
		r.end = it.search(&r, b.Space+1, nil)
	}
	return r
}

// search returns the index of a run's first entry that doesn't come before a key.
func (it *Iterator) search(r *run, space uint32, key []byte) int {
	if r.sample != nil {
		return r.sample.search(it.g, r.merged, space, key, &it.warmed)
	}
	return sort.Search(r.end, func(i int) bool { return r.peek(it.g, i).compare(space, key) >= 0 })
}

func (r *run) peek(g *Generation, i int) entry {
	if r.merged != nil {
		return g.entry(r.merged[i])
	}
	return r.chunk.at(r.offsets[i])
}

// advance takes the newest version that the mark shows of a run's next key.
func (r *run) advance(it *Iterator) {
	for r.at < r.end {
		r.warm(it)
		if r.merged != nil {
			r.takeMerged(it)
		} else {
			r.takeSorted(it)
		}
		if r.ref == 0 {
			if it.passes(r.taken(it)) {
				break
			}
			continue // the mark hides it
		}
		if r.entry = it.g.entry(r.ref); it.passes(r.entry) {
			break // all that follow do, too
		}
		return
	}
	r.entry = nil
}

// taken is the entry that was taken last, whether or not the mark shows it.
func (r *run) taken(it *Iterator) entry {
	if it.reverse {
		return r.peek(it.g, r.end)
	}
	return r.peek(it.g, r.at-1)
}

// readAhead is how many entries are touched together. In the order of their keys they are all over
// the generation's memory: the processor waits for these at once instead of for one after the
// other.
const readAhead = 16

// warm touches the entries that come next, when those that it has touched are taken.
func (r *run) warm(it *Iterator) {
	if r.warmed--; r.warmed > 0 {
		return
	}
	from, to := r.at, min(r.at+readAhead, r.end)
	if it.reverse {
		from, to = max(r.at, r.end-readAhead), r.end
	}
	r.warmed = to - from
	for i := from; i < to; i++ {
		it.warmed += r.peek(it.g, i)[0]
	}
}

// takeMerged takes one key of a merged run, which names only the newest version of each.
func (r *run) takeMerged(it *Iterator) {
	if it.reverse {
		r.end--
		r.ref = r.merged[r.end]
	} else {
		r.ref = r.merged[r.at]
		r.at++
	}
	for r.ref != 0 && uint64(r.ref) >= uint64(it.mark) {
		r.ref = it.g.entry(r.ref).previous()
	}
}

// takeSorted takes all versions of one key, which stand newest first.
func (r *run) takeSorted(it *Iterator) {
	from, to := r.at, r.at+1
	if it.reverse {
		from, to = r.end-1, r.end
	}
	first := r.peek(it.g, from)
	for it.reverse && from > r.at && r.peek(it.g, from-1).is(first.space(), first.key()) {
		from--
	}
	for !it.reverse && to < r.end && r.peek(it.g, to).is(first.space(), first.key()) {
		to++
	}
	if it.reverse {
		r.end = from
	} else {
		r.at = to
	}
	r.ref = 0
	for _, offset := range r.offsets[from:to] {
		if ref := uint64(r.chunk.number)<<32 | uint64(offset); ref < uint64(it.mark) {
			r.ref = reference(ref)
			return
		}
	}
}

func (it *Iterator) add(r run) {
	if r.advance(it); r.entry != nil {
		it.runs = append(it.runs, r)
	}
}

// Next moves on to the next key.
func (it *Iterator) Next() bool {
	for len(it.runs) > 0 {
		first := &it.runs[it.first]
		e, ref := first.entry, first.ref
		if e == nil {
			break
		}
		it.goOn()
		if it.entry != nil && bytes.Equal(e.key(), it.entry.key()) {
			continue
		}
		it.entry, it.ref = e, ref
		return true
	}
	return false
}

// Space, Key and Value are of the entry that Next moved to. They stay valid for good.
func (it *Iterator) Space() uint32 { return it.entry.space() }

// Key is the record's key.
func (it *Iterator) Key() []byte { return it.entry.key() }

// Value is the record's value, or that it is Deleted.
func (it *Iterator) Value() ([]byte, State) { return it.entry.value() }
