package command

import (
	"math"
	"math/rand/v2"
	"slices"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/server/execute"
	"kedis/storage"
)

func zsetFamily() Family {
	return Family{Commands: slices.Concat(zsetMemberCommands(), zsetPopCommands(), zsetRangeCommands(),
		zsetRemoveCommands(), zsetCombineCommands())}
}

// zsetMemberCommands look at and change single members.
func zsetMemberCommands() []Command {
	return []Command{
		{Name: "zadd", Arity: -4, Flags: Write | DenyOOM | Fast, Categories: CategorySortedSet, Run: cmdZAdd,
			Keys: []KeySpec{oneKey(1, RW|Update)}, Group: "sorted-set", Since: "1.2.0",
			Complexity: "O(log(N)) for each member, N being the number of members",
			Syntax:     "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]", Prefetch: PrefetchLastElement,
			Summary: "Adds members to a sorted set, or changes their scores."},
		{Name: "zincrby", Arity: 4, Flags: Write | DenyOOM | Fast, Categories: CategorySortedSet, Run: cmdZIncrBy,
			Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Group: "sorted-set", Since: "1.2.0",
			Complexity: "O(log(N)), N being the number of members", Syntax: "key increment member", Prefetch: PrefetchLastElement,
			Summary: "Adds to the score of a member."},
		{Name: "zcard", Arity: 2, Flags: ReadOnly | Fast, Categories: CategorySortedSet, Run: cmdZCard,
			Keys: []KeySpec{oneKey(1, RO)}, Group: "sorted-set", Since: "1.2.0", Complexity: "O(1)", Syntax: "key",
			Summary: "Returns the number of members of a sorted set."},
		{Name: "zscore", Arity: 3, Flags: ReadOnly | Fast, Categories: CategorySortedSet, Run: cmdZScore,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "sorted-set", Since: "1.2.0", Complexity: "O(1)", Syntax: "key member", Prefetch: PrefetchLastElement,
			Summary: "Returns the score of a member."},
		{Name: "zmscore", Arity: -3, Flags: ReadOnly | Fast, Categories: CategorySortedSet, Run: cmdZMScore,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "sorted-set", Since: "6.2.0",
			Complexity: "O(N), N being the number of members asked for", Syntax: "key member [member ...]", Prefetch: PrefetchLastElement,
			Summary: "Returns the scores of several members."},
		zsetRank("zrank", "2.0.0", false, "Returns how many members have a lower place than one."),
		zsetRank("zrevrank", "2.0.0", true, "Returns how many members have a higher place than one."),
		{Name: "zrandmember", Arity: -2, Flags: ReadOnly, Categories: CategorySortedSet, Run: cmdZRandMember,
			Keys: []KeySpec{oneKey(1, RO|Access)}, Tips: []string{"nondeterministic_output"}, Group: "sorted-set", Since: "6.2.0",
			Complexity: "O(N), N being the number of members", Syntax: "key [count [WITHSCORES]]",
			Summary: "Returns members by chance."},
	}
}

// addOptions are ZADD's.
type addOptions struct {
	nx, xx, gt, lt, ch, incr bool

	repeated [][]byte // the command as it is repeated elsewhere, when it changes something; nil: as it was given
}

func (o *addOptions) parse(words [][]byte) (rest [][]byte, err error) {
	a := arguments{words: words}
	for a.more() {
		switch {
		case a.flag("NX"):
			o.nx = true
		case a.flag("XX"):
			o.xx = true
		case a.flag("GT"):
			o.gt = true
		case a.flag("LT"):
			o.lt = true
		case a.flag("CH"):
			o.ch = true
		case a.flag("INCR"):
			o.incr = true
		default:
			return a.words, o.check(len(a.words))
		}
	}
	return nil, ErrSyntax
}

func (o *addOptions) check(words int) error {
	switch {
	case words%2 != 0:
		return ErrSyntax
	case o.nx && o.xx:
		return Error("ERR XX and NX options at the same time are not compatible")
	case o.gt && o.nx, o.lt && o.nx, o.gt && o.lt:
		return Error("ERR GT, LT, and/or NX options at the same time are not compatible")
	case o.incr && words > 2:
		return Error("ERR INCR option supports a single increment-element pair")
	}
	return nil
}

func cmdZAdd(c *Invocation) error { return addWords(c, addOptions{}) }

// cmdZIncrBy takes ZADD's options for options, as Redis does, though none leaves room for a pair.
func cmdZIncrBy(c *Invocation) error { return addWords(c, addOptions{incr: true}) }

func addWords(c *Invocation, o addOptions) error {
	pairs, err := o.parse(c.Args[2:])
	if err != nil {
		return err
	}
	return addScores(c, o, pairs)
}

func parseScore(word []byte) (float64, error) {
	if score, ok := number.ParseDouble(word); ok {
		return score, nil
	}
	return 0, ErrNotFloat
}

const errScoreNaN = Error("ERR resulting score is not a number (NaN)")

func addScores(c *Invocation, o addOptions, pairs [][]byte) error {
	scores := make([]float64, 0, 8)
	for i := 0; i < len(pairs); i += 2 {
		score, err := parseScore(pairs[i])
		if err != nil {
			return err
		}
		scores = append(scores, score)
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	var added, updated int64
	done := false
	for i, score := range scores {
		member := pairs[2*i+1]
		was, existed, err := z.Score(member)
		if err != nil {
			return err
		}
		if score, done, err = o.outcome(score, was, existed); err != nil {
			return err
		}
		scores[i] = score
		if !done || existed && score == was {
			continue
		}
		if err := z.Put(member, score, was, existed); err != nil {
			return err
		}
		if existed {
			updated++
		} else {
			added++
		}
	}
	replyAdded(c, o, added, updated, scores[0], done)
	if added+updated == 0 {
		return nil
	}
	name := keyevent.ZAdd
	switch {
	case o.incr:
		name = keyevent.ZIncr
		c.Effect(wordZAdd, c.Args[1], number.AppendDouble(nil, scores[0]), pairs[1])
	case o.repeated != nil:
		c.Effect(o.repeated...)
	}
	return z.Save(name)
}

var wordZAdd = []byte("ZADD")

// outcome is the score that a member gets; false when the options keep it as it is.
func (o *addOptions) outcome(score, was float64, existed bool) (float64, bool, error) {
	if !existed {
		return score, !o.xx, nil
	}
	if o.nx {
		return was, false, nil
	}
	if o.incr {
		if score += was; math.IsNaN(score) {
			return 0, false, errScoreNaN
		}
	}
	return score, !(o.lt && score >= was || o.gt && score <= was), nil
}

func replyAdded(c *Invocation, o addOptions, added, updated int64, score float64, done bool) {
	switch {
	case o.incr && done:
		c.Reply.Double(score)
	case o.incr:
		c.Reply.Null()
	case o.ch:
		c.Reply.Integer(added + updated)
	default:
		c.Reply.Integer(added)
	}
}

func cmdZCard(c *Invocation) error {
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(z.Len()))
	return nil
}

func replyScore(c *Invocation, z *storage.ZSet, member []byte) error {
	score, found, err := z.Score(member)
	if err != nil {
		return err
	}
	if found {
		c.Reply.Double(score)
	} else {
		c.Reply.Null()
	}
	return nil
}

func cmdZScore(c *Invocation) error {
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	return replyScore(c, &z, c.Args[2])
}

func cmdZMScore(c *Invocation) error {
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	c.Reply.Array(len(c.Args) - 2)
	for _, member := range c.Args[2:] {
		if err := replyScore(c, &z, member); err != nil {
			return err
		}
	}
	return nil
}

func zsetRank(name, since string, reverse bool, summary string) Command {
	return Command{Name: name, Arity: -3, Flags: ReadOnly | Fast, Categories: CategorySortedSet,
		Keys: []KeySpec{oneKey(1, RO|Access)}, Group: "sorted-set", Since: since,
		Complexity: "O(√N), N being the number of members; O(N) when they are counted first",
		Syntax:     "key member [WITHSCORE]", Prefetch: PrefetchElement, Summary: summary,
		Run: func(c *Invocation) error { return replyRank(c, reverse) }}
}

func replyRank(c *Invocation, reverse bool) error {
	withScore := len(c.Args) == 4
	switch {
	case len(c.Args) > 4:
		return execute.WrongArity(c.Command.FullName())
	case withScore && !equalFold(c.Args[3], "WITHSCORE"):
		return ErrSyntax
	}
	z, err := c.DB.ZSet(c.Args[1])
	if err != nil {
		return err
	}
	score, found, err := z.Score(c.Args[2])
	if err != nil {
		return err
	}
	switch {
	case !found && withScore:
		c.Reply.NullArray()
		return nil
	case !found:
		c.Reply.Null()
		return nil
	}
	rank, err := z.Rank(c.Args[2], score, reverse)
	if err != nil {
		return err
	}
	if withScore {
		c.Reply.Array(2)
	}
	c.Reply.Integer(int64(rank))
	if withScore {
		c.Reply.Double(score)
	}
	return nil
}

func cmdZRandMember(c *Invocation) error {
	z, err := zsetToSample(c)
	if err != nil {
		return err
	}
	if len(c.Args) == 2 {
		if z.Len() == 0 {
			c.Reply.Null()
			return nil
		}
		return z.ByRank(rand.IntN(z.Len()), 1, false, func(member []byte, _ float64) bool {
			c.Reply.Bulk(member)
			return true
		})
	}
	count, err := parseInteger(c.Args[2])
	if err != nil {
		return err
	}
	return replySample(c, &z, count, len(c.Args) == 4)
}

// zsetToSample checks ZRANDMEMBER's words before the key is looked at.
func zsetToSample(c *Invocation) (storage.ZSet, error) {
	if len(c.Args) >= 3 {
		count, err := parseInteger(c.Args[2])
		if err != nil || count == math.MinInt64 {
			return storage.ZSet{}, sampleRangeError(err)
		}
		if len(c.Args) > 4 || len(c.Args) == 4 && !equalFold(c.Args[3], "WITHSCORES") {
			return storage.ZSet{}, ErrSyntax
		}
		if len(c.Args) == 4 && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
			return storage.ZSet{}, Error("ERR value is out of range")
		}
	}
	return c.DB.ZSet(c.Args[1])
}

func sampleRangeError(err error) error {
	if err != nil {
		return err
	}
	return errLongRange
}

// replySample replies with count different members, or, when it is negative, with as many that may
// repeat.
func replySample(c *Invocation, z *storage.ZSet, count int64, withScores bool) error {
	n, repeated := sampleSize(count, z.Len())
	if z.Len() == 0 {
		n = 0
	}
	pick := z.RandomDistinct
	if repeated {
		pick = z.RandomRepeated
	}
	limit, out := newSampleLimit(c, repeated), newScoredReply(c, n, withScores)
	err := pick(uint64(n), func(member []byte, score float64) bool {
		out.add(member, score)
		return limit.within(c.Reply.Len())
	})
	return limit.check(err)
}

// scoredReply writes members, with their scores if asked for: in RESP3 each pair is an array.
type scoredReply struct {
	c          *Invocation
	withScores bool
}

func newScoredReply(c *Invocation, n int, withScores bool) scoredReply {
	if withScores && c.Reply.Protocol() == 2 {
		n *= 2
	}
	c.Reply.Array(n)
	return scoredReply{c, withScores}
}

func (r scoredReply) add(member []byte, score float64) {
	if r.withScores && r.c.Reply.Protocol() > 2 {
		r.c.Reply.Array(2)
	}
	r.c.Reply.Bulk(member)
	if r.withScores {
		r.c.Reply.Double(score)
	}
}
