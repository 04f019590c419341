package metrics

import (
	"sync"
	"time"
)

const rateSamples = 16 // as in Redis, which takes one every 100 ms

// Rate is how fast a counter grows, averaged over its last 16 samples. The zero value is ready.
type Rate struct {
	mu      sync.Mutex
	at      time.Time
	reading int64
	samples [rateSamples]int64 // growth per second
	next    int
}

// Sample is to be called every 100 ms with the counter's reading. The first call only sets the
// start.
func (r *Rate) Sample(now time.Time, reading int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.at.IsZero()
	passed := now.Sub(r.at).Milliseconds()
	if !first && passed <= 0 {
		return // the growth so far belongs to the next sample
	}
	growth := max(reading-r.reading, 0) // a counter that was reset has not shrunk
	r.at, r.reading = now, reading
	if first {
		return
	}
	r.samples[r.next] = growth * 1000 / passed
	r.next = (r.next + 1) % rateSamples
}

// PerSecond is the average; samples that are still missing count as 0.
func (r *Rate) PerSecond() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum int64
	for _, sample := range r.samples {
		sum += sample
	}
	return sum / rateSamples
}
