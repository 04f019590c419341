package engine

import (
	"runtime"

	"kedis/storage/generation"
	"kedis/storage/layout"
)

// A generation that went to RocksDB as tables is retained, and read before the cache, until the
// next one replaces it. So its records need not be copied into the cache while writers wait for the
// processor, and those that are overwritten, popped or flushed away meanwhile never are. It has the
// newest version that RocksDB has of each of its records, and the cache has none, since
//
//   - the cache forgets a generation's records when the generation goes to RocksDB;
//   - what is read from RocksDB, and so cached, is in no generation;
//   - the records of a generation that won't be retained are copied into the cache, and superseded in the retained one.
//
// So a retained generation may be dropped at any time.

// retains reports whether a generation will be retained. It won't if a large request has made it
// much larger than others.
func (s *Store) retains(f *frozen) bool {
	if s.options.RetainedBytes == nil {
		return false
	}
	most := s.options.RetainedBytes()
	return f.Bytes() <= most+most/4
}

// copied is a record on its way to RocksDB.
type copied struct {
	hash       uint64
	space      uint32
	key, value []byte
	present    bool
}

// copy puts records into the cache, in place of older versions there and in the retained
// generation. It reads their slots first, so that the processor waits for all of them at once.
func (s *Store) copy(records []copied) {
	if retained := s.tiers.Load().retained; retained != nil {
		for i := range records {
			retained.Supersede(records[i].hash, records[i].space, records[i].key)
		}
	}
	s.putCopies(records)
}

// copyOnce is copy for the first attempt to write a generation. What others do to its copies before
// the next one, at most that they go, is right then, too.
func (s *Store) copyOnce(f *frozen) func([]copied) {
	if f.copied {
		return func([]copied) {}
	}
	f.copied = true
	return s.copy
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

// forget removes records from the cache that the generation that will be retained has newer
// versions of.
func (s *Store) forget(records []copied) {
	for i := range records {
		s.flusher.touched += byte(s.clean.records.Slot(records[i].hash))
	}
	for i := range records {
		r := &records[i]
		s.clean.records.Forget(r.hash, r.space, r.key)
	}
}

// unusedShare is the part of the cache, one in so many, that unused records of one generation may
// take from older copies.
const unusedShare = 4

// cacheRetained copies records of the retained generation into the cache before another one
// replaces it: those that were used, and if they are many, others as far as there is room or older
// copies may go. Where keys are read at random, a recent write is as likely to be read next as a
// recent read, and a copy costs a fiftieth of a read from RocksDB. Where nobody reads what was
// written, a copy is worth neither the memory nor the time: a seventh of what a push to a list
// takes in all.
func (s *Store) cacheRetained(next *frozen) {
	now := s.tiers.Load()
	if now.retained == nil {
		return
	}
	live := map[uint32]bool{}
	for _, ns := range now.databases {
		live[ns.Number] = true
	}
	popped := outsideOfSequences{moved: next.moved}
	room := max(s.clean.records.Limit()-s.clean.records.Bytes(), s.clean.records.Limit()/unusedShare)
	if !now.retained.OftenUsed() {
		room = 0
	}
	records := make([]copied, 0, PrefetchBatch)
	passed := 0
	for record, used := range now.retained.Left() {
		if passed++; passed%yieldRecords == 0 {
			runtime.Gosched()
		}
		space, key := record.Space(), record.Key()
		if !used && room <= 0 || !live[space] || !layout.Kinds[key[0]].Read || popped.has(key) || now.retained.brief.has(key) {
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

// putNewest caches the records of which the next generation has no newer version. It returns their
// size in bytes.
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
