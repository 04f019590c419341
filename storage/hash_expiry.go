package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
	"kedis/ttl"
)

// Fields that expire.
//
// A packed hash of which a field expires has a listpack of its own form, Redis's: fields, values
// and times, by time, those that don't expire last. A spread one has two records more for such a
// field: its time by its name, and its name by its time. Its metadata says how many such fields
// there are. An index of the database's hashes, by the time at which their first field expires or
// earlier, is for the sweeper; Save and Remove keep it.
//
// Reads don't see a field that has expired. It is removed by the sweeper, and the log says so with
// an HDEL, since where it is repeated nothing expires by itself; or when it is written to, and the
// log has an HSET, which takes the time away.

// triples visits the elements of a listpack by threes, the third of which is a time. They are valid
// during the call.
func triples(pack listpack.Listpack, fieldScratch, valueScratch *[]byte, visit func(field, value []byte, expireMs int64) bool) {
	for at := pack.First(); at != listpack.None; {
		field, behind := pack.Step(at)
		value, last := pack.Step(behind)
		expiry, next := pack.Step(last)
		if !visit(text(field, fieldScratch), text(value, valueScratch), expiry.Int) {
			return
		}
		at = next
	}
}

// dueOf is where a key stands in the index of hashes whose fields expire; 0 is nowhere.
func dueOf(m *layout.Metadata) int64 {
	switch m.Encoding {
	case layout.Expiring:
		pack := listpack.Listpack(m.Value)
		return pack.At(pack.Seek(2)).Int
	case layout.Spread:
		return m.DueMs
	}
	return 0
}

// FieldsExpire reports whether the key is a hash with fields that may expire.
func (k *Key) FieldsExpire() bool {
	return k.Exists && k.Type == layout.Hash && dueOf(&k.Metadata) != 0
}

// moveDue moves a hash in that index.
func (d DB) moveDue(key []byte, was, now int64) error {
	if was == now {
		return nil
	}
	t := d.txn
	if was != 0 {
		t.scratch.key = layout.AppendHashDueKey(t.scratch.key[:0], was, key)
		if err := t.Delete(d.space, t.scratch.key); err != nil {
			return err
		}
	}
	if now == 0 {
		return nil
	}
	d.space.FieldsExpire.Found()
	t.GiveFieldTime(d.space, now)
	t.scratch.key = layout.AppendHashDueKey(t.scratch.key[:0], now, key)
	return t.Put(d.space, t.scratch.key, nil)
}

// due tells whether a field that expires then has expired, as the running command sees it; 0 is
// never.
func (h *Hash) due(expireMs int64) bool { return h.db.fieldDue(expireMs) }

func (d DB) fieldDue(expireMs int64) bool {
	return expireMs != 0 && !d.txn.Mode().Applying && expireMs <= d.txn.Now()
}

// expires tells whether a field of the hash may.
func (h *Hash) expires() bool { return h.width() == 3 || h.next.Expiring > 0 }

// mayBeDue tells whether a field of a spread hash may have expired.
func (h *Hash) mayBeDue() bool { return h.next.Expiring > 0 && h.due(h.next.DueMs) }

// spreadExpiry is when a field of a spread hash expires; 0 is never.
func (h *Hash) spreadExpiry(field []byte) (int64, error) {
	value, found, err := h.db.getElement(layout.KindFieldExpiry, h.next.ID, field)
	if err != nil || !found {
		return 0, err
	}
	return layout.DecodeFieldExpiry(value)
}

// Expiry tells whether there is a field that hasn't expired, and when it does; 0 is never.
func (h *Hash) Expiry(field []byte) (expireMs int64, found bool, err error) {
	if expireMs, found, err = h.expiry(field); h.due(expireMs) {
		return 0, false, err
	}
	return expireMs, found, err
}

// expiry is Expiry of a field that may have expired.
func (h *Hash) expiry(field []byte) (expireMs int64, found bool, err error) {
	if h.packed() {
		at := h.find(field)
		if at != listpack.None && h.width() == 3 {
			expireMs = h.pack.At(h.pack.Next(h.pack.Next(at))).Int
		}
		return expireMs, at != listpack.None, nil
	}
	r := h.elements()
	if _, found, err = r.get(field); err == nil && found && h.next.Expiring > 0 {
		expireMs, err = h.spreadExpiry(field)
	}
	return expireMs, found, err
}

// Expire says when a field that there is expires; was says what Expiry returned for it.
func (h *Hash) Expire(field []byte, was, expireMs int64) error {
	if h.packed() {
		if h.width() == 2 {
			h.widen()
		}
		return h.movePacked(field, expireMs)
	}
	return h.putExpiry(field, was, expireMs)
}

// Persist takes a field's time away, and reports whether it had one. A field that has expired isn't
// touched.
func (h *Hash) Persist(field []byte) (bool, error) {
	expireMs, _, err := h.expiry(field)
	if err != nil || expireMs == 0 || h.due(expireMs) {
		return false, err
	}
	if h.packed() {
		return true, h.movePacked(field, 0)
	}
	return true, h.forgetExpiry(field)
}

// widen gives the fields of a packed hash times, none of which is any.
func (h *Hash) widen() {
	pack := h.pack
	wide := listpack.Empty(len(pack) + 2*pack.Len())
	var fieldScratch, valueScratch []byte
	pairs(pack, &fieldScratch, &valueScratch, func(field, value []byte) bool {
		wide = wide.Append(wide[:0], listpack.Of(field), listpack.Of(value), listpack.OfInt(0))
		return true
	})
	h.pack, h.next.Encoding = wide, layout.Expiring
}

// movePacked gives a field of a packed hash a time, and the place that it has by it.
func (h *Hash) movePacked(field []byte, expireMs int64) error {
	at := h.find(field)
	if at == listpack.None {
		return fmt.Errorf("%w: a hash hasn't the field %q any more", layout.ErrCorrupt, field)
	}
	value := h.pack.At(h.pack.Next(at)).AppendTo(nil)
	h.deletePacked(field)
	before := listpack.None
	for at := h.pack.First(); expireMs != 0 && at != listpack.None; {
		third := h.pack.Next(h.pack.Next(at))
		if other := h.pack.At(third).Int; other == 0 || other >= expireMs {
			before = at
			break
		}
		at = h.pack.Next(third)
	}
	h.edit(func(dst []byte) listpack.Listpack {
		return h.pack.InsertBefore(dst, before, listpack.Of(field), listpack.Of(value), listpack.OfInt(expireMs))
	})
	return nil
}

// putExpiry gives a field of a spread hash a time instead of the one that it had; 0 is none.
func (h *Hash) putExpiry(field []byte, was, expireMs int64) error {
	if was == expireMs {
		return nil
	}
	if was == 0 {
		h.next.Expiring++
	} else if err := h.deleteDue(field, was); err != nil {
		return err
	}
	if h.next.DueMs == 0 || expireMs < h.next.DueMs {
		h.next.DueMs = expireMs
	}
	t := h.db.txn
	if err := h.db.putElement(layout.KindFieldExpiry, h.next.ID, field, layout.AppendFieldExpiry(nil, expireMs)); err != nil {
		return err
	}
	t.scratch.key2 = layout.AppendFieldDueKey(t.scratch.key2[:0], h.next.ID, expireMs, field)
	return t.Put(h.db.space, t.scratch.key2, nil)
}

func (h *Hash) deleteDue(field []byte, was int64) error {
	t := h.db.txn
	t.scratch.key2 = layout.AppendFieldDueKey(t.scratch.key2[:0], h.next.ID, was, field)
	return t.Delete(h.db.space, t.scratch.key2)
}

// forgetExpiry removes the time of a field of a spread hash, if it has one. The hash stays where it
// is in the index of hashes: the sweeper looks for nothing then, and moves it on.
func (h *Hash) forgetExpiry(field []byte) error {
	was, err := h.spreadExpiry(field)
	if err != nil || was == 0 {
		return err
	}
	if h.next.Expiring--; h.next.Expiring == 0 {
		h.next.DueMs = 0
	}
	if err := h.db.deleteElement(layout.KindFieldExpiry, h.next.ID, field); err != nil {
		return err
	}
	return h.deleteDue(field, was)
}

var hdelEffect = []byte("HDEL")

// dropExpired removes a field that is about to be written, if it has expired. The log doesn't say
// so, since an HDEL of the last field deletes the key, and its expiry is lost. See Replaced.
func (h *Hash) dropExpired(field []byte) (bool, error) {
	expireMs, _, err := h.expiry(field)
	if err != nil || !h.due(expireMs) {
		return false, err
	}
	h.replaced = true
	h.db.Notify(keyevent.HExpired, h.key)
	return h.Delete(field)
}

// Replaced tells whether a field was set that had expired. Where the log is repeated it is still
// there, with its value and its time, so what is made of it has to be repeated as HSET.
func (h *Hash) Replaced() bool { return h.replaced }

// scanDue visits the fields of a spread hash that expire by a time, in the order of time.
func (h *Hash) scanDue(until int64, visit func(field []byte, expireMs int64) bool) error {
	lower := layout.AppendElementKey(nil, layout.KindFieldDue, h.next.ID, nil)
	it := h.db.txn.Iterate(h.db.space, lower, layout.AppendFieldDueKey(nil, h.next.ID, until+1, nil), IteratorOptions{KeysOnly: true})
	for it.Next() {
		expireMs, field, err := layout.DecodeFieldDueKey(it.Key())
		if it.Fail(err) || !visit(field, expireMs) {
			break
		}
	}
	return it.Close()
}

// FieldTimes visits the fields that expire of a key that Lookup found, those included that have
// expired, in the order of time. The field is valid during the call.
func (d DB) FieldTimes(k *Key, visit func(field []byte, expireMs int64)) error {
	if !k.FieldsExpire() {
		return nil
	}
	timed := func(field []byte, expireMs int64) bool {
		visit(field, expireMs)
		return true
	}
	if k.Encoding == layout.Spread {
		h := Hash{db: d, next: k.Metadata}
		return h.scanDue(math.MaxInt64-1, timed)
	}
	var field, value []byte
	triples(k.Value, &field, &value, func(field, _ []byte, expireMs int64) bool { return expireMs != 0 && timed(field, expireMs) })
	return nil
}

// expiredFields are the fields of a spread hash that have expired and weren't removed yet.
func (h *Hash) expiredFields() (map[string]struct{}, error) {
	if !h.mayBeDue() {
		return nil, nil
	}
	expired := map[string]struct{}{}
	err := h.scanDue(h.db.txn.Now(), func(field []byte, _ int64) bool {
		expired[string(field)] = struct{}{}
		return true
	})
	return expired, err
}

// Live is the number of fields that have not expired.
func (h *Hash) Live() (live int, err error) {
	live = h.Len()
	if h.width() == 3 {
		triples(h.pack, &h.db.txn.scratch.member, &h.db.txn.scratch.element, func(_, _ []byte, expireMs int64) bool {
			if h.due(expireMs) {
				live--
			}
			return expireMs != 0
		})
		return live, nil
	}
	if !h.packed() && h.mayBeDue() {
		err = h.scanDue(h.db.txn.Now(), func([]byte, int64) bool { live--; return true })
	}
	return live, err
}

// each visits all fields, those included that have expired, and when they expire; 0 is never.
func (h *Hash) each(visit func(field, value []byte, expireMs int64) error) error {
	if h.packed() {
		return h.eachPacked(visit)
	}
	times := h.db.iterateElements(layout.KindFieldExpiry, h.next.ID, nil, IteratorOptions{})
	left := h.next.Expiring > 0 && times.Next()
	m := &h.next
	err := h.db.scanAll(m, m.Type.Elements()[0], false, func(field, value []byte) error {
		if !left || !bytes.Equal(times.Key()[layout.ElementPrefix:], field) {
			return visit(field, value, 0)
		}
		expireMs, err := layout.DecodeFieldExpiry(times.Value())
		if err == nil {
			err = visit(field, value, expireMs)
		}
		left = times.Next()
		return err
	})
	if err == nil && left {
		err = fmt.Errorf("%w: hash %d has times of fields that it hasn't", layout.ErrCorrupt, h.next.ID)
	}
	return errors.Join(err, times.Close())
}

func (h *Hash) eachPacked(visit func(field, value []byte, expireMs int64) error) (err error) {
	var fieldScratch, valueScratch []byte
	if h.width() == 3 {
		triples(h.pack, &fieldScratch, &valueScratch, func(field, value []byte, expireMs int64) bool {
			err = visit(field, value, expireMs)
			return err == nil
		})
		return err
	}
	pairs(h.pack, &fieldScratch, &valueScratch, func(field, value []byte) bool {
		err = visit(field, value, 0)
		return err == nil
	})
	return err
}

// encodeHash writes a hash in the form that Redis 7.4 gives it when fields expire, or else in that
// which all have: also when it is packed with times, and no field has one any more.
func encodeHash(d DB, m *layout.Metadata, e *rdb.Encoder) error {
	switch {
	case m.Encoding == layout.Expiring && dueOf(m) == 0:
		e.HashListpack(withoutTimes(m.Value))
		return nil
	case m.Encoding == layout.Expiring:
		e.ExpiringHashListpack(dueOf(m), m.Value)
		return nil
	case m.Encoding == layout.Spread && m.Expiring > 0:
		return encodeExpiring(d, m, e)
	}
	return encodeCollection((*rdb.Encoder).HashListpack, (*rdb.Encoder).BeginHash,
		func(e *rdb.Encoder, field, value []byte, _ float64) { e.Field(field, value) })(d, m, e)
}

// withoutTimes packs the fields and values of a listpack that has times, too.
func withoutTimes(pack listpack.Listpack) listpack.Listpack {
	narrow := listpack.Empty(len(pack))
	var fieldScratch, valueScratch []byte
	triples(pack, &fieldScratch, &valueScratch, func(field, value []byte, _ int64) bool {
		narrow = narrow.Append(narrow[:0], listpack.Of(field), listpack.Of(value))
		return true
	})
	return narrow
}

func encodeExpiring(d DB, m *layout.Metadata, e *rdb.Encoder) error {
	h := Hash{db: d, next: *m}
	first := int64(0)
	if err := h.scanDue(math.MaxInt64-1, func(_ []byte, expireMs int64) bool { first = expireMs; return false }); err != nil {
		return err
	}
	e.BeginExpiringHash(first, m.Count)
	err := h.each(func(field, value []byte, expireMs int64) error {
		e.ExpiringField(field, value, expireMs)
		return nil
	})
	if err == nil {
		e.End()
	}
	return err
}

// expires notes when a field of a hash that is being restored expires; 0 is never.
func (r *restoring) expires(expireMs int64) {
	if expireMs == 0 {
		return
	}
	if r.expiring++; r.dueMs == 0 || expireMs < r.dueMs {
		r.dueMs = expireMs
	}
}

// putExpiry writes the two records of a time.
func (r *restoring) putExpiry(e *smallElement) error {
	if err := r.spread.Put(layout.KindFieldExpiry, e.name, layout.AppendFieldExpiry(nil, e.expireMs)); err != nil {
		return err
	}
	key := layout.AppendFieldDueKey(nil, 0, e.expireMs, e.name)
	return r.spread.Put(layout.KindFieldDue, key[layout.ElementPrefix:], nil)
}

// expiringPack packs a hash of which fields expire.
func (r *restoring) expiringPack() []byte {
	late := func(e *smallElement) uint64 { return uint64(e.expireMs) - 1 } // 0 comes last
	slices.SortStableFunc(r.small, func(a, b smallElement) int { return cmp.Compare(late(&a), late(&b)) })
	pack := listpack.Empty(r.bytes + 24*len(r.small))
	for i := range r.small {
		e := &r.small[i]
		pack = pack.Append(pack[:0], listpack.Of(e.name), listpack.Of(e.value), listpack.OfInt(e.expireMs))
	}
	return pack
}

// fieldsPerStep is how many fields RemoveExpiredFields removes at a time.
const fieldsPerStep = 128

// ExpiredFields is how far the fields of a hash that have expired are removed.
type ExpiredFields struct {
	Removed int
	Left    bool   // others are left to be removed
	behind  []byte // where they begin; what was removed before need not be passed over again
}

// RemoveExpiredFields removes some of a hash's fields that have expired by now, the hash with the
// last one, and says so in the log. It goes on where it has come to.
func (d DB) RemoveExpiredFields(key []byte, x *ExpiredFields) error {
	k, err := d.LookupAny(key)
	if err != nil || !k.Exists || k.Type != layout.Hash || d.expired(&k.Metadata) {
		x.Left = false
		return err
	}
	h := Hash{db: d, key: key, old: k, next: k.Metadata, pack: k.Value}
	due, err := h.takeDue(x)
	if err != nil {
		return err
	}
	if len(due) > 0 {
		d.txn.Effect(d.number, append([][]byte{hdelEffect, key}, due...)...)
	}
	for _, field := range due {
		if _, err := h.Delete(field); err != nil {
			return err
		}
	}
	x.Removed += len(due)
	if !x.Left {
		if err := h.settle(); err != nil {
			return err
		}
		x.Left, x.behind = h.mayBeDue() && !h.packed(), nil // some came behind the place
	}
	switch {
	case len(due) > 0:
		return h.Save(keyevent.HExpired)
	case h.packed() || unchanged(&h.old.Metadata, &h.next):
		return nil
	}
	// Only its place in the index is another one, which is no change that anybody watches for.
	if err := d.moveDue(key, dueOf(&h.old.Metadata), h.next.DueMs); err != nil {
		return err
	}
	return d.putMetadata(key, &h.next)
}

// takeDue returns the first fields that have expired, behind a place, and notes whether there are
// others.
func (h *Hash) takeDue(x *ExpiredFields) (due [][]byte, err error) {
	x.Left = false
	if h.width() == 3 {
		triples(h.pack, &h.db.txn.scratch.member, &h.db.txn.scratch.element, func(field, _ []byte, expireMs int64) bool {
			gone := h.due(expireMs)
			if gone {
				due = append(due, bytes.Clone(field))
			}
			return gone
		})
		return due, nil
	}
	if h.packed() || h.next.Expiring == 0 {
		return nil, nil
	}
	lower := layout.AppendElementKey(nil, layout.KindFieldDue, h.next.ID, x.behind)
	it := h.db.txn.Iterate(h.db.space, lower, layout.AppendFieldDueKey(nil, h.next.ID, h.db.txn.Now()+1, nil), IteratorOptions{KeysOnly: true})
	for it.Next() {
		if x.Left = len(due) == fieldsPerStep; x.Left {
			x.behind = bytes.Clone(it.Key()[layout.ElementPrefix:])
			break
		}
		_, field, err := layout.DecodeFieldDueKey(it.Key())
		if it.Fail(err) {
			break
		}
		due = append(due, bytes.Clone(field))
	}
	return due, it.Close()
}

// settle moves a spread hash to where its first field expires, in the index of hashes.
func (h *Hash) settle() error {
	if h.packed() || h.next.Expiring == 0 {
		return nil
	}
	return h.scanDue(math.MaxInt64-1, func(_ []byte, expireMs int64) bool {
		h.next.DueMs = expireMs
		return false
	})
}

// DueHashes returns up to limit hashes of which fields have expired, as Due does keys.
func (d DB) DueHashes(behind ttl.Due, now int64, limit int) ([]ttl.Due, error) {
	return d.dueIn(engine.TimedFields, layout.KindHashDue, behind, now, limit)
}

// CountDueHashes is how many hashes DueHashes would return.
func (d DB) CountDueHashes(behind ttl.Due, now int64, limit int) (count int, err error) {
	err = d.scanDue(layout.KindHashDue, behind, now, limit, func(int64, []byte) { count++ })
	return count, err
}

// ExpiringHashes tells whether a database may have hashes of which fields expire; space is its
// namespace.
func (s *Store) ExpiringHashes(database int) (space uint32, some bool) {
	ns := s.NamespaceOf(database)
	return ns.Number, !ns.FieldsExpire.No()
}

// SeekExpiringHashes finds out about a database of which nothing is known yet.
func (d DB) SeekExpiringHashes() error {
	fields := &d.space.FieldsExpire
	if fields.Known() {
		return nil
	}
	found, err := d.CountDueHashes(ttl.Due{}, math.MaxInt64-1, 1)
	if err != nil {
		return err
	}
	if found > 0 {
		fields.Found()
	}
	fields.NotFound()
	return nil
}

// FieldsExpire reports whether a view has hashes with fields that expire.
func (s *Store) FieldsExpire(view *View) (bool, error) {
	t := s.NewTxn()
	defer t.Reset()
	for database := range s.Databases() {
		t.ReadFrom(view)
		t.Begin(Mode{Applying: true}, 0, 0)
		n, err := t.DB(database).CountDueHashes(ttl.Due{}, math.MaxInt64-1, 1)
		t.Reset()
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}
