package command

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/sortorder"
)

// combination is one of the ways to combine sorted sets.
type combination int

const (
	union combination = iota
	intersection
	difference
)

func zsetCombineCommands() []Command {
	complexity := "O(N) + O(M*log(M)), N being the number of members of all sets and M of those of the result"
	weights := " [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX | COUNT>]"
	reply := func(name, since, syntax, summary string, how combination) Command {
		return Command{Name: name, Arity: -3, Flags: ReadOnly | MovableKeys, Categories: CategorySortedSet,
			Keys: []KeySpec{countedKeys(1, RO|Access)}, Group: "sorted-set", Since: since, Complexity: complexity,
			Syntax: "numkeys key [key ...]" + syntax + " [WITHSCORES]", Summary: summary,
			Run: func(c *Invocation) error { return replyCombination(c, how) }}
	}
	store := func(name, since, syntax, summary string, how combination) Command {
		return Command{Name: name, Arity: -4, Flags: Write | DenyOOM | MovableKeys, Categories: CategorySortedSet,
			Keys: []KeySpec{oneKey(1, OW|Update), countedKeys(2, RO|Access)}, Group: "sorted-set", Since: since, Complexity: complexity,
			Syntax: "destination numkeys key [key ...]" + syntax, Summary: summary,
			Run: func(c *Invocation) error { return storeCombination(c, how) }}
	}
	return []Command{
		reply("zunion", "6.2.0", weights, "Returns the union of sorted sets.", union),
		reply("zinter", "6.2.0", weights, "Returns the intersection of sorted sets.", intersection),
		reply("zdiff", "6.2.0", "", "Returns the difference between the first sorted set and the others.", difference),
		store("zunionstore", "2.0.0", weights, "Stores the union of sorted sets.", union),
		store("zinterstore", "2.0.0", weights, "Stores the intersection of sorted sets.", intersection),
		store("zdiffstore", "6.2.0", "", "Stores the difference between the first sorted set and the others.", difference),
		{Name: "zintercard", Arity: -3, Flags: ReadOnly | MovableKeys, Categories: CategorySortedSet, Run: cmdZInterCard,
			Keys: []KeySpec{countedKeys(1, RO|Access)}, Group: "sorted-set", Since: "7.0.0",
			Complexity: "O(N*K), N being the number of members of the smallest set and K the number of sets",
			Syntax:     "numkeys key [key ...] [LIMIT limit]",
			Summary:    "Counts the members of an intersection of sorted sets."},
	}
}

// combined is a combination of sorted sets as it was asked for.
type combined struct {
	how        combination
	sources    []source
	members    *sortorder.Distinct // what comes out
	aggregate  func(a, b float64) float64
	withScores bool
	limit      int64 // for ZINTERCARD; 0 is none
}

// combinations lends what combinations gather members in: most are of few.
type combinations struct{ pool sync.Pool }

// begin makes a combination, which is to be ended when nobody looks at its members any more.
func (p *combinations) begin(how combination) combined {
	members, ok := p.pool.Get().(*sortorder.Distinct)
	if !ok {
		members = &sortorder.Distinct{}
	}
	return combined{how: how, members: members}
}

func (p *combinations) end(q *combined) {
	q.members.Reset(0) // gives up the memory of many
	p.pool.Put(q.members)
}

type source struct {
	storage.Scored
	weight float64
	counts bool // each score counts as one
}

// parse reads a number of keys, the keys, and the options that this command has.
func (q *combined) parse(c *Invocation, words [][]byte, storing, counting bool) error {
	count, err := parseInteger(words[0])
	switch {
	case err != nil:
		return err
	case count < 1:
		return Errorf("ERR at least 1 input key is needed for '%s' command", c.Command.FullName())
	case count > int64(len(words)-1):
		return ErrSyntax
	}
	for _, key := range words[1 : 1+count] {
		s, err := c.DB.Reading().Scored(key)
		if err != nil {
			return err
		}
		q.sources = append(q.sources, source{Scored: s, weight: 1})
	}
	q.aggregate = sumScores
	a := arguments{words: words[1+count:]}
	for a.more() {
		weighted := q.how != difference && !counting
		switch {
		case weighted && len(a.words) > len(q.sources) && a.flag("WEIGHTS"):
			q.parseWeights(&a)
		case weighted && len(a.words) > 1 && a.flag("AGGREGATE"):
			q.parseAggregate(&a)
		case !storing && !counting && a.flag("WITHSCORES"):
			q.withScores = true
		case counting && len(a.words) > 1 && a.flag("LIMIT"):
			q.limit, a.err = parseFromZero(a.next(), a.err, "ERR LIMIT can't be negative")
		default:
			a.fail(ErrSyntax)
		}
	}
	return a.err
}

func (q *combined) parseWeights(a *arguments) {
	for i := range q.sources {
		weight, ok := number.ParseDouble(a.next())
		if !ok {
			a.fail(Error("ERR weight value is not a float"))
			return
		}
		q.sources[i].weight = weight
	}
}

func (q *combined) parseAggregate(a *arguments) {
	counts := false
	switch {
	case a.flag("SUM"):
		q.aggregate = sumScores
	case a.flag("COUNT"):
		q.aggregate, counts = sumScores, true
	case a.flag("MIN"):
		q.aggregate = lowerScore
	case a.flag("MAX"):
		q.aggregate = higherScore
	default:
		a.fail(ErrSyntax)
	}
	for i := range q.sources {
		q.sources[i].counts = counts
	}
}

// sumScores adds; what is not a number (inf - inf) is 0.
func sumScores(a, b float64) float64 {
	if sum := a + b; !math.IsNaN(sum) {
		return sum
	}
	return 0
}

// lowerScore and higherScore keep the first of two equal ones: -0 and 0 are.
func lowerScore(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func higherScore(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

// product is a score with the weight of its set.
func (s *source) product(score float64) float64 {
	if s.counts {
		return s.weight
	}
	return score * s.weight
}

func (s *source) weighted(score float64) float64 {
	if score = s.product(score); !math.IsNaN(score) {
		return score
	}
	return 0
}

// result combines, and orders what comes out by score, which is its number, and member.
func (q *combined) result() (*sortorder.Elements, error) {
	if q.how != difference {
		// As Redis does: the smallest first, also because the sum of floats depends on the order.
		slices.SortStableFunc(q.sources, func(a, b source) int { return cmp.Compare(a.Len(), b.Len()) })
	}
	var members *sortorder.Elements
	var err error
	switch q.how {
	case union:
		members, err = q.union()
	case intersection:
		members, err = q.intersection()
	case difference:
		members, err = q.difference()
	}
	if err != nil {
		return nil, err
	}
	sortorder.Order{}.Sort(members, 0, members.Len())
	return members, nil
}

// union gathers the members of all sets, in the order of the sets.
func (q *combined) union() (*sortorder.Elements, error) {
	if len(q.sources) == 1 {
		return q.collect(func(_ []byte, score float64) (float64, bool, error) { return q.sources[0].weighted(score), true, nil })
	}
	expected := 0
	for i := range q.sources {
		expected += q.sources[i].Len()
	}
	members := q.members
	members.Reset(expected)
	for i := range q.sources {
		s := &q.sources[i]
		err := s.All(func(member []byte, score float64) bool {
			score = s.weighted(score)
			at, added := members.Put(member)
			if !added {
				score = q.aggregate(members.Number(at), score)
			}
			members.SetNumber(at, score)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return &members.Elements, nil
}

func (q *combined) intersection() (*sortorder.Elements, error) {
	return q.collect(func(member []byte, score float64) (float64, bool, error) {
		score = q.sources[0].weighted(score)
		for i := 1; i < len(q.sources); i++ {
			other, found, err := q.sources[i].Score(member)
			if err != nil || !found {
				return 0, false, err
			}
			// Here what is not a number makes the whole sum so, and that is 0, as in Redis.
			score = q.aggregate(score, q.sources[i].product(other))
		}
		return score, true, nil
	})
}

func (q *combined) difference() (*sortorder.Elements, error) {
	return q.collect(func(member []byte, score float64) (float64, bool, error) {
		for i := 1; i < len(q.sources); i++ {
			if _, found, err := q.sources[i].Score(member); err != nil || found {
				return 0, false, err
			}
		}
		return score, true, nil
	})
}

// collect gathers the members of the first set that judge lets pass, up to the limit.
func (q *combined) collect(judge func(member []byte, score float64) (float64, bool, error)) (*sortorder.Elements, error) {
	members := &q.members.Elements
	members.Reset()
	var own []byte
	var failed error
	err := q.sources[0].All(func(member []byte, score float64) bool {
		own = append(own[:0], member...)
		result, passes, err := judge(own, score)
		if err != nil {
			failed = err
			return false
		}
		if passes {
			members.Add(own)
			members.SetNumber(members.Len()-1, result)
		}
		return q.limit == 0 || int64(members.Len()) < q.limit
	})
	return members, cmp.Or(failed, err)
}

func replyCombination(c *Invocation, how combination) error {
	q := keptBy(c.Engine).combinations.begin(how)
	defer keptBy(c.Engine).combinations.end(&q)
	if err := q.parse(c, c.Args[1:], false, false); err != nil {
		return err
	}
	members, err := q.result()
	if err != nil {
		return err
	}
	out := newScoredReply(c, members.Len(), q.withScores)
	for i := range members.Len() {
		letOthersRun(i)
		out.add(members.Value(i), members.Number(i))
	}
	return nil
}

// combinationStored are the events of combinations that are stored.
var combinationStored = [...]keyevent.Name{
	union: keyevent.ZUnionStore, intersection: keyevent.ZInterStore, difference: keyevent.ZDiffStore}

func storeCombination(c *Invocation, how combination) error {
	q := keptBy(c.Engine).combinations.begin(how)
	defer keptBy(c.Engine).combinations.end(&q)
	if err := q.parse(c, c.Args[2:], true, false); err != nil {
		return err
	}
	members, err := q.result()
	if err != nil {
		return err
	}
	if q.sources[0].counts { // not all replicas know how
		if err := repeatStored(c, c.Args[1], members); err != nil {
			return err
		}
	}
	longest := 0
	for i := range members.Len() {
		letOthersRun(i)
		longest = max(longest, len(members.Value(i)))
	}
	return storeScored(c, combinationStored[how], c.Args[1], members, longest)
}

func cmdZInterCard(c *Invocation) error {
	q := keptBy(c.Engine).combinations.begin(intersection)
	defer keptBy(c.Engine).combinations.end(&q)
	if err := q.parse(c, c.Args[1:], false, true); err != nil {
		return err
	}
	members, err := q.result()
	if err != nil {
		return err
	}
	c.Reply.Integer(int64(members.Len()))
	return nil
}
