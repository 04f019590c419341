package storage

import (
	"math/bits"

	"kedis/storage/generation"
	"kedis/storage/layout"
	"kedis/storage/rocks"
)

// asOf is when something was read from RocksDB ahead of who asks for it. It holds until RocksDB takes the next generation: what is written
// meanwhile is in one, and found there first.
type asOf struct {
	below   *rocks.DB
	flushes int64 // Counters.Flushes before it was read
}

func (s *Store) asOfNow() asOf { return asOf{s.db(), s.counters.Flushes.Load()} }

func (a *asOf) holds(s *Store) bool { return *a == s.asOfNow() }

// fetched are records that were read from RocksDB, all in one crossing, ahead of the commands that ask for them.
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

// want notes a record that a request will ask for.
func (f *fetched) want(request int, space uint32, key []byte) {
	f.records = append(f.records, fetchedRecord{recordHash(space, key), space, request})
	from := len(f.memory)
	f.memory = append(f.memory, key...)
	f.keys = append(f.keys, f.memory[from:len(f.memory):len(f.memory)])
}

// read reads what is wanted as far as RocksDB has it in memory, and returns a bit for each request whose record is in a file. What can't
// be read is left to the command, which meets the error again.
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

// of returns the value that was read for a request; nil if there is none, or none was read.
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

// take returns a record, if it was read and holds.
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

// Fetch reads what requests will ask RocksDB for, as far as RocksDB has it in memory, and keeps it for them. which has a bit for each
// request that Warm found something missing for. It returns a bit for each that would wait for a file: Load is for those. The caller has
// passed the gate. Requests for another database than the first one's are left to themselves.
func (t *Txn) Fetch(requests []Upcoming, which uint32) (cold uint32) {
	if which == 0 {
		return 0
	}
	database := requests[bits.TrailingZeros32(which)].Database
	space := t.store.current.Load().databases[database]
	family := space.family.Load()
	if family == nil {
		return 0 // RocksDB has nothing of it
	}
	keys, elements := &t.fetchedKeys, &t.fetchedElements
	keys.begin(t.store)
	elements.begin(t.store)
	var metadata [WarmRequests][]byte
	for i := range requests {
		if which&(1<<i) == 0 || requests[i].Database != database {
			continue
		}
		t.key = layout.AppendMetadataKey(t.key[:0], requests[i].Args[1])
		value, known := t.remembered(space.number, t.key)
		if !known {
			keys.want(i, space.number, t.key)
		}
		metadata[i] = value
	}
	cold = keys.read(family)
	for i := range requests {
		if which&^cold&(1<<i) == 0 || requests[i].Database != database || !requests[i].Element {
			continue
		}
		if metadata[i] == nil {
			metadata[i] = keys.of(i)
		}
		if !t.warmElementKey(metadata[i], requests[i].Args) {
			continue
		}
		if _, known := t.remembered(space.number, t.key); !known {
			elements.want(i, space.number, t.key)
		}
	}
	return cold | elements.read(family)
}

// remembered looks for a record above RocksDB.
func (t *Txn) remembered(space uint32, key []byte) (value []byte, known bool) {
	hash := recordHash(space, key)
	value, state := t.journal.get(hash, space, key)
	if state != generation.Unknown {
		return value, true
	}
	now := t.store.current.Load()
	if value, state = now.active.Get(generation.End, hash, space, key); state != generation.Unknown {
		return value, true
	}
	for _, f := range now.frozen {
		if value, state = f.Get(generation.End, hash, space, key); state != generation.Unknown {
			return value, true
		}
	}
	if now.kept != nil {
		if value, state = now.kept.Use(hash, space, key, false); state != generation.Unknown {
			return value, true
		}
	}
	value, _, known = t.store.cache.Get(hash, space, key)
	return value, known
}

// loadedKeys is how many keys of a request Load looks for at most: the gate can't be closed meanwhile.
const loadedKeys = 64

// Load brings what a request will ask RocksDB for from the files into RocksDB's cache. It waits for the disk. Errors are left to the
// command, which meets them again. The caller has passed the gate; the transaction is its own, and nothing is done with it.
func (t *Txn) Load(request Upcoming) {
	space := t.store.current.Load().databases[request.Database]
	family := space.family.Load()
	if family == nil {
		return
	}
	metadata, ok := t.load(space, family, layout.AppendMetadataKey(t.key[:0], request.Args[1]))
	if ok && request.Element && t.warmElementKey(metadata, request.Args) {
		t.load(space, family, t.key)
	}
	for i := 1 + request.Step; request.Step > 0 && i < min(len(request.Args), 1+loadedKeys*request.Step) && ok; i += request.Step {
		_, ok = t.load(space, family, layout.AppendMetadataKey(t.key[:0], request.Args[i]))
	}
	if cap(t.record) > largeBuffer {
		t.record = nil
	}
}

// Own returns a copy of a request that has what Load looks at, for whoever can't keep the words as they are.
func (u Upcoming) Own() Upcoming {
	last := len(u.Args) - 1
	if !u.Element {
		last = min(last, max(loadedKeys*u.Step, 1))
	}
	own := make([][]byte, last+1)
	take := func(i int) { own[i] = append([]byte(nil), u.Args[i]...) }
	take(1)
	if u.Element {
		take(min(2, last))
		take(last)
	}
	for i := 1 + u.Step; u.Step > 0 && i < min(len(own), 1+loadedKeys*u.Step); i += u.Step {
		take(i)
	}
	u.Args = own
	return u
}

// load reads a record, wherever it is. The value is valid until the next call.
func (t *Txn) load(space *namespace, family *rocks.Family, key []byte) (value []byte, ok bool) {
	t.key = key
	if value, known := t.remembered(space.number, key); known {
		return value, true
	}
	var err error
	t.record, _, err = t.store.db().Get(family, nil, key, t.record[:0])
	return t.record, err == nil
}
