package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"kedis/storage/cache"
	"kedis/storage/filter"
	"kedis/storage/layout"
)

// A record that memory hasn't got is looked for in RocksDB only if it may be there: a filter for
// each namespace knows which records RocksDB has, and ones that it had. What isn't in it isn't
// there, because
//
//   - whatever brings records to RocksDB (the flusher, imports) adds them before it writes them, and before readers look for them there;
//   - a filter that begins when RocksDB has something already says nothing until it has taken in all that a snapshot shows, and the
//     snapshot was taken when everybody who had begun to write without adding to it was done (build_presence.go).
//
// Readers have the lock of the key, so nothing becomes of the record meanwhile. Views don't ask:
// they may see what is no longer there.

// presence is what is known of the records that RocksDB has of a namespace.
type presence struct {
	complete atomic.Pointer[filter.Filter] // knows all of them; nil: there is none, and each record may be there
	coming   atomic.Pointer[filter.Filter] // is being built, and takes what is written meanwhile
	gone     atomic.Int64                  // about how many records of complete have been deleted since it was built
}

// filtered tells whether filters know records of the kind that a key has: those that are looked for
// without being there. Of some, metadata tells which there are.
func filtered(key []byte) bool {
	kind := &layout.Kinds[key[0]]
	return kind.Read && !kind.Listed
}

// rulesOut tells that RocksDB hasn't got a record of a kind that filters know.
func (p *presence) rulesOut(hash filter.Hash) bool {
	f := p.complete.Load()
	return f != nil && !f.MayHave(hash)
}

// touch has the processor fetch what rulesOut will read.
func (p *presence) touch(hash filter.Hash) uint64 {
	if f := p.complete.Load(); f != nil {
		return f.Touch(hash)
	}
	return 0
}

// rulesOut tells that RocksDB hasn't got the record with a key.
func (ns *Namespace) rulesOut(key []byte) bool {
	return filtered(key) && ns.presence.rulesOut(filter.HashOf(key))
}

// countInVain counts a record that RocksDB was asked for, if it was since a filter said that it may
// be there, and it isn't.
func (l *lookups) countInVain(ns *Namespace, key []byte, found bool) {
	if !found && filtered(key) && ns.presence.complete.Load() != nil {
		l.inVain++
	}
}

// tellPresences adds to what is counted for all, and begins anew.
func (l *lookups) tellPresences(p *presences) {
	if l.ruledOut+l.inVain > 0 {
		p.ruledOut.Add(l.ruledOut)
		p.inVain.Add(l.inVain)
		l.ruledOut, l.inVain = 0, 0
	}
}

// add notes records that are about to be written to RocksDB. The order of the two loads matters: a
// filter that isn't coming any more is complete.
func (p *presence) add(hashes []filter.Hash) {
	for _, f := range [...]*filter.Filter{p.coming.Load(), p.complete.Load()} {
		if f == nil {
			continue
		}
		for few := hashes; len(few) > 0; few = few[min(PrefetchBatch, len(few)):] {
			addTogether(f, few[:min(PrefetchBatch, len(few))])
		}
	}
}

// remove notes that a record is about to be deleted from RocksDB: it stays in the filter.
func (p *presence) remove(hash filter.Hash) {
	if f := p.complete.Load(); f != nil && f.MayHave(hash) {
		p.gone.Add(1)
	}
}

// reaped notes that the elements of a collection were deleted from RocksDB. They may have been in
// it under several kinds: those by which they are looked up count.
func (p *presence) reaped(deleted *layout.Deleted) {
	if kinds := deleted.Type.Elements(); len(kinds) > 0 && filtered([]byte{kinds[0].Kind}) {
		p.gone.Add(int64(deleted.Count))
	}
}

// addTogether adds a few records. A look at where they belong lets the processor wait for all of
// them at once.
func addTogether(f *filter.Filter, hashes []filter.Hash) {
	var touched uint64
	for _, hash := range hashes {
		touched += f.Touch(hash)
	}
	warmed(touched)
	for _, hash := range hashes {
		f.Add(hash)
	}
}

// warmed keeps the compiler from leaving out what is only read into the processor's caches.
//
//go:noinline
func warmed(uint64) {}

// presences is what the filters of all namespaces share.
type presences struct {
	writes   writesUnderWay
	memory   filterMemory
	building sync.Mutex                // held while a filter is built
	walked   atomic.Pointer[Namespace] // that it is of, the family of which isn't dropped meanwhile

	ruledOut, inVain atomic.Int64 // lookups that RocksDB was spared, and that it had nothing for all the same
}

// writesUnderWay are those of records to RocksDB.
type writesUnderWay struct {
	mu    sync.Mutex
	begun *sync.WaitGroup // since the last call of settle
}

// begin says that records are about to be added to filters and written to RocksDB. end must follow.
func (w *writesUnderWay) begin() (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun == nil {
		w.begun = new(sync.WaitGroup)
	}
	w.begun.Add(1)
	return w.begun.Done
}

// settle waits for the end of all writes that have begun.
func (w *writesUnderWay) settle() {
	w.mu.Lock()
	begun := w.begun
	w.begun = nil
	w.mu.Unlock()
	if begun != nil {
		begun.Wait()
	}
}

// filterMemory is what filters may take.
type filterMemory struct{ most, free atomic.Int64 }

const (
	filterShare     = 2        // filters may take this part, one in so many, of the memory for clean copies
	leastFilters    = 64 << 10 // bytes that they may take in any case
	overdrawn       = 8        // that part of what they may take, one in so many, is clearly too much
	firstLayerShare = 64       // of what they may take, the part that the first layer takes when nobody knows how many records come,
	largestFirst    = 1 << 20  // but no more than so many bytes
)

// take is a filter.Room.
func (m *filterMemory) take(bytes int64) int64 {
	for {
		free := m.free.Load()
		granted := max(min(bytes, free), 0)
		if m.free.CompareAndSwap(free, free-granted) {
			return granted
		}
	}
}

// shrinks reports whether a filter is to be built anew since the limit was lowered: all together
// take clearly more than they may, and this one would come out half as large at most. One that was
// built so doesn't shrink again: it got only what was free.
func (m *filterMemory) shrinks(f *filter.Filter) bool {
	free := m.free.Load()
	now := max(min(filter.BytesFor(f.Records()), f.Bytes()+free), filter.BytesFor(0))
	return free < -m.most.Load()/overdrawn && now <= f.Bytes()/2
}

// newFilter is an empty filter for so many records at least.
func (s *Store) newFilter(records int64) *filter.Filter {
	memory := &s.presences.memory
	return filter.New(max(records, filter.RecordsIn(min(memory.most.Load()/firstLayerShare, largestFirst))), memory.take)
}

// balance finds out what filters take, which those of namespaces that are gone don't any more, and
// the order of collections. Copies of records get the rest; what they don't use of it is lent to
// the order, until they do.
func (s *Store) balance() {
	s.clean.balancing.Lock()
	defer s.clean.balancing.Unlock()
	used := s.Filters().Bytes
	s.presences.memory.free.Store(s.presences.memory.most.Load() - used)
	memory, share := s.clean.most.Load()-used, s.options.TreeBytes()
	_, trees := s.order.trees.Stats()
	granted := max(memory-min(trees, share), 0)
	s.clean.granted.Store(granted)
	limit := granted
	if s.options.MostTreeBytes != nil && share > 0 {
		limit = s.lend(memory, share, trees, granted)
	} else {
		s.order.lent.Store(0)
	}
	s.clean.records.SetLimit(limit)
}

const (
	// lentShare is the part, one in so many, of the memory for copies by which these may grow from
	// one balance to the next while all that they leave is lent to trees.
	lentShare = 16
	// reclaims are how often trees give back memory that was lent to them, each time that balance
	// finds too much lent: others do, too.
	reclaims = 64
)

// lend lends trees what copies leave of the memory of both, but for what these may grow by until
// the next balance, and returns how much of what they are granted copies may take until then: so
// both together never take more than there is.
func (s *Store) lend(memory, share, trees, granted int64) int64 {
	copies := s.clean.records.Bytes()
	growth := min(max((memory-copies-trees)/2, granted/lentShare, cache.Least), granted-copies)
	if growth < cache.Least { // they are as large as they can become
		growth = 0
	}
	lent := max(min(memory-copies-growth, s.options.MostTreeBytes())-share, 0)
	s.order.lent.Store(lent)
	for range reclaims {
		s.order.trees.Reclaim()
	}
	if growth == 0 {
		return granted
	}
	_, trees = s.order.trees.Stats()
	if lent > 0 {
		trees = max(trees, share+lent)
	}
	return min(granted, max(copies, memory-trees))
}

// Filters tells of the filters of all namespaces.
type Filters struct {
	Bytes, Records   int64
	Building         bool  // some aren't complete yet
	RuledOut, InVain int64 // lookups that RocksDB was spared, and that it had nothing for all the same
}

// Filters tells of the filters that know which records RocksDB has.
func (s *Store) Filters() Filters {
	all := Filters{RuledOut: s.presences.ruledOut.Load(), InVain: s.presences.inVain.Load()}
	for _, ns := range s.filteredNamespaces() {
		complete, coming := ns.presence.complete.Load(), ns.presence.coming.Load()
		all.Building = all.Building || complete == nil
		for _, f := range [...]*filter.Filter{complete, coming} {
			if f != nil {
				all.Bytes += f.Bytes()
				all.Records += f.Records()
			}
		}
	}
	return all
}

// filteredNamespaces are all that anybody reads but from a view: those that databases have, and
// imports. The flusher tells the filters of these only what RocksDB gets, so one that is missing
// here would rule out what is there.
func (s *Store) filteredNamespaces() []*Namespace {
	s.commit.Lock()
	defer s.commit.Unlock()
	now := s.tiers.Load()
	if now == nil {
		return nil // nothing is open yet
	}
	return slices.Concat(now.databases, s.namespaces.imported())
}

// noting has the filters learn of records that are about to be written to RocksDB, before whoever
// else does. again says that they have been counted.
func (s *Store) noting(learn func([]copied), again bool) func([]copied) {
	presences := map[uint32]*presence{}
	for _, ns := range s.filteredNamespaces() {
		presences[ns.Number] = &ns.presence
	}
	hashes := make([]filter.Hash, 0, PrefetchBatch)
	var p *presence
	add := func() {
		if p != nil {
			p.add(hashes)
		}
		hashes = hashes[:0]
	}
	return func(records []copied) {
		for i := range records {
			r := &records[i]
			if next := presences[r.space]; next != p {
				add()
				p = next
			}
			switch {
			case p == nil || !filtered(r.key):
			case r.present:
				hashes = append(hashes, filter.HashOf(r.key))
			case !again:
				p.remove(filter.HashOf(r.key))
			}
		}
		add()
		learn(records)
	}
}
