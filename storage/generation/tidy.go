package generation

import (
	"math"
	"runtime"
	"slices"
)

// A walk begins in each chunk for itself, and goes on in that which has the next key. So that large
// generations that are walked over don't have many of them, ordered chunks are merged, with what
// was merged of those before as long as that isn't more: each entry is merged as often as the
// number of chunks doubles at most, and once if nobody walks while they come.

const (
	// merging is how many chunks are merged at least.
	merging = 4
	// A walk is in a crowd if it begins in so many ordered chunks. To merge them costs some
	// thousand times what it costs to begin in them, but then Merge has as much less to do: only
	// those that are walked over now and then, while others write, stay as they are.
	crowd      = 2 * merging
	crowdWalks = 128
	// yieldEntries is after how many entries, in less than a millisecond, reactors get their turn.
	yieldEntries = 4096
)

// span is a number of neighbouring chunks whose entries are in one order, only the newest of each
// key.
type span struct {
	first, chunks int
	refs          []reference
	sample        *sample // of refs
}

// Tidy merges the ordered chunks that were not merged yet. It returns false if there are too few.
// One goroutine at a time may call it, while others read and write.
func (g *Generation) Tidy() bool {
	if g.merged.Load() != nil {
		return false
	}
	spans := g.tidy()
	from := behind(spans)
	chunks := sortedOf((*g.chunks.Load())[from:])
	if len(chunks) < merging {
		return false
	}
	to, kept := from+len(chunks), len(spans)
	for kept > 0 && spans[kept-1].chunks <= to-from {
		kept--
		from = spans[kept].first
	}
	runs := runsOf(spans[kept:])
	for _, c := range chunks {
		runs = append(runs, run{chunk: c, offsets: *c.sorted.Load()})
	}
	refs := g.join(runs)
	g.tidied(append(slices.Clone(spans[:kept]), span{from, to - from, refs, g.sampleOf(refs)}))
	return true
}

// tidy are the spans that there are.
func (g *Generation) tidy() []span {
	if spans := g.spans.Load(); spans != nil {
		return *spans
	}
	return nil
}

// tidied has walks begin in spans.
func (g *Generation) tidied(spans []span) {
	bytes := -spanBytes(g.spans.Load())
	g.spans.Store(&spans)
	g.bytes.Add(bytes + spanBytes(&spans))
}

func spanBytes(spans *[]span) (bytes int64) {
	if spans != nil {
		for i := range *spans {
			bytes += 8*int64(cap((*spans)[i].refs)) + (*spans)[i].sample.bytes()
		}
	}
	return bytes
}

// behind is the number of the first chunk that is in no span.
func behind(spans []span) int {
	if len(spans) == 0 {
		return 0
	}
	last := spans[len(spans)-1]
	return last.first + last.chunks
}

// sortedOf are the first chunks that are in order.
func sortedOf(chunks []*Chunk) []*Chunk {
	for i, c := range chunks {
		if c.sorted.Load() == nil {
			return chunks[:i]
		}
	}
	return chunks
}

// runsOf are spans as what is merged.
func runsOf(spans []span) (runs []run) {
	for i := range spans {
		runs = append(runs, run{merged: spans[i].refs, sample: spans[i].sample})
	}
	return runs
}

// join brings the entries of runs into one order, only the newest of each key: it walks over them.
func (g *Generation) join(runs []run) []reference {
	entries := 0
	for _, r := range runs {
		entries += len(r.merged) + len(r.offsets)
	}
	refs := make([]reference, 0, entries)
	for space, found := g.spaceFrom(0, runs); found; space, found = g.spaceFrom(space+1, runs) {
		it := &Iterator{g: g, mark: End, bounds: Range{Space: space}}
		for _, r := range runs {
			it.add(it.from(r))
		}
		for it.begin(); it.Next(); {
			if refs = append(refs, it.ref); len(refs)%yieldEntries == 0 {
				runtime.Gosched() // reactors wait for the processor
			}
		}
	}
	if len(refs) < entries/2 {
		return slices.Clone(refs)
	}
	return refs
}

// spaceFrom returns the first space from a number on of which ordered runs have entries. No space
// has the highest number.
func (g *Generation) spaceFrom(from uint32, runs []run) (space uint32, found bool) {
	space = math.MaxUint32
	it := Iterator{g: g, bounds: Range{Space: from}}
	for _, r := range runs {
		if r = it.from(r); r.at < r.end {
			space, found = min(space, r.peek(g, r.at).space()), true
		}
	}
	return space, found
}
