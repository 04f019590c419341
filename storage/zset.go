package storage

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage/digest"
	"kedis/storage/engine"
	"kedis/storage/layout"
	"kedis/storage/listpack"
	"kedis/storage/rdb"
)

// zsetType is the row of sorted sets.
var zsetType = DataType{Name: "zset", RDB: rdb.SortedSet, Digest: digest.SortedSet, encoding: named("skiplist"),
	encode: encodeCollection((*rdb.Encoder).SortedSetListpack, (*rdb.Encoder).BeginSortedSet,
		func(e *rdb.Encoder, member, _ []byte, score float64) { e.ScoredMember(member, score) }),
	restore: restoreZSet,
	digest: func(v *digest.Value, d DB, key []byte, _ *layout.Metadata) error {
		z, err := d.ZSet(key)
		if err != nil {
			return err
		}
		return z.All(func(member []byte, score float64) bool { v.Scored(member, score); return true })
	},
	elements: visitScored,
	pieces: Pieces{command: "ZADD", words: appendScoreWords, parse: parseScoreWords,
		begin: beginWhole((*rdb.Encoder).BeginSortedSet, func(e *rdb.Encoder, member *rdb.Element) { e.ScoredMember(member.Bytes, member.Score) })},
	packedPairs: true,
	scanned: func(t *Txn, value []byte) ([]byte, error) {
		score, err := layout.DecodeScore(value)
		t.scratch.element = appendScannedScore(t.scratch.element[:0], score)
		return t.scratch.element, err
	},
}

// visitScored visits a spread set's members, the highest score first.
func visitScored(d DB, m *layout.Metadata, visit visitElement) error {
	return d.scanAll(m, m.Type.Elements()[1], true, func(element, value []byte) error {
		score, member, err := layout.DecodeScored(element, value)
		if err != nil {
			return err
		}
		return visit(member, nil, score)
	})
}

// putScored writes the two records of a sorted set's member.
func putScored(e *engine.Elements, member []byte, score float64) error {
	var bytes [64]byte
	if err := e.Put(layout.KindZSetMember, member, layout.AppendScore(bytes[:0], score)); err != nil {
		return err
	}
	return e.Put(layout.KindZSetScore, layout.AppendScored(bytes[:0], score, member), layout.AppendScoreValue(nil, score))
}

func restoreZSet(r *restoring) (layout.Metadata, error) {
	limits := r.db.limits()
	r.entries, r.longest = limits.ZSetEntries(), limits.ZSetValue()
	r.inOrder = true
	r.put = func(e *smallElement) error { return putScored(r.spread, e.name, e.score) }
	scores := ZSet{db: r.db}
	r.second = func(e *smallElement) listpack.Element { return scores.scoreElement(e.score) }
	return r.collection()
}

// ZSet is a sorted set as a transaction sees it. Its methods change it in the transaction; Save
// writes down that they did.
//
// A small one is a listpack of members and scores in its key's record, by score and member. A
// larger one has a record for each member with its score, and one in an index by score and member.
// It never becomes packed again.
type ZSet struct {
	db      DB
	key     []byte
	old     Key
	next    layout.Metadata
	pack    listpack.Listpack // when it is packed
	made    *engine.Elements  // where the records of new members go, when they come once each
	byScore engine.Index      // see index
}

// ZSet opens the sorted set of a key, which may not exist: the set is empty then.
func (d DB) ZSet(key []byte) (z ZSet, err error) {
	if err = d.LookupTypeInto(key, layout.ZSet, &z.old); err == nil {
		z.open(d, key)
	}
	return z, err
}

// ReplaceZSet opens an empty sorted set that takes the place of whatever the key holds.
func (d DB) ReplaceZSet(key []byte) (z ZSet, err error) {
	z.open(d, key)
	err = d.LookupInto(key, &z.old)
	return z, err
}

// open makes of a set, of which only the key's old state is set, what it is now.
func (z *ZSet) open(d DB, key []byte) {
	z.db, z.key, z.next = d, key, z.old.Metadata
	if !z.old.Exists {
		z.next.Type, z.next.Encoding = layout.ZSet, layout.Listpack
	}
	if z.packed() {
		if z.pack = z.old.Value; z.pack == nil {
			z.pack = listpack.Empty(64)
		}
	}
}

// Reserve says how many members, the longest of how many bytes, an empty set is about to get: one
// that will be too large for a listpack never goes through one, which would drop the sign of -0.
func (z *ZSet) Reserve(members, longest int) error {
	limits := z.db.limits()
	if int64(members) > limits.ZSetEntries() || int64(longest) > limits.ZSetValue() {
		return z.spread()
	}
	return nil
}

// Exists reports whether the key was there when the set was opened.
func (z *ZSet) Exists() bool { return z.old.Exists }

// Len is the number of members.
func (z *ZSet) Len() int {
	if z.packed() {
		return z.pack.Len() / 2
	}
	return int(z.next.Count)
}

func (z *ZSet) packed() bool { return z.next.Encoding == layout.Listpack }

// Save writes the set down: its record, or that the key is gone with the last member. name is the
// event that it is.
func (z *ZSet) Save(name keyevent.Name) error {
	if z.made != nil {
		if err := z.made.Finish(); err != nil {
			return err
		}
	}
	empty := z.Len() == 0
	var err error
	switch {
	case !empty:
		z.next.Value = z.pack
		err = z.db.save(z.key, &z.old, &z.next)
	case z.old.Exists:
		err = z.db.Remove(z.key, z.old)
	}
	z.db.notifySaved(name, z.key, empty, z.old.Exists)
	return err
}

// scoreElement is a score as Redis puts it into a listpack: as an integer if it is one, else as
// text.
func (z *ZSet) scoreElement(score float64) listpack.Element {
	if score >= -math.MaxInt64/2 && score <= math.MaxInt64/2 && float64(int64(score)) == score {
		return listpack.OfInt(int64(score))
	}
	z.db.txn.scratch.element = number.AppendDouble(z.db.txn.scratch.element[:0], score)
	return listpack.Of(z.db.txn.scratch.element)
}

func (z *ZSet) scoreAt(pos int) (float64, error) { return z.score(z.pack.At(pos)) }

// score reads what scoreElement made.
func (z *ZSet) score(e listpack.Element) (float64, error) {
	if e.IsInt() {
		return float64(e.Int), nil
	}
	score, ok := number.ParseDouble(e.Bytes)
	if !ok {
		return 0, fmt.Errorf("%w: sorted set %q has the score %q", layout.ErrCorrupt, z.key, e.Bytes)
	}
	return score, nil
}

func (z *ZSet) edit(change func(dst []byte) listpack.Listpack) { z.pack = z.db.txn.edit(change) }

// Score returns a member's score.
func (z *ZSet) Score(member []byte) (score float64, found bool, err error) {
	if z.packed() {
		pos := z.pack.Find(z.pack.First(), member, 1)
		if pos == listpack.None {
			return 0, false, nil
		}
		score, err = z.scoreAt(z.pack.Next(pos))
		return score, err == nil, err
	}
	value, found, err := z.db.getElement(layout.KindZSetMember, z.next.ID, member)
	if err != nil || !found {
		return 0, false, err
	}
	score, err = layout.DecodeScore(value)
	return score, err == nil, err
}

// Put gives a member a score; was says what Score returned for it.
func (z *ZSet) Put(member []byte, score float64, was float64, existed bool) error {
	if z.packed() && !existed && z.full(member) {
		if err := z.spread(); err != nil {
			return err
		}
	}
	if !z.packed() {
		return z.putRecords(member, score, was, existed)
	}
	if existed {
		if err := z.removePacked(member); err != nil {
			return err
		}
	}
	return z.insertPacked(member, score)
}

// AddNew gives a score to a member that is none yet, of a set that is being made: it may become
// very large, and is staged then. Until Save nothing else is asked of the set.
func (z *ZSet) AddNew(member []byte, score float64) error {
	if z.packed() && z.full(member) {
		if err := z.spread(); err != nil {
			return err
		}
	}
	if z.packed() {
		return z.insertPacked(member, score)
	}
	if z.made == nil {
		z.made = z.db.txn.NewElements(z.db.space, layout.ZSet, z.next.ID)
	}
	z.next.Count++
	return putScored(z.made, member, score)
}

func (z *ZSet) full(member []byte) bool {
	limits := z.db.limits()
	return int64(z.Len()) >= limits.ZSetEntries() || int64(len(member)) > limits.ZSetValue()
}

func (z *ZSet) insertPacked(member []byte, score float64) error {
	at := listpack.None
	for pos := z.pack.First(); pos != listpack.None; {
		scorePos := z.pack.Next(pos)
		other, err := z.scoreAt(scorePos)
		if err != nil {
			return err
		}
		if other > score || other == score && bytes.Compare(z.memberAt(pos), member) > 0 {
			at = pos
			break
		}
		pos = z.pack.Next(scorePos)
	}
	z.edit(func(dst []byte) listpack.Listpack {
		return z.pack.InsertBefore(dst, at, listpack.Of(member), z.scoreElement(score))
	})
	return nil
}

// memberAt is the member at a place, valid until the next one is asked for.
func (z *ZSet) memberAt(pos int) []byte { return text(z.pack.At(pos), &z.db.txn.scratch.member) }

func (z *ZSet) removePacked(member []byte) error {
	pos := z.pack.Find(z.pack.First(), member, 1)
	z.edit(func(dst []byte) listpack.Listpack {
		rest, _ := z.pack.Delete(dst, pos, 2)
		return rest
	})
	return nil
}

func (z *ZSet) putRecords(member []byte, score, was float64, existed bool) error {
	t := z.db.txn
	t.scratch.element = layout.AppendScore(t.scratch.element[:0], score)
	members := z.members()
	if existed {
		if err := errors.Join(z.deleteScore(member, was), members.replace(member, t.scratch.element)); err != nil {
			return err
		}
	} else {
		z.next.Count++
		if err := members.put(member, t.scratch.element); err != nil {
			return err
		}
	}
	t.scratch.key2 = layout.AppendScoreKey(t.scratch.key2[:0], z.next.ID, score, member)
	t.scratch.element = layout.AppendScoreValue(t.scratch.element[:0], score)
	return t.Put(z.db.space, t.scratch.key2, t.scratch.element)
}

// members are those of a spread set, with their scores.
func (z *ZSet) members() spreadElements {
	return spreadElements{db: z.db, kind: layout.KindZSetMember, id: z.next.ID}
}

func (z *ZSet) deleteScore(member []byte, score float64) error {
	t := z.db.txn
	t.scratch.key2 = layout.AppendScoreKey(t.scratch.key2[:0], z.next.ID, score, member)
	return t.Delete(z.db.space, t.scratch.key2)
}

// spread gives each member its records.
func (z *ZSet) spread() error {
	pack := z.pack
	z.next.Encoding, z.next.ID, z.next.Count, z.next.Value = layout.Spread, z.db.txn.NewID(), 0, nil
	var member []byte
	for pos := pack.First(); pos != listpack.None; {
		scorePos := pack.Next(pos)
		score, err := z.scoreAt(scorePos)
		if err != nil {
			return err
		}
		member = pack.At(pos).AppendTo(member[:0])
		if err := z.putRecords(member, score, 0, false); err != nil {
			return err
		}
		pos = pack.Next(scorePos)
	}
	z.pack = nil
	return nil
}

// Remove takes a member out; score is its score.
func (z *ZSet) Remove(member []byte, score float64) error {
	if z.packed() {
		return z.removePacked(member)
	}
	z.next.Count--
	members := z.members()
	if err := members.delete(member); err != nil {
		return err
	}
	return z.deleteScore(member, score)
}

// ScoreRange is a range of scores.
type ScoreRange struct {
	Min, Max                   float64
	MinExclusive, MaxExclusive bool
}

// Empty reports whether no score can be in the range.
func (r *ScoreRange) Empty() bool {
	return r.Min > r.Max || r.Min == r.Max && (r.MinExclusive || r.MaxExclusive)
}

func (r *ScoreRange) below(score float64) bool {
	return score < r.Min || r.MinExclusive && score == r.Min
}

func (r *ScoreRange) above(score float64) bool {
	return score > r.Max || r.MaxExclusive && score == r.Max
}

// LexBound is an end of a range of members.
type LexBound struct {
	Value     []byte
	Exclusive bool
	Infinite  int // -1 before all members, 1 behind them
}

// LexRange is a range of members, of a set all of whose scores are equal.
type LexRange struct{ Min, Max LexBound }

// Empty reports whether no member can be in the range.
func (r *LexRange) Empty() bool {
	if r.Min.Infinite != 0 || r.Max.Infinite != 0 {
		return r.Min.Infinite > 0 || r.Max.Infinite < 0
	}
	d := bytes.Compare(r.Min.Value, r.Max.Value)
	return d > 0 || d == 0 && (r.Min.Exclusive || r.Max.Exclusive)
}

func (r *LexRange) below(member []byte) bool {
	return beyond(&r.Min, bytes.Compare(r.Min.Value, member))
}
func (r *LexRange) above(member []byte) bool {
	if r.Max.Infinite != 0 {
		return r.Max.Infinite < 0
	}
	return beyond(&r.Max, bytes.Compare(member, r.Max.Value))
}

func beyond(b *LexBound, d int) bool {
	if b.Infinite != 0 {
		return b.Infinite > 0
	}
	return d > 0 || d == 0 && b.Exclusive
}

// Visit is called for members in order; it returns false to stop. The member is valid during the
// call.
type Visit func(member []byte, score float64) bool

// ByRank visits n members from a rank on; ranks count from the end, and members come backwards, if
// reverse.
func (z *ZSet) ByRank(rank, n int, reverse bool, visit Visit) error {
	n = min(n, z.Len()-rank)
	switch {
	case n <= 0:
		return nil
	case z.packed():
		return z.scanPacked(rank, n, reverse, visit)
	}
	if x := z.index(); x.Counts() {
		var corrupt error
		err := x.ByRank(z.fromStart(rank, reverse), reverse, func(key, value []byte) bool {
			score, member, err := layout.DecodeScored(key, value)
			if n--; err != nil {
				corrupt = err
				return false
			}
			return visit(member, score) && n > 0
		})
		return cmp.Or(err, corrupt)
	}
	visit = upTo(n, visit)
	if rank > z.Len()/2 {
		return z.byRankFromFarEnd(rank, reverse, visit)
	}
	return z.scan(reverse, behind(rank, visit))
}

// fromStart is the rank from the beginning.
func (z *ZSet) fromStart(rank int, reverse bool) int {
	if reverse {
		return z.Len() - 1 - rank
	}
	return rank
}

// behind visits what comes behind the first members.
func behind(first int, visit Visit) Visit {
	return func(member []byte, score float64) bool {
		if first > 0 {
			first--
			return true
		}
		return visit(member, score)
	}
}

// upTo visits n members.
func upTo(n int, visit Visit) Visit {
	return func(member []byte, score float64) bool {
		n--
		return visit(member, score) && n > 0
	}
}

// byRankFromFarEnd finds where a walk has to begin by walking the other way.
func (z *ZSet) byRankFromFarEnd(rank int, reverse bool, visit Visit) error {
	skip := z.Len() - rank - 1
	var first []byte
	var at float64
	err := z.scan(!reverse, func(member []byte, score float64) bool {
		if skip == 0 {
			first, at = bytes.Clone(member), score
		}
		skip--
		return skip >= 0
	})
	if err != nil {
		return err
	}
	start := layout.AppendScored(nil, at, first)
	if reverse {
		return z.scanIndex(nil, append(start, 0), true, visit)
	}
	return z.scanIndex(start, nil, false, visit)
}

// All visits all members by score.
func (z *ZSet) All(visit Visit) error { return z.scan(false, visit) }

func (z *ZSet) scan(reverse bool, visit Visit) error {
	if z.packed() {
		return z.scanPacked(0, z.Len(), reverse, visit)
	}
	return z.scanIndex(nil, nil, reverse, visit)
}

// scanPacked visits n members of a packed set from a rank on.
func (z *ZSet) scanPacked(rank, n int, reverse bool, visit Visit) error {
	if reverse {
		return z.scanPackedBackwards(rank, n, visit)
	}
	for pos := z.pack.Seek(2 * rank); n > 0 && pos != listpack.None; n-- {
		member, scorePos := z.pack.Step(pos)
		element, next := z.pack.Step(scorePos)
		score, err := z.score(element)
		if err != nil {
			return err
		}
		if !visit(text(member, &z.db.txn.scratch.member), score) {
			return nil
		}
		pos = next
	}
	return nil
}

func (z *ZSet) scanPackedBackwards(rank, n int, visit Visit) error {
	for scorePos := z.pack.Seek(-1 - 2*rank); n > 0 && scorePos != listpack.None; n-- {
		score, err := z.scoreAt(scorePos)
		if err != nil {
			return err
		}
		pos := z.pack.Prev(scorePos)
		if !visit(text(z.pack.At(pos), &z.db.txn.scratch.member), score) {
			return nil
		}
		scorePos = z.pack.Prev(pos)
	}
	return nil
}

// index is the one by score, as the set has it now.
func (z *ZSet) index() *engine.Index {
	z.byScore = z.db.txn.NewIndex(z.db.space, layout.KindZSetScore, z.next.ID, z.Len(), true, z.key)
	return &z.byScore
}

// scanIndex visits what lies between two keys of the index; nil is an end of it.
func (z *ZSet) scanIndex(lower, upper []byte, reverse bool, visit Visit) error {
	var corrupt error
	err := z.index().Scan(lower, upper, reverse, scored(visit, &corrupt))
	return errors.Join(err, corrupt)
}

// scored visits entries of the index as members.
func scored(visit Visit, corrupt *error) engine.VisitEntry {
	return func(key, value []byte) bool {
		score, member, err := layout.DecodeScored(key, value)
		*corrupt = err
		return err == nil && visit(member, score)
	}
}

// ByScore visits the members in a range of scores, but for the first ones.
func (z *ZSet) ByScore(r ScoreRange, first int, reverse bool, visit Visit) error {
	if r.Empty() {
		return nil
	}
	if !z.packed() {
		lower, upper := scoreBounds(r)
		return z.between(lower, upper, first, reverse, visit)
	}
	visit = behind(first, visit)
	return z.scan(reverse, func(member []byte, score float64) bool {
		switch {
		case r.below(score):
			return !reverse
		case r.above(score):
			return reverse
		}
		return visit(member, score)
	})
}

// CountByScore is the number of members in a range of scores.
func (z *ZSet) CountByScore(r ScoreRange) (n int, err error) {
	if z.packed() || r.Empty() {
		return count(func(visit Visit) error { return z.ByScore(r, 0, false, visit) })
	}
	return z.countBetween(scoreBounds(r))
}

func count(walk func(Visit) error) (n int, err error) {
	err = walk(func([]byte, float64) bool { n++; return true })
	return n, err
}

func scoreBounds(r ScoreRange) (lower, upper []byte) {
	return scoreBound(r.Min, r.MinExclusive), scoreBound(r.Max, !r.MaxExclusive)
}

// between visits what lies between two keys of the index, but for the first members.
func (z *ZSet) between(lower, upper []byte, first int, reverse bool, visit Visit) error {
	x := z.index()
	if first <= engine.FewEntries || !x.Counts() {
		return z.scanIndex(lower, upper, reverse, behind(first, visit))
	}
	from, to, err := x.Between(lower, upper, reverse)
	n := to - from - first
	if err != nil || n <= 0 {
		return err
	}
	if reverse {
		from = z.Len() - to
	}
	return z.ByRank(from+first, n, reverse, visit)
}

// countBetween is the number of members between two keys of the index.
func (z *ZSet) countBetween(lower, upper []byte) (n int, err error) {
	if x := z.index(); x.Counts() {
		return x.CountBetween(lower, upper)
	}
	return count(func(visit Visit) error { return z.scanIndex(lower, upper, false, visit) })
}

// scoreBound is the first key of the index with a score, or behind all that have it.
func scoreBound(score float64, behind bool) []byte {
	key := layout.AppendScored(make([]byte, 0, 8), score, nil)
	if behind {
		return layout.Successor(nil, key)
	}
	return key
}

// ByLex visits the members in a range, but for the first ones, of a set all of whose scores are
// equal. When they differ, it does what Redis does: it looks for the first member within the nearer
// bound, and goes on from there up to the first that is beyond the other. Those that it passes over
// may be.
func (z *ZSet) ByLex(r LexRange, first int, reverse bool, visit Visit) error {
	if r.Empty() || z.Len() == 0 {
		return nil
	}
	lowest, highest, err := z.ends()
	if err != nil {
		return err
	}
	if !z.packed() && lowest.score == highest.score {
		lower, upper := lexBounds(r, lowest.score)
		return z.between(lower, upper, first, reverse, visit)
	}
	if r.above(lowest.member) || r.below(highest.member) {
		return nil
	}
	early, late := r.below, r.above
	if reverse {
		early, late = late, early
	}
	started := false
	goOn := behind(first, func(member []byte, score float64) bool { return !late(member) && visit(member, score) })
	return z.scan(reverse, func(member []byte, score float64) bool {
		if !started {
			if early(member) {
				return true
			}
			if started = true; late(member) {
				return false
			}
		}
		return goOn(member, score)
	})
}

// CountByLex is the number of members that ByLex visits.
func (z *ZSet) CountByLex(r LexRange) (int, error) {
	if !z.packed() && !r.Empty() && z.Len() > 0 {
		lowest, highest, err := z.ends()
		if err != nil {
			return 0, err
		}
		if lowest.score == highest.score {
			return z.countBetween(lexBounds(r, lowest.score))
		}
	}
	return count(func(visit Visit) error { return z.ByLex(r, 0, false, visit) })
}

type scoredMember struct {
	member []byte
	score  float64
}

// ends returns the first and the last member of a set that has any.
func (z *ZSet) ends() (lowest, highest scoredMember, err error) {
	for i, end := range []*scoredMember{&lowest, &highest} {
		err = z.scan(i == 1, func(member []byte, score float64) bool {
			*end = scoredMember{bytes.Clone(member), score}
			return false
		})
		if err != nil {
			break
		}
	}
	return lowest, highest, err
}

func lexBounds(r LexRange, common float64) (lower, upper []byte) {
	if r.Min.Infinite == 0 {
		lower = layout.AppendScored(nil, common, r.Min.Value)
		if r.Min.Exclusive {
			lower = append(lower, 0)
		}
	}
	if r.Max.Infinite == 0 {
		upper = layout.AppendScored(nil, common, r.Max.Value)
		if !r.Max.Exclusive {
			upper = append(upper, 0)
		}
	}
	return lower, upper
}

// Rank is how many members stand before one with a score; behind it, if reverse. Among many that
// aren't counted yet they are counted from the beginning on, or, reverse, from the end.
func (z *ZSet) Rank(member []byte, score float64, reverse bool) (rank int, err error) {
	if z.packed() {
		err = z.scan(reverse, func(m []byte, _ float64) bool {
			if bytes.Equal(m, member) {
				return false
			}
			rank++
			return true
		})
		return rank, err
	}
	key := layout.AppendScored(z.db.txn.scratch.key2[:0], score, member)
	if x := z.index(); x.Counts() {
		rank, err = x.Before(key, reverse)
		return z.fromStart(rank, reverse), err
	}
	if reverse {
		return count(func(visit Visit) error { return z.scanIndex(append(key, 0), nil, true, visit) })
	}
	return count(func(visit Visit) error { return z.scanIndex(nil, key, false, visit) })
}

// From visits the members of a spread set in the order of their names, from one on (nil: the
// first); those of a packed one all, by score.
func (z *ZSet) From(member []byte, visit Visit) error {
	if z.packed() {
		return z.scan(false, visit)
	}
	var corrupt error
	members := z.members()
	x := members.index(z.next.Count, true)
	err := x.Scan(member, nil, false, func(member, value []byte) bool {
		score, err := layout.DecodeScore(value)
		corrupt = err
		return err == nil && visit(member, score)
	})
	return errors.Join(err, corrupt)
}

// Spread reports whether each member has a record of its own.
func (z *ZSet) Spread() bool { return !z.packed() }
