package storage

import (
	"errors"
	"math"
	"math/rand/v2"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage/digest"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// What the fields of hashes refuse.
var (
	ErrFieldNotInteger = errors.New("storage: the field's value is not an integer")
	ErrFieldNotFloat   = errors.New("storage: the field's value is not a number")
)

// maxListpackBytes is the size beyond which Redis keeps nothing in a listpack, whatever the limits
// are.
const maxListpackBytes = 1 << 30

// emptyListpack is where packed collections begin. It is never written to.
var emptyListpack = listpack.Empty(0)

// hashType is the row of hashes.
var hashType = DataType{Name: "hash", RDB: rdb.Hash, Digest: digest.Hash, encoding: named("hashtable"),
	encode:  encodeHash,
	restore: restoreHash,
	digest: func(v *digest.Value, d DB, key []byte, _ *layout.Metadata) error {
		h, err := d.Hash(key)
		if err != nil {
			return err
		}
		return h.each(func(field, value []byte, expireMs int64) error {
			if expireMs != 0 {
				v.ExpiringField(field, value)
			} else {
				v.Field(field, value)
			}
			return nil
		})
	},
	elements: visitValues,
	pieces: Pieces{command: "HSET", words: appendFieldWords, parse: parseFieldWords,
		begin: beginWhole((*rdb.Encoder).BeginHash, func(e *rdb.Encoder, field *rdb.Element) { e.Field(field.Bytes, field.Value) })},
	packedPairs: true,
}

func restoreHash(r *restoring) (layout.Metadata, error) {
	limits := r.db.limits()
	r.entries, r.longest = limits.HashEntries(), limits.HashValue()
	r.put = func(e *smallElement) error {
		if err := r.spread.Put(layout.KindHashField, e.name, e.value); err != nil || e.expireMs == 0 {
			return err
		}
		return r.putExpiry(e)
	}
	r.second = func(e *smallElement) listpack.Element { return listpack.Of(e.value) }
	return r.collection()
}

// Hash is a hash as a transaction sees it. Its methods change it in the transaction; Save writes
// down that they did.
//
// A small one is a listpack of fields and values in its key's record, in the order in which the
// fields came. Once one of its fields expires, it is a listpack of fields, values and times, by
// time: see hash_expiry.go. A larger one has a record for each field, by field. It never becomes
// packed again.
type Hash struct {
	db    DB
	key   []byte
	old   Key
	next  layout.Metadata
	pack  listpack.Listpack // when it is packed
	fresh bool              // it became spread since it was opened

	replaced bool // see Replaced
}

// Hash opens the hash of a key, which may not exist: the hash is empty then.
func (d DB) Hash(key []byte) (h Hash, err error) {
	if err = d.LookupTypeInto(key, layout.Hash, &h.old); err != nil {
		return h, err
	}
	h.db, h.key, h.next, h.pack = d, key, h.old.Metadata, h.old.Value
	if !h.old.Exists {
		h.next.Type, h.next.Encoding = layout.Hash, layout.Listpack
		h.pack = emptyListpack
	}
	return h, nil
}

// Exists reports whether the key was there when the hash was opened.
func (h *Hash) Exists() bool { return h.old.Exists }

// Len is the number of fields, those included that have expired and were not removed yet.
func (h *Hash) Len() int {
	if h.packed() {
		return h.pack.Len() / h.width()
	}
	return int(h.next.Count)
}

func (h *Hash) packed() bool { return h.next.Encoding != layout.Spread }

// width is how many entries of the listpack a field has.
func (h *Hash) width() int {
	if h.next.Encoding == layout.Expiring {
		return 3
	}
	return 2
}

func (h *Hash) elements() spreadElements {
	return spreadElements{h.db, layout.KindHashField, h.next.ID, h.fresh}
}

// Save writes the hash down: its record, or that the key is gone with the last field. names are the
// events that it is.
func (h *Hash) Save(names ...keyevent.Name) error {
	empty := h.Len() == 0
	var err error
	switch {
	case !empty:
		h.next.Value = h.pack
		err = h.db.save(h.key, &h.old, &h.next)
	case h.old.Exists:
		err = h.db.Remove(h.key, h.old)
	}
	if empty && !h.old.Exists {
		names = append(names, keyevent.Del) // all fields were set, and had expired
	}
	last := len(names) - 1
	for _, name := range names[:last] {
		h.db.Notify(name, h.key)
	}
	h.db.notifySaved(names[last], h.key, empty && h.old.Exists, h.old.Exists)
	return err
}

// find is where a field stands in the listpack.
func (h *Hash) find(field []byte) int { return h.pack.Find(h.pack.First(), field, h.width()-1) }

// Get returns the value of a field that hasn't expired. It is valid until the next one is read.
func (h *Hash) Get(field []byte) (value []byte, found bool, err error) {
	if !h.packed() {
		if h.mayBeDue() {
			if expireMs, err := h.spreadExpiry(field); err != nil || h.due(expireMs) {
				return nil, false, err
			}
		}
		r := h.elements()
		return r.get(field)
	}
	at := h.find(field)
	if at == listpack.None {
		return nil, false, nil
	}
	at = h.pack.Next(at)
	if h.width() == 3 && h.due(h.pack.At(h.pack.Next(at)).Int) {
		return nil, false, nil
	}
	return text(h.pack.At(at), &h.db.txn.scratch.element), true, nil
}

// Expect says that so many fields are about to be set. As in Redis, a hash that would be too large
// with them is spread at once, though some of them may be the same.
func (h *Hash) Expect(fields int) error {
	if !h.packed() || int64(fields) <= h.db.limits().HashEntries() {
		return nil
	}
	return h.spread()
}

// Set gives a field a value, and reports whether the field is new. It doesn't expire any more.
func (h *Hash) Set(field, value []byte) (added bool, err error) { return h.set(field, value, false) }

// SetKeeping is Set for a field that goes on to expire when it did.
func (h *Hash) SetKeeping(field, value []byte) (added bool, err error) {
	return h.set(field, value, true)
}

func (h *Hash) set(field, value []byte, keep bool) (added bool, err error) {
	gone := false
	if h.expires() {
		if gone, err = h.dropExpired(field); err != nil {
			return false, err
		}
		if !keep {
			if _, err = h.Persist(field); err != nil {
				return false, err
			}
		}
	}
	if h.packed() && h.tooLong(field, value) {
		if err := h.spread(); err != nil {
			return false, err
		}
	}
	if !h.packed() {
		added, err = h.setRecord(field, value)
		return added || gone, err
	}
	added = h.setPacked(field, value)
	if int64(h.Len()) > h.db.limits().HashEntries() {
		err = h.spread()
	}
	return added || gone, err
}

func (h *Hash) tooLong(field, value []byte) bool {
	limit := h.db.limits().HashValue()
	return int64(len(field)) > limit || int64(len(value)) > limit ||
		len(h.pack)+len(field)+len(value) > maxListpackBytes
}

func (h *Hash) setPacked(field, value []byte) (added bool) {
	at := h.find(field)
	if at == listpack.None {
		h.edit(func(dst []byte) listpack.Listpack {
			if h.width() == 3 {
				return h.pack.Append(dst, listpack.Of(field), listpack.Of(value), listpack.OfInt(0))
			}
			return h.pack.Append(dst, listpack.Of(field), listpack.Of(value))
		})
		return true
	}
	at = h.pack.Next(at)
	h.edit(func(dst []byte) listpack.Listpack { return h.pack.Replace(dst, at, listpack.Of(value)) })
	return false
}

func (h *Hash) edit(change func(dst []byte) listpack.Listpack) { h.pack = h.db.txn.edit(change) }

func (h *Hash) setRecord(field, value []byte) (added bool, err error) {
	r := h.elements()
	_, found, err := r.get(field)
	if err != nil {
		return false, err
	}
	if found {
		return false, r.replace(field, value)
	}
	h.next.Count++
	return true, r.put(field, value)
}

// spread gives each field its record, and those of its time.
func (h *Hash) spread() error {
	pack, count, width := h.pack, h.Len(), h.width()
	h.next.Encoding, h.next.ID, h.next.Count, h.next.Value = layout.Spread, h.db.txn.NewID(), uint64(count), nil
	h.pack, h.fresh = nil, true
	r := h.elements()
	var err error
	var fieldScratch, valueScratch []byte // what made this necessary may stand in the transaction's
	if width == 2 {
		pairs(pack, &fieldScratch, &valueScratch, func(field, value []byte) bool {
			err = r.put(field, value)
			return err == nil
		})
		return err
	}
	triples(pack, &fieldScratch, &valueScratch, func(field, value []byte, expireMs int64) bool {
		if err = r.put(field, value); err == nil && expireMs != 0 {
			err = h.putExpiry(field, 0, expireMs)
		}
		return err == nil
	})
	return err
}

// Delete takes a field out, and reports whether it was there, expired or not.
func (h *Hash) Delete(field []byte) (bool, error) {
	if h.packed() {
		return h.deletePacked(field), nil
	}
	r := h.elements()
	_, found, err := r.get(field)
	if err != nil || !found {
		return false, err
	}
	if h.next.Expiring > 0 {
		if err := h.forgetExpiry(field); err != nil {
			return false, err
		}
	}
	h.next.Count--
	return true, r.delete(field)
}

func (h *Hash) deletePacked(field []byte) bool {
	at := h.find(field)
	if at == listpack.None {
		return false
	}
	h.edit(func(dst []byte) listpack.Listpack {
		rest, _ := h.pack.Delete(dst, at, h.width())
		return rest
	})
	return true
}

// Increment adds to the integer that a field holds, 0 if the field is missing, and returns the sum.
func (h *Hash) Increment(field []byte, delta int64) (int64, error) {
	value, found, err := h.Get(field)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	if found {
		var ok bool
		if sum, ok = number.ParseInt(value); !ok {
			return 0, ErrFieldNotInteger
		}
	}
	if delta < 0 && sum < math.MinInt64-delta || delta > 0 && sum > math.MaxInt64-delta {
		return 0, ErrOverflow
	}
	sum += delta
	var digits [20]byte
	_, err = h.SetKeeping(field, number.AppendInt(digits[:0], sum))
	return sum, err
}

// IncrementFloat adds to the number that a field holds, 0 if the field is missing, and returns the
// sum as it is stored then.
func (h *Hash) IncrementFloat(field []byte, delta number.LongDouble) ([]byte, error) {
	value, found, err := h.Get(field)
	if err != nil {
		return nil, err
	}
	var sum number.LongDouble
	if found {
		var ok bool
		if sum, ok = number.ParseLongDouble(value); !ok {
			return nil, ErrFieldNotFloat
		}
	}
	sum, finite := sum.Add(delta)
	if !finite {
		return nil, ErrNotFinite
	}
	text := sum.Append(nil)
	_, err = h.SetKeeping(field, text)
	return text, err
}

// All visits all fields that have not expired, with their values unless fieldsOnly. They are valid
// during the call.
func (h *Hash) All(fieldsOnly bool, visit func(field, value []byte) bool) error {
	if h.width() == 3 {
		triples(h.pack, &h.db.txn.scratch.member, &h.db.txn.scratch.element, func(field, value []byte, expireMs int64) bool {
			return h.due(expireMs) || visit(field, value)
		})
		return nil
	}
	if h.packed() {
		pairs(h.pack, &h.db.txn.scratch.member, &h.db.txn.scratch.element, visit)
		return nil
	}
	expired, err := h.expiredFields()
	if err != nil {
		return err
	}
	if len(expired) > 0 {
		all := visit
		visit = func(field, value []byte) bool {
			_, gone := expired[string(field)]
			return gone || all(field, value)
		}
	}
	r := h.elements()
	return r.all(h.next.Count, fieldsOnly, visit)
}

// Random returns one of the fields that have not expired, live of them: see picker for how likely
// each is. It is valid until the next one is read.
func (h *Hash) Random(live int) (picked []byte, err error) {
	switch {
	case live < h.Len() || h.width() == 3:
		n := rand.IntN(live)
		err = h.All(true, func(field, _ []byte) bool {
			picked = field
			n--
			return n >= 0
		})
		return picked, err
	case h.packed():
		return text(h.pack.At(h.pack.Seek(2*rand.IntN(live))), &h.db.txn.scratch.member), nil
	}
	elements := h.elements()
	return elements.random(h.next.Count)
}

// RandomDistinct visits count different ones of the fields that have not expired, live of them, or
// all if there are no more, in no particular order.
func (h *Hash) RandomDistinct(count uint64, live int, fieldsOnly bool, visit func(field, value []byte) bool) error {
	s := h.sampler(live, fieldsOnly)
	return s.distinct(count, visit)
}

// RandomRepeated visits fields that have not expired, of which there are some, count times, each
// time any of them.
func (h *Hash) RandomRepeated(count uint64, live int, fieldsOnly bool, visit func(field, value []byte) bool) error {
	s := h.sampler(live, fieldsOnly)
	return s.repeated(count, visit)
}

func (h *Hash) sampler(live int, fieldsOnly bool) sampler {
	all := func(visit visitPair) error { return h.All(fieldsOnly, visit) }
	s := sampler{txn: h.db.txn, count: uint64(live), all: all}
	if !h.packed() && live == h.Len() {
		elements := h.elements()
		p := pairPicker{picker: elements.picker(h.next.Count)}
		if !fieldsOnly {
			p.get = elements.get
		}
		s.picks = p
	}
	return s
}
