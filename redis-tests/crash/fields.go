package crash

import (
	"strconv"
)

// Fields of hashes that expire.

// makeFieldTimes gives fields a time that is far away, takes it from them, or removes them by one
// that is over.
func makeFieldTimes(g *Generator) []string {
	key := g.key("h")
	words := []string{"hpexpireat", key, strconv.Itoa(farFuture + g.random.IntN(1_000_000)), "fields"}
	switch g.random.IntN(6) {
	case 0, 1:
		words = []string{"hpersist", key, "fields"}
	case 2:
		words = []string{"hpexpireat", key, "1", "fields"}
	}
	count := 1 + g.random.IntN(6)
	words = append(words, strconv.Itoa(count))
	for range count {
		words = append(words, g.name(key))
	}
	return words
}

// makeShortFieldTime makes a field that expires soon, or counts in one that has expired, which must
// begin at 0. The hash goes with its last field.
func makeShortFieldTime(g *Generator) []string {
	key, field := g.key("x"), "f"+strconv.Itoa(g.random.IntN(12))
	name := key + " " + field
	if g.expires[name] >= g.now-1 {
		return makeHashIncrement(g)
	}
	if g.random.IntN(2) == 0 {
		return []string{"hincrby", key, field, "1"}
	}
	g.expires[name] = g.now + 1 + g.random.Int64N(longestExpiry)
	return []string{"hsetex", key, "pxat", strconv.FormatInt(g.expires[name], 10), "fields", "1", field, strconv.Itoa(g.random.IntN(1000))}
}

// eachField answers for each field of a key, as the commands about times do.
func (s *State) eachField(key string, fields []string, answer func(v *Value, field string) int) string {
	v, existed := s.get(key, kindHash)
	reply := ""
	for i, field := range fields {
		n := -2
		if v.has(field) {
			n = answer(v, field)
		}
		if i > 0 {
			reply += "\n"
		}
		reply += integer(n)
	}
	if existed {
		s.put(key, v)
	}
	return reply
}

// expireFields is HPEXPIREAT key time FIELDS n field …, at a time that is over or far away.
func expireFields(s *State, arguments []string) string {
	at := int64(number(arguments[1]))
	return s.eachField(arguments[0], arguments[4:], func(v *Value, field string) int {
		if at < farFuture {
			v.removeField(field)
			return 2
		}
		v.times[field] = at
		return 1
	})
}

func persistFields(s *State, arguments []string) string {
	return s.eachField(arguments[0], arguments[3:], func(v *Value, field string) int {
		if v.times[field] == 0 {
			return -1
		}
		delete(v.times, field)
		return 1
	})
}

// setExpiring is HSETEX key PXAT time FIELDS 1 field value.
func setExpiring(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindHash)
	v.fields[arguments[5]], v.times[arguments[5]] = arguments[6], int64(number(arguments[2]))
	s.put(arguments[0], v)
	return integer(1)
}

func (v *Value) removeField(field string) {
	delete(v.fields, field)
	delete(v.times, field)
}
