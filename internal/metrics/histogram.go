package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram has a row of cells for each power of two of nanoseconds, and divides every row into
// cells of the same width, so that a cell tells its durations to within 1 %:
//
//	row 0     0 … 127 ns        cells of 1 ns
//	row 1     128 … 255 ns      cells of 1 ns
//	row r     2^(r+6) … ns      cells of 2^(r-1) ns
//	row 23    2^29 … 2^30-1 ns
//
// These are the cells of an HDR histogram (hdrhistogram.org) from 1 ns to 1 s with two significant
// digits, which is what Redis uses; so LATENCY HISTOGRAM and INFO latencystats round as Redis does.
const (
	rows        = 24
	cellsInRow  = 128
	cellBits    = 7
	shortest    = time.Nanosecond // durations outside of these limits count as the limit
	longest     = time.Second
	leastPower  = 10 // LATENCY HISTOGRAM's first bucket ends at 2^10 ns
	mostPower   = 30
	longestCell = 1<<mostPower - 1
)

type row [cellsInRow]atomic.Uint64

// Histogram counts durations. Make it with NewHistogram.
type Histogram struct{ lanes []histogramLane }

// histogramLane has the rows that were needed: few, as a command's durations are alike.
type histogramLane struct {
	rows [rows]atomic.Pointer[row]
	_    [cacheLine]byte
}

// NewHistogram makes a histogram with so many lanes.
func NewHistogram(lanes int) *Histogram { return &Histogram{make([]histogramLane, lanes)} }

// Record counts one duration on behalf of a lane.
func (h *Histogram) Record(lane int, d time.Duration) {
	r, cell := locate(min(max(d, shortest), longest))
	place := &h.lanes[lane].rows[r]
	cells := place.Load()
	if cells == nil {
		place.CompareAndSwap(nil, new(row)) // when it fails, another goroutine has made the row
		cells = place.Load()
	}
	cells[cell].Add(1)
}

// Reset forgets everything. What is recorded meanwhile may be lost.
func (h *Histogram) Reset() {
	for i := range h.lanes {
		for r := range h.lanes[i].rows {
			if cells := h.lanes[i].rows[r].Load(); cells != nil {
				for cell := range cells {
					cells[cell].Store(0)
				}
			}
		}
	}
}

// Distribution returns what has been counted on all lanes.
func (h *Histogram) Distribution() *Distribution {
	d := new(Distribution)
	for i := range h.lanes {
		for r := range h.lanes[i].rows {
			if cells := h.lanes[i].rows[r].Load(); cells != nil {
				for cell := range cells {
					n := cells[cell].Load()
					d.counts[r][cell] += n
					d.total += n
				}
			}
		}
	}
	return d
}

// locate finds the cell of a duration of at most longestCell.
func locate(d time.Duration) (row, cell int) {
	row = max(bits.Len64(uint64(d))-cellBits, 0)
	return row, int(d>>max(row-1, 0)) & (cellsInRow - 1)
}

// last is the longest duration that belongs to a cell, and first the shortest.
func first(row, cell int) time.Duration {
	if row == 0 {
		return time.Duration(cell)
	}
	return time.Duration(cellsInRow+cell) << (row - 1)
}

func last(row, cell int) time.Duration {
	return first(row, cell) + 1<<max(row-1, 0) - 1
}

// Distribution is what a Histogram had counted at one time. It doesn't change.
type Distribution struct {
	counts [rows][cellsInRow]uint64
	total  uint64
}

// Count is how many durations there are.
func (d *Distribution) Count() int64 { return int64(d.total) }

// Percentile returns the duration that p percent (0 to 100) of the durations don't exceed, rounded
// up to the end of its cell; for 0 percent the shortest one, rounded down. Without durations it is
// 0.
func (d *Distribution) Percentile(p float64) time.Duration {
	wanted := max(uint64(p/100*float64(d.total)+0.5), 1)
	var sum uint64
	for r := range d.counts {
		for cell, n := range d.counts[r] {
			if sum += n; sum < wanted {
				continue
			}
			if p == 0 {
				return first(r, cell)
			}
			return last(r, cell)
		}
	}
	return 0
}

// Bucket says that Count durations were not longer than Longest.
type Bucket struct {
	Longest time.Duration
	Count   int64
}

// Buckets returns what LATENCY HISTOGRAM shows: cumulative counts at powers of two of nanoseconds,
// from about 1 µs to 1 s, without the buckets that add nothing to the one before.
func (d *Distribution) Buckets() []Bucket {
	var buckets []Bucket
	var previous int64
	for _, bucket := range d.AllBuckets() {
		if bucket.Count > previous {
			buckets = append(buckets, bucket)
			previous = bucket.Count
		}
	}
	return buckets
}

// AllBuckets is Buckets with those that add nothing.
func (d *Distribution) AllBuckets() []Bucket {
	buckets := make([]Bucket, 0, mostPower-leastPower+1)
	var sum uint64
	r, cell := 0, 0
	for power := leastPower; power <= mostPower; power++ {
		end := bucketEnd(power)
		for ; r < rows && last(r, cell) <= end; r, cell = next(r, cell) {
			sum += d.counts[r][cell]
		}
		buckets = append(buckets, Bucket{end, int64(sum)})
	}
	return buckets
}

// bucketEnd is the end of the cell that holds 2^power, as in Redis: a bucket takes that whole cell.
func bucketEnd(power int) time.Duration {
	if power == mostPower {
		return longestCell
	}
	return last(locate(1 << power))
}

func next(row, cell int) (int, int) {
	if cell++; cell == cellsInRow {
		return row + 1, 0
	}
	return row, cell
}
