package command

import (
	"math"

	"kedis/internal/keyevent"
	"kedis/internal/number"
	"kedis/storage"
	"kedis/storage/layout"
)

// incrementExCommand is INCREX, which Redis has from 8.8 on.
func incrementExCommand() Command {
	return Command{Name: "increx", Arity: -2, Flags: Write | DenyOOM | Fast, Categories: CategoryString,
		Keys: []KeySpec{oneKey(1, RW|Access|Update)}, Run: cmdIncrEx,
		Group: "string", Since: "8.8.0", Complexity: "O(1)",
		Syntax:  "key [BYFLOAT increment:double | BYINT increment] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [" + expiryTimes + " | PERSIST] [ENX]",
		Summary: "Adds to a string that is a number, within bounds, and perhaps changes when it expires."}
}

// bounded is what INCREX is asked for.
type bounded struct {
	float        bool
	by           []byte // nil: 1
	lower, upper []byte
	saturate     bool
	onlyNew      bool // ENX: a key that expires already keeps its time
	times        stringOptions
}

func (o *bounded) parse(words [][]byte) error {
	a := arguments{words: words}
	for a.more() {
		switch {
		case o.by == nil && a.option("BYINT", &o.by):
		case o.by == nil && a.option("BYFLOAT", &o.by):
			o.float = true
		case o.lower == nil && a.option("LBOUND", &o.lower):
		case o.upper == nil && a.option("UBOUND", &o.upper):
		case !o.saturate && a.flag("SATURATE"):
			o.saturate = true
		case !o.onlyNew && !o.times.persist && a.flag("ENX"):
			o.onlyNew = true
		case o.times.unit != nil: // one time, once
			a.fail(ErrSyntax)
		case !o.onlyNew && !o.times.persist && a.flag("PERSIST"):
			o.times.persist = true
		default:
			o.times.parseTime(&a)
		}
	}
	if a.err == nil && o.onlyNew && o.times.unit == nil {
		a.fail(Error("ERR ENX flag requires an expiration"))
	}
	return a.err
}

const errBounds = Error("ERR LBOUND can't be greater than UBOUND")

// sum is what comes out of an addition: texts of the new number, and of what was added to the old
// one.
type sum struct {
	value, added []byte
	refused      bool // it is out of bounds, and the number stays
}

func cmdIncrEx(c *Invocation) error {
	var o bounded
	if err := o.parse(c.Args[2:]); err != nil {
		return err
	}
	adder, err := o.adder()
	if err != nil {
		return err
	}
	expireMs, err := o.times.expireMs(c)
	if err != nil {
		return err
	}
	k, err := c.DB.LookupType(c.Args[1], layout.String)
	if err != nil {
		return err
	}
	s, err := adder.add(&k)
	if err != nil {
		return err
	}
	c.Reply.Array(2)
	for _, text := range [][]byte{s.value, s.added} {
		if o.float {
			c.Reply.DoubleText(text)
		} else {
			n, _ := number.ParseInt(text)
			c.Reply.Integer(n)
		}
	}
	if s.refused {
		c.NoEffect()
		return nil
	}
	return o.store(c, &k, s.value, expireMs)
}

// store keeps the new number. It is repeated as SET, which all replicas know.
func (o *bounded) store(c *Invocation, old *storage.Key, value []byte, expireMs int64) error {
	key, event := c.Args[1], keyevent.IncrBy
	if o.float {
		event = keyevent.IncrByFloat
	}
	timed := o.times.unit != nil && !(o.onlyNew && old.ExpireMs != 0)
	switch {
	case timed && expireMs <= c.Now:
		return removeOverdue(c, key, old)
	case timed:
		var digits [20]byte
		c.Effect(wordSet, key, value, wordPXAT, number.AppendInt(digits[:0], expireMs))
	case o.times.persist:
		c.Effect(wordSet, key, value)
	default:
		expireMs = old.ExpireMs
		c.Effect(wordSet, key, value, wordKeepTTL)
	}
	persists := o.times.persist && old.ExpireMs != 0
	err := c.DB.SetString(key, old, value, expireMs)
	c.DB.Notify(event, key)
	switch {
	case timed:
		c.DB.Notify(keyevent.Expire, key)
	case persists:
		c.DB.Notify(keyevent.Persist, key)
	}
	return err
}

// removeOverdue removes a key that would expire in the past.
func removeOverdue(c *Invocation, key []byte, old *storage.Key) error {
	c.NoEffect()
	if !old.Exists {
		return nil
	}
	c.Effect(wordDel, key)
	err := c.DB.Remove(key, *old)
	c.DB.Notify(keyevent.Del, key)
	return err
}

// adder adds to what a key holds.
type adder interface {
	add(k *storage.Key) (sum, error)
}

func (o *bounded) adder() (adder, error) {
	if o.float {
		return o.floatAdder()
	}
	a := integerAdder{by: 1, lower: math.MinInt64, upper: math.MaxInt64, saturate: o.saturate}
	for _, n := range []struct {
		word  []byte
		value *int64
		name  string
	}{{o.by, &a.by, "Increment"}, {o.lower, &a.lower, "LBOUND"}, {o.upper, &a.upper, "UBOUND"}} {
		if n.word == nil {
			continue
		}
		var ok bool
		if *n.value, ok = number.ParseInt(n.word); !ok {
			return nil, Errorf("ERR %s is not an integer or out of range", n.name)
		}
	}
	if a.lower > a.upper {
		return nil, errBounds
	}
	return &a, nil
}

type integerAdder struct {
	by, lower, upper int64
	saturate         bool
}

func (a *integerAdder) add(k *storage.Key) (sum, error) {
	old := int64(0)
	if k.Exists {
		var ok bool
		if old, ok = number.ParseInt(k.Value); !ok {
			return sum{}, ErrNotInteger
		}
	}
	value := old + a.by
	over := (a.by > 0) != (value > old) && a.by != 0
	if over && a.by > 0 {
		value = math.MaxInt64
	} else if over {
		value = math.MinInt64
	}
	within := min(max(value, a.lower), a.upper)
	if (over || within != value) && !a.saturate {
		return sum{value: number.AppendInt(nil, old), added: []byte("0"), refused: true}, nil
	}
	added := within - old
	if (added > 0) != (within > old) && within != old {
		return sum{}, errOverflow
	}
	return sum{value: number.AppendInt(nil, within), added: number.AppendInt(nil, added)}, nil
}

type floatAdder struct {
	by, lower, upper number.LongDouble
	saturate         bool
}

func (o *bounded) floatAdder() (adder, error) {
	a := floatAdder{lower: number.LargestLongDouble().Negative(), upper: number.LargestLongDouble(), saturate: o.saturate}
	for _, n := range []struct {
		word  []byte
		value *number.LongDouble
		name  string
	}{{o.by, &a.by, "Increment"}, {o.lower, &a.lower, "LBOUND"}, {o.upper, &a.upper, "UBOUND"}} {
		if n.word == nil {
			continue
		}
		var ok bool
		if *n.value, ok = number.ParseLongDouble(n.word); !ok {
			return nil, Errorf("ERR %s is not a valid float", n.name)
		}
	}
	if a.lower.Compare(a.upper) > 0 {
		return nil, errBounds
	}
	return &a, nil
}

func (a *floatAdder) add(k *storage.Key) (sum, error) {
	var old number.LongDouble
	if k.Exists {
		var ok bool
		if old, ok = number.ParseLongDouble(k.Value); !ok {
			return sum{}, storage.ErrNotFloat
		}
	}
	if old.IsInf() || a.by.IsInf() {
		return sum{}, errNotFinite
	}
	value, finite := old.Add(a.by)
	if !finite {
		value = number.LargestLongDouble()
		if a.by.Compare(number.LongDouble{}) < 0 {
			value = value.Negative()
		}
	}
	within := value
	if value.Compare(a.lower) < 0 {
		within = a.lower
	} else if value.Compare(a.upper) > 0 {
		within = a.upper
	}
	if (!finite || within.Compare(value) != 0) && !a.saturate {
		return sum{value: old.Append(nil), added: []byte("0"), refused: true}, nil
	}
	added, finite := within.Add(old.Negative())
	if !finite || within.IsInf() {
		return sum{}, errNotFinite
	}
	return sum{value: within.Append(nil), added: added.Append(nil)}, nil
}
