package engine

import (
	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/walks"
)

// A walk over a collection looks into every chunk of every generation, and into RocksDB, for the place where it begins, and then goes on in
// all of them at once. So what short walks have found is kept (package walks): the elements of a collection that is read as a whole, the highest
// hundred of an index, the beginning of a sequence. Commands that write walk by themselves, as do those that read what isn't committed yet, or a view.

// VisitRecord is called for the records that a walk comes to; it returns false to stop.
type VisitRecord func(key, value []byte) bool

// walkShare is the part of the memory for clean copies that copies of walks may take.
const walkShare = 16

// SetCacheBytes changes how much memory clean copies may take, the order of collections included, and what knows which records there are.
func (s *Store) SetCacheBytes(bytes int64) {
	s.clean.most.Store(bytes)
	s.clean.walks.SetLimit(bytes / walkShare)
	s.presences.memory.most.Store(max(bytes/filterShare, leastFilters))
	s.balance()
}

// Copies is the memory that clean copies take, that which those of walks take of it, and the most that all of them may take.
func (s *Store) Copies() (bytes, walks, most int64) {
	walks = s.clean.walks.Bytes()
	return s.clean.records.Bytes() + walks, walks, s.clean.records.Limit() + s.clean.walks.Limit()
}

// forgetCopies forgets all clean copies.
func (s *Store) forgetCopies() {
	s.clean.records.Clear()
	s.clean.walks.Clear()
}

// scannedKinds are the kinds of record whose scans are kept.
var scannedKinds = kindsWith(func(k *layout.Kind) bool { return k.Scanned })

// changed says which records of collections that are walked over a transaction has written. They are visible.
func (j *journal) changed(copies *walks.Copies) {
	if !j.hasAny(scannedKinds) {
		return
	}
	var last uint64 // the collection that was told of; none has this number
	known := false
	for i := range j.entries {
		c := &j.entries[i]
		if key := j.key(c); layout.Kinds[key[0]].Scanned {
			if id := layout.ElementID(key); id != last {
				last, known = id, copies.Changed(id)
			}
			if known {
				copies.Forget(c.space, last, key)
			}
		}
	}
}

// Repeat shows what was found when the same walk was made before, and has walk go over the rest.
func (t *Txn) Repeat(w walks.Walk, visit VisitRecord, walk func(w walks.Walk, visit VisitRecord) error) error {
	if !t.repeats(&w) {
		return walk(w, visit)
	}
	copies := &t.store.clean.walks
	version := copies.Version(&w)
	known := copies.Find(&w)
	rest := w
	if known.Kept() {
		if err := t.Spend(1 + known.Size()/bytesPerRecord); err != nil {
			return err
		}
		t.lookups.copiesFound += int64(known.Len())
		var more bool
		if rest, more = known.Rest(); known.Visit(visit) || !more {
			return nil
		}
	}
	recorder, stopped := walks.NewRecorder(known), false
	err := walk(rest, func(key, value []byte) bool {
		recorder.Add(key, value)
		stopped = !visit(key, value)
		return !stopped
	})
	if err == nil {
		copies.Keep(&w, version, recorder, stopped)
	}
	return err
}

// repeats tells whether the transaction may use what another one has found, and another one what it finds.
func (t *Txn) repeats(w *walks.Walk) bool {
	if t.view != nil || t.staging.spill != nil || t.running.mode.Writing || t.running.mode.Applying {
		return false
	}
	return !t.wrote(w.Space, w.Lower, w.Upper)
}

// wrote tells whether the transaction itself has written records from lower on, before upper.
func (t *Txn) wrote(space uint32, lower, upper []byte) bool {
	return t.journal.any(generation.Range{Space: space, Lower: lower, Upper: upper})
}
