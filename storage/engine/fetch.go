package engine

import (
	"bytes"
	"math/bits"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// asOf is the time of a read from RocksDB. The read is valid until RocksDB takes the next
// generation: what is written meanwhile is in one, and found there first.
type asOf struct {
	below   *rocks.DB
	flushes int64 // Counters.Flushes before it was read
}

func (s *Store) asOfNow() asOf { return asOf{s.db(), s.counters.Flushes.Load()} }

func (a *asOf) holds(s *Store) bool { return *a == s.asOfNow() }

// fetched are records that were read from RocksDB in one crossing, before their commands run.
type fetched struct {
	asOf
	records []fetchedRecord
	keys    [][]byte // of the records, in their order
	memory  []byte   // of the keys
	values  rocks.CachedValues
}

type fetchedRecord struct {
	hash    uint64
	space   uint32
	request int
}

func (f *fetched) begin(s *Store) {
	f.asOf = s.asOfNow()
	f.records, f.keys, f.memory = f.records[:0], f.keys[:0], f.memory[:0]
}

// want adds a record that a request will read.
func (f *fetched) want(request int, space uint32, key []byte) {
	f.records = append(f.records, fetchedRecord{recordHash(space, key), space, request})
	from := len(f.memory)
	f.memory = append(f.memory, key...)
	f.keys = append(f.keys, f.memory[from:len(f.memory):len(f.memory)])
}

// read reads the wanted records as far as RocksDB has them in memory, and returns a bit for each
// request whose record is in a file. It leaves errors to the command, which meets them again.
func (f *fetched) read(family *rocks.Family) (cold uint32) {
	if len(f.keys) == 0 {
		return 0
	}
	if err := f.below.GetCached(family, f.keys, &f.values); err != nil {
		f.records = f.records[:0]
		return 0
	}
	for i := range f.records {
		if f.values.Unread(i) {
			cold |= 1 << f.records[i].request
		}
	}
	return cold
}

// of returns the value that was read for a request, or nil.
func (f *fetched) of(request int) []byte {
	for i := range f.records {
		if f.records[i].request != request {
			continue
		}
		if value, found := f.values.At(i); found {
			return value
		}
	}
	return nil
}

// take returns a record that was read, if it is still valid.
func (f *fetched) take(s *Store, hash uint64, space uint32, key []byte) (value []byte, found, known bool) {
	for i := range f.records {
		if r := &f.records[i]; r.hash != hash || r.space != space || string(f.keys[i]) != string(key) {
			continue
		}
		if !f.values.Known(i) || !f.holds(s) {
			return nil, false, false
		}
		value, found = f.values.At(i)
		return append([]byte(nil), value...), found, true
	}
	return nil, false, false
}

// Fetch reads what requests will read from RocksDB, as far as RocksDB has it in memory, and holds
// it for them. which has a bit for each request for which Prefetch missed something. The result has
// a bit for each request that would wait for a file: FetchCold is for those. The caller has passed
// the gate. Requests for another database than the first one's are skipped.
func (t *Txn) Fetch(requests []Prefetch, which uint32) (cold uint32) {
	if which == 0 {
		return 0
	}
	database := requests[bits.TrailingZeros32(which)].Database
	space := t.store.tiers.Load().databases[database]
	family := space.family.Load()
	if family == nil {
		return 0 // RocksDB has nothing of it
	}
	key, keys, elements := &t.prefetched.key, &t.prefetched.keys, &t.prefetched.elements
	keys.begin(t.store)
	elements.begin(t.store)
	var metadata [PrefetchBatch][]byte
	for i := range requests {
		if which&(1<<i) == 0 || requests[i].Database != database {
			continue
		}
		*key = layout.AppendMetadataKey((*key)[:0], requests[i].Key)
		value, known := t.inMemory(space.Number, *key)
		if !known && !space.rulesOut(*key) {
			keys.want(i, space.Number, *key)
		}
		metadata[i] = value
	}
	cold = keys.read(family)
	for i := range requests {
		if which&^cold&(1<<i) == 0 || requests[i].Database != database {
			continue
		}
		if metadata[i] == nil {
			metadata[i] = keys.of(i)
		}
		if !t.elementKey(metadata[i], &requests[i]) {
			continue
		}
		if _, known := t.inMemory(space.Number, *key); !known && !space.rulesOut(*key) {
			elements.want(i, space.Number, *key)
		}
	}
	return cold | elements.read(family)
}

// inMemory looks for a record in the journal and the tiers, above RocksDB.
func (t *Txn) inMemory(space uint32, key []byte) (value []byte, known bool) {
	hash := recordHash(space, key)
	value, state := t.journal.get(hash, space, key)
	if state != generation.Unknown {
		return value, true
	}
	value, state, _ = t.store.tiers.Load().get(hash, space, key, false)
	return value, state != generation.Unknown
}

// coldKeys is the most keys of a request that FetchCold reads: the gate can't be closed meanwhile.
const coldKeys = 64

// FetchCold brings what a request will read from RocksDB's files into RocksDB's cache. It waits for
// the disk. It leaves errors to the command, which meets them again. The caller has passed the
// gate, and does nothing else with the transaction.
func (t *Txn) FetchCold(request Prefetch) {
	space := t.store.tiers.Load().databases[request.Database]
	family := space.family.Load()
	if family == nil {
		return
	}
	metadata, ok := t.fetchRecord(space, family, layout.AppendMetadataKey(t.prefetched.key[:0], request.Key))
	if ok && t.elementKey(metadata, &request) {
		t.fetchRecord(space, family, t.prefetched.key)
	}
	for i := 0; request.Access == AccessEach && i < request.others() && ok; i++ {
		_, ok = t.fetchRecord(space, family, layout.AppendMetadataKey(t.prefetched.key[:0], request.Others[i*request.Step]))
	}
	if cap(t.prefetched.record) > largeBuffer {
		t.prefetched.record = nil
	}
}

// others is the number of further keys that FetchCold reads.
func (p *Prefetch) others() int {
	if p.Access != AccessEach {
		return 0
	}
	return min((len(p.Others)+p.Step-1)/p.Step, coldKeys-1)
}

// Clone copies the fields that FetchCold reads, so the request outlives the input buffer.
func (p Prefetch) Clone() Prefetch {
	p.Key, p.Element = bytes.Clone(p.Key), bytes.Clone(p.Element)
	others := make([][]byte, p.others())
	for i := range others {
		others[i] = bytes.Clone(p.Others[i*p.Step])
	}
	p.Others, p.Step = others, 1
	return p
}

// fetchRecord reads a record from memory or RocksDB. The value is valid until the next call.
func (t *Txn) fetchRecord(space *Namespace, family *rocks.Family, key []byte) (value []byte, ok bool) {
	t.prefetched.key = key
	if value, known := t.inMemory(space.Number, key); known {
		return value, true
	}
	if space.rulesOut(key) {
		return nil, true
	}
	var err error
	t.prefetched.record, _, err = t.store.db().Get(family, nil, key, t.prefetched.record[:0])
	return t.prefetched.record, err == nil
}
