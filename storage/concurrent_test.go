package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kedis/internal/keyevent"
	"kedis/lock"
	"kedis/redis-tests/seed"
	"kedis/storage/layout"
)

// stressTime is how long the tests of many goroutines run: KEDIS_STRESS, such as 5m, or a moment.
func stressTime(t testing.TB) time.Duration {
	text := os.Getenv("KEDIS_STRESS")
	if text == "" {
		return 700 * time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// concurrent runs transactions of many goroutines against a model, with everything so small that
// records leave memory all the time. Goroutines take locks as workers do: in order, waiting for each.
type concurrent struct {
	t     *testing.T
	store *Store
	locks *lock.Table
	gate  *lock.Gate
	keys  int
	stop  atomic.Bool

	mu    sync.Mutex
	model []map[string]placeValue // by database; what a key's lock guards
}

type placeValue struct {
	text   string // of a string, or a list's elements with commas between
	list   bool
	expire bool
}

// worker is one goroutine.
type worker struct {
	*concurrent
	owner  lock.Owner
	random *rand.Rand
	txn    *Txn
	held   []uint32
}

func TestConcurrentTransactions(t *testing.T) {
	for _, size := range []struct{ generation, cache int64 }{{20 << 10, 5 << 20}, {200 << 10, 64 * 70 << 10}, {1 << 20, 0}} {
		t.Run(fmt.Sprint("generations of ", size.generation, ", cache of ", size.cache), func(t *testing.T) {
			runConcurrent(t, size.generation, size.cache)
		})
	}
}

func runConcurrent(t *testing.T, generationBytes, cacheBytes int64) {
	seed := seed.Of(t)
	const workers = 6
	o := testOptions(t.TempDir(), generationBytes, cacheBytes)
	o.Limits.ListSize = constant[int64](4)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Attach(&lockedLog{}, 1)
	if err := s.PersistState(); err != nil {
		t.Fatal(err)
	}
	c := &concurrent{t: t, store: s, locks: lock.NewTable(), gate: lock.NewGate(workers), keys: 40,
		model: make([]map[string]placeValue, s.Databases())}
	for i := range c.model {
		c.model[i] = map[string]placeValue{}
	}
	var group sync.WaitGroup
	for i := range workers {
		w := &worker{concurrent: c, owner: lock.Owner(i + 1), random: rand.New(rand.NewPCG(seed, uint64(i))), txn: s.NewTxn()}
		group.Go(func() { w.run() })
	}
	group.Go(func() { c.maintain(rand.New(rand.NewPCG(seed, 99))) })
	time.Sleep(stressTime(t) / 3)
	c.stop.Store(true)
	group.Wait()
	c.compare(s)
	if t.Failed() {
		return
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.GenerationBytes = constant[int64](1 << 20)
	c.compare(openStore(t, o))
}

// lockedLog is a log in memory that keeps nothing. Its Sync takes a while, so that generations wait.
type lockedLog struct {
	length   atomic.Int64
	database atomic.Int64
}

func (l *lockedLog) Append(_, after int, payload ...[]byte) (int64, error) {
	for _, p := range payload {
		l.length.Add(int64(len(p)))
	}
	l.database.Store(int64(after))
	return l.length.Load(), nil
}

func (l *lockedLog) Sync(position int64) error {
	time.Sleep(time.Duration(position%4) * time.Millisecond)
	return nil
}

func (l *lockedLog) Position() int64                      { return l.length.Load() }
func (l *lockedLog) Database() int                        { return int(l.database.Load()) }
func (l *lockedLog) Purge(int64) (removed int, err error) { return 0, nil }
func (l *lockedLog) AwaitsRoom() bool                     { return false }

// maintain does what the store does once a second, all the time.
func (c *concurrent) maintain(random *rand.Rand) {
	for !c.stop.Load() {
		var err error
		switch random.IntN(4) {
		case 0:
			err = c.store.Persist()
		case 1:
			err = c.store.Settle()
		case 2:
			err = inside(c.store).ReadPersisted()
		case 3:
			err = inside(c.store).Tidy()
		}
		if err != nil {
			c.t.Error(err)
			return
		}
		time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
	}
}

func (w *worker) run() {
	for !w.stop.Load() && !w.t.Failed() {
		switch w.random.IntN(100) {
		case 0:
			w.alone(func() error { return w.flush(w.random.IntN(w.store.Databases())) })
		case 1:
			w.alone(w.swap)
		case 2, 3:
			w.pinned()
		default:
			w.some()
		}
	}
}

func (w *worker) fail(err error) {
	if err != nil {
		w.t.Errorf("%v", err)
		w.stop.Store(true)
	}
}

// alone runs with the gate closed.
func (w *worker) alone(f func() error) {
	open := w.gate.Close(runtime.Gosched)
	w.txn.Begin(Mode{Writing: true}, 1, 0)
	w.fail(f())
	w.txn.Effect(0, []byte("WHATEVER"))
	w.fail(w.store.Commit(w.txn))
	w.txn.Reset()
	open()
}

func (w *worker) flush(database int) error {
	w.txn.Flush(database)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model[database] = map[string]placeValue{}
	return nil
}

func (w *worker) swap() error {
	a, b := w.random.IntN(w.store.Databases()), w.random.IntN(w.store.Databases())
	w.txn.Swap(a, b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.model[a], w.model[b] = w.model[b], w.model[a]
	return nil
}

// place is a key and its twin, which always hold the same.
type place struct {
	database int
	name     string
}

func (p place) key() []byte  { return []byte("key" + p.name) }
func (p place) twin() []byte { return []byte("twin" + p.name) }

// some runs a transaction of a few commands.
func (w *worker) some() {
	places := make([]place, 1+w.random.IntN(3))
	for i := range places {
		places[i] = place{w.random.IntN(w.store.Databases()), strconv.Itoa(w.random.IntN(w.keys))}
	}
	for !w.gate.TryEnter(int(w.owner) - 1) {
		opened := make(chan struct{})
		w.gate.WhenOpen(func() { close(opened) })
		<-opened
	}
	w.lock(places)
	changed := map[place]*placeValue{} // nil: gone
	for _, p := range places {
		w.fail(w.command(p, places[0], changed))
	}
	abort := w.random.IntN(8) == 0
	if !abort {
		w.txn.Effect(places[0].database, []byte("WHATEVER"))
		w.fail(w.store.Commit(w.txn))
		w.mu.Lock()
		for p, v := range changed {
			if v == nil {
				delete(w.model[p.database], p.name)
			} else {
				w.model[p.database][p.name] = *v
			}
		}
		w.mu.Unlock()
	}
	w.txn.Reset()
	w.unlock()
	w.gate.Leave(int(w.owner) - 1)
}

func (w *worker) lock(places []place) {
	var stripes []uint32
	for _, p := range places {
		stripes = append(stripes, w.store.Stripe(p.database, p.key()), w.store.Stripe(p.database, p.twin()))
	}
	slices.Sort(stripes)
	for _, stripe := range slices.Compact(stripes) {
		if w.locks.TryExclusive(stripe, w.owner) == lock.Busy {
			granted := make(chan struct{})
			w.locks.Wait(stripe, w.owner, func(uint32) { close(granted) })
			<-granted
		}
		w.held = append(w.held, stripe)
	}
}

func (w *worker) unlock() {
	for _, stripe := range w.held {
		w.locks.ReleaseExclusive(stripe, w.owner)
	}
	w.held = w.held[:0]
}

// now is what a place holds for the running transaction.
func (w *worker) now(p place, changed map[place]*placeValue) (placeValue, bool) {
	if v, known := changed[p]; known {
		if v == nil {
			return placeValue{}, false
		}
		return *v, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	v, found := w.model[p.database][p.name]
	return v, found
}

// command changes or checks a place; other is locked too.
func (w *worker) command(p, other place, changed map[place]*placeValue) error {
	db := w.txn.DB(p.database)
	want, found := w.now(p, changed)
	if err := w.check(db, p, want, found); err != nil {
		return err
	}
	savepoint := begin(w.txn, Mode{Writing: true}, 1, 0)
	next, err := w.change(db, p, other, want, found, changed)
	if err != nil {
		return err
	}
	if w.random.IntN(6) == 0 {
		w.txn.Rollback(savepoint)
		return w.check(db, p, want, found)
	}
	for q, v := range next {
		changed[q] = v
	}
	return nil
}

// change returns what it changed.
func (w *worker) change(db DB, p, other place, want placeValue, found bool, changed map[place]*placeValue) (map[place]*placeValue, error) {
	switch n := w.random.IntN(10); {
	case n < 3: // a string
		next := placeValue{text: strings.Repeat(strconv.Itoa(w.random.IntN(1000)), w.random.IntN(40)), expire: w.random.IntN(3) == 0}
		if w.random.IntN(30) == 0 {
			next.text = strings.Repeat("large", 5000)
		}
		return map[place]*placeValue{p: &next}, w.both(p, func(key []byte) error { return w.set(db, key, next) })
	case n < 5: // gone
		return map[place]*placeValue{p: nil}, w.both(p, func(key []byte) error { _, err := db.Delete(key); return err })
	case n < 7 && want.list && w.random.IntN(2) == 0: // a shorter list
		_, rest, more := strings.Cut(want.text, ",")
		var next *placeValue
		if more {
			next = &placeValue{text: rest, list: true, expire: want.expire}
		}
		return map[place]*placeValue{p: next}, w.both(p, func(key []byte) error {
			list, err := db.List(key)
			if err == nil {
				if err = list.Pop(true, 1, func([]byte) {}); err == nil {
					err = list.Save(keyevent.Changed)
				}
			}
			return err
		})
	case n < 8 && (want.list || !found): // a longer list
		element := strconv.Itoa(w.random.IntN(1000))
		next := want
		next.list, next.text = true, strings.TrimPrefix(want.text+","+element, ",")
		return map[place]*placeValue{p: &next}, w.both(p, func(key []byte) error {
			list, err := db.List(key)
			if err == nil {
				if err = list.Push(false, [][]byte{[]byte(element)}); err == nil {
					err = list.Save(keyevent.Changed)
				}
			}
			return err
		})
	case n < 9 && found && p.database == other.database && p != other: // another name
		err := errors.Join(w.move(db, p.key(), other.key()), w.move(db, p.twin(), other.twin()))
		return map[place]*placeValue{p: nil, other: &want}, err
	case found && p.database != other.database: // a copy in another database
		target := w.txn.DB(other.database)
		err := errors.Join(w.copy(db, target, p.key(), other.key()), w.copy(db, target, p.twin(), other.twin()))
		return map[place]*placeValue{other: &want}, err
	}
	return nil, nil
}

func (w *worker) both(p place, f func(key []byte) error) error {
	return errors.Join(f(p.key()), f(p.twin()))
}

func (w *worker) set(db DB, key []byte, next placeValue) error {
	k, err := db.Lookup(key)
	if err != nil {
		return err
	}
	m := layout.Metadata{Type: layout.String, Encoding: layout.Plain, Value: []byte(next.text)}
	if next.expire {
		m.ExpireMs = 1 << 50
	}
	return db.Save(key, k, m)
}

func (w *worker) move(db DB, key, to []byte) error {
	k, err := db.Lookup(key)
	if err != nil {
		return err
	}
	return db.Move(key, k, to)
}

func (w *worker) copy(db, target DB, key, to []byte) error {
	k, err := db.Lookup(key)
	if err != nil {
		return err
	}
	old, err := target.Lookup(to)
	if err != nil {
		return err
	}
	return db.CopyTo(k, target, to, old)
}

func (w *worker) check(db DB, p place, want placeValue, found bool) error {
	return w.both(p, func(key []byte) error {
		got, there, err := read(db, key)
		if err == nil && (there != found || got != want) {
			err = fmt.Errorf("database %d, %s: %+v, %v; want %+v, %v", p.database, key, got, there, want, found)
		}
		return err
	})
}

// read returns what a key holds.
func read(db DB, key []byte) (v placeValue, found bool, err error) {
	k, err := db.Lookup(key)
	if err != nil || !k.Exists {
		return v, false, err
	}
	v.expire = k.ExpireMs != 0
	if k.Type == layout.String {
		v.text = string(k.Value)
		return v, true, nil
	}
	v.list = true
	list, err := db.List(key)
	if err != nil {
		return v, true, err
	}
	err = list.Range(0, list.Len(), false, func(_ int, element []byte) bool {
		v.text = strings.TrimPrefix(v.text+","+string(element), ",")
		return true
	})
	return v, true, err
}

// pinned looks at all keys as they are at one moment, while the others go on: each has its twin, and
// there are as many as the counters say.
func (w *worker) pinned() {
	view := w.store.View()
	defer view.Release()
	txn := w.store.NewTxn()
	txn.ReadFrom(view)
	txn.Begin(Mode{}, 1, 0)
	for database := range w.store.Databases() {
		db := txn.DB(database)
		keys, expires, err := walkAll(db)
		w.fail(err)
		count, expiring := view.Size(database)
		if int64(len(keys)) != count || expires != expiring {
			w.fail(fmt.Errorf("database %d has %d keys, %d of which expire; the counters say %d and %d", database, len(keys), expires, count, expiring))
		}
		for key, v := range keys {
			if twin, found := keys["twin"+strings.TrimPrefix(key, "key")]; strings.HasPrefix(key, "key") && (!found || twin != v) {
				w.fail(fmt.Errorf("database %d, %s is %+v, its twin %+v, %v", database, key, v, twin, found))
			}
		}
		runtime.Gosched()
	}
}

func walkAll(db DB) (all map[string]placeValue, expires int64, err error) {
	all = map[string]placeValue{}
	err = db.Keys(nil, func(key []byte, m *layout.Metadata) bool {
		all[string(key)] = placeValue{}
		if m.ExpireMs != 0 {
			expires++
		}
		return true
	})
	for key := range all {
		v, found, failed := read(db, []byte(key))
		if !found {
			failed = errors.Join(failed, fmt.Errorf("%s was walked over and is not there", key))
		}
		err = errors.Join(err, failed)
		all[key] = v
	}
	return all, expires, err
}

// compare compares everything with the model, when nothing else is under way.
func (c *concurrent) compare(s *Store) {
	for database := range s.Databases() {
		txn := s.NewTxn()
		txn.Begin(Mode{}, 1, 0)
		all, expires, err := walkAll(txn.DB(database))
		if err != nil {
			c.t.Fatal(err)
		}
		keys, expiring := s.Size(database)
		if len(all) != 2*len(c.model[database]) || keys != int64(len(all)) || expires != expiring {
			c.t.Errorf("database %d: %d keys, %d expire; counted %d, %d; want %d", database, len(all), expires, keys, expiring, 2*len(c.model[database]))
		}
		for name, want := range c.model[database] {
			if all["key"+name] != want || all["twin"+name] != want {
				c.t.Errorf("database %d, %s: %+v and %+v, want %+v", database, name, all["key"+name], all["twin"+name], want)
			}
		}
	}
}
