package storage

import (
	"bytes"
	"math/rand/v2"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage/digest"
	"kedis/storage/engine"
	"kedis/storage/intset"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// setType is the row of sets.
var setType = DataType{Name: "set", RDB: rdb.Set, Digest: digest.Set, encoding: named("hashtable"),
	encode: func(d DB, m *layout.Metadata, e *rdb.Encoder) error {
		if m.Encoding == layout.Intset {
			e.SetIntset(m.Value)
			return nil
		}
		return encodeSet(d, m, e)
	},
	restore: restoreSet,
	digest: func(v *digest.Value, d DB, key []byte, _ *layout.Metadata) error {
		s, err := d.Set(key)
		if err != nil {
			return err
		}
		return s.All(func(member []byte) bool { v.Member(member); return true })
	},
	elements: visitValues,
	pieces: Pieces{command: "SADD", words: appendElementWord, parse: parseElementWord,
		begin: beginWhole((*rdb.Encoder).BeginSet, func(e *rdb.Encoder, member *rdb.Element) { e.Member(member.Bytes) })},
}

var encodeSet = encodeCollection((*rdb.Encoder).SetListpack, (*rdb.Encoder).BeginSet,
	func(e *rdb.Encoder, member, _ []byte, _ float64) { e.Member(member) })

func restoreSet(r *restoring) (layout.Metadata, error) {
	limits := r.db.limits()
	r.entries, r.longest, r.integers = limits.SetEntries(), limits.SetValue(), limits.SetIntsetEntries()
	r.onlyInts = true
	r.put = func(e *smallElement) error { return r.spread.Put(layout.KindSetMember, e.name, nil) }
	return r.collection()
}

// Set is a set as a transaction sees it. Its methods change it in the transaction; Save writes down
// that they did.
//
// A small one is packed into its key's record: an intset as long as all members are integers, else
// a listpack with the members in the order in which they came. A larger one has a record for each
// member. It goes from the intset to the listpack or to records, and from the listpack to records,
// exactly when Redis 7.2 goes on to its hash table, and never back.
type Set struct {
	db       DB
	key      []byte
	old      Key
	next     layout.Metadata  // of encoding 0 as long as the set is empty
	pack     []byte           // an intset or a listpack, when it is packed
	fresh    bool             // it became spread since it was opened
	expected int              // how many members are about to be added, at most
	made     *engine.Elements // where the records of new members go, when they come once each
}

// maxIntsetEntries is the number of members beyond which Redis keeps no intset, whatever the limit
// is.
const maxIntsetEntries = 1 << 30

// emptyIntset is where intsets begin. It is never written to.
var emptyIntset = intset.Empty(0)

// Set opens the set of a key, which may not exist: the set is empty then.
func (d DB) Set(key []byte) (s Set, err error) {
	if err = d.LookupTypeInto(key, layout.Set, &s.old); err != nil {
		return s, err
	}
	s.db, s.key, s.next, s.pack = d, key, s.old.Metadata, s.old.Value
	if !s.old.Exists {
		s.next.Type = layout.Set
	}
	return s, nil
}

// ReplaceSet opens an empty set that takes the place of whatever the key holds, expiry included.
func (d DB) ReplaceSet(key []byte) (Set, error) {
	k, err := d.Lookup(key)
	return Set{db: d, key: key, old: k, next: layout.Metadata{Type: layout.Set}}, err
}

// Exists reports whether the key was there when the set was opened.
func (s *Set) Exists() bool { return s.old.Exists }

// Len is the number of members.
func (s *Set) Len() int {
	switch s.next.Encoding {
	case layout.Intset:
		return intset.Intset(s.pack).Len()
	case layout.Listpack:
		return listpack.Listpack(s.pack).Len()
	}
	return int(s.next.Count)
}

func (s *Set) packed() bool { return s.next.Encoding != layout.Spread }

func (s *Set) elements() spreadElements {
	return spreadElements{s.db, layout.KindSetMember, s.next.ID, s.fresh}
}

// Save writes the set down: its record, or that the key is gone with the last member. name is the
// event that it is.
func (s *Set) Save(name keyevent.Name) error {
	if s.made != nil {
		if err := s.made.Finish(); err != nil {
			return err
		}
	}
	empty := s.Len() == 0
	var err error
	switch {
	case !empty:
		s.next.Value = s.pack
		err = s.db.save(s.key, &s.old, &s.next)
	case s.old.Exists:
		err = s.db.Remove(s.key, s.old)
	}
	s.db.notifySaved(name, s.key, empty, s.old.Exists)
	return err
}

// Contains reports whether something is a member.
func (s *Set) Contains(member []byte) (bool, error) {
	switch s.next.Encoding {
	case layout.Intset:
		n, isInt := listpack.ParseInt(member)
		return isInt && intset.Intset(s.pack).Contains(n), nil
	case layout.Listpack:
		return s.find(member) != listpack.None, nil
	case layout.Spread:
		r := s.elements()
		_, found, err := r.get(member)
		return found, err
	}
	return false, nil
}

func (s *Set) find(member []byte) int {
	pack := listpack.Listpack(s.pack)
	return pack.Find(pack.First(), member, 0)
}

// Expect says that so many members are about to be added. As in Redis, a set that would be too
// large with them is spread with the first new one, though some of them may be the same.
func (s *Set) Expect(members int) { s.expected = members }

// Add makes something a member, and reports whether it is new.
func (s *Set) Add(member []byte) (added bool, err error) {
	found, err := s.Contains(member)
	if err != nil || found {
		return false, err
	}
	if err := s.makeRoom(member); err != nil {
		return false, err
	}
	if s.packed() {
		s.pushPacked(member)
		return true, nil
	}
	s.next.Count++
	r := s.elements()
	return true, r.put(member, nil)
}

// addNew makes something a member that is none yet, of a set that is being made: it may become very
// large, and is staged then.
func (s *Set) addNew(member []byte) error {
	if s.packed() {
		if err := s.makeRoom(member); err != nil {
			return err
		}
	}
	if s.packed() {
		s.pushPacked(member)
		return nil
	}
	if s.made == nil {
		s.made = s.db.txn.NewElements(s.db.space, layout.Set, s.next.ID)
	}
	s.next.Count++
	return s.made.Put(layout.KindSetMember, member, nil)
}

// pushPacked adds to a packed set that has room.
func (s *Set) pushPacked(member []byte) {
	if s.next.Encoding == layout.Listpack {
		s.edit(func(dst []byte) []byte { return listpack.Listpack(s.pack).Append(dst, listpack.Of(member)) })
		return
	}
	n, _ := listpack.ParseInt(member)
	s.edit(func(dst []byte) []byte {
		added, _ := intset.Intset(s.pack).Add(dst, n)
		return added
	})
}

func (s *Set) edit(change func(dst []byte) []byte) {
	s.pack = s.db.txn.edit(func(dst []byte) listpack.Listpack { return change(dst) })
}

// makeRoom brings the set into the form that it has with a new member.
func (s *Set) makeRoom(member []byte) error {
	_, isInt := listpack.ParseInt(member)
	limits := s.db.limits()
	intsetLimit := min(limits.SetIntsetEntries(), maxIntsetEntries)
	if s.next.Encoding == 0 {
		s.create(isInt, intsetLimit, limits.SetEntries())
	}
	expected, size := int64(s.expected), int64(s.Len())
	switch s.next.Encoding {
	case layout.Intset:
		switch {
		case expected > intsetLimit || isInt && size >= intsetLimit:
			return s.spread()
		case isInt:
			return nil
		case s.fits(member) && s.longestInteger() <= limits.SetValue():
			s.unpackIntegers()
			return nil
		}
		return s.spread()
	case layout.Listpack:
		if expected > limits.SetEntries() || !s.fits(member) {
			return s.spread()
		}
	}
	return nil
}

// create gives an empty set the form that suits what is expected.
func (s *Set) create(isInt bool, intsetLimit, listpackLimit int64) {
	expected := int64(max(s.expected, 1))
	switch {
	case isInt && expected <= intsetLimit:
		s.next.Encoding, s.pack = layout.Intset, emptyIntset
	case expected <= listpackLimit:
		s.next.Encoding, s.pack = layout.Listpack, emptyListpack
	default:
		s.next.Encoding, s.next.ID, s.fresh = layout.Spread, s.db.txn.NewID(), true
	}
}

// fits reports whether the set can be a listpack with one more member.
func (s *Set) fits(member []byte) bool {
	limits := s.db.limits()
	return int64(s.Len()) < limits.SetEntries() && int64(len(member)) <= limits.SetValue() &&
		len(s.pack)+len(member) <= maxListpackBytes
}

// longestInteger is the length of the longest member of an intset.
func (s *Set) longestInteger() int64 {
	members := intset.Intset(s.pack)
	if members.Len() == 0 {
		return 0
	}
	first, last := members.Get(0), members.Get(members.Len()-1)
	return int64(max(listpack.OfInt(first).Len(), listpack.OfInt(last).Len()))
}

// unpackIntegers makes a listpack of an intset.
func (s *Set) unpackIntegers() {
	members := intset.Intset(s.pack)
	s.edit(func(dst []byte) []byte {
		pack := emptyListpack.Clone(dst)
		for _, n := range members.All() {
			pack = pack.Push(listpack.OfInt(n))
		}
		return pack
	})
	s.next.Encoding = layout.Listpack
}

// spread gives each member its record.
func (s *Set) spread() error {
	packed := *s
	s.next.Encoding, s.next.ID, s.next.Count, s.next.Value = layout.Spread, s.db.txn.NewID(), uint64(packed.Len()), nil
	s.pack, s.fresh = nil, true
	r := s.elements()
	var err error
	var scratch []byte // the member that made this necessary may stand in the transaction's
	packed.allPacked(&scratch, func(member []byte) bool {
		err = r.put(member, nil)
		return err == nil
	})
	return err
}

// Remove takes out a member, and reports whether it was one.
func (s *Set) Remove(member []byte) (removed bool, err error) {
	found, err := s.Contains(member)
	if err != nil || !found {
		return false, err
	}
	return true, s.drop(member)
}

// drop takes out what is a member.
func (s *Set) drop(member []byte) error {
	switch s.next.Encoding {
	case layout.Intset:
		n, _ := listpack.ParseInt(member)
		s.edit(func(dst []byte) []byte {
			rest, _ := intset.Intset(s.pack).Remove(dst, n)
			return rest
		})
		return nil
	case layout.Listpack:
		at := s.find(member)
		s.edit(func(dst []byte) []byte {
			rest, _ := listpack.Listpack(s.pack).Delete(dst, at, 1)
			return rest
		})
		return nil
	}
	s.next.Count--
	r := s.elements()
	return r.delete(member)
}

// All visits all members. They are valid during the call.
func (s *Set) All(visit func(member []byte) bool) error {
	if s.packed() {
		s.allPacked(&s.db.txn.scratch.member, visit)
		return nil
	}
	r := s.elements()
	return r.all(s.next.Count, true, func(member, _ []byte) bool { return visit(member) })
}

func (s *Set) allPacked(scratch *[]byte, visit func(member []byte) bool) {
	switch s.next.Encoding {
	case layout.Intset:
		for _, n := range intset.Intset(s.pack).All() {
			if *scratch = number.AppendInt((*scratch)[:0], n); !visit(*scratch) {
				return
			}
		}
	case layout.Listpack:
		for _, e := range listpack.Listpack(s.pack).All() {
			if !visit(text(e, scratch)) {
				return
			}
		}
	}
}

// Random returns a member of a set that has any: see picker for how likely each is. It is valid
// until the next one is read.
func (s *Set) Random() ([]byte, error) {
	t := s.db.txn
	switch s.next.Encoding {
	case layout.Intset:
		n := intset.Intset(s.pack).Get(rand.IntN(s.Len()))
		return text(listpack.OfInt(n), &t.scratch.member), nil
	case layout.Listpack:
		pack := listpack.Listpack(s.pack)
		return text(pack.At(pack.Seek(rand.IntN(s.Len()))), &t.scratch.member), nil
	}
	elements := s.elements()
	return elements.random(s.next.Count)
}

// RandomDistinct visits count different members, or all if there are no more, in no particular
// order.
func (s *Set) RandomDistinct(count uint64, visit func(member []byte) bool) error {
	chosen := s.sampler()
	return chosen.distinct(count, func(member, _ []byte) bool { return visit(member) })
}

// RandomRepeated visits members of a set that has any, count times, each time any of them.
func (s *Set) RandomRepeated(count uint64, visit func(member []byte) bool) error {
	chosen := s.sampler()
	return chosen.repeated(count, func(member, _ []byte) bool { return visit(member) })
}

func (s *Set) sampler() sampler {
	all := func(visit visitPair) error {
		return s.All(func(member []byte) bool { return visit(member, nil) })
	}
	chosen := sampler{txn: s.db.txn, count: uint64(s.Len()), all: all}
	if !s.packed() {
		elements := s.elements()
		chosen.picks = pairPicker{picker: elements.picker(s.next.Count)}
	}
	return chosen
}

// PopOne takes out a member of a set that has any. It is valid until another one is read.
func (s *Set) PopOne() (member []byte, err error) {
	if member, err = s.Random(); err == nil {
		err = s.drop(member)
	}
	return member, err
}

// rebuildShare tells when so few members remain that they are written anew, instead of the others
// being deleted: when this many times them are no more than those that go. Redis 7.2 does the same,
// and ends up with a set that may be packed again.
const rebuildShare = 5

// Pop takes out count different members, or all if there are no more, and returns them.
func (s *Set) Pop(count int) ([][]byte, error) {
	popped := make([][]byte, 0, min(count, s.Len()))
	packed := s.packed()
	take := func(member []byte) bool {
		if packed { // those of a spread set stay valid
			member = bytes.Clone(member)
		}
		popped = append(popped, member)
		return true
	}
	remaining := s.Len() - count
	if remaining <= 0 || !s.packed() && remaining <= count/rebuildShare {
		err := s.popMost(max(remaining, 0), take)
		return popped, err
	}
	if err := s.RandomDistinct(uint64(count), take); err != nil {
		return nil, err
	}
	for _, member := range popped {
		if err := s.drop(member); err != nil {
			return nil, err
		}
	}
	return popped, nil
}

// popMost takes out all members but some, which make up a new set.
func (s *Set) popMost(remaining int, take func(member []byte) bool) error {
	rest := Set{db: s.db, key: s.key, old: s.old, pack: emptyListpack,
		next: layout.Metadata{Type: layout.Set, Encoding: layout.Listpack, ExpireMs: s.next.ExpireMs}}
	left := s.Len()
	var failed error
	err := s.All(func(member []byte) bool {
		if rand.IntN(left) < remaining {
			remaining--
			failed = rest.addNew(member)
		} else {
			take(member)
		}
		left--
		return failed == nil
	})
	*s = rest
	if failed != nil {
		return failed
	}
	return err
}
