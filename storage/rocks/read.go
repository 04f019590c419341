package rocks

// #include "shim.h"
import "C"

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/linxGnu/grocksdb"

	"kedis/internal/buffer"
)

// Peek reads a key of the default family as the files of the database in a directory have it. It
// locks and changes nothing, so the database may be open, in another process too.
func Peek(directory string, key []byte) (value []byte, found bool, err error) {
	options := grocksdb.NewDefaultOptions()
	defer options.Destroy()
	const few = 16
	options.SetMaxOpenFiles(few) // or all tables would be opened
	db, families, err := grocksdb.OpenDbForReadOnlyColumnFamilies(options, directory, []string{"default"}, []*grocksdb.Options{options}, false)
	if err != nil {
		return nil, false, fmt.Errorf("rocks: reading %s: %w", directory, err)
	}
	defer db.Close()
	defer families[0].Destroy()
	reading := grocksdb.NewDefaultReadOptions()
	defer reading.Destroy()
	slice, err := db.GetCF(reading, families[0], key)
	if err != nil {
		return nil, false, fmt.Errorf("rocks: reading %s: %w", directory, err)
	}
	defer slice.Free()
	return bytes.Clone(slice.Data()), slice.Exists(), nil
}

// Snapshot is the database as it was at one moment, in all families.
type Snapshot struct {
	db *DB
	c  *C.rocks_snapshot
}

// Snapshot pins the database as it is now. Release must follow; until then, nothing that it sees is
// given back to the disk. The database must be open.
func (d *DB) Snapshot() *Snapshot {
	if d.closed.Load() {
		panic("rocks: snapshot of a closed database")
	}
	d.inUse.Add(1)
	return &Snapshot{db: d, c: C.rocks_snapshot_create(d.c)}
}

// Sequence returns RocksDB's number of the last write that the snapshot sees.
func (s *Snapshot) Sequence() uint64 { return uint64(C.rocks_snapshot_sequence(s.c)) }

// Release gives the snapshot up. Iterators that were opened on it go on.
func (s *Snapshot) Release() {
	if s.c == nil {
		panic("rocks: snapshot released twice")
	}
	C.rocks_snapshot_release(s.db.c, s.c)
	s.c = nil
	s.db.inUse.Add(-1)
}

// of returns the C side of s for a call on d: nil, which reads what is newest, when there is no
// snapshot.
func (s *Snapshot) of(d *DB) *C.rocks_snapshot {
	if s == nil {
		return nil
	}
	if s.c == nil || s.db != d {
		panic("rocks: read through a released or foreign snapshot")
	}
	return s.c
}

// Get appends the value of key to dst. Without a snapshot it reads what is newest. It crosses into
// C once when the value fits behind dst, or is small and dst is full; twice otherwise.
func (d *DB) Get(f *Family, s *Snapshot, key, dst []byte) (value []byte, found bool, err error) {
	return d.get(f, s.of(d), 0, key, dst)
}

// GetPersisted returns the value that a crash at this moment would leave: what has been flushed to
// table files.
func (d *DB) GetPersisted(f *Family, key []byte) (value []byte, found bool, err error) {
	return d.get(f, nil, 1, key, nil)
}

func (d *DB) get(f *Family, s *C.rocks_snapshot, persisted C.uint8_t, key, dst []byte) ([]byte, bool, error) {
	family, err := f.in(d)
	if err != nil {
		return dst, false, err
	}
	room := dst[len(dst):cap(dst)]
	var stack [512]byte
	if len(room) == 0 { // most values are small: fetched here, they need no second crossing
		room = stack[:]
	}
	r := C.rocks_get(d.c, family, s, persisted, first(key), C.size_t(len(key)), first(room), C.size_t(len(room)))
	if r.status.code != 0 {
		return dst, false, fromStatus("get", r.status)
	}
	if r.rest == nil && cap(dst) == len(dst) {
		return append(dst, room[:r.length]...), r.found != 0, nil
	}
	return extend(dst, r), r.found != 0, nil
}

// extend makes the bytes that C wrote behind dst, or holds for it, part of dst.
func extend(dst []byte, r C.rocks_value) []byte {
	n := int(r.length)
	if r.rest != nil {
		dst = buffer.Grow(dst, n)
		C.rocks_rest_take(r.rest, first(dst[len(dst):cap(dst)]))
	}
	return dst[:len(dst)+n]
}

// CachedValues are the results of GetCached, which reuses their memory: some bytes for each key,
// and cachedBytes for all values.
type CachedValues struct {
	keys    []byte
	lengths []int64 // of each value; absent, unread or tooLarge where there is none
	offsets []int
	values  []byte
}

// What stands in place of a length.
const (
	absent   = -1
	unread   = -2
	tooLarge = -3
)

// cachedBytes is what the values of one GetCached may have together; a larger one is left out.
const cachedBytes = 64 << 10

// Len returns the number of keys that were asked for.
func (v *CachedValues) Len() int { return len(v.lengths) }

// At returns the value of the i-th key and whether it was found. It is valid until the next
// GetCached into v. What isn't Known isn't found.
func (v *CachedValues) At(i int) (value []byte, found bool) {
	if v.lengths[i] < 0 {
		return nil, false
	}
	end := v.offsets[i] + int(v.lengths[i])
	return v.values[v.offsets[i]:end:end], true
}

// Known reports whether the i-th key was read: that it has a value, or none.
func (v *CachedValues) Known(i int) bool { return v.lengths[i] >= absent }

// Unread reports whether a file would have to be read for the i-th key.
func (v *CachedValues) Unread(i int) bool { return v.lengths[i] == unread }

// GetCached reads many keys of a family into v, in one crossing, as far as RocksDB has them in
// memory: no file is read. On an error, v holds nothing.
func (d *DB) GetCached(f *Family, keys [][]byte, v *CachedValues) error {
	v.keys, v.lengths, v.offsets = v.keys[:0], v.lengths[:0], v.offsets[:0]
	family, err := f.in(d)
	if err != nil || len(keys) == 0 {
		return err
	}
	for _, key := range keys {
		v.keys = append(v.keys, key...)
		v.lengths = append(v.lengths, int64(len(key)))
	}
	if v.values == nil {
		v.values = make([]byte, cachedBytes)
	}
	status := C.rocks_get_cached(d.c, family, first(v.keys), (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(v.lengths))),
		C.size_t(len(keys)), first(v.values), C.size_t(len(v.values)))
	if status.code != 0 {
		v.lengths = v.lengths[:0]
		return fromStatus(fmt.Sprintf("get %d keys", len(keys)), status)
	}
	v.index()
	return nil
}

// index notes where each value begins.
func (v *CachedValues) index() {
	at := 0
	for _, length := range v.lengths {
		v.offsets = append(v.offsets, at)
		at += int(max(length, 0))
	}
}

func cBool(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}
