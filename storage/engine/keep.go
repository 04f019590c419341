package engine

import (
	"runtime"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// A generation that went to RocksDB as tables is kept, and read from before the cache, until the next one takes its place: nothing of it
// has to be copied into the cache while writers wait for the processor, nor, later, what has been overwritten, popped or flushed away
// meanwhile. What it has of a record is the newest version that RocksDB has, and the cache then has none, since
//
//   - when it goes to RocksDB, the cache forgets what it has of its records;
//   - what is read from RocksDB, and so put into the cache, is in no generation;
//   - when one goes to RocksDB that won't be kept, its records are copied into the cache, and superseded in the one that is kept.
//
// So a kept generation may be let go of at any time.

// keepsInMemory tells whether a generation will be kept. One that is larger than they are, since a request was, won't.
func (s *Store) keepsInMemory(f *frozen) bool {
	if s.options.KeptBytes == nil {
		return false
	}
	most := s.options.KeptBytes()
	return f.Bytes() <= most+most/4
}

// copied is a record on its way to RocksDB.
type copied struct {
	hash       uint64
	space      uint32
	key, value []byte
	present    bool
}

// copy puts records into the cache, in place of older versions there and in the generation that is kept. A look at where they
// belong there lets the processor wait for all of them at once.
func (s *Store) copy(records []copied) {
	if kept := s.tiers.Load().kept; kept != nil {
		for i := range records {
			kept.Supersede(records[i].hash, records[i].space, records[i].key)
		}
	}
	s.putCopies(records)
}

func (s *Store) putCopies(records []copied) {
	var slots [PrefetchBatch]uint64
	for i := range records {
		slots[i] = s.clean.records.Slot(records[i].hash)
	}
	for i := range records {
		s.flusher.touched += byte(len(s.clean.records.Peek(records[i].hash, slots[i])))
	}
	for i := range records {
		r := &records[i]
		s.clean.records.Put(r.hash, r.space, r.key, r.value, r.present)
	}
}

// forget has the cache forget records that are newer in the generation that will be kept.
func (s *Store) forget(records []copied) {
	for i := range records {
		s.flusher.touched += byte(s.clean.records.Slot(records[i].hash))
	}
	for i := range records {
		r := &records[i]
		s.clean.records.Forget(r.hash, r.space, r.key)
	}
}

// unusedShare is the part of the cache, one in so many, that records of one generation which nobody has used may take from older copies.
const unusedShare = 4

// leave copies into the cache what is left of the generation that is kept, which another one is about to take the place of: what was
// used, and, if that is much, as much else as there is room for, or as may take the place of older copies. Where keys are asked for at random,
// what was written lately is as likely to come next as what was read lately, and a copy costs a fiftieth of what it costs to ask RocksDB. But where nobody
// asks for what was written it is worth neither the memory nor the processor's time: a seventh of what a push to a list takes in all.
func (s *Store) leave(next *frozen) {
	now := s.tiers.Load()
	if now.kept == nil {
		return
	}
	live := map[uint32]bool{}
	for _, ns := range now.databases {
		live[ns.Number] = true
	}
	popped := outsideOfSequences{moved: next.moved}
	room := max(s.clean.records.Limit()-s.clean.records.Bytes(), s.clean.records.Limit()/unusedShare)
	if !now.kept.OftenUsed() {
		room = 0
	}
	records := make([]copied, 0, PrefetchBatch)
	walked := 0
	for record, used := range now.kept.Left() {
		if walked++; walked%yieldRecords == 0 {
			runtime.Gosched()
		}
		space, key := record.Space(), record.Key()
		if !used && room <= 0 || !live[space] || !layout.Kinds[key[0]].Read || popped.has(key) {
			continue
		}
		value, state := record.Value()
		records = append(records, copied{recordHash(space, key), space, key, value, state == generation.Present})
		if len(records) == cap(records) {
			room -= s.putNewest(records, next)
			records = records[:0]
		}
	}
	s.putNewest(records, next)
}

// putNewest puts those records into the cache that the next generation has no newer version of. It returns how many bytes they are.
func (s *Store) putNewest(records []copied, next *frozen) (bytes int64) {
	for i := range records {
		s.flusher.touched += byte(next.Slot(records[i].hash))
	}
	newest := records[:0]
	for _, r := range records {
		if _, state := next.Get(generation.End, r.hash, r.space, r.key); state == generation.Unknown {
			newest = append(newest, r)
			bytes += int64(len(r.key) + len(r.value))
		}
	}
	s.putCopies(newest)
	return bytes
}
