package engine

import (
	"bytes"
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"kedis/storage/layout"
	"kedis/storage/rank"
)

// ErrCounting is returned when a command reaches Txn.CountAtMost. Its counts are kept; retry to continue.
var ErrCounting = errors.New("storage: the members of a sorted set are being counted")

const (
	// rankBlock is how many entries of an index are counted together: about half of that is gone over to find the rank of a member.
	RankBlock = 32
	// rankedMembers is how many members a set must have for them to be counted.
	rankedMembers = 8 * RankBlock
	// rankedBytes are what counts take however few they are.
	rankedBytes = 512
)

// ranks hold how many entries stand in each piece of an index, for indexes in which ranks, or entries by their number, were asked for. They are in
// memory only, and begin as one piece with the number of members; whoever looks for a rank in a large piece goes over it and leaves it
// in small ones.
//
// They are at all times those of the index as the transaction sees it that holds the key's lock: each record of an index that is put
// into or deleted from a journal changes them at once, and each that is taken back out of it, by Rollback, or since the commit has
// failed or never came, changes them back. Nobody else looks: a reader holds the lock shared, and one that reads from a view has
// a copy that was made under the lock when the view was (ReadFrom), or none.
type ranks struct {
	mu       sync.Mutex
	byID     map[uint64]*list.Element // of *ranked
	used     list.List                // the last used first
	bytes    int
	limit    func() int64
	block    int                // entries that are counted together
	least    int                // members that a set must have
	occupied [1024]atomic.Int32 // how many byID has of the ids with a remainder, for those who write to other sets
}

// Ranked are the counts of one set. To divide them a walk holds dividing, so that no two go the same way; counts changes under
// mu.
type Ranked struct {
	id        uint64
	dividing  sync.Mutex
	mu        sync.Mutex
	counts    *rank.Counts
	accounted int // bytes, under ranks.mu
}

func (r *ranks) init(limit func() int64) {
	r.byID, r.limit, r.block, r.least = map[uint64]*list.Element{}, limit, RankBlock, rankedMembers
}

func (r *ranks) occupants(id uint64) *atomic.Int32 { return &r.occupied[id%uint64(len(r.occupied))] }

// of returns the counts of a set with so many entries, and begins them if there are none.
func (r *ranks) of(id uint64, entries int) *Ranked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byID[id]; e != nil {
		r.used.MoveToFront(e)
		return e.Value.(*Ranked)
	}
	s := &Ranked{id: id, counts: rank.New(entries, r.block)}
	r.byID[id] = r.used.PushFront(s)
	r.occupants(id).Add(1)
	r.account(s)
	r.displace(s)
	return s
}

// changed says that an entry came to an index, or went. It costs next to nothing for a set without counts.
func (r *ranks) changed(key []byte, delta int) {
	id := layout.ElementID(key)
	if r.occupants(id).Load() == 0 {
		return
	}
	r.mu.Lock()
	e := r.byID[id]
	r.mu.Unlock()
	if e == nil {
		return
	}
	s := e.Value.(*Ranked)
	s.mu.Lock()
	s.counts.Add(key[layout.ElementPrefix:], delta)
	s.mu.Unlock()
}

// drop forgets a set's counts.
func (r *ranks) drop(id uint64) {
	if r.occupants(id).Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byID[id]; e != nil {
		r.remove(e)
	}
}

// clear forgets all counts.
func (r *ranks) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.used.Len() > 0 {
		r.remove(r.used.Back())
	}
}

func (r *ranks) remove(e *list.Element) {
	s := r.used.Remove(e).(*Ranked)
	delete(r.byID, s.id)
	r.occupants(s.id).Add(-1)
	r.bytes -= s.accounted
}

// divided says that a set's counts take more memory. Over the limit, those that were used longest ago go, and of a set that is
// over it alone the pieces become larger.
func (r *ranks) divided(s *Ranked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byID[s.id]; e == nil || e.Value != s {
		return // it went meanwhile
	}
	r.account(s)
	for s.accounted > int(r.limit()) && s.coarsen() {
		r.account(s)
	}
	r.displace(s)
}

// displace forgets, over the limit, the counts of other sets.
func (r *ranks) displace(s *Ranked) {
	limit := int(r.limit())
	for r.bytes > limit && r.used.Len() > 1 && r.used.Back().Value != s {
		r.remove(r.used.Back())
	}
}

func (r *ranks) account(s *Ranked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := rankedBytes + s.counts.Bytes()
	r.bytes += bytes - s.accounted
	s.accounted = bytes
}

// Ranks is the number of indexes whose entries are counted, and the bytes that the counts take.
func (s *Store) Ranks() (sets, bytes int) {
	r := &s.order.ranks
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID), r.bytes
}

// coarsen makes the pieces larger, if that makes them fewer.
func (s *Ranked) coarsen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.counts.Bytes()
	s.counts.Coarsen()
	return s.counts.Bytes() < before
}

func (s *Ranked) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.Total()
}

func (s *Ranked) find(key []byte) (b rank.Block, large bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = s.counts.Find(key)
	return b, b.Count > 2*s.counts.Target()
}

func (s *Ranked) at(place int) (b rank.Block, large bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = s.counts.At(place)
	return b, b.Count > 2*s.counts.Target()
}

func (s *Ranked) split(b rank.Block, key []byte, before int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Split(b, key, before)
}

// copy returns a copy that others don't change.
func (s *Ranked) copy() *Ranked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Ranked{id: s.id, counts: s.counts.Clone()}
}

// RankBlock is how many entries of an index are counted together.
func (t *Txn) RankBlock() int { return t.store.order.ranks.block }

// CountAtMost makes a command that the transaction runs fail with ErrCounting as soon as it has gone over so many entries of indexes
// to count them; 0 is no limit. It holds until Reset.
func (t *Txn) CountAtMost(entries int) { t.order.countAtMost = entries }

// AskedRanks reports whether a command since Reset has used the counts of an index.
func (t *Txn) AskedRanks() bool { return len(t.order.ranked) > 0 }

// keepRanks copies the counts that the transaction has used so far, for reading from a view that was made since, under the same lock.
func (t *Txn) keepRanks() {
	slices.SortFunc(t.order.ranked, func(a, b *Ranked) int { return cmp.Compare(a.id, b.id) })
	t.order.ranked = slices.CompactFunc(t.order.ranked, func(a, b *Ranked) bool { return a.id == b.id })
	for i, s := range t.order.ranked {
		t.order.ranked[i] = s.copy()
	}
}

// takeBackRanks takes back what the entries of the journal, but for the first ones, have changed of counts.
func (t *Txn) takeBackRanks(first int) {
	if t.order.settled || !t.journal.hasAny(countedKinds) {
		return
	}
	for i := first; i < len(t.journal.entries); i++ {
		c := &t.journal.entries[i]
		if key := t.journal.key(c); layout.Kinds[key[0]].Counted {
			delta := -1
			if c.length < 0 {
				delta = 1
			}
			t.store.order.ranks.changed(key, delta)
		}
	}
}

// countedKinds are the kinds of record that ranks count. One that is put isn't there yet, and one that is deleted is.
var countedKinds = kindsWith(func(k *layout.Kind) bool { return k.Counted })

// Ranked returns the counts of the index; nil when it is to be walked.
func (x *Index) Ranked() *Ranked {
	t := x.txn
	if x.entries < t.store.order.ranks.least || t.store.order.ranks.limit() == 0 {
		return nil
	}
	for _, s := range t.order.ranked {
		if s.id == x.id && t.view != nil {
			return s
		}
	}
	if t.view != nil {
		return nil
	}
	s := t.store.order.ranks.of(x.id, x.entries)
	if total := s.total(); total != x.entries {
		x.recount(fmt.Sprintf("%d members are counted", total))
		s = t.store.order.ranks.of(x.id, x.entries)
	}
	if n := len(t.order.ranked); n == 0 || t.order.ranked[n-1] != s {
		t.order.ranked = append(t.order.ranked, s)
	}
	return s
}

// recount forgets counts that can't be right.
func (x *Index) recount(reason string) {
	x.txn.store.logger.Error("the counts of a set are wrong, and made anew", "key", string(x.key), "members", x.entries, "reason", reason)
	x.txn.store.order.ranks.drop(x.id)
}

// CountedAt tells that the piece that a key of the index belongs to is a small one.
func (x *Index) CountedAt(s *Ranked, key []byte) bool {
	if !x.owns(key) {
		return true
	}
	_, large := s.find(key[layout.ElementPrefix:])
	return !large
}

// owns tells whether a key is within the index, or, as a bound may be, behind it.
func (x *Index) owns(key []byte) bool {
	return len(key) >= layout.ElementPrefix && layout.ElementID(key) == x.id
}

// Before is how many entries stand before a key of the index. In a large piece reverse looks from its end on.
func (x *Index) Before(s *Ranked, key []byte, reverse bool) (int, error) {
	if !x.owns(key) {
		return x.entries, nil
	}
	within := key[layout.ElementPrefix:]
	b, large := s.find(within)
	for large {
		err := x.divide(s, b, reverse, func(piece rank.Block) bool {
			if reverse {
				return bytes.Compare(piece.Lower, within) <= 0
			}
			return bytes.Compare(within, piece.Upper) < 0
		})
		if err != nil {
			return 0, err
		}
		b, large = s.find(within)
	}
	n := b.Before
	return n, x.Scan(x.indexKey(b.Lower), key, false, func(_, _ []byte) bool { n++; return true })
}

// At returns the piece of the index that has the entry with a rank.
func (x *Index) At(s *Ranked, place int) (rank.Block, error) {
	b, large := s.at(place)
	for large {
		reverse := place-b.Before > b.Count/2
		err := x.divide(s, b, reverse, func(piece rank.Block) bool {
			return piece.Before <= place && place < piece.Before+piece.Count
		})
		if err != nil {
			return b, err
		}
		b, large = s.at(place)
	}
	return b, nil
}

// divide goes over a large piece of the index, from its beginning or its end, and cuts small ones off it until one is what is looked
// for, or nothing is left to be cut. Each of them stays, whatever ends the walk.
func (x *Index) divide(s *Ranked, b rank.Block, reverse bool, found func(piece rank.Block) bool) error {
	t := x.txn
	if !s.dividing.TryLock() {
		if t.running.budget < unlimited/2 && t.order.countAtMost == 0 {
			return ErrBudget // a reactor doesn't wait for another one's walk
		}
		s.dividing.Lock()
		defer s.dividing.Unlock()
		return nil // perhaps the piece is divided now
	}
	defer s.dividing.Unlock()
	d := division{Ranked: s, rest: b, reverse: reverse, target: s.counts.Target(), found: found}
	budget := t.running.budget
	if t.order.countAtMost > 0 {
		t.running.budget = t.order.countAtMost
	}
	err := x.Scan(x.indexKey(b.Lower), x.EndOf(b), reverse, func(key, _ []byte) bool { return d.pass(key[layout.ElementPrefix:]) })
	if t.order.countAtMost > 0 {
		t.order.countAtMost, t.running.budget = max(t.running.budget, 1), budget
		if errors.Is(err, ErrBudget) {
			err = ErrCounting
		}
	}
	if t.view == nil {
		t.store.order.ranks.divided(s)
	}
	if err == nil && !d.done {
		t.store.order.ranks.drop(s.id)
		err = fmt.Errorf("%w: collection %d has not the %d elements that it should have", layout.ErrCorrupt, x.id, x.entries)
	}
	return err
}

// division is a walk over a piece of an index.
type division struct {
	*Ranked
	rest    rank.Block // what isn't divided yet
	reverse bool
	target  int
	found   func(piece rank.Block) bool
	n       int    // entries since the last cut
	last    []byte // the one before
	done    bool
}

// pass takes the next entry; false ends the walk.
func (d *division) pass(key []byte) bool {
	if d.n == d.target && d.cut(key) {
		d.done = true
		return false
	}
	d.n++
	d.last = append(d.last[:0], key...)
	return true
}

// cut divides the rest between the last entry and the next; true ends the division.
func (d *division) cut(next []byte) bool {
	piece := d.rest
	piece.Count = d.n
	if d.reverse {
		border := separator(next, d.last)
		d.split(d.rest, border, d.rest.Count-d.n)
		piece.Lower, piece.Before = border, d.rest.Before+d.rest.Count-d.n
		d.rest.Upper = border
	} else {
		border := separator(d.last, next)
		d.split(d.rest, border, d.n)
		piece.Upper = border
		d.rest.Lower, d.rest.Before = border, d.rest.Before+d.n
	}
	d.rest.Count -= d.n
	d.n = 0
	return d.found(piece) || d.rest.Count <= 2*d.target
}

// separator is the shortest key that is above one and not above the next.
func separator(key, next []byte) []byte {
	shared := layout.SharedPrefix(key, next)
	return bytes.Clone(next[:shared+1])
}

// EndOf is the first key behind a piece of the index.
func (x *Index) EndOf(b rank.Block) []byte {
	if b.Upper == nil {
		return layout.Successor(nil, x.indexKey(nil))
	}
	return x.indexKey(b.Upper)
}
