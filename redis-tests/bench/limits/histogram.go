package main

import (
	"math"
	"math/bits"
	"time"
)

// A histogram's buckets cut each power of two into so many equal parts, so a quantile is off by
// less than 1/128.
const (
	partBits = 6
	parts    = 1 << partBits
)

// histogram counts durations from nanoseconds to centuries. The zero value is empty. It is for one
// goroutine.
type histogram struct {
	counts [(64 - partBits) * parts]uint64
	count  uint64
	most   time.Duration
}

// record adds one duration; a negative one counts as none.
func (h *histogram) record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(uint64(d))]++
	h.count++
	h.most = max(h.most, d)
}

// bucketOf numbers buckets without a gap: the leading parts bits of the value, in steps of a power
// of two.
func bucketOf(value uint64) int {
	shift := max(bits.Len64(value)-partBits-1, 0)
	return shift<<partBits + int(value>>shift)
}

// middleOf is the middle of a bucket's range.
func middleOf(bucket int) uint64 {
	if bucket < 2*parts {
		return uint64(bucket)
	}
	shift := bucket>>partBits - 1
	return uint64(bucket-shift<<partBits)<<shift + 1<<shift>>1
}

// quantile returns the duration that a share q (0 to 1) of all doesn't exceed; 0 when nothing was
// recorded.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(h.count))), 1)
	var seen uint64
	for bucket, count := range h.counts {
		if seen += count; seen >= rank {
			return min(time.Duration(middleOf(bucket)), h.most)
		}
	}
	return h.most
}

// add adds what another histogram holds.
func (h *histogram) add(other *histogram) {
	for i, count := range other.counts {
		h.counts[i] += count
	}
	h.count += other.count
	h.most = max(h.most, other.most)
}
