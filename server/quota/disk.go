package quota

import "sync"

// Disk estimates what a database takes on disk: what its files took when they were last measured,
// and what was written since and isn't in them yet, each write in full. So it is never less than
// what the files will take before they are compacted and compressed, but for the writes of
// transactions that are under way. All methods may be called from any goroutine.
type Disk struct {
	mu     sync.Mutex
	owner  uint32 // whose files were measured
	files  int64
	recent []written // between two measurements each, the oldest first
}

// written is what was written from a position of the log on. A transaction that began before may
// still commit behind the next one's position, so it is in the files when these have come to the
// one after that.
type written struct{ from, bytes int64 }

// mostWritten bounds how much is told apart.
const mostWritten = 64

// Add counts what is about to be written.
func (d *Disk) Add(bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.recent) == 0 {
		d.recent = append(d.recent, written{})
	}
	d.recent[len(d.recent)-1].bytes += bytes
}

// Measured takes what the files of an owner take, who is another one when the database was emptied,
// the position of the log up to which they have everything, and its end.
func (d *Disk) Measured(owner uint32, files, persisted, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if owner != d.owner {
		d.owner, d.recent = owner, nil
	}
	d.files = files
	if d.unwritten() > 0 {
		d.recent = append(d.recent, written{from: end})
	}
	for len(d.recent) >= 3 && persisted >= d.recent[2].from {
		d.recent = d.recent[1:]
	}
	if len(d.recent) > mostWritten {
		d.recent[1].bytes += d.recent[0].bytes
		d.recent = d.recent[1:]
	}
}

func (d *Disk) unwritten() (bytes int64) {
	for _, w := range d.recent {
		bytes += w.bytes
	}
	return bytes
}

// Bytes is the estimate.
func (d *Disk) Bytes() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files + d.unwritten()
}
