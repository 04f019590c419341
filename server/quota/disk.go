package quota

import "sync"

// Disk estimates what owners take on disk: what the files of each took when they were last
// measured, and what was written since and isn't in them yet, each write in full. So it is never
// less than what the files will take before they are compacted and compressed, but for the writes
// of transactions that are under way. An owner is known by a number that no other one ever has. All
// methods may be called from any goroutine.
type Disk struct {
	mu     sync.Mutex
	owners map[uint32]*owned
}

// owned is what an owner takes.
type owned struct {
	files  int64
	recent []written // between two measurements each, the oldest first
	missed bool      // it wasn't among those that were measured last
}

// written is what was written from a position of the log on. A transaction that began before may
// still commit behind the next one's position, so it is in the files when these have come to the
// one after that.
type written struct{ from, bytes int64 }

// mostWritten bounds how much is told apart.
const mostWritten = 64

// Add counts what is about to be written.
func (d *Disk) Add(owner uint32, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owned(owner)
	if len(o.recent) == 0 {
		o.recent = append(o.recent, written{})
	}
	o.recent[len(o.recent)-1].bytes += bytes
	o.missed = false // it may not be committed yet, nor then be measured
}

func (d *Disk) owned(owner uint32) *owned {
	o := d.owners[owner]
	if o == nil {
		if d.owners == nil {
			d.owners = map[uint32]*owned{}
		}
		o = &owned{}
		d.owners[owner] = o
	}
	return o
}

// Knows reports whether something was measured or added of an owner.
func (d *Disk) Knows(owner uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owners[owner] != nil
}

// Measured takes what the files of all owners take that are known or wanted, the position of the
// log up to which they have everything, and its end. Who is missing twice is forgotten.
func (d *Disk) Measured(files map[uint32]int64, persisted, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for owner, bytes := range files {
		d.owned(owner).measured(bytes, persisted, end)
	}
	for owner, o := range d.owners {
		if _, has := files[owner]; has {
			continue
		}
		if o.missed {
			delete(d.owners, owner)
		}
		o.missed = true
	}
}

func (o *owned) measured(files, persisted, end int64) {
	o.files, o.missed = files, false
	if o.unwritten() > 0 {
		o.recent = append(o.recent, written{from: end})
	}
	for len(o.recent) >= 3 && persisted >= o.recent[2].from {
		o.recent = o.recent[1:]
	}
	if len(o.recent) > mostWritten {
		o.recent[1].bytes += o.recent[0].bytes
		o.recent = o.recent[1:]
	}
}

func (o *owned) unwritten() (bytes int64) {
	for _, w := range o.recent {
		bytes += w.bytes
	}
	return bytes
}

// Bytes is the estimate.
func (d *Disk) Bytes(owner uint32) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.owners[owner]
	if o == nil {
		return 0
	}
	return o.files + o.unwritten()
}
