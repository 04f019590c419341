package generation

import (
	"math/bits"
	"runtime"
	"slices"
	"sort"
)

// Keys often come in order: the elements that are pushed to one list, what a program loads from a
// sorted file, what has the time in its name. Such runs need no sorting, only merging (as in
// Peters' timsort).

// mostRuns is how many runs are merged; more of them are sorted by pieces of their keys.
const mostRuns = 8

// naturalRuns finds the ascending and descending runs of entries of different keys, and reverses
// the latter. It returns where each ends, or nil if they are too many.
func naturalRuns(refs []reference, at func(reference) entry) (ends []int) {
	ends = make([]int, 0, mostRuns)
	for from := 0; from < len(refs); {
		if len(ends) == mostRuns {
			return nil
		}
		to := from + 1
		if to < len(refs) {
			descends := comesBefore(refs[to], refs[from], at)
			for to++; to < len(refs) && comesBefore(refs[to], refs[to-1], at) == descends; to++ {
				if to%yieldEntries == 0 {
					runtime.Gosched()
				}
			}
			if descends {
				slices.Reverse(refs[from:to])
			}
		}
		ends = append(ends, to)
		from = to
	}
	return ends
}

// yieldEntries is after how many entries, a tenth of a millisecond, reactors get their turn.
const yieldEntries = 4096

func comesBefore(a, b reference, at func(reference) entry) bool {
	other := at(b)
	return at(a).compare(other.space(), other.key()) < 0
}

// mergeRuns merges ordered runs, which end at ends, neighbours by neighbours until one is left.
func mergeRuns(refs []reference, ends []int, at func(reference) entry) []reference {
	if len(ends) < 2 {
		return refs
	}
	merged := make([]reference, 0, len(refs))
	for len(ends) > 1 {
		merged = merged[:0]
		left := ends[:0]
		from := 0
		for i := 0; i < len(ends); i += 2 {
			middle, to := ends[i], ends[min(i+1, len(ends)-1)]
			merged = mergeTwo(merged, refs[from:middle], refs[middle:to], at)
			left = append(left, to)
			from = to
		}
		refs, merged, ends = merged, refs, left
	}
	return refs
}

// mergeTwo appends two ordered runs in one order. It copies all entries of one at a time that come
// before the first of the other.
func mergeTwo(dst, a, b []reference, at func(reference) entry) []reference {
	for turns := 1; len(a) > 0 && len(b) > 0; turns++ {
		if turns%yieldEntries == 0 {
			runtime.Gosched()
		}
		n := countBefore(a, b[0], at)
		dst = append(dst, a[:n]...)
		a, b = b, a[n:]
	}
	return append(append(dst, a...), b...)
}

// countBefore returns how many entries of an ordered run come before another one. It is an
// exponential search, since they are often few.
func countBefore(run []reference, other reference, at func(reference) entry) int {
	until := sort.Search(bits.Len(uint(len(run))), func(i int) bool { return !comesBefore(run[1<<i-1], other, at) })
	from, to := (1<<until)>>1, min(1<<until, len(run))
	return from + sort.Search(to-from, func(i int) bool { return !comesBefore(run[from+i], other, at) })
}
