package generation

import "runtime"

// A walk begins in each chunk for itself, and goes on in that which has the next key. So that large
// generations that are walked over don't have many of them, ordered chunks are merged, four at a
// time, then four of what came of that, and so on: each entry is merged as often as the number of
// chunks has digits to base four.

// merging is how many neighbours become one.
const merging = 4

// A walk is in a crowd if it begins in so many ordered chunks. To merge them costs some ten
// thousand times what it costs to begin in them: those that are walked over only now and then, to
// fill a tree or to count, stay as they are.
const (
	crowd      = 2 * merging
	crowdWalks = 1024
)

// span is a number of neighbouring chunks whose entries are in one order, only the newest of each
// key.
type span struct {
	first, chunks int
	refs          []reference
	sample        *sample // of refs; nil while more is merged
}

// Tidy merges some ordered chunks, or what was merged of them before; false tells that there is
// nothing to be merged. Only one goroutine may do that at a time; others may read and write
// meanwhile.
func (g *Generation) Tidy() bool {
	if g.merged.Load() != nil {
		return false
	}
	var spans []span
	if old := g.spans.Load(); old != nil {
		spans = append(spans, *old...)
	}
	chunks, next := *g.chunks.Load(), behind(spans)
	switch last := spans[max(0, len(spans)-merging):]; {
	case len(last) == merging && last[0].chunks == last[merging-1].chunks:
		spans = append(spans[:len(spans)-merging], g.join(last))
	case next+merging <= len(chunks) && allSorted(chunks[next:next+merging]):
		spans = append(spans, g.join(ordered(chunks[next:next+merging])))
	default:
		return false
	}
	merged := &spans[len(spans)-1]
	merged.sample = g.sampleOf(merged.refs)
	g.tidied(spans)
	return true
}

// tidied has walks begin in spans.
func (g *Generation) tidied(spans []span) {
	bytes := -spanBytes(g.spans.Load())
	now := append([]span(nil), spans...)
	g.spans.Store(&now)
	g.bytes.Add(bytes + spanBytes(&now))
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

func allSorted(chunks []*Chunk) bool {
	for _, c := range chunks {
		if c.sorted.Load() == nil {
			return false
		}
	}
	return true
}

// ordered are chunks as spans of one.
func ordered(chunks []*Chunk) []span {
	spans := make([]span, len(chunks))
	for i, c := range chunks {
		offsets := *c.sorted.Load()
		refs := make([]reference, 0, len(offsets))
		var newest entry
		for _, offset := range offsets {
			if e := c.at(offset); newest == nil || !e.is(newest.space(), newest.key()) {
				refs = append(refs, reference(c.number)<<32|reference(offset))
				newest = e
			}
		}
		spans[i] = span{c.number, 1, refs, nil}
	}
	return spans
}

// join merges neighbours into one.
func (g *Generation) join(spans []span) span {
	left, right := spans[0], spans[len(spans)-1]
	if len(spans) > 2 {
		left, right = g.join(spans[:len(spans)/2]), g.join(spans[len(spans)/2:])
	}
	return span{left.first, left.chunks + right.chunks, g.joinTwo(left.refs, right.refs), nil}
}

// joinTwo merges two orders. What both have is newer in the second.
func (g *Generation) joinTwo(old, later []reference) []reference {
	joined := make([]reference, 0, len(old)+len(later))
	for turns := 1; len(old) > 0 && len(later) > 0; turns++ {
		if turns%yieldEntries == 0 {
			runtime.Gosched() // reactors wait for the processor
		}
		e := g.entry(later[0])
		switch order := g.entry(old[0]).compare(e.space(), e.key()); {
		case order < 0:
			joined, old = append(joined, old[0]), old[1:]
		case order == 0:
			old = old[1:]
		default:
			joined, later = append(joined, later[0]), later[1:]
		}
	}
	return append(append(joined, old...), later...)
}
