package metrics

import (
	"slices"
	"sync"
	"time"
)

// Denial is something that a client was denied, once or several times.
type Denial struct {
	ID       int64  // counts from 0 and goes on after Reset
	Count    int64  // of times
	Context  string // "toplevel", or "multi" inside of a transaction
	Object   string // what it asked with: the command's name
	Username string // who it wanted to be
	Client   string // its line of CLIENT LIST, at the last time
	Created  time.Time
	Updated  time.Time // the last time
}

// As in Redis, equal denials are one entry as long as they come close together.
const (
	denialsTogether = time.Minute
	denialsCompared = 10 // of the latest entries
)

// Denials keeps the latest denials. Make it with NewDenials.
type Denials struct {
	mu      sync.Mutex
	limit   func() int64
	entries []*Denial // the latest first
	nextID  int64
	total   int64
}

// NewDenials makes a list of at most limit() entries; a smaller limit takes effect with the next
// new entry.
func NewDenials(limit func() int64) *Denials { return &Denials{limit: limit} }

// Add takes a denial that happened now, and counts it as one of an equal entry if there is one.
func (d *Denials) Add(denial Denial, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total++
	for i, e := range d.entries[:min(denialsCompared, len(d.entries))] {
		if now.Sub(e.Updated) <= denialsTogether && e.Context == denial.Context && e.Object == denial.Object && e.Username == denial.Username {
			e.Count, e.Client, e.Updated = e.Count+1, denial.Client, now
			d.entries = slices.Insert(slices.Delete(d.entries, i, i+1), 0, e)
			return
		}
	}
	denial.ID, denial.Count, denial.Created, denial.Updated = d.nextID, 1, now, now
	d.nextID++
	d.entries = slices.Insert(d.entries, 0, &denial)
	if most := max(d.limit(), 0); int64(len(d.entries)) > most {
		clear(d.entries[most:])
		d.entries = d.entries[:most]
	}
}

// Latest returns at most count entries, the latest first.
func (d *Denials) Latest(count int64) []Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	latest := make([]Denial, min(count, int64(len(d.entries))))
	for i := range latest {
		latest[i] = *d.entries[i]
	}
	return latest
}

// Total is how many denials there were since the last ResetTotal.
func (d *Denials) Total() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total
}

// ResetTotal makes Total 0.
func (d *Denials) ResetTotal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = 0
}

// Reset removes all entries.
func (d *Denials) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = nil
}
