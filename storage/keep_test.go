package storage

import (
	"fmt"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

// keeping is a store with a generation that is kept, and what it should hold.
type keeping struct {
	t     *testing.T
	store *Store
	want  map[string]string
}

func newKeeping(t *testing.T) *keeping {
	options := testOptions(t.TempDir(), 1<<30, 64<<20)
	options.TablesFrom, options.KeptBytes = constant[int64](256<<10), constant[int64](24<<20)
	options.FlushLogBytes = constant[int64](1 << 40) // nothing settles by itself
	return &keeping{t, openStore(t, options), map[string]string{}}
}

func (k *keeping) set(key, value string) {
	k.t.Helper()
	in(k.t, k.store, 0, func(db DB) error {
		old, err := db.Lookup([]byte(key))
		if err != nil {
			return err
		}
		return db.Save([]byte(key), old, layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: []byte(value)})
	})
	k.want[key] = value
}

func (k *keeping) remove(key string) {
	k.t.Helper()
	remove(k.t, k.store, 0, key)
	delete(k.want, key)
}

// large writes so many keys that they are kept.
func (k *keeping) large(prefix string) {
	k.t.Helper()
	for i := range 1000 {
		k.set(fmt.Sprint(prefix, i), strings.Repeat(prefix, 500)+fmt.Sprint(i))
	}
	tables := k.store.Counters().FlushedAsTables.Load()
	settle(k.t, k.store)
	if k.store.Counters().FlushedAsTables.Load() != tables+1 {
		k.t.Fatal("a large generation didn't go to RocksDB as tables")
	}
	if k.store.Kept() < 500<<10 {
		k.t.Fatalf("%d bytes are kept", k.store.Kept())
	}
}

// read reads a key, and tells how often RocksDB was asked.
func (k *keeping) read(key string) int64 {
	k.t.Helper()
	before := k.store.Counters().RocksReads.Load()
	txn := k.store.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	found, err := txn.DB(0).Lookup([]byte(key))
	if err != nil {
		k.t.Fatal(err)
	}
	want, exists := k.want[key]
	if found.Exists != exists || exists && string(found.Value) != want {
		k.t.Fatalf("%s: %v, %.20q, want %v, %.20q", key, found.Exists, found.Value, exists, want)
	}
	return k.store.Counters().RocksReads.Load() - before
}

// wantRead reads a key, for which RocksDB has to be asked so often.
func (k *keeping) wantRead(key string, reads int64) {
	k.t.Helper()
	if n := k.read(key); n != reads {
		k.t.Errorf("%s: RocksDB was asked %d times, want %d", key, n, reads)
	}
}

func (k *keeping) wantAll() {
	k.t.Helper()
	for key := range k.want {
		k.read(key)
	}
}

// TestWhatWasUsedStaysInMemory reads from a generation that is kept, and from what is left of it in the cache.
func TestWhatWasUsedStaysInMemory(t *testing.T) {
	k := newKeeping(t)
	k.large("a")
	k.wantRead("a1", 0)
	k.wantRead("a2", 0)
	cache := k.store.Cache()
	for i := range 64 { // a chunk for each shard, and no more room
		cache.Put(uint64(8*i), 0, make([]byte, 10<<10), nil, true)
	}
	cache.SetLimit(cache.Bytes())
	k.large("b")
	k.wantRead("b3", 0)
	k.wantRead("a1", 0)
	k.wantRead("a2", 0)
	k.wantRead("a3", 1)
	k.wantRead("a3", 0)
	k.wantAll()
}

// TestWhatNobodyReadsDoesNotStayInMemory has room in the cache for all that was kept, but nearly nothing of it was read.
func TestWhatNobodyReadsDoesNotStayInMemory(t *testing.T) {
	k := newKeeping(t)
	k.large("a")
	k.wantRead("a1", 0)
	copies := k.store.Cache().Bytes()
	k.large("b")
	if more := k.store.Cache().Bytes() - copies; more > 200<<10 {
		t.Errorf("%d bytes were copied", more)
	}
	k.wantRead("a1", 0)
	k.wantRead("a2", 1)
	k.wantAll()
}

// TestWhatIsLeftTakesTheRoomOfWhatIsOld: a cache that is full, as it is for ever once it was, still takes what is left of a generation of which
// much was read, but no more than a share of what it holds.
func TestWhatIsLeftTakesTheRoomOfWhatIsOld(t *testing.T) {
	for _, c := range []struct {
		prefix      string // values are as many times 500 bytes as it is long
		displaced   int64  // of the 200 that were read, at most, are read from RocksDB afterwards: hashes are different in each process
		least, most int64  // and of the 800 others
	}{{"a", 0, 0, 0}, {"aaaaaaaa", 20, 200, 700}} {
		k := newKeeping(t)
		k.large(c.prefix)
		for i := range 200 {
			k.wantRead(fmt.Sprint(c.prefix, i), 0)
		}
		k.fillCache(8 << 20)
		k.large("b")
		var displaced, reads int64
		for i := range 200 {
			displaced += k.read(fmt.Sprint(c.prefix, i))
		}
		if displaced > c.displaced {
			t.Errorf("values of %d bytes: %d of 200 that were read were displaced, want at most %d", 500*len(c.prefix), displaced, c.displaced)
		}
		for i := 200; i < 1000; i++ {
			reads += k.read(fmt.Sprint(c.prefix, i))
		}
		if reads < c.least || reads > c.most {
			t.Errorf("values of %d bytes: %d of 800 were read from RocksDB, want %d to %d", 500*len(c.prefix), reads, c.least, c.most)
		}
		k.wantAll()
	}
}

// fillCache leaves no room in the cache, which is as large as it has to be.
func (k *keeping) fillCache(limit int64) {
	cache, old := k.store.Cache(), make([]byte, 1<<10)
	cache.SetLimit(limit)
	for i := range uint64(limit >> 9) {
		cache.Put(i*2654435761, 0, old, nil, true)
	}
	cache.SetLimit(cache.Bytes())
}

// TestWhatIsLeftStaysInMemory has room in the cache for all that was kept, of which some was read.
func TestWhatIsLeftStaysInMemory(t *testing.T) {
	k := newKeeping(t)
	k.large("a")
	for i := range 200 {
		k.wantRead(fmt.Sprint("a", 500+i), 0)
	}
	k.set("a7", "newer")
	k.remove("a8")
	k.large("b")
	for i := range 10 {
		k.wantRead(fmt.Sprint("a", i), 0)
	}
	k.set("b1", "newer")
	in(t, k.store, 1, func(db DB) error { // what stays, lest everything is forgotten
		return db.Save([]byte("other"), Key{}, layout.Metadata{Type: layout.String, Encoding: layout.Plain})
	})
	space, key := inside(k.store).Namespace(0), layout.AppendMetadataKey(nil, []byte("b5"))
	in(t, k.store, 0, func(db DB) error { db.txn.Flush(0); return nil })
	k.want = map[string]string{}
	k.large("c")
	if inside(k.store).Cached(space, key) {
		t.Error("what was flushed away was copied")
	}
	k.wantAll()
}

// TestNothingIsLeftOfEmptyDatabases flushes the only database that has keys.
func TestNothingIsLeftOfEmptyDatabases(t *testing.T) {
	k := newKeeping(t)
	idle := k.store.Cache().Bytes()
	k.large("a")
	k.wantAll()
	k.large("b")
	if k.store.Cache().Bytes() < idle+500<<10 {
		t.Fatalf("%d bytes of copies, %d at first", k.store.Cache().Bytes(), idle)
	}
	in(t, k.store, 0, func(db DB) error { db.txn.Flush(0); return nil })
	k.want = map[string]string{}
	if copies, kept := k.store.Cache().Bytes(), k.store.Kept(); copies != idle || kept != 0 {
		t.Errorf("%d bytes of copies are left, and %d are kept", copies-idle, kept)
	}
	k.large("c")
	k.wantRead("c1", 0)
	k.wantAll()
}

// TestKeptIsSuperseded changes what is kept, in small generations and in large ones.
func TestKeptIsSuperseded(t *testing.T) {
	k := newKeeping(t)
	k.large("a")
	for i := range 20 {
		k.wantRead(fmt.Sprint("a", i), 0)
	}
	k.set("a1", "small")
	k.remove("a2")
	k.set("a500", "small")
	settle(t, k.store)
	k.wantRead("a1", 0)
	k.wantRead("a2", 0)
	k.wantRead("a500", 0)
	k.set("a1", "smaller")
	settle(t, k.store)
	k.wantRead("a1", 0)
	k.set("a3", "in a large one")
	k.remove("a4")
	k.large("b")
	k.set("a5", "on its way")
	k.large("c")
	k.remove("a6")
	k.large("a")
	k.wantAll()
	k.large("d")
	k.wantAll()
	k.large("e") // nothing is as it was in the first of them
	k.wantAll()
	if err := k.store.Reopen(); err != nil {
		t.Fatal(err)
	}
	if k.store.Kept() != 0 {
		t.Error("something is kept that was read from files")
	}
	k.wantAll()
}

// TestPoppedElementsAreNotUsed pops from a list that is kept: nobody will ask for those elements again.
func TestPoppedElementsAreNotUsed(t *testing.T) {
	k := newKeeping(t)
	list := []byte("list")
	change := func(f func(l *List) error) {
		in(t, k.store, 0, func(db DB) error {
			l, err := db.List(list)
			if err != nil {
				return err
			}
			if err := f(&l); err != nil {
				return err
			}
			return l.Save(keyevent.Changed)
		})
	}
	for i := range 1000 {
		change(func(l *List) error { return l.Push(false, [][]byte{fmt.Appendf(nil, "%0500d", i)}) })
	}
	settle(t, k.store)
	if k.store.Kept() == 0 {
		t.Fatal("nothing is kept")
	}
	for i := range 100 {
		change(func(l *List) error {
			return l.Pop(true, 1, func(value []byte) {
				if want := fmt.Sprintf("%0500d", i); string(value) != want {
					t.Errorf("popped %.10q", value)
				}
			})
		})
	}
	inside(k.store).KeptUsed(func(key []byte) {
		if key[0] == layout.KindListElement {
			t.Fatalf("%q counts as used", key)
		}
	})
}

// TestHugeGenerationsAreNotKept writes one that is larger than what may be kept, over what is kept.
func TestHugeGenerationsAreNotKept(t *testing.T) {
	k := newKeeping(t)
	k.large("a")
	kept := k.store.Kept()
	k.set("a1", "newer")
	k.remove("a2")
	k.set("huge", strings.Repeat("x", 32<<20))
	settle(t, k.store)
	if now := k.store.Kept(); now != kept {
		t.Errorf("%d bytes are kept, want %d as before", now, kept)
	}
	k.wantRead("a1", 0)
	k.wantRead("a2", 0)
	k.wantRead("huge", 1) // and it is too large for the cache
	k.wantAll()
}
