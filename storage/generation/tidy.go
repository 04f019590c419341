package generation

import (
	"runtime"
	"slices"
	"sort"
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

// Tidy brings the complete chunks into order, and merges those that were not merged yet. It returns
// false if there are too few. One goroutine at a time may call it, while others read and write.
func (g *Generation) Tidy(scratch *Scratch) bool {
	if g.merged.Load() != nil {
		return false
	}
	spans, chunks := g.tidy(), g.complete()
	from, to, kept := behind(spans), len(chunks), len(spans)
	if to-from < merging {
		return false
	}
	var runs []run
	for _, c := range chunks[from:] {
		runs = append(runs, c.run(scratch))
	}
	for kept > 0 && spans[kept-1].chunks <= to-from {
		kept--
		from = spans[kept].first
	}
	refs := g.join(append(runs, runsOf(spans[kept:])...))
	if g.merged.Load() == nil {
		g.tidied(append(slices.Clone(spans[:kept]), span{from, to - from, refs, g.sampleOf(refs)}))
	}
	return true
}

// complete are the chunks to which nothing is added any more, for sure: all but the last one.
func (g *Generation) complete() []*Chunk {
	chunks := *g.chunks.Load()
	return chunks[:max(len(chunks)-1, 0)]
}

// run is what a complete chunk has, in order.
func (c *Chunk) run(scratch *Scratch) run {
	if c.sorted.Load() == nil {
		c.Sort(scratch)
		runtime.Gosched() // reactors wait for the processor
	}
	return run{chunk: c, offsets: *c.sorted.Load()}
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
	before := g.spans.Swap(&spans)
	g.bytes.Add(spanBytes(spans))
	if before != nil {
		g.bytes.Add(-spanBytes(*before))
	}
}

func spanBytes(spans []span) (bytes int64) {
	for i := range spans {
		bytes += 8*int64(cap(spans[i].refs)) + spans[i].sample.bytes()
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

// runsOf are spans as what is merged.
func runsOf(spans []span) (runs []run) {
	for i := range spans {
		runs = append(runs, run{merged: spans[i].refs, sample: spans[i].sample})
	}
	return runs
}

// join brings the entries of runs into one order, only the newest of each key: it walks over them,
// space by space.
func (g *Generation) join(runs []run) []reference {
	entries := 0
	for i := range runs {
		runs[i].end = len(runs[i].merged) + len(runs[i].offsets)
		entries += runs[i].end
	}
	refs := make([]reference, 0, entries)
	for space, found := g.firstSpace(runs); found; space, found = g.firstSpace(runs) {
		it := &Iterator{g: g, mark: End, bounds: Range{Space: space}}
		for i := range runs {
			it.add(runs[i].cut(it))
		}
		for it.begin(); it.Next(); {
			if refs = append(refs, it.ref); len(refs)%yieldEntries == 0 {
				runtime.Gosched()
			}
		}
		runtime.Gosched() // of many spaces each may have one entry
	}
	if len(refs) < entries/2 {
		return slices.Clone(refs)
	}
	return refs
}

// firstSpace is the first space that the rest of any run has entries of.
func (g *Generation) firstSpace(runs []run) (space uint32, found bool) {
	for i := range runs {
		if r := &runs[i]; r.at < r.end {
			if first := r.peek(g, r.at).space(); !found || first < space {
				space, found = first, true
			}
		}
	}
	return space, found
}

// cut takes from a run, whose spaces before were taken, what it has of an iterator's space.
func (r *run) cut(it *Iterator) run {
	of, space := *r, it.bounds.Space
	of.warmed = 2
	if r.at < r.end && r.peek(it.g, r.at).space() == space {
		r.at += sort.Search(r.end-r.at, func(i int) bool { return r.peek(it.g, r.at+i).space() > space })
	}
	of.end = r.at
	return of
}
