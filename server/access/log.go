package access

import (
	"slices"
	"sync"
	"time"
)

// Entry is something that a client was denied, once or several times.
type Entry struct {
	ID       int64 // counts from 0 and goes on after Reset
	Count    int64 // of times
	Reason   Reason
	Context  string // "toplevel", or "multi" inside of a transaction
	Object   string // the key or channel, or the command; its name as it was given for a wrong password
	Username string // who it was, or wanted to be
	Client   string // its line of CLIENT LIST, at the last time
	Created  time.Time
	Updated  time.Time // the last time
}

// As in Redis, equal entries are one as long as they come close together.
const (
	entriesTogether = time.Minute
	entriesCompared = 10 // of the latest
)

// Log keeps the latest denials. Make it with NewLog.
type Log struct {
	limit func() int64

	mu      sync.Mutex
	entries []*Entry // the latest first
	nextID  int64
	totals  [DeniedCertificate + 1]int64
}

// NewLog makes a log of at most limit() entries; a smaller limit takes effect with the next new
// entry.
func NewLog(limit func() int64) *Log { return &Log{limit: limit} }

// Add takes a denial that happened now, and counts it as one of an equal entry if there is one.
func (l *Log) Add(denied Entry, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals[denied.Reason]++
	most := max(l.limit(), 0)
	if most > 0 && l.repeats(&denied, now) {
		return
	}
	if most > 0 {
		denied.ID, denied.Count, denied.Created, denied.Updated = l.nextID, 1, now, now
		l.nextID++
		l.entries = slices.Insert(l.entries, 0, &denied)
	}
	if int64(len(l.entries)) > most {
		clear(l.entries[most:])
		l.entries = l.entries[:most]
	}
}

// repeats counts a denial as one of an equal entry, if there is one.
func (l *Log) repeats(denied *Entry, now time.Time) bool {
	for i, e := range l.entries[:min(entriesCompared, len(l.entries))] {
		if now.Sub(e.Updated) <= entriesTogether && e.Reason == denied.Reason && e.Context == denied.Context && e.Object == denied.Object &&
			e.Username == denied.Username {
			e.Count, e.Client, e.Updated = e.Count+1, denied.Client, now
			l.entries = slices.Insert(slices.Delete(l.entries, i, i+1), 0, e)
			return true
		}
	}
	return false
}

// Latest returns at most count entries, the latest first.
func (l *Log) Latest(count int64) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := make([]Entry, min(count, int64(len(l.entries))))
	for i := range latest {
		latest[i] = *l.entries[i]
	}
	return latest
}

// Total is how many denials there were for a reason since the last ResetTotals.
func (l *Log) Total(reason Reason) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals[reason]
}

// ResetTotals makes all totals 0.
func (l *Log) ResetTotals() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals = [DeniedCertificate + 1]int64{}
}

// Reset removes all entries.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = nil
}
