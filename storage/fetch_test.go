package storage

import (
	"fmt"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
)

// commitString writes a string in a transaction of its own.
func commitString(t *testing.T, s *Store, key, value string) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	if err := setString(txn.DB(0), []byte(key), []byte(value)); err != nil {
		t.Fatal(err)
	}
	txn.Effect(0, []byte("set"), []byte(key), []byte(value))
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
}

func setString(d DB, key, value []byte) error {
	k, err := d.Lookup(key)
	if err != nil {
		return err
	}
	return d.SetString(key, &k, value, 0)
}

// TestFetch asks for records that are in files, loads them, and asks again.
func TestFetch(t *testing.T) {
	options := testOptions(t.TempDir(), 1<<20, 0)
	s, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	log := &testLog{}
	s.Attach(log, 1)
	const keys = 3000
	for i := range keys {
		commitString(t, s, fmt.Sprintf("key%04d", i), fmt.Sprintf("%0300d", i))
	}
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	h, err := txn.DB(0).Hash([]byte("hash"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		if _, err := h.Set(fmt.Appendf(nil, "field%04d", i), fmt.Appendf(nil, "%0300d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Save(keyevent.Changed); err != nil {
		t.Fatal(err)
	}
	txn.Effect(0, []byte("hset"))
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, options)
	requests := []Prefetch{
		prefetchOf("key1500"),
		prefetchOf("no such key"),
		{Access: AccessElement, Key: []byte("hash"), Element: []byte("field1500")},
		{Access: AccessKey, Key: []byte("key1500"), Database: 1},
	}
	txn = s.NewTxn()
	inside(s).WithoutFilter(0, func() {
		if missing := txn.Prefetch(requests); missing != 0b0111 {
			t.Fatalf("missing: %b", missing)
		}
	})
	must(t, inside(s).BuildFilters())
	if missing := txn.Prefetch(requests); missing != 0b0101 {
		t.Fatalf("missing when it is known what RocksDB has: %b", missing)
	}
	if cold := txn.Fetch(requests, 0b1111); cold&0b101 == 0 {
		t.Errorf("cold: %b", cold)
	}
	last := []Prefetch{prefetchOf("key2900")}
	if cold := txn.Fetch(last, 1); cold != 1 {
		t.Error("another key isn't cold")
	}
	loader := s.NewTxn()
	for _, request := range requests {
		loader.FetchCold(request.Clone())
	}
	if cold := txn.Fetch(requests, 0b1111); cold != 0 {
		t.Errorf("cold after loading: %b", cold)
	}
	if got := insideTxn(txn).Fetched(); got != 3 {
		t.Errorf("%d records were fetched, want 3", got)
	}
	many := Prefetch{Access: AccessEach, Key: []byte("key0100"), Others: [][]byte{[]byte("key2900"), []byte("x")}, Step: 2}
	loader.FetchCold(many.Clone())
	if cold := txn.Fetch(last, 1); cold != 0 {
		t.Error("the second key of a request isn't loaded")
	}
	txn.Begin(Mode{}, 1, 0)
	if h, err = txn.DB(0).Hash([]byte("hash")); err != nil {
		t.Fatal(err)
	}
	if value, found, err := h.Get([]byte("field1500")); err != nil || !found || string(value) != fmt.Sprintf("%0300d", 1500) {
		t.Errorf("%q, %v, %v", value, found, err)
	}
}

// TestFetchedIsNotTakenForNew writes a record after it was fetched.
func TestFetchedIsNotTakenForNew(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	commitString(t, s, "key", "old")
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	request := []Prefetch{prefetchOf("key")}
	fetch := func() *Txn {
		txn := s.NewTxn()
		if cold := txn.Fetch(request, 1); cold != 0 || insideTxn(txn).Fetched() != 1 {
			t.Fatalf("cold: %b, fetched: %d", cold, insideTxn(txn).Fetched())
		}
		return txn
	}
	want := func(txn *Txn, want string) {
		t.Helper()
		txn.Begin(Mode{}, 1, 0)
		if k, err := txn.DB(0).Lookup([]byte("key")); err != nil || string(k.Value) != want {
			t.Errorf("%q, %v; want %q", k.Value, err, want)
		}
	}
	before, between := fetch(), fetch()
	want(before, "old")
	commitString(t, s, "key", "new")
	want(between, "new") // it is in the generation
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	want(between, "new") // what was fetched is older than what RocksDB has
}

// TestLoadKeepsNoLargeValue loads a value that nobody should hold on to, and looks at what a
// request is copied for it.
func TestLoadKeepsNoLargeValue(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 0))
	commitString(t, s, "key", strings.Repeat("x", engine.InspectLargeBuffer+1))
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	request := prefetchOf("key").Clone()
	txn := s.NewTxn()
	txn.FetchCold(request)
	if insideTxn(txn).ColdBytes() > engine.InspectLargeBuffer {
		t.Errorf("%d bytes are kept", insideTxn(txn).ColdBytes())
	}
	if cold := txn.Fetch([]Prefetch{request}, 1); cold != 0 {
		t.Error("a value that is too large to be fetched isn't on the disk only")
	}
	txn.Begin(Mode{}, 1, 0)
	if k, err := txn.DB(0).Lookup([]byte("key")); err != nil || len(k.Value) != engine.InspectLargeBuffer+1 {
		t.Errorf("%d bytes, %v", len(k.Value), err)
	}
	many := Prefetch{Access: AccessEach, Key: []byte("key0"), Step: 1}
	for i := range 1000 {
		many.Others = append(many.Others, fmt.Appendf(nil, "key%d", i+1))
	}
	many = many.Clone()
	txn.FetchCold(many)
	if last := many.Others[len(many.Others)-1]; len(many.Others) != engine.InspectColdKeys-1 || string(last) != fmt.Sprintf("key%d", engine.InspectColdKeys-1) {
		t.Errorf("%d other keys are copied, the last of them %q", len(many.Others), last)
	}
}

func prefetchOf(key string) Prefetch { return Prefetch{Access: AccessKey, Key: []byte(key)} }
