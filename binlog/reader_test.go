package binlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"kedis/redis-tests/seed"
)

// A stream that crosses segments is the same bytes for readers that start anywhere, while it is
// still being written.
func TestTailWhileWriting(t *testing.T) {
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	o := options(t)
	o.files = (&faults{}).files()
	policy := []SyncPolicy{Always, EverySecond, Never}[random.IntN(3)]
	o.Sync = func() SyncPolicy { return policy }
	o.syncEvery = time.Millisecond
	t.Logf("seed %d, policy %v", seed, policy)
	l := create(t, o, 7)

	const records, readers = 2000, 4
	var stream bytes.Buffer
	borders := []Position{7}
	payloads := make([][]byte, records)
	for i := range payloads {
		payloads[i] = command("SET", fmt.Sprint("key", i), strings.Repeat("v", random.IntN(200)))
		if i%500 == 499 {
			payloads[i] = command("SET", "large", strings.Repeat("v", 3*leastSegmentBytes))
		}
		stream.Write(payloads[i])
		borders = append(borders, 7+int64(stream.Len()))
	}
	end := borders[records]
	var group sync.WaitGroup
	group.Go(func() {
		for _, payload := range payloads {
			position, err := l.Append(0, 0, payload[:len(payload)/2], payload[len(payload)/2:])
			if err == nil && policy == Always {
				err = l.Sync(position)
			}
			if err != nil {
				t.Errorf("append: %v", err)
				return
			}
		}
	})
	for range readers {
		from := borders[random.IntN(records)]
		group.Go(func() {
			for l.Position() < from {
				time.Sleep(time.Millisecond)
			}
			if got, err := follow(l, from, end); err != nil || !bytes.Equal(got, stream.Bytes()[from-7:]) {
				t.Errorf("from %d: %d bytes of %d, %v", from, len(got), end-from, err)
			}
		})
	}
	group.Wait()
}

// follow reads the stream between two positions, waiting for it.
func follow(l *Log, from, to Position) ([]byte, error) {
	r, err := l.NewReader(from)
	if err != nil {
		return nil, err
	}
	var stream []byte
	for r.Position() < to && err == nil {
		var record Record
		record, err = r.Next(context.Background())
		stream = append(stream, record.Payload...)
	}
	return stream, errors.Join(err, r.Close())
}

func TestReaderStartsAtAnyBorder(t *testing.T) {
	o := options(t)
	l := create(t, o, 50)
	commands := [][]byte{
		command("SELECT", "3"), command("SET", "key", "*1\r\n$4\r\nPING\r\n"),
		command("SELECT", "12"), command("LPUSH", "list", "", "b"), command("SELECT", "x"), command("PING"),
	}
	databases := []int{0, 3, 3, 12, 12, 12, 12} // before each command, and at the end
	if _, err := l.Append(0, 12, commands...); err != nil {
		t.Fatal(err)
	}
	middle := l.Position()
	if _, err := l.Append(12, 12, command("PING")); err != nil {
		t.Fatal(err)
	}
	borders := map[Position]int{}
	at := Position(50)
	for i, c := range commands {
		borders[at] = databases[i]
		at += int64(len(c))
	}
	whole := string(bytes.Join(commands, nil))
	for from := Position(50); from < middle; from++ {
		r, err := l.NewReader(from)
		database, border := borders[from]
		if !border {
			if !errors.Is(err, ErrNotBorder) {
				t.Fatalf("from %d, inside a command: %v", from, err)
			}
			continue
		}
		if err != nil || r.Position() != from {
			t.Fatalf("from %d: %v", from, err)
		}
		record, err := r.Next(expired())
		if err != nil || record.Start != from || record.End != middle || record.Database != database || string(record.Payload) != whole[from-50:] {
			t.Fatalf("from %d: %+v, %v", from, record, err)
		}
		record, err = r.Next(expired())
		if err != nil || record.Start != middle || record.Database != 12 {
			t.Fatalf("behind it: %+v, %v", record, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReaderOutsideOfLog(t *testing.T) {
	l := create(t, options(t), 50)
	add(t, l, command("PING"))
	if _, err := l.NewReader(49); !errors.Is(err, ErrPurged) {
		t.Fatalf("before the log: %v", err)
	}
	if _, err := l.NewReader(l.Position() + 1); !errors.Is(err, ErrBeyondEnd) {
		t.Fatalf("behind the log: %v", err)
	}
	if err := l.Sync(l.Position() + 1); !errors.Is(err, ErrBeyondEnd) {
		t.Fatalf("sync behind the log: %v", err)
	}
}

// Under Always a replica must not get what a power cut could take from the primary.
func TestReaderSeesOnlySynced(t *testing.T) {
	o := options(t)
	policy := Always
	var mu sync.Mutex
	o.Sync = func() SyncPolicy {
		mu.Lock()
		defer mu.Unlock()
		return policy
	}
	o.syncEvery = time.Hour
	l := create(t, o, 0)
	first := add(t, l, command("PING"))
	r, err := l.NewReader(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(expired()); !errors.Is(err, context.Canceled) || r.Pending() {
		t.Fatalf("a record that is not synced is visible: %v", err)
	}
	add(t, l, command("PING"))
	if err := l.Sync(first); err != nil {
		t.Fatal(err)
	}
	if !r.Pending() || l.Durable() != l.Position() {
		t.Fatal("a sync takes all along that is written")
	}
	third := add(t, l, command("PING"))
	for range 2 {
		if _, err := r.Next(expired()); err != nil {
			t.Fatal(err)
		}
	}
	if r.Pending() {
		t.Fatal("a record that is not synced is visible")
	}
	arrived := make(chan Position)
	go func() {
		record, err := r.Next(context.Background())
		if err != nil {
			t.Error(err)
		}
		arrived <- record.End
	}()
	eventually(t, "waiting", func() bool { return l.waiting.Load() == 1 })
	if err := l.Sync(third); err != nil {
		t.Fatal(err)
	}
	if end := <-arrived; end != third {
		t.Fatalf("woken with the record up to %d, not %d", end, third)
	}
	fourth := add(t, l, command("PING"))
	mu.Lock()
	policy = EverySecond
	mu.Unlock()
	if record, err := r.Next(expired()); err != nil || record.End != fourth {
		t.Fatalf("under everysec, what is written: %+v, %v", record, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// Unless a sync is to be waited for, an append wakes who waits.
func TestAppendWakes(t *testing.T) {
	l := create(t, options(t), 0)
	r, err := l.NewReader(0)
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan Position)
	for range 3 {
		go func() {
			record, err := r.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			arrived <- record.End
		}()
		eventually(t, "waiting", func() bool { return l.waiting.Load() == 1 })
		if end, got := add(t, l, command("PING")), <-arrived; got != end {
			t.Fatalf("woken with the record up to %d, not %d", got, end)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderOfClosedLog(t *testing.T) {
	l := create(t, options(t), 0)
	r, err := l.NewReader(0)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		_, err := r.Next(context.Background())
		failed <- err
	}()
	eventually(t, "waiting", func() bool { return l.waiting.Load() == 1 })
	closeLog(t, l)
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Fatalf("Next when the log closes: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(expired()); !errors.Is(err, ErrClosed) {
		t.Fatalf("Next of a closed reader: %v", err)
	}
	if _, err := l.NewReader(0); !errors.Is(err, ErrClosed) {
		t.Fatalf("a reader of a closed log: %v", err)
	}
	if _, err := l.Append(0, 0, command("PING")); !errors.Is(err, ErrClosed) {
		t.Fatalf("an append to a closed log: %v", err)
	}
	if err := l.Ready(); !errors.Is(err, ErrClosed) {
		t.Fatalf("Ready of a closed log: %v", err)
	}
}

// A reader that meets damage says where, and neither skips it nor goes on. The next one doesn't
// begin before it.
func TestReaderMeetsDamage(t *testing.T) {
	l := create(t, options(t), 0)
	first := add(t, l, command("PING"))
	second := add(t, l, command("SET", "key", "value"))
	add(t, l, command("PING"))
	offset := headerBytes + recordBytes + first
	damageFile(t, l.current.path, offset+recordBytes+3, 1)
	r, err := l.NewReader(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(expired()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := r.Next(expired())
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Offset != offset || corrupt.Position != first || corrupt.Path != l.current.path {
			t.Fatalf("a damaged record: %v", err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []Position{0, first, second - 3} {
		if _, err := l.NewReader(from); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a start at %d, before or inside a damaged record: %v", from, err)
		}
	}
	if stream, err := follow(l, second, l.Position()); err != nil || !bytes.Equal(stream, command("PING")) {
		t.Fatalf("a start behind the damage: %q, %v", stream, err)
	}
}

func TestSyncSharesAndCounts(t *testing.T) {
	o := options(t)
	fault := &faults{}
	o.files = fault.files()
	l := create(t, o, 0)
	end := add(t, l, command("PING"))
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if err := l.Sync(end); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := l.Stats().Syncs; got != 1 {
		t.Fatalf("%d syncs for one record", got)
	}
}

func TestEverySecond(t *testing.T) {
	o := options(t)
	o.Sync = func() SyncPolicy { return EverySecond }
	o.syncEvery = time.Millisecond
	l := create(t, o, 0)
	for range 3 {
		end := add(t, l, command("PING"))
		eventually(t, "the sync", func() bool { return l.Durable() == end })
	}
	if l.Stats().Syncs != 3 {
		t.Fatalf("%+v: it syncs when there is nothing to sync", l.Stats())
	}
}

func TestAppendChecks(t *testing.T) {
	l := create(t, options(t), 9)
	if position, err := l.Append(0, 0); err != nil || position != 9 {
		t.Fatalf("nothing: %d, %v", position, err)
	}
	if position, err := l.Append(0, 0, nil, []byte{}); err != nil || position != 9 {
		t.Fatalf("empty pieces: %d, %v", position, err)
	}
	if _, err := l.Append(1, 1, command("PING")); err == nil {
		t.Fatal("a record that begins in another database than the one selected")
	}
	if _, err := l.Append(0, 5, command("SELECT", "5")); err != nil || l.Database() != 5 {
		t.Fatalf("database %d, %v", l.Database(), err)
	}
	if _, err := l.Append(0, 0, command("PING")); err == nil {
		t.Fatal("a record that begins in another database than the one selected")
	}
	// As many pieces as need several writes, empty ones among them.
	var pieces [][]byte
	for range 3000 {
		pieces = append(pieces, command("PING"), nil)
	}
	end, err := l.Append(5, 5, pieces...)
	if err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, l, end-3000*14); len(got) != 1 || got[0] != strings.Repeat("*1\r\n$4\r\nPING\r\n", 3000) {
		t.Fatalf("%d records", len(got))
	}
	ping := command("PING")
	if allocations := testing.AllocsPerRun(20, func() {
		if _, err := l.Append(5, 5, ping, ping); err != nil {
			t.Error(err)
		}
	}); allocations > 0 {
		t.Errorf("Append allocates %v times", allocations)
	}
}

func TestDatabaseIsRecovered(t *testing.T) {
	o := options(t)
	l := create(t, o, 0)
	if _, err := l.Append(0, 7, command("SELECT", "7"), command("SET", "key", "value")); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	l, _ = open(t, o)
	if l.Database() != 7 {
		t.Fatalf("database %d", l.Database())
	}
	if err := l.Branch(idB); err != nil { // a segment without records
		t.Fatal(err)
	}
	abandon(t, l)
	l, _ = open(t, o)
	if l.Database() != 7 || l.History().ID != idB {
		t.Fatalf("database %d, history %v", l.Database(), l.History())
	}
}

func TestCreateChecks(t *testing.T) {
	for _, o := range []struct {
		history  History
		at       Position
		database int
	}{
		{history: History{ID: "short"}},
		{history: History{ID: idA, Ancestors: []Ancestor{{ID: "short"}}}},
		{history: History{ID: idA, Ancestors: []Ancestor{{ID: idB, Left: -1}}}},
		{history: History{ID: idA}, at: -1},
		{history: History{ID: idA}, database: -1},
	} {
		directory := t.TempDir()
		if _, err := Create(Options{Directory: directory}, o.history, o.at, o.database); err == nil {
			t.Errorf("%+v was accepted", o)
		}
		if entries, err := os.ReadDir(directory); err != nil || len(entries) > 0 {
			t.Errorf("%+v left %v, %v", o, entries, err)
		}
	}
	if id := NewID(); len(id) != 40 || id == NewID() || strings.Trim(id, "0123456789abcdef") != "" {
		t.Errorf("an id: %q", id)
	}
}
