package storage

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"kedis/internal/keyevent"
	"kedis/storage/layout"
)

func (s *Store) setForTest(t *testing.T, key, value string) {
	t.Helper()
	if err := s.commitString(key, value); err != nil {
		t.Fatal(err)
	}
}

// commitString commits a string.
func (s *Store) commitString(key, value string) error {
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	k, err := db.Lookup([]byte(key))
	if err == nil {
		err = db.Save([]byte(key), k, layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: []byte(value)})
	}
	txn.Effect(0, []byte("SET"), []byte(key), []byte(value))
	if err == nil {
		err = s.Commit(txn)
	}
	return err
}

func (s *Store) getForTest(t *testing.T, key string) string {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	k, err := txn.DB(0).Lookup([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(k.Value)
}

func TestSave(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	parent := filepath.Join(t.TempDir(), "a", "backup")
	moment := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	var made []string
	for i, value := range []string{"one", "two", "three"} {
		s.setForTest(t, "key", value)
		if i == 2 { // what an interrupted attempt has left, and what isn't ours
			for _, name := range []string{"checkpoint-20261121T065959.000Z.tmp", "checkpoint-mine", "other"} {
				if err := os.Mkdir(filepath.Join(parent, name), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		directory, err := s.Save(parent, 2, moment.Add(time.Duration(i)*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, filepath.Base(directory))
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := []string{"checkpoint-20261121T070000.001Z", "checkpoint-20261121T070000.002Z", "checkpoint-mine", "other"}
	if !slices.Equal(left, want) || !slices.Equal(made[1:], want[:2]) {
		t.Errorf("made %q, of which are left %q; want %q", made, left, want)
	}
	s.setForTest(t, "key", "four")
	for i, value := range []string{"two", "three"} {
		checkpoint := openStore(t, testOptions(filepath.Join(parent, want[i]), 1<<20, 1<<20))
		if got := checkpoint.getForTest(t, "key"); got != value {
			t.Errorf("%s holds %q, want %q", want[i], got, value)
		}
	}
}

func TestSaveKeepsAll(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	parent := t.TempDir()
	for i := range 3 {
		if _, err := s.Save(parent, 0, time.UnixMilli(int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(parent, "checkpoint-*")); err != nil || len(left) != 3 {
		t.Errorf("left are %q (%v)", left, err)
	}
}

// TestCheckpointIsPrivate makes a checkpoint in a directory that everybody may enter, and in one
// that isn't there.
func TestCheckpointIsPrivate(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 4<<10, 1<<20))
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(open, "made")
	private := []string{made}
	for _, parent := range []string{open, made} {
		directory, err := s.Save(parent, 0, time.UnixMilli(1))
		if err != nil {
			t.Fatal(err)
		}
		private = append(private, directory)
	}
	for _, directory := range private {
		if information, err := os.Stat(directory); err != nil || information.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", directory, information.Mode(), err)
		}
	}
}

// TestCheckpointHasItsPosition writes while checkpoints are made: each holds the data of its
// position, of all databases, and the counts of their keys.
func TestCheckpointHasItsPosition(t *testing.T) {
	for name, tablesFrom := range map[string]int64{"batches": math.MaxInt64, "tables": 0} {
		options := testOptions(t.TempDir(), 64<<10, 1<<20)
		options.TablesFrom = constant(tablesFrom)
		t.Run(name, func(t *testing.T) { saveWhileWriting(t, openStore(t, options)) })
	}
}

// slowLog has a generation stay on its way to RocksDB for a while, so that checkpoints come
// meanwhile.
type slowLog struct{ testLog }

func (l *slowLog) Sync(int64) error {
	time.Sleep(time.Millisecond)
	return nil
}

func saveWhileWriting(t *testing.T, s *Store) {
	s.Attach(&slowLog{}, 1)
	if err := s.commitPositioned(); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
				err = s.commitPositioned()
			}
		}
		stopped <- err
	}()
	parent := t.TempDir()
	for i := range 10 {
		before, directory := s.Position(), filepath.Join(parent, strconv.Itoa(i))
		var err error
		if i%2 == 0 { // which looks right behind the end of a generation
			directory, err = s.Save(parent, 0, time.UnixMilli(int64(i)))
		} else {
			before, err = 0, s.Rocks().Checkpoint(directory)
		}
		if err != nil {
			t.Fatal(err)
		}
		after := s.Position()
		checkpoint := openStore(t, testOptions(directory, 4<<10, 1<<20))
		if p := checkpoint.Position(); p < before || p > after {
			t.Errorf("checkpoint %d is at position %d, not between %d and %d", i, p, before, after)
		}
		checkpoint.checkPositioned(t)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// positioned is how many bytes the effect of commitPositioned takes in the log of a test.
const positioned = int64(len("*1\r\n$10\r\nPOSITIONED\r\n"))

// commitPositioned has the latest key of two databases say which position the commit leads to, and
// adds a key to each whose name does.
func (s *Store) commitPositioned() error {
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	position := strconv.FormatInt(s.Position()+positioned, 10)
	for database := range 2 {
		db := txn.DB(database)
		for _, key := range []string{"latest", position} {
			k, err := db.Lookup([]byte(key))
			if err == nil {
				err = db.Save([]byte(key), k, layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: []byte(position)})
			}
			if err != nil {
				return err
			}
		}
	}
	txn.Effect(0, []byte("POSITIONED"))
	return s.Commit(txn)
}

// checkPositioned compares a store that nothing but commitPositioned has written to with its
// position.
func (s *Store) checkPositioned(t *testing.T) {
	t.Helper()
	txn := s.NewTxn()
	txn.Begin(Mode{}, 1, 0)
	position := strconv.FormatInt(s.Position(), 10)
	for database := range 2 {
		for _, key := range []string{"latest", position} {
			if k, err := txn.DB(database).Lookup([]byte(key)); err != nil || string(k.Value) != position {
				t.Errorf("at position %s database %d has %q of %q (%v)", position, database, k.Value, key, err)
			}
		}
		if keys, _ := s.Size(database); keys != s.Position()/positioned+1 {
			t.Errorf("at position %s database %d counts %d keys, want %d", position, database, keys, s.Position()/positioned+1)
		}
	}
}

func TestUsage(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 1<<20, 1<<20))
	usage := func(key string, samples int64) int64 {
		txn := s.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		k, err := txn.DB(0).LookupAny([]byte(key))
		if err != nil || !k.Exists {
			t.Fatal(key, err)
		}
		bytes, err := txn.DB(0).Usage([]byte(key), k, samples)
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	s.setForTest(t, "small", "value")
	s.setForTest(t, "large", string(make([]byte, 10000)))
	if small, large := usage("small", 5), usage("large", 5); small < 10 || small > 100 || large < 10000 || large > 10100 {
		t.Errorf("5 bytes take %d, 10000 take %d", small, large)
	}
	txn := s.NewTxn()
	txn.Begin(Mode{Writing: true}, 1, 0)
	db := txn.DB(0)
	list, err := db.List([]byte("list"))
	if err != nil {
		t.Fatal(err)
	}
	var elements [][]byte
	for range 1000 {
		elements = append(elements, make([]byte, 100))
	}
	if err := list.Push(false, elements); err != nil {
		t.Fatal(err)
	}
	if err := list.Save(keyevent.Changed); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(txn); err != nil {
		t.Fatal(err)
	}
	if some, all := usage("list", 5), usage("list", 0); some < 100_000 || some > 200_000 || some != all {
		t.Errorf("1000 elements of 100 bytes take %d, or %d", some, all)
	}
}
