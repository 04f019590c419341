package storage

import (
	"fmt"
	"testing"

	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/rdb"
	"kedis/storage/rocks"
)

// restoreString takes a string into an import.
func restoreString(t *testing.T, i *Import, key, value string) {
	t.Helper()
	w, d := rdb.NewPayloadWriter(), rdb.Decoder{MaxString: 1 << 30}
	w.Begin(nil)
	w.String([]byte(value))
	payload, err := w.Finish()
	must(t, err)
	v, err := d.Payload(payload)
	must(t, err)
	must(t, i.Restore(0, []byte(key), v, 0))
}

// TestImportOutlivesReopen opens a store anew between all steps of an import.
func TestImportOutlivesReopen(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	i, err := s.NewImport()
	must(t, err)
	must(t, s.Reopen())
	value := string(make([]byte, engine.InspectSpillBytes/4))
	const keys = 20
	for n := range keys {
		restoreString(t, i, fmt.Sprint(n), value)
		must(t, s.Reopen())
	}
	must(t, i.Finish())
	must(t, s.Reopen())
	must(t, i.Swap(inside(s).CommitLog(), 1))
	must(t, s.PersistState())
	must(t, s.Reopen())
	if got, _ := s.Size(0); got != keys {
		t.Errorf("%d keys", got)
	}
	value2, found, err := s.Rocks().Get(inside(s).Family(0), nil, layout.AppendMetadataKey(nil, []byte("7")), nil)
	if err != nil || !found || len(value2) < len(value) {
		t.Errorf("%d bytes, %v, %v", len(value2), found, err)
	}
}

// TestCloseAfterAFailedReopen closes a store that could not be opened anew.
func TestCloseAfterAFailedReopen(t *testing.T) {
	s, err := Open(testOptions(t.TempDir(), 1<<20, 1<<20))
	must(t, err)
	it := s.Rocks().NewIterator(s.Rocks().Family("default"), nil, rocks.IteratorOptions{})
	if !it.Next() {
		t.Fatal(it.Err())
	}
	if err := s.Reopen(); err == nil {
		t.Fatal("it was closed while somebody reads")
	}
	if _, err := s.ViewToSend(nil); err == nil {
		t.Error("a snapshot of a store that is closed")
	}
	it.Close()
	must(t, s.Close())
	must(t, s.Close())
}
