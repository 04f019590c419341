package storage

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kedis/internal/keyevent"
	"kedis/redis-tests/seed"
	"kedis/storage/digest"
	"kedis/storage/layout"
	"kedis/storage/rdb"
	"kedis/ttl"
)

// timedField is a field of the model. One that has expired stays until it is removed.
type timedField struct {
	value    string
	expireMs int64
}

// timedHashes are the hashes of the model, and a clock, which jumps.
type timedHashes struct {
	hashes map[string]map[string]timedField
	now    int64
}

var timedKeys = []string{"one", "two", "three"}

func (m *timedHashes) clone() timedHashes {
	c := timedHashes{map[string]map[string]timedField{}, m.now}
	for key, fields := range m.hashes {
		c.hashes[key] = maps.Clone(fields)
	}
	return c
}

func (m *timedHashes) live(key, field string) (timedField, bool) {
	f, found := m.hashes[key][field]
	return f, found && (f.expireMs == 0 || f.expireMs > m.now)
}

func (m *timedHashes) put(key, field string, f timedField) {
	if m.hashes[key] == nil {
		m.hashes[key] = map[string]timedField{}
	}
	m.hashes[key][field] = f
}

func (m *timedHashes) drop(key, field string) {
	if delete(m.hashes[key], field); len(m.hashes[key]) == 0 {
		delete(m.hashes, key)
	}
}

// step changes a hash and the model.
func (m *timedHashes) step(t *testing.T, db DB, random *rand.Rand) {
	key, field := timedKeys[random.IntN(len(timedKeys))], fmt.Sprintf("f%d", random.IntN(24))
	h, err := db.Hash([]byte(key))
	must(t, err)
	_, was := m.live(key, field)
	switch random.IntN(12) {
	case 0, 1, 2, 3:
		value, keep := strings.Repeat("v", 1+random.IntN(12)), random.IntN(2) == 0
		set, f := h.Set, timedField{value, 0}
		if keep {
			set, f.expireMs = h.SetKeeping, m.hashes[key][field].expireMs
			if !was {
				f.expireMs = 0
			}
		}
		added, err := set([]byte(field), []byte(value))
		must(t, err)
		if added == was {
			t.Fatalf("%s %s: added is %v", key, field, added)
		}
		m.put(key, field, f)
	case 4, 5, 6:
		if !was {
			return
		}
		expireMs := m.now + 1 + random.Int64N(500)
		must(t, h.Expire([]byte(field), m.hashes[key][field].expireMs, expireMs))
		m.put(key, field, timedField{m.hashes[key][field].value, expireMs})
	case 7:
		if !was {
			return
		}
		did, err := h.Persist([]byte(field))
		must(t, err)
		f := m.hashes[key][field]
		if did != (f.expireMs != 0) {
			t.Fatalf("%s %s: persisted is %v", key, field, did)
		}
		m.put(key, field, timedField{f.value, 0})
	case 8:
		_, was := m.hashes[key][field]
		found, err := h.Delete([]byte(field))
		must(t, err)
		if found != was {
			t.Fatalf("%s %s: deleted is %v", key, field, found)
		}
		m.drop(key, field)
	case 9:
		m.moveHash(t, db, key, random)
		return
	default:
		m.sweep(t, db, key)
		return
	}
	must(t, h.Save(keyevent.HSet))
}

// moveHash gives a hash another name, or makes a copy of it, or makes it anew from its payload.
func (m *timedHashes) moveHash(t *testing.T, db DB, key string, random *rand.Rand) {
	to := timedKeys[random.IntN(len(timedKeys))]
	k, err := db.Lookup([]byte(key))
	must(t, err)
	if !k.Exists || key == to {
		return
	}
	old, err := db.Lookup([]byte(to))
	must(t, err)
	switch random.IntN(3) {
	case 0:
		must(t, db.Move([]byte(key), k, []byte(to)))
		m.hashes[to] = m.hashes[key]
		delete(m.hashes, key)
		return
	case 1:
		must(t, db.CopyTo(k, db, []byte(to), old))
	default:
		payload, err := db.Dump(nil, k, rdb.NewPayloadWriter())
		must(t, err)
		value, err := new(rdb.Decoder).Payload(bytes.Clone(payload))
		must(t, err)
		must(t, db.Restore([]byte(to), old, value, 0))
	}
	m.hashes[to] = maps.Clone(m.hashes[key])
}

// sweep removes what has expired, as the sweeper does.
func (m *timedHashes) sweep(t *testing.T, db DB, key string) {
	var x ExpiredFields
	for again := true; again; again = x.Left {
		must(t, db.RemoveExpiredFields([]byte(key), &x))
	}
	expired := 0
	for field, f := range m.hashes[key] {
		if f.expireMs != 0 && f.expireMs <= m.now {
			m.drop(key, field)
			expired++
		}
	}
	if x.Removed != expired {
		t.Fatalf("%d fields of %s were removed, not %d", x.Removed, key, expired)
	}
}

// check holds all hashes against the model.
func (m *timedHashes) check(t *testing.T, db DB) {
	t.Helper()
	for _, key := range timedKeys {
		h, err := db.Hash([]byte(key))
		must(t, err)
		if h.Len() != len(m.hashes[key]) || h.Exists() != (len(m.hashes[key]) > 0) {
			t.Fatalf("%s has %d fields, not %d", key, h.Len(), len(m.hashes[key]))
		}
		want := map[string]string{}
		for field := range m.hashes[key] {
			f, live := m.live(key, field)
			if live {
				want[field] = f.value
			}
			value, found, err := h.Get([]byte(field))
			must(t, err)
			if found != live || live && string(value) != f.value {
				t.Fatalf("%s %s is %q (%v), not %q (%v)", key, field, value, found, f.value, live)
			}
			expireMs, found, err := h.Expiry([]byte(field))
			must(t, err)
			if found != live || live && expireMs != f.expireMs {
				t.Fatalf("%s %s expires at %d (%v), not %d (%v)", key, field, expireMs, found, f.expireMs, live)
			}
		}
		got := map[string]string{}
		must(t, h.All(false, func(field, value []byte) bool { got[string(field)] = string(value); return true }))
		scanned := map[string]string{}
		if k, err := db.Lookup([]byte(key)); err == nil && k.Exists {
			_, err := db.ScanElements(k, ScanStep{Count: 1000}, func(field, value []byte) { scanned[string(field)] = string(value) })
			must(t, err)
		}
		live, err := h.Live()
		must(t, err)
		if !maps.Equal(got, want) || !maps.Equal(scanned, want) || live != len(want) {
			t.Fatalf("%s is %v, scanned %v, %d live; not %v", key, got, scanned, live, want)
		}
		for range min(live, 3) {
			field, err := h.Random(live)
			must(t, err)
			if _, live := m.live(key, string(field)); !live {
				t.Fatalf("%s: picked %q", key, field)
			}
		}
		m.checkDue(t, db, key)
	}
}

// checkDue: a hash stands in the index no later than its first field expires, and only there.
func (m *timedHashes) checkDue(t *testing.T, db DB, key string) {
	t.Helper()
	first := int64(math.MaxInt64)
	for _, f := range m.hashes[key] {
		if f.expireMs != 0 {
			first = min(first, f.expireMs)
		}
	}
	due, err := db.DueHashes(ttl.Due{}, math.MaxInt64-1, 100)
	must(t, err)
	due = slices.DeleteFunc(due, func(d ttl.Due) bool { return string(d.Key) != key })
	if len(due) > 1 || len(due) == 0 && first != math.MaxInt64 || len(due) == 1 && due[0].ExpireMs > first {
		t.Fatalf("%s stands at %v; its first field expires at %d", key, due, first)
	}
}

func (m *timedHashes) jump(random *rand.Rand) {
	m.now += []int64{0, 1, 10, 100, 1000}[random.IntN(5)]
}

// TestFieldsExpire compares hashes with a model whose clock jumps, while some transactions are
// taken back, and the store is closed.
func TestFieldsExpire(t *testing.T) {
	number := seed.Of(t)
	for _, tier := range memories {
		t.Run(tier.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(number, 28))
			options := smallLimits(t.TempDir(), tier.generation, tier.cache)
			s, log := reopen(t, options, &testLog{})
			m := timedHashes{map[string]map[string]timedField{}, 1000}
			for range 250 {
				m.jump(random)
				txn := s.NewTxn()
				savepoint := begin(txn, Mode{Writing: true}, m.now, 0)
				before := m.clone()
				for range 1 + random.IntN(6) {
					m.step(t, txn.DB(0), random)
				}
				m.check(t, txn.DB(0))
				if random.IntN(5) == 0 {
					txn.Rollback(savepoint)
					m = before
					m.check(t, txn.DB(0))
				} else {
					txn.Effect(0, []byte("EFFECT"))
					must(t, s.Commit(txn))
				}
				switch random.IntN(60) {
				case 0:
					must(t, s.Settle())
				case 1:
					must(t, s.Persist())
				case 2:
					must(t, s.Close())
					s, log = reopen(t, options, log)
				}
			}
			must(t, s.Close())
		})
	}
}

// TestNothingExpiresWhereEffectsAreRepeated: an HDEL in the log says when a field goes.
func TestNothingExpiresWhereEffectsAreRepeated(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	txn := s.NewTxn()
	begin(txn, Mode{Writing: true, Applying: true}, 1000, 0)
	h, err := txn.DB(0).Hash([]byte("h"))
	must(t, err)
	_, err = h.Set([]byte("f"), []byte("v"))
	must(t, err)
	must(t, h.Expire([]byte("f"), 0, 500))
	if _, found, err := h.Get([]byte("f")); !found || err != nil {
		t.Errorf("the field is gone (%v)", err)
	}
	must(t, h.Save(keyevent.HSet))
	must(t, s.Commit(txn))
	begin(txn, Mode{}, 1000, 0)
	h, err = txn.DB(0).Hash([]byte("h"))
	must(t, err)
	if _, found, err := h.Get([]byte("f")); found || err != nil {
		t.Errorf("the field is still there (%v)", err)
	}
}

// TestTimesThatAreGone: a packed hash that had times is written as one that never had.
func TestTimesThatAreGone(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	inTxn(t, s, func(d DB) {
		for _, key := range []string{"h", "never"} {
			h, err := d.Hash([]byte(key))
			must(t, err)
			for _, field := range []string{"f", "g", "1"} {
				_, err := h.Set([]byte(field), []byte("17"))
				must(t, err)
			}
			if key == "h" {
				must(t, h.Expire([]byte("1"), 0, 5000))
				_, err = h.Persist([]byte("1"))
				must(t, err)
			}
			must(t, h.Save(keyevent.HSet))
		}
		var payloads [2][]byte
		for i, key := range []string{"h", "never"} {
			k, err := d.Lookup([]byte(key))
			must(t, err)
			payload, err := d.Dump(nil, k, rdb.NewPayloadWriter())
			must(t, err)
			payloads[i] = payload
		}
		if !bytes.Equal(payloads[0], payloads[1]) {
			t.Errorf("%q, expected %q", payloads[0], payloads[1])
		}
	})
}

// TestManyFieldsExpireInSteps: each step removes some, and goes on where the last one ended. The
// last field takes the key with it.
func TestManyFieldsExpireInSteps(t *testing.T) {
	s := openStore(t, testOptions(t.TempDir(), 64<<20, 64<<20))
	const fields = 1000
	inTxn(t, s, func(d DB) {
		h, err := d.Hash([]byte("h"))
		must(t, err)
		for i := range fields {
			field := fmt.Appendf(nil, "field%d", i)
			_, err := h.Set(field, []byte("v"))
			must(t, err)
			must(t, h.Expire(field, 0, 1_000_000))
		}
		must(t, h.Save(keyevent.HSet))
	})
	txn := s.NewTxn()
	begin(txn, Mode{Writing: true}, 1_000_000, 0)
	var x ExpiredFields
	steps := 0
	for again := true; again; again = x.Left {
		must(t, txn.DB(0).RemoveExpiredFields([]byte("h"), &x))
		steps++
	}
	if x.Removed != fields || steps != (fields+fieldsPerStep-1)/fieldsPerStep {
		t.Errorf("%d fields in %d steps", x.Removed, steps)
	}
	if k, err := txn.DB(0).LookupAny([]byte("h")); err != nil || k.Exists {
		t.Errorf("the key is still there (%v)", err)
	}
	if due, err := txn.DB(0).CountDueHashes(ttl.Due{}, math.MaxInt64-1, 10); due != 0 || err != nil {
		t.Errorf("%d hashes are due (%v)", due, err)
	}
}

// TestTimesThatAreMissing: a hash whose records disagree is an error, and nothing that looks whole.
func TestTimesThatAreMissing(t *testing.T) {
	s := openStore(t, smallLimits(t.TempDir(), 64<<20, 64<<20))
	inTxn(t, s, func(d DB) {
		h, err := d.Hash([]byte("h"))
		must(t, err)
		must(t, h.spread())
		_, err = h.Set([]byte("f"), []byte("v"))
		must(t, err)
		must(t, h.Expire([]byte("f"), 0, 5000))
		must(t, h.Save(keyevent.HSet))
		must(t, d.putElement(layout.KindFieldExpiry, h.next.ID, []byte("g"), layout.AppendFieldExpiry(nil, 6000)))
		k, err := d.Lookup([]byte("h"))
		must(t, err)
		v := digest.NewValue(digest.Hash)
		if err := d.AddToDigest(&v, []byte("h"), &k.Metadata); !errors.Is(err, layout.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
	})
}
