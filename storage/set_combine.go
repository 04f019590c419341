package storage

import (
	"bytes"
	"cmp"
	"slices"

	"kedis/internal/keyevent"
	"kedis/storage/engine"
	"kedis/storage/intset"
	"kedis/storage/layout"
	"kedis/storage/listpack"
)

// mergeShare tells how to find the members of one spread set in another: when that one has up to so
// many times as many members, it is cheaper to walk both side by side than to look each member up.
const mergeShare = 8

// memberCost is how many bytes of a packed set are sorted in about the time that a record takes.
const memberCost = 16

// Sets opens the sets of several keys.
func (d DB) Sets(keys [][]byte) ([]Set, error) {
	sets := make([]Set, len(keys))
	for i, key := range keys {
		var err error
		if sets[i], err = d.Set(key); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// SetUnion visits what is in any of some sets. A member is valid during the call; visit returns
// false to stop.
func SetUnion(sets []Set, visit func(member []byte) bool) error {
	filled := make([]*Set, 0, len(sets))
	for i := range sets {
		if sets[i].Len() > 0 {
			filled = append(filled, &sets[i])
		}
	}
	if len(filled) == 1 {
		return filled[0].All(visit)
	}
	m, err := merge(filled)
	for err == nil && len(m.streams) > 0 && visit(m.head()) {
		err = m.pass(m.head())
	}
	return err
}

// SetIntersection visits what is in all of some sets, as SetUnion does.
func SetIntersection(sets []Set, visit func(member []byte) bool) error {
	ordered := bySize(sets)
	first, others := ordered[0], ordered[1:]
	if first.Len() == 0 {
		return nil
	}
	filters := make([]*filter, 0, len(others))
	var err error
	for i := 0; i < len(others) && err == nil; i++ {
		var f *filter
		f, err = first.filter(others[i : i+1])
		filters = append(filters, f)
	}
	if err == nil {
		err = first.where(filters, true, visit)
	}
	return err
}

// SetDifference visits what is in the first of some sets and in none of the others, as SetUnion
// does.
func SetDifference(sets []Set, visit func(member []byte) bool) error {
	if sets[0].Len() == 0 {
		return nil
	}
	f, err := sets[0].filter(pointers(sets[1:]))
	if err != nil {
		return err
	}
	return sets[0].where([]*filter{f}, false, visit)
}

func pointers(sets []Set) []*Set {
	list := make([]*Set, len(sets))
	for i := range sets {
		list[i] = &sets[i]
	}
	return list
}

func bySize(sets []Set) []*Set {
	ordered := pointers(sets)
	slices.SortStableFunc(ordered, func(a, b *Set) int { return cmp.Compare(a.Len(), b.Len()) })
	return ordered
}

// where visits the members that all filters contain, or that none does.
func (s *Set) where(filters []*filter, contained bool, visit func(member []byte) bool) error {
	var failed error
	err := s.All(func(member []byte) bool {
		for _, f := range filters {
			found, err := f.contains(member)
			if err != nil {
				failed = err
				return false
			}
			if found != contained {
				return true
			}
		}
		return visit(member)
	})
	return cmp.Or(failed, err)
}

// filter tells which members of a set are in any of some others.
type filter struct {
	beside *merger // those that are walked side by side with it
	asked  []*Set  // those in which each member is looked up
}

// filter makes a filter for the members of a set, in their order. Only a spread set has them in the
// order of their bytes.
func (s *Set) filter(others []*Set) (*filter, error) {
	f := &filter{}
	var beside []*Set
	for _, other := range others {
		switch {
		case other.Len() == 0:
		case !s.packed() && other.Len()/mergeShare <= s.Len():
			beside = append(beside, other)
		default:
			f.asked = append(f.asked, other)
		}
	}
	var err error
	f.beside, err = merge(beside)
	return f, err
}

func (f *filter) contains(member []byte) (bool, error) {
	if found, err := f.beside.reach(member); err != nil || found {
		return found, err
	}
	if err := f.spend(); err != nil {
		return false, err
	}
	for _, other := range f.asked {
		if found, err := other.Contains(member); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// spend counts the packed sets that are searched: they are not read again for each member.
func (f *filter) spend() error {
	if len(f.asked) == 0 {
		return nil
	}
	return f.asked[0].db.txn.Spend(len(f.asked))
}

// stream shows the members of a set in the order of their bytes.
type stream struct {
	piece  engine.ResidentPiece // of a spread set
	sorted [][]byte             // those that were read otherwise, and not shown yet
	buffer [][]byte             // where they stand
	index  *engine.Index        // of a spread set, which has the others
	behind []byte               // the first place that wasn't read; nil: there are no others
	head   []byte               // valid until the transaction is reset
}

const (
	streamMembers = 256      // of a spread set that are read at once
	streamBytes   = 64 << 10 // or so many of them
)

// next moves on to the next member; false at the end.
func (s *stream) next() (bool, error) {
	for {
		if s.head = s.piece.Take(); s.head != nil {
			return true, nil
		}
		if len(s.sorted) > 0 {
			s.head, s.sorted = s.sorted[0], s.sorted[1:]
			return true, nil
		}
		if s.behind == nil {
			return false, nil
		}
		if err := s.read(); err != nil {
			return false, err
		}
	}
}

// read comes to a resident piece of a spread set, or reads some of its members.
func (s *stream) read() error {
	resident, err := s.index.Resident(s.behind, &s.piece)
	if resident {
		s.behind = s.piece.Behind()
	}
	if resident || err != nil {
		return err
	}
	from, bytes := s.behind, 0
	s.buffer, s.behind = s.buffer[:0], nil
	err = s.index.Scan(from, nil, false, func(member, _ []byte) bool {
		if bytes += len(member); len(s.buffer) == streamMembers || bytes > streamBytes && len(s.buffer) > 0 {
			s.behind = member
			return false
		}
		s.buffer = append(s.buffer, member)
		return true
	})
	s.sorted = s.buffer
	return err
}

// stream makes a stream of a set that has members.
func (s *Set) stream() (*stream, error) {
	if s.packed() {
		sorted, err := s.members()
		slices.SortFunc(sorted, bytes.Compare)
		return &stream{sorted: sorted}, err
	}
	elements := s.elements()
	x := elements.index(s.next.Count, false)
	return &stream{index: &x, behind: []byte{}}, nil
}

// members returns the members.
func (s *Set) members() (members [][]byte, err error) {
	members = make([][]byte, 0, s.Len())
	err = s.All(func(member []byte) bool {
		members = append(members, bytes.Clone(member))
		return true
	})
	return members, err
}

// merger walks several sets at once, in the order of the members' bytes.
type merger struct {
	streams []*stream // a heap by head: the lowest one is the first
}

func merge(sets []*Set) (*merger, error) {
	m := &merger{}
	for _, s := range sets {
		if err := s.db.txn.Spend(len(s.pack) / memberCost); err != nil {
			return m, err
		}
		stream, err := s.stream()
		if err != nil {
			return m, err
		}
		more, err := stream.next()
		if err != nil {
			return m, err
		}
		if more {
			m.streams = append(m.streams, stream)
		}
	}
	for i := len(m.streams)/2 - 1; i >= 0; i-- {
		m.sink(i)
	}
	return m, nil
}

// head is the member that comes next; there is one as long as there are streams.
func (m *merger) head() []byte { return m.streams[0].head }

// pass leaves a member behind in all sets that have it. It is the one that comes next.
func (m *merger) pass(member []byte) error {
	for len(m.streams) > 0 && bytes.Equal(m.head(), member) {
		if err := m.advance(); err != nil {
			return err
		}
	}
	return nil
}

// reach moves on to a member, or behind its place, and reports whether any set has it.
func (m *merger) reach(member []byte) (bool, error) {
	for len(m.streams) > 0 {
		d := bytes.Compare(m.head(), member)
		if d >= 0 {
			return d == 0, nil
		}
		if err := m.advance(); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (m *merger) advance() error {
	more, err := m.streams[0].next()
	if !more {
		last := len(m.streams) - 1
		m.streams[0] = m.streams[last]
		m.streams = m.streams[:last]
	}
	m.sink(0)
	return err
}

func (m *merger) sink(i int) {
	for {
		lowest := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(m.streams); child++ {
			if bytes.Compare(m.streams[child].head, m.streams[lowest].head) < 0 {
				lowest = child
			}
		}
		if lowest == i {
			return
		}
		m.streams[i], m.streams[lowest] = m.streams[lowest], m.streams[i]
		i = lowest
	}
}

// StoreUnion makes a key the union of some sets, in place of whatever it holds; it is gone if the
// union is empty. It returns the number of members. As in the functions below, the result goes
// through the forms that it goes through in Redis 7.2 while it grows.
func (d DB) StoreUnion(key []byte, sets []Set) (int, error) {
	result, err := d.replaceWithIntset(key)
	if err != nil {
		return 0, err
	}
	if ordered := bySize(sets); d.neverPacked(ordered[len(ordered)-1].Len()) {
		err = result.takeNew(true, func(visit func(member []byte) bool) error { return SetUnion(sets, visit) })
	} else {
		for i := 0; i < len(sets) && err == nil; i++ {
			err = result.addAll(&sets[i])
		}
	}
	if err != nil {
		return 0, err
	}
	return result.Len(), result.Save(keyevent.SUnionStore)
}

// neverPacked reports whether a set with so many members is spread, whatever they are.
func (d DB) neverPacked(members int) bool {
	limits := d.limits()
	return int64(members) > max(limits.SetIntsetEntries(), limits.SetEntries())
}

// replaceWithIntset opens an empty intset in place of whatever a key holds.
func (d DB) replaceWithIntset(key []byte) (Set, error) {
	result, err := d.ReplaceSet(key)
	result.next.Encoding, result.pack = layout.Intset, emptyIntset
	return result, err
}

// addAll adds the members of another set.
func (s *Set) addAll(other *Set) error {
	return visitAll(other.All, func(member []byte) error {
		if err := s.db.txn.Spend(1); err != nil {
			return err
		}
		_, err := s.Add(member)
		return err
	})
}

// takeNew adds what a walk visits, once each; large says that the set is to be spread before.
func (s *Set) takeNew(large bool, walk func(visit func(member []byte) bool) error) error {
	if large {
		if err := s.spread(); err != nil {
			return err
		}
	}
	return visitAll(walk, s.addNew)
}

// visitAll is a walk that the first error ends.
func visitAll(walk func(visit func(member []byte) bool) error, visit func(member []byte) error) error {
	var failed error
	err := walk(func(member []byte) bool {
		failed = visit(member)
		return failed == nil
	})
	return cmp.Or(failed, err)
}

// StoreDifference makes a key the difference of some sets, as StoreUnion does.
func (d DB) StoreDifference(key []byte, sets []Set) (int, error) {
	result, err := d.replaceWithIntset(key)
	if err != nil {
		return 0, err
	}
	copied := subtractsAfterwards(sets)
	if large := d.neverPacked(sets[0].Len()); !copied || large {
		err = result.takeNew(copied && large, func(visit func(member []byte) bool) error { return SetDifference(sets, visit) })
	} else if err = result.addAll(&sets[0]); err == nil {
		err = result.subtract(sets[1:])
	}
	if err != nil {
		return 0, err
	}
	return result.Len(), result.Save(keyevent.SDiffStore)
}

// subtractsAfterwards reports whether Redis would compute a difference by making a copy of the
// first set and taking out the members of the others. The result has the copy's form then.
func subtractsAfterwards(sets []Set) bool {
	byMember, bySet := 0, 0
	for i := range sets {
		if n := sets[i].Len(); n > 0 {
			byMember += sets[0].Len()
			bySet += n
		}
	}
	return byMember/2 > bySet
}

func (s *Set) subtract(others []Set) error {
	for i := 0; i < len(others) && s.Len() > 0; i++ {
		err := visitAll(others[i].All, func(member []byte) error {
			_, err := s.Remove(member)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// StoreIntersection makes a key the intersection of some sets, as StoreUnion does.
func (d DB) StoreIntersection(key []byte, sets []Set) (int, error) {
	result, err := d.ReplaceSet(key)
	if err != nil {
		return 0, err
	}
	g := gathered{Set: &result, integers: true, ordered: bySize(sets)[0].next.Encoding == layout.Intset}
	result.next.Encoding, result.pack = layout.Listpack, emptyListpack
	err = visitAll(func(visit func(member []byte) bool) error { return SetIntersection(sets, visit) }, g.add)
	if err != nil {
		return 0, err
	}
	g.settle()
	return result.Len(), result.Save(keyevent.SInterStore)
}

// gathered is an intersection that is being made. Its form depends on all of its members: of
// integers it becomes an intset, whatever it would have been before the last of them came. So it is
// a listpack that heeds no limit, until it is clear that only records will do.
type gathered struct {
	*Set
	integers bool // all members are
	ordered  bool // they come from an intset
	tooLong  bool // one is, for a listpack
}

// add adds a member that is not there yet.
func (g *gathered) add(member []byte) error {
	if !g.packed() {
		return g.addNew(member)
	}
	e := listpack.Of(member)
	g.edit(func(dst []byte) []byte { return listpack.Listpack(g.pack).Append(dst, e) })
	limits := g.db.limits()
	g.integers = g.integers && e.IsInt()
	g.tooLong = g.tooLong || int64(len(member)) > limits.SetValue()
	if g.packable() {
		return nil
	}
	return g.spread()
}

// packable reports whether the members so far have a packed form.
func (g *gathered) packable() bool { return g.isIntset() || g.isListpack() }

func (g *gathered) isIntset() bool {
	return g.integers && int64(g.Len()) <= min(g.db.limits().SetIntsetEntries(), maxIntsetEntries)
}

func (g *gathered) isListpack() bool {
	return !g.ordered && !g.tooLong && int64(g.Len()) <= g.db.limits().SetEntries() && len(g.pack) <= maxListpackBytes
}

// settle gives the intersection its form when it is complete.
func (g *gathered) settle() {
	if !g.packed() || g.Len() == 0 || !g.isIntset() {
		return
	}
	pack := g.pack
	g.edit(func(dst []byte) []byte {
		members := intset.Intset(append(dst, emptyIntset...))
		for _, e := range listpack.Listpack(pack).All() {
			members, _ = members.Add(members[:0], e.Int)
		}
		return members
	})
	g.next.Encoding = layout.Intset
}
