package command

import (
	"bytes"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/sortorder"
)

const (
	errScoreBound  = Error("ERR min or max is not a float")
	errLexBound    = Error("ERR min or max not valid string range item")
	errLimitByRank = Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	errLexScores   = Error("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
)

// zsetRangeCommands return or count parts of sorted sets.
func zsetRangeCommands() []Command {
	rangeRow := func(name, since, syntax, summary string, q rangeQuery) Command {
		return Command{Name: name, Arity: -4, Flags: ReadOnly, Categories: CategorySortedSet,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "sorted-set", Since: since,
			Complexity: "O(log(N)+M), N being the number of members and M of those returned", Syntax: syntax, Summary: summary,
			Run: func(c *Invocation) error { return replyRange(c, q) }}
	}
	countRow := func(name, since, syntax, summary string, by rangeBy) Command {
		return Command{Name: name, Arity: 4, Flags: ReadOnly | Fast, Categories: CategorySortedSet,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "sorted-set", Since: since,
			Complexity: "O(log(N)+M), N being the number of members and M of those counted", Syntax: syntax, Summary: summary,
			Run: func(c *Invocation) error { return countRange(c, by) }}
	}
	return []Command{
		rangeRow("zrange", "1.2.0", "key start:string stop:string [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
			"Returns a part of a sorted set.", rangeQuery{free: true}),
		rangeRow("zrevrange", "1.2.0", "key start stop [WITHSCORES]",
			"Returns a part of a sorted set by rank, the highest scores first.", rangeQuery{reverse: true}),
		rangeRow("zrangebyscore", "1.0.5", "key min max [WITHSCORES] [LIMIT offset count]",
			"Returns the members in a range of scores.", rangeQuery{by: byScore}),
		rangeRow("zrevrangebyscore", "2.2.0", "key max min [WITHSCORES] [LIMIT offset count]",
			"Returns the members in a range of scores, the highest first.", rangeQuery{by: byScore, reverse: true}),
		rangeRow("zrangebylex", "2.8.9", "key min:string max:string [LIMIT offset count]",
			"Returns the members in a range of names, when all scores are equal.", rangeQuery{by: byLex}),
		rangeRow("zrevrangebylex", "2.8.9", "key max:string min:string [LIMIT offset count]",
			"Returns the members in a range of names, backwards, when all scores are equal.", rangeQuery{by: byLex, reverse: true}),
		{Name: "zrangestore", Arity: -5, Flags: Write | DenyOOM, Categories: CategorySortedSet, Run: cmdZRangeStore,
			Keys: []KeySpec{oneKey(1, OW|Update), oneKey(2, RO|Access)}, Group: "sorted-set", Since: "6.2.0",
			Complexity: "O(log(N)+M), N being the number of members and M of those stored",
			Syntax:     "dst src min:string max:string [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
			Summary:    "Stores a part of a sorted set in another key."},
		countRow("zcount", "2.0.0", "key min max", "Counts the members in a range of scores.", byScore),
		countRow("zlexcount", "2.8.9", "key min:string max:string",
			"Counts the members in a range of names, when all scores are equal.", byLex),
	}
}

// zsetRemoveCommands remove members.
func zsetRemoveCommands() []Command {
	row := func(name, since, syntax, summary string, by rangeBy) Command {
		return Command{Name: name, Arity: 4, Flags: Write, Categories: CategorySortedSet,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Group: "sorted-set", Since: since,
			Complexity: "O(log(N)+M), N being the number of members and M of those removed", Syntax: syntax, Summary: summary,
			Run: func(c *Invocation) error { return removeRange(c, by) }}
	}
	return []Command{
		{Name: "zrem", Arity: -3, Flags: Write | Fast, Categories: CategorySortedSet, Run: cmdZRem,
			Keys: []KeySpec{oneKey(1, RW|Delete)}, Group: "sorted-set", Since: "1.2.0",
			Complexity: "O(M*log(N)), N being the number of members and M of those removed", Syntax: "key member [member ...]", Prefetch: PrefetchLastElement,
			Summary: "Removes members from a sorted set."},
		row("zremrangebyrank", "2.0.0", "key start stop", "Removes the members in a range of ranks.", byRank),
		row("zremrangebyscore", "1.2.0", "key min max", "Removes the members in a range of scores.", byScore),
		row("zremrangebylex", "2.8.9", "key min:string max:string", "Removes the members in a range of names, when all scores are equal.", byLex),
	}
}

// rangeBy is what a range's bounds are.
type rangeBy int

const (
	byRank rangeBy = iota
	byScore
	byLex
)

// rangeQuery is what ZRANGE and its kin ask for.
type rangeQuery struct {
	free       bool // BYSCORE, BYLEX and REV may be given: ZRANGE
	storing    bool // WITHSCORES may not: ZRANGESTORE
	by         rangeBy
	reverse    bool
	withScores bool
	limited    bool
	offset     int64
	limit      int64

	bounds
}

// bounds are those of one of the kinds of range.
type bounds struct {
	from, to int64
	scores   storage.ScoreRange
	lex      storage.LexRange
}

func (q *rangeQuery) parse(start, stop []byte, words [][]byte) error {
	if err := q.parseOptions(words); err != nil {
		return err
	}
	switch {
	case q.limited && q.limit != -1 && q.by == byRank:
		return errLimitByRank
	case q.withScores && q.by == byLex:
		return errLexScores
	}
	if q.reverse && q.by != byRank {
		start, stop = stop, start
	}
	return q.bounds.parse(q.by, start, stop)
}

func (q *rangeQuery) parseOptions(words [][]byte) error {
	q.limit = -1
	a := arguments{words: words}
	by := false
	for a.more() {
		switch {
		case !q.storing && a.flag("WITHSCORES"):
			q.withScores = true
		case len(a.words) > 2 && a.flag("LIMIT"):
			q.limited = true
			q.parseLimit(&a)
		case q.free && !q.reverse && a.flag("REV"):
			q.reverse = true
		case q.free && !by && a.flag("BYLEX"):
			q.by, by = byLex, true
		case q.free && !by && a.flag("BYSCORE"):
			q.by, by = byScore, true
		default:
			a.fail(ErrSyntax)
		}
	}
	return a.err
}

func (q *rangeQuery) parseLimit(a *arguments) {
	var err error
	if q.offset, err = parseInteger(a.next()); err != nil {
		a.fail(err)
		return
	}
	if q.limit, err = parseInteger(a.next()); err != nil {
		a.fail(err)
	}
}

func (b *bounds) parse(by rangeBy, lowest, highest []byte) (err error) {
	switch by {
	case byScore:
		b.scores, err = parseScoreRange(lowest, highest)
	case byLex:
		b.lex, err = parseLexRange(lowest, highest)
	default:
		b.from, b.to, err = parseRange(lowest, highest)
	}
	return err
}

func parseScoreRange(lowest, highest []byte) (r storage.ScoreRange, err error) {
	var ok, other bool
	r.Min, r.MinExclusive, ok = number.ParseScoreBound(lowest)
	r.Max, r.MaxExclusive, other = number.ParseScoreBound(highest)
	if !ok || !other {
		return r, errScoreBound
	}
	return r, nil
}

func parseLexRange(lowest, highest []byte) (r storage.LexRange, err error) {
	var ok, other bool
	r.Min, ok = parseLexBound(lowest)
	r.Max, other = parseLexBound(highest)
	if !ok || !other {
		return r, errLexBound
	}
	return r, nil
}

func parseLexBound(word []byte) (storage.LexBound, bool) {
	if len(word) == 0 {
		return storage.LexBound{}, false
	}
	switch word[0] {
	case '+':
		return storage.LexBound{Infinite: 1}, len(word) == 1
	case '-':
		return storage.LexBound{Infinite: -1}, len(word) == 1
	case '(':
		return storage.LexBound{Value: word[1:], Exclusive: true}, true
	case '[':
		return storage.LexBound{Value: word[1:]}, true
	}
	return storage.LexBound{}, false
}

// run visits what a query asks for.
func (q *rangeQuery) run(z *storage.ZSet, visit storage.Visit) error {
	if q.by == byRank {
		first, n := clampRange(q.from, q.to, z.Len())
		return z.ByRank(first, n, q.reverse, visit)
	}
	if q.offset < 0 || q.limit == 0 {
		return nil
	}
	left := q.limit
	limited := func(member []byte, score float64) bool {
		left--
		return visit(member, score) && left != 0
	}
	first := int(min(q.offset, int64(z.Len()))) // there are no more
	if q.by == byScore {
		return z.ByScore(q.scores, first, q.reverse, limited)
	}
	return z.ByLex(q.lex, first, q.reverse, limited)
}

func replyRange(c *Invocation, q rangeQuery) error {
	if err := q.parse(c.Args[2], c.Args[3], c.Args[4:]); err != nil {
		return err
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	n, handle := 0, c.Reply.BeginArray()
	pairs := q.withScores && c.Reply.Protocol() > 2
	err = q.run(&z, func(member []byte, score float64) bool {
		n++
		if pairs {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(member)
		if q.withScores {
			c.Reply.Double(score)
		}
		return true
	})
	if q.withScores && !pairs {
		n *= 2
	}
	c.Reply.EndArray(handle, n)
	return err
}

func cmdZRangeStore(c *Invocation) error {
	q := rangeQuery{free: true, storing: true}
	if err := q.parse(c.Args[3], c.Args[4], c.Args[5:]); err != nil {
		return err
	}
	source, err := c.DB.Reading().ZSet(c.Args[2])
	if err != nil {
		return err
	}
	found := &sortorder.Elements{}
	err = q.run(&source, func(member []byte, score float64) bool {
		found.Add(member)
		found.SetNumber(found.Len()-1, score)
		return true
	})
	if err != nil {
		return err
	}
	longest := 0
	if q.by == byRank {
		longest = 1 // Redis knows only their number in advance
	}
	return storeScored(c, keyevent.ZRangeStore, c.Args[1], found, longest)
}

// storeScored puts members, the longest of which is known or 0, into a sorted set that takes the
// place of what a key holds, and replies with their number.
func storeScored(c *Invocation, name keyevent.Name, key []byte, members *sortorder.Elements, longest int) error {
	z, err := c.DB.ReplaceZSet(key)
	if err != nil {
		return err
	}
	if longest > 0 {
		if err := z.Reserve(members.Len(), longest); err != nil {
			return err
		}
	}
	for i := range members.Len() {
		if err := z.AddNew(members.Value(i), members.Number(i)); err != nil {
			return err
		}
	}
	c.Reply.Integer(int64(members.Len()))
	return z.Save(name)
}

func countRange(c *Invocation, by rangeBy) error {
	var b bounds
	if err := b.parse(by, c.Args[2], c.Args[3]); err != nil {
		return err
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	var n int
	if by == byScore {
		n, err = z.CountByScore(b.scores)
	} else {
		n, err = z.CountByLex(b.lex)
	}
	c.Reply.Integer(int64(n))
	return err
}

func cmdZRem(c *Invocation) error {
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	removed := int64(0)
	for _, member := range c.Args[2:] {
		score, found, err := z.Score(member)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := z.Remove(member, score); err != nil {
			return err
		}
		removed++
	}
	c.Reply.Integer(removed)
	if removed == 0 {
		return nil
	}
	return z.Save(keyevent.ZRem)
}

// rangeRemoved are the events of removing what is in a range.
var rangeRemoved = [...]keyevent.Name{byRank: keyevent.ZRemRangeByRank, byScore: keyevent.ZRemRangeByScore, byLex: keyevent.ZRemRangeByLex}

func removeRange(c *Invocation, by rangeBy) error {
	q := rangeQuery{by: by, limit: -1}
	if err := q.bounds.parse(by, c.Args[2], c.Args[3]); err != nil {
		return err
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	var found []scoredMember
	err = q.run(&z, func(member []byte, score float64) bool {
		found = append(found, scoredMember{bytes.Clone(member), score})
		return true
	})
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(len(found)))
	if len(found) == 0 {
		return nil
	}
	if err := removeScored(&z, found); err != nil {
		return err
	}
	return z.Save(rangeRemoved[by])
}
