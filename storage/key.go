package storage

import (
	"bytes"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/touches"
)

// Key is what Lookup found of a key: its metadata, or that it doesn't exist. Value of the metadata
// is read only and valid until the transaction is reset.
type Key struct {
	layout.Metadata
	Exists bool
}

var delEffect = []byte("DEL")

// Lookup reads a key's metadata. One that has expired is not there; a writing command removes it.
func (d DB) Lookup(key []byte) (k Key, err error) {
	err = d.LookupInto(key, &k)
	return k, err
}

// LookupInto is Lookup into an empty Key: all commands do it, and a Key takes a while to be copied.
func (d DB) LookupInto(key []byte, k *Key) error {
	if err := d.lookupAny(key, k); err != nil {
		return err
	}
	there := k.Exists && !d.expired(&k.Metadata)
	if d.counts() {
		d.txn.CountLookup(there)
	}
	if there {
		if d.txn.Mode().Touches == engine.TouchesAll {
			d.txn.touches.Touch(d.hash(key), d.txn.Now())
		}
		return nil
	}
	if k.Exists {
		*k = Key{}
		if d.txn.Mode().Writing && !d.txn.Mode().Replica {
			if _, err := d.RemoveExpired(key); err != nil {
				return err
			}
		}
	}
	if d.miss == missed || d.miss == missedByReads && !d.txn.Mode().Writing {
		d.Notify(keyevent.KeyMiss, key)
	}
	return nil
}

// LookupType is Lookup for a command on one type: ErrWrongType when the key has another.
func (d DB) LookupType(key []byte, t layout.Type) (k Key, err error) {
	err = d.LookupTypeInto(key, t, &k)
	return k, err
}

// LookupTypeInto is LookupType into an empty Key, which stays empty when the key has another type.
func (d DB) LookupTypeInto(key []byte, t layout.Type, k *Key) error {
	err := d.LookupInto(key, k)
	if err == nil && k.Exists && k.Type != t {
		*k = Key{}
		return ErrWrongType
	}
	return err
}

// expired reports whether a key has, as the running command sees it.
func (d DB) expired(m *layout.Metadata) bool {
	return m.ExpireMs != 0 && !d.txn.Mode().Applying && m.ExpireMs <= d.txn.Now()
}

// LookupAny reads a key's metadata, whether it has expired or not.
func (d DB) LookupAny(key []byte) (k Key, err error) {
	err = d.lookupAny(key, &k)
	return k, err
}

func (d DB) lookupAny(key []byte, k *Key) error {
	value, found, err := d.txn.Get(d.space, d.metadataKey(key))
	if err != nil || !found {
		return err
	}
	if err := k.Decode(value); err != nil {
		*k = Key{}
		return err
	}
	k.Exists = true
	return nil
}

// Save writes a key's new metadata. old is what Lookup found; Save keeps the index of expiries and
// the number of keys in step with the difference. It is to be called for every change of a key,
// also when only its elements have changed, since it tells those who watch the key. Elements of a
// spread collection that old had and next has not are left to the reaper.
func (d DB) Save(key []byte, old Key, next layout.Metadata) error { return d.save(key, &old, &next) }

// save is Save without copies of what it is told.
func (d DB) save(key []byte, old *Key, next *layout.Metadata) error {
	return d.saveAs(keyevent.Changed, key, old, next)
}

// saveAs is save with the name of the change.
func (d DB) saveAs(change keyevent.Name, key []byte, old *Key, next *layout.Metadata) error {
	t := d.txn
	t.KeyEvents().Add(d.number, key, change, next.Type)
	if !old.Exists {
		d.Notify(keyevent.New, key)
		if t.Mode().Touches != engine.TouchesNothing {
			d.SetUse(key, touches.Use{Last: t.Now() / 1000, Frequency: touches.NewFrequency})
		}
	}
	if old.Exists && old.Encoding == layout.Spread && (next.Encoding != layout.Spread || next.ID != old.ID) {
		if err := d.abandon(&old.Metadata); err != nil {
			return err
		}
	}
	if err := d.reindex(key, old, next); err != nil {
		return err
	}
	if err := d.moveDue(key, dueOf(&old.Metadata), dueOf(next)); err != nil {
		return err
	}
	if !old.Exists {
		t.Count(d.space, 1, 0)
	} else if unchanged(&old.Metadata, next) {
		return nil
	}
	d.noteExtent(&old.Metadata, next)
	return d.putMetadata(key, next)
}

// putMetadata writes a key's record. A value, which may be long, is copied once, into the journal.
func (d DB) putMetadata(key []byte, m *layout.Metadata) error {
	t := d.txn
	head, value := m.AppendHead(t.scratch.record[:0])
	t.scratch.record = head
	return t.PutParts(d.space, d.metadataKey(key), head, value)
}

// noteExtent notes that a key's new metadata changes the extent of the spread sequence that it had
// before. (Were it called through the type's row, the metadata of all commands would be allocated.)
func (d DB) noteExtent(old, next *layout.Metadata) {
	if next.Type.Sequence() && next.Encoding == layout.Spread && old.Encoding == layout.Spread && next.ID == old.ID &&
		(next.Head != old.Head || next.Tail != old.Tail || next.Blocks != old.Blocks) {
		d.txn.MoveExtent(d.space, next.ID, extentOf(old), extentOf(next))
	}
}

// extentOf is where the elements of a spread list stand.
func extentOf(m *layout.Metadata) engine.Extent {
	b := &m.Blocks
	return engine.Extent{All: engine.Bounds{Head: m.Head, Tail: m.Tail}, Blocks: engine.Bounds{Head: b.First, Tail: b.Beyond}, Shift: b.Shift}
}

// singleOf is where the elements of a spread list stand that are in no block.
func singleOf(m *layout.Metadata) [2]engine.Bounds {
	extent := extentOf(m)
	return extent.Single()
}

// unchanged reports whether a spread collection's record needn't be written again. (A packed one
// has changed whenever it is saved.)
func unchanged(old, next *layout.Metadata) bool {
	return old.Encoding == layout.Spread && next.Encoding == layout.Spread && old.ID == next.ID &&
		old.Count == next.Count && old.Expiring == next.Expiring && old.DueMs == next.DueMs && old.Head == next.Head && old.Tail == next.Tail && old.Blocks == next.Blocks &&
		old.ExpireMs == next.ExpireMs && old.IndexedMs == next.IndexedMs && old.Type == next.Type && bytes.Equal(old.Value, next.Value)
}

// reindex keeps the index of expiries in step with a key's new metadata. A key that expires later
// than before stays where it is: RemoveExpired moves it when that time has come.
func (d DB) reindex(key []byte, old *Key, next *layout.Metadata) error {
	was := int64(0)
	if old.Exists {
		was = old.IndexMs()
	}
	next.IndexedMs = 0
	switch same := was == 0 || old.Type == next.Type; {
	case was == next.ExpireMs && same:
		return nil
	case was < next.ExpireMs && same && was > d.txn.Now():
		next.IndexedMs = was
		return nil
	}
	return d.moveExpiry(key, was, next.ExpireMs, next.Type)
}

// moveExpiry moves a key in the index of expiries; 0 is out of it.
func (d DB) moveExpiry(key []byte, was, expireMs int64, kind layout.Type) error {
	t := d.txn
	if was != 0 {
		t.Count(d.space, 0, -1)
		t.scratch.key = layout.AppendExpiryKey(t.scratch.key[:0], was, key)
		if err := t.Delete(d.space, t.scratch.key); err != nil {
			return err
		}
	}
	if expireMs != 0 {
		t.CountExpiring(d.space, expireMs)
		t.scratch.key = layout.AppendExpiryKey(t.scratch.key[:0], expireMs, key)
		return t.Put(d.space, t.scratch.key, []byte{byte(kind)})
	}
	return nil
}

// Remove deletes a key that exists: one small write, however many elements it has.
func (d DB) Remove(key []byte, k Key) error {
	d.txn.KeyEvents().Add(d.number, key, keyevent.Removed, k.Type)
	return d.remove(key, &k)
}

func (d DB) remove(key []byte, k *Key) error {
	t := d.txn
	t.Count(d.space, -1, 0)
	if k.ExpireMs != 0 {
		if err := d.moveExpiry(key, k.IndexMs(), 0, k.Type); err != nil {
			return err
		}
	}
	if err := d.moveDue(key, dueOf(&k.Metadata), 0); err != nil {
		return err
	}
	if k.Encoding == layout.Spread {
		if err := d.abandon(&k.Metadata); err != nil {
			return err
		}
	}
	return t.Delete(d.space, d.metadataKey(key))
}

// abandon notes that the elements of a spread collection wait for the reaper.
func (d DB) abandon(m *layout.Metadata) error {
	if m.Type.Sequence() {
		d.txn.LeaveExtent(d.space, m.ID, extentOf(m))
	}
	return d.txn.Abandon(d.space, m)
}

// Delete removes a key; false when it did not exist.
func (d DB) Delete(key []byte) (bool, error) {
	k, err := d.Lookup(key)
	if err != nil || !k.Exists {
		return false, err
	}
	d.Notify(keyevent.Del, key)
	return true, d.Remove(key, k)
}

// SetExpiry changes when a key that exists expires (Unix ms); 0 is never.
func (d DB) SetExpiry(key []byte, k *Key, expireMs int64) error {
	next := k.Metadata
	next.ExpireMs = expireMs
	return d.save(key, k, &next)
}

// Move gives a key that exists another name in the same database, where what was there is deleted.
// It is one small write: the elements of a spread collection stay where they are. MoveTo is for
// other databases.
func (d DB) Move(key []byte, k Key, to []byte) error {
	target, err := d.Lookup(to)
	if err != nil {
		return err
	}
	next := k.Metadata
	if err := d.forget(key, k); err != nil {
		return err
	}
	d.NotifyReplaced(to, target)
	return d.Save(to, target, next)
}

// forget deletes a key's record but none of its elements.
func (d DB) forget(key []byte, k Key) error {
	if err := d.moveDue(key, dueOf(&k.Metadata), 0); err != nil {
		return err
	}
	k.Encoding = layout.Plain
	return d.Remove(key, k)
}

// Keys walks the keys of a database in their order, from one on (nil: the first), with their
// metadata; f returns false to stop. Expired keys are left out. The key is valid until the
// transaction is reset, the metadata during the call.
func (d DB) Keys(from []byte, f func(key []byte, m *layout.Metadata) bool) error {
	return d.KeysBetween(from, nil, f)
}

// KeysBetween is Keys for those before an upper bound; nil is none.
func (d DB) KeysBetween(from, before []byte, f func(key []byte, m *layout.Metadata) bool) error {
	lower := layout.AppendMetadataKey(nil, from)
	upper := []byte{layout.KindMetadata + 1}
	if before != nil {
		upper = layout.AppendMetadataKey(nil, before)
	}
	it := d.txn.Iterate(d.space, lower, upper, IteratorOptions{})
	var m layout.Metadata // of one key after another
	for it.Next() {
		m = layout.Metadata{}
		if it.Fail(m.Decode(it.Value())) {
			break
		}
		if !d.expired(&m) && !f(it.Key()[1:], &m) {
			break
		}
	}
	return it.Close()
}

// Expired reports whether a key that LookupAny found has expired.
func (d DB) Expired(k Key) bool { return d.expired(&k.Metadata) }

// Use is how a key that exists was used, as far as that is known: see package touches.
func (d DB) Use(key []byte) touches.Use { return d.txn.touches.Of(d.hash(key), d.txn.Now()) }

// SetUse says how a key was used.
func (d DB) SetUse(key []byte, use touches.Use) { d.txn.touches.Set(d.hash(key), use) }

func (d DB) hash(key []byte) uint64 { return d.txn.KeyHash(d.space, d.metadataKey(key)) }
