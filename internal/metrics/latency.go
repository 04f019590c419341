package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const latencySamples = 160 // of each event, as in Redis

// LatencySample is the longest time that an event took in one second.
type LatencySample struct {
	Time    time.Time
	Latency time.Duration
}

// LatencyEvent sums up an event, as LATENCY LATEST shows it.
type LatencyEvent struct {
	Name   string
	Latest LatencySample
	Worst  time.Duration // of all times since the event was reset
}

// LatencyMonitor keeps the latest samples of each event. The zero value is ready. Which events are
// long enough to be recorded is the caller's decision.
type LatencyMonitor struct {
	mu     sync.Mutex
	events map[string]*latencyHistory
}

type latencyHistory struct {
	samples []LatencySample // the oldest first
	worst   time.Duration
}

// Add records that an event took so long. Of one second, the longest is kept. Names must come from
// a fixed set: they are not forgotten until Reset.
func (m *LatencyMonitor) Add(name string, now time.Time, latency time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	event := m.events[name]
	if event == nil {
		if m.events == nil {
			m.events = make(map[string]*latencyHistory)
		}
		event = new(latencyHistory)
		m.events[name] = event
	}
	event.add(LatencySample{now, latency})
}

func (h *latencyHistory) add(sample LatencySample) {
	h.worst = max(h.worst, sample.Latency)
	if n := len(h.samples); n > 0 && h.samples[n-1].Time.Unix() == sample.Time.Unix() {
		previous := &h.samples[n-1]
		previous.Latency = max(previous.Latency, sample.Latency)
		return
	}
	if len(h.samples) == latencySamples {
		h.samples = slices.Delete(h.samples, 0, 1)
	}
	h.samples = append(h.samples, sample)
}

// History returns an event's samples, the oldest first.
func (m *LatencyMonitor) History(name string) []LatencySample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if event := m.events[name]; event != nil {
		return slices.Clone(event.samples)
	}
	return nil
}

// Worst is the longest time that an event took since it was reset.
func (m *LatencyMonitor) Worst(name string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if event := m.events[name]; event != nil {
		return event.worst
	}
	return 0
}

// Latest returns all events, sorted by name.
func (m *LatencyMonitor) Latest() []LatencyEvent {
	m.mu.Lock()
	defer m.mu.Unlock()
	var latest []LatencyEvent
	for _, name := range slices.Sorted(maps.Keys(m.events)) {
		event := m.events[name]
		latest = append(latest, LatencyEvent{name, event.samples[len(event.samples)-1], event.worst})
	}
	return latest
}

// Reset forgets the named events, or all of them when none is named, and returns how many there
// were.
func (m *LatencyMonitor) Reset(names ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.events)
	if len(names) == 0 {
		clear(m.events)
	}
	for _, name := range names {
		delete(m.events, name)
	}
	return before - len(m.events)
}
