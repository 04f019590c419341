package rocks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"
)

// RocksDB's own parser of batches must read what Batch wrote.
func TestBatchFormat(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	base := d.Family(DefaultFamily)
	long := strings.Repeat("v", 300) // a length of two bytes
	var b Batch
	if b.Bytes() != nil || b.Len() != 0 {
		t.Fatal("the empty batch is not empty")
	}
	b.Put(base, []byte("k0"), []byte(long))
	b.Put(f, []byte("k1"), nil)
	b.Grow(1 << 20) // keeps what is there
	if cap(b.data)-len(b.data) < 1<<20 {
		t.Errorf("there is room for %d bytes", cap(b.data)-len(b.data))
	}
	b.Delete(base, []byte("k2"))
	b.Delete(f, []byte("k3"))
	b.DeleteRange(base, []byte("k4"), []byte("k5"))
	b.DeleteRange(f, []byte("k6"), []byte("k7"))
	want := []string{
		fmt.Sprint(grocksdb.WriteBatchValueRecord, " 0 k0 ", long),
		fmt.Sprint(grocksdb.WriteBatchCFValueRecord, " ", f.ID(), " k1 "),
		fmt.Sprint(grocksdb.WriteBatchDeletionRecord, " 0 k2 "),
		fmt.Sprint(grocksdb.WriteBatchCFDeletionRecord, " ", f.ID(), " k3 "),
	}

	parsed := grocksdb.WriteBatchFrom(b.Bytes())
	defer parsed.Destroy()
	if parsed.Count() != b.Len() || b.Len() != 6 {
		t.Fatalf("RocksDB counts %d records, Batch %d", parsed.Count(), b.Len())
	}
	if string(parsed.Data()) != string(b.Bytes()) {
		t.Error("RocksDB changed the batch")
	}
	records := parsed.NewIterator()
	for _, w := range want {
		if !records.Next() {
			t.Fatalf("want %.40s, got the end: %v", w, records.Error())
		}
		r := records.Record()
		if got := fmt.Sprint(r.Type, " ", r.CF, " ", string(r.Key), " ", string(r.Value)); got != w {
			t.Errorf("got %.60s, want %.60s", got, w)
		}
	}
	must(t, d.Write(&b))
}

// The batch that grocksdb builds with RocksDB's own code, and ours, are the same bytes.
func TestBatchMatchesRocksDB(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	base := d.Family(DefaultFamily)
	reference := grocksdb.NewWriteBatch()
	defer reference.Destroy()
	var b Batch
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for range 500 {
		key, value := randomBytes(random, 200), randomBytes(random, 20_000)
		switch random.IntN(6) {
		case 0:
			b.Put(base, key, value)
			reference.Put(key, value)
		case 1:
			b.Put(f, key, value)
			reference.PutCF(f.handle, key, value)
		case 2:
			b.Delete(base, key)
			reference.Delete(key)
		case 3:
			b.Delete(f, key)
			reference.DeleteCF(f.handle, key)
		case 4:
			b.DeleteRange(base, key, value)
			reference.DeleteRange(key, value)
		case 5:
			b.DeleteRange(f, key, value)
			reference.DeleteRangeCF(f.handle, key, value)
		}
	}
	if string(b.Bytes()) != string(reference.Data()) {
		t.Fatalf("the batches differ (seed %d)", seed)
	}
}

func randomBytes(random *rand.Rand, most int) []byte {
	b := make([]byte, random.IntN(most))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func TestWrite(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	base := d.Family(DefaultFamily)
	var b Batch
	must(t, d.Write(&b)) // nothing
	for i := range 10 {
		b.Put(f, fmt.Append(nil, i), fmt.Append(nil, "v", i))
	}
	b.Delete(f, []byte("3"))
	b.DeleteRange(f, []byte("5"), []byte("8"))
	b.Put(base, []byte("5"), []byte("default"))
	b.Put(f, []byte("6"), []byte("again"))
	must(t, d.Write(&b))
	for i, want := range []string{"v0", "v1", "v2", "-", "v4", "-", "again", "-", "v8", "v9"} {
		wantValue(t, d, f, nil, fmt.Sprint(i), want)
	}
	wantValue(t, d, base, nil, "5", "default")
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 {
		t.Fatalf("after Reset: %d records, %d bytes", b.Len(), b.Size())
	}
	b.Put(f, []byte("3"), []byte("back"))
	must(t, d.Write(&b))
	wantValue(t, d, f, nil, "3", "back")
}

func TestBatchDoesNotAllocate(t *testing.T) {
	d := openNew(t)
	f := create(t, d, "f")
	var b Batch
	key, value := []byte("key"), []byte("value")
	if n := testing.AllocsPerRun(100, func() {
		b.Reset()
		b.Put(f, key, value)
		b.Delete(f, key)
		if err := d.Write(&b); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for each batch", n)
	}
}

// TestWriteThatIsGivenUp: it isn't applied later, behind what was written meanwhile, if it hadn't
// begun.
func TestWriteThatIsGivenUp(t *testing.T) {
	d := openNew(t)
	f := d.Family(DefaultFamily)
	var b Batch
	b.Put(f, []byte("key"), []byte("late"))
	d.writing.Lock()
	asked := 0
	err := d.writePatiently(func(operation string) error {
		if asked++; asked == 1 { // else it isn't tried at all
			return nil
		}
		return noSpace(operation, errWaits)
	}, b.families, b.Bytes())
	d.writing.Unlock()
	if !IsNoSpace(err) {
		t.Fatal(err)
	}
	d.awaitWrites()
	if value, found, err := d.Get(f, nil, []byte("key"), nil); found || err != nil {
		t.Errorf("found %q, %v", value, err)
	}
}
