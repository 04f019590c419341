package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Execute does to the state what the server does for a request, and returns the reply as plain
// shows it. It knows only what the generator makes, and fails on anything else.
func (s *State) Execute(request []string) string {
	run := executors[request[0]]
	if run == nil {
		panic("crash: the model doesn't know " + request[0])
	}
	return run(s, request[1:])
}

var executors = map[string]func(*State, []string) string{
	"select": selectDatabase, "flushdb": flushDatabase, "swapdb": swapDatabases,
	"move": move, "copy": copyKey, "rename": rename, "del": remove, "unlink": remove, "pexpireat": expireAt, "persist": persist, "get": getText,
	"set": set, "mset": setMany, "append": appendText, "setrange": setRange, "incrby": increment,
	"hset": hashSet, "hincrby": hashIncrement, "hdel": removeFields(kindHash), "hlen": size, "llen": size, "scard": size, "zcard": size,
	"rpush": push, "lpush": pushLeft, "lpop": pop, "rpop": popRight, "ltrim": trim, "lset": setIndex, "lmove": moveElement,
	"sadd": addMembers, "srem": removeFields(kindSet), "sunionstore": union,
	"hpexpireat": expireFields, "hpersist": persistFields, "hsetex": setExpiring,
	"xadd": addEntry, "xgroup": changeGroup, "xreadgroup": deliver, "xack": acknowledgeEntries, "xdel": removeEntries, "xtrim": trimEntries, "xlen": size,
	"zadd": addScores, "zincrby": incrementScore, "zrem": removeFields(kindZSet),
}

const (
	done        = "+OK"
	sameObjects = "-ERR source and destination objects are the same"
)

func integer(n int) string { return ":" + strconv.Itoa(n) }

func bulk(text string) string { return strconv.Quote(text) }

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("crash: the model has %q where a number should be", text))
	}
	return n
}

func selectDatabase(s *State, arguments []string) string {
	s.selected = number(arguments[0])
	return done
}

func flushDatabase(s *State, _ []string) string {
	s.databases[s.selected] = map[string]*Value{}
	return done
}

func swapDatabases(s *State, arguments []string) string {
	a, b := number(arguments[0]), number(arguments[1])
	s.databases[a], s.databases[b] = s.databases[b], s.databases[a]
	return done
}

func move(s *State, arguments []string) string {
	if number(arguments[1]) == s.selected {
		return sameObjects
	}
	key, target := arguments[0], s.databases[number(arguments[1])]
	v := s.databases[s.selected][key]
	if v == nil || target[key] != nil {
		return integer(0)
	}
	delete(s.databases[s.selected], key)
	target[key] = v
	return integer(1)
}

// copyKey is COPY source destination DB n REPLACE.
func copyKey(s *State, arguments []string) string {
	v := s.databases[s.selected][arguments[0]]
	if v == nil {
		return integer(0)
	}
	s.databases[number(arguments[3])][arguments[1]] = v.clone()
	return integer(1)
}

func rename(s *State, arguments []string) string {
	keys := s.databases[s.selected]
	v := keys[arguments[0]]
	if v == nil {
		return "-ERR no such key"
	}
	delete(keys, arguments[0])
	keys[arguments[1]] = v
	return done
}

func remove(s *State, arguments []string) string {
	removed := 0
	for _, key := range arguments {
		if s.databases[s.selected][key] != nil {
			delete(s.databases[s.selected], key)
			removed++
		}
	}
	return integer(removed)
}

func expireAt(s *State, arguments []string) string {
	v := s.databases[s.selected][arguments[0]]
	if v == nil {
		return integer(0)
	}
	v.expires = int64(number(arguments[1]))
	return integer(1)
}

func persist(s *State, arguments []string) string {
	v := s.databases[s.selected][arguments[0]]
	if v == nil || v.expires == 0 {
		return integer(0)
	}
	v.expires = 0
	return integer(1)
}

func getText(s *State, arguments []string) string {
	v := s.databases[s.selected][arguments[0]]
	if v == nil {
		return "nil"
	}
	return bulk(v.text)
}

// set is SET key value, or SET key value PXAT time.
func set(s *State, arguments []string) string {
	v := newValue(kindString)
	v.text = arguments[1]
	if len(arguments) > 2 {
		v.expires = int64(number(arguments[3]))
	}
	s.put(arguments[0], v)
	return done
}

func setMany(s *State, arguments []string) string {
	for pair := range slices.Chunk(arguments, 2) {
		set(s, pair)
	}
	return done
}

func appendText(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindString)
	v.text += arguments[1]
	s.put(arguments[0], v)
	return integer(len(v.text))
}

func setRange(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindString)
	offset, written := number(arguments[1]), arguments[2]
	v.text += strings.Repeat("\x00", max(0, offset+len(written)-len(v.text)))
	v.text = v.text[:offset] + written + v.text[offset+len(written):]
	s.put(arguments[0], v)
	return integer(len(v.text))
}

func increment(s *State, arguments []string) string {
	v, existed := s.get(arguments[0], kindString)
	if !existed {
		v.text = "0"
	}
	v.text = strconv.Itoa(number(v.text) + number(arguments[1]))
	s.put(arguments[0], v)
	return ":" + v.text
}

func hashSet(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindHash)
	before := v.size()
	for pair := range slices.Chunk(arguments[1:], 2) {
		v.fields[pair[0]] = pair[1]
		delete(v.times, pair[0])
	}
	s.put(arguments[0], v)
	return integer(v.size() - before)
}

// add adds to the number in a field.
func (v *Value) add(field, amount string) string {
	before := 0
	if text, existed := v.fields[field]; existed {
		before = number(text)
	}
	v.fields[field] = strconv.Itoa(before + number(amount))
	return v.fields[field]
}

func hashIncrement(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindHash)
	sum := v.add(arguments[1], arguments[2])
	s.put(arguments[0], v)
	return ":" + sum
}

func removeFields(kind string) func(*State, []string) string {
	return func(s *State, arguments []string) string {
		v, existed := s.get(arguments[0], kind)
		before := v.size()
		for _, field := range arguments[1:] {
			v.removeField(field)
		}
		if existed {
			s.put(arguments[0], v)
		}
		return integer(before - v.size())
	}
}

func size(s *State, arguments []string) string {
	v := s.databases[s.selected][arguments[0]]
	if v == nil {
		return integer(0)
	}
	return integer(v.size())
}

func push(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindList)
	v.list = append(v.list, arguments[1:]...)
	s.put(arguments[0], v)
	return integer(len(v.list))
}

func pushLeft(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindList)
	elements := slices.Clone(arguments[1:])
	slices.Reverse(elements)
	v.list = append(elements, v.list...)
	s.put(arguments[0], v)
	return integer(len(v.list))
}

// take removes the element at an end of a list.
func (s *State) take(key string, left bool) (string, bool) {
	v, existed := s.get(key, kindList)
	if !existed {
		return "", false
	}
	at := len(v.list) - 1
	if left {
		at = 0
	}
	element := v.list[at]
	v.list = slices.Delete(v.list, at, at+1)
	s.put(key, v)
	return element, true
}

func pop(s *State, arguments []string) string { return s.pop(arguments[0], true) }

func popRight(s *State, arguments []string) string { return s.pop(arguments[0], false) }

func (s *State) pop(key string, left bool) string {
	element, existed := s.take(key, left)
	if !existed {
		return "nil"
	}
	return bulk(element)
}

// trim is LTRIM with indexes from 0 on.
func trim(s *State, arguments []string) string {
	v, existed := s.get(arguments[0], kindList)
	if !existed {
		return done
	}
	from, to := number(arguments[1]), min(number(arguments[2])+1, len(v.list))
	if from >= to {
		from, to = 0, 0
	}
	v.list = slices.Clone(v.list[from:to])
	s.put(arguments[0], v)
	return done
}

func setIndex(s *State, arguments []string) string {
	v, existed := s.get(arguments[0], kindList)
	index := number(arguments[1])
	switch {
	case !existed:
		return "-ERR no such key"
	case index >= len(v.list):
		return "-ERR index out of range"
	}
	v.list[index] = arguments[2]
	return done
}

// moveElement is LMOVE source destination LEFT|RIGHT LEFT|RIGHT. A list's only element that is
// moved within it leaves the key as it is, its expiry included.
func moveElement(s *State, arguments []string) string {
	if v := s.databases[s.selected][arguments[0]]; v != nil && len(v.list) == 1 && arguments[0] == arguments[1] {
		return bulk(v.list[0])
	}
	element, existed := s.take(arguments[0], arguments[2] == "left")
	if !existed {
		return "nil"
	}
	target := []string{arguments[1], element}
	if arguments[3] == "left" {
		pushLeft(s, target)
	} else {
		push(s, target)
	}
	return bulk(element)
}

func addMembers(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindSet)
	before := v.size()
	for _, member := range arguments[1:] {
		v.fields[member] = ""
	}
	s.put(arguments[0], v)
	return integer(v.size() - before)
}

func union(s *State, arguments []string) string {
	result := newValue(kindSet)
	for _, key := range arguments[1:] {
		v, _ := s.get(key, kindSet)
		for member := range v.fields {
			result.fields[member] = ""
		}
	}
	s.put(arguments[0], result)
	return integer(result.size())
}

// addScores is ZADD key score member [score member …].
func addScores(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindZSet)
	before := v.size()
	for pair := range slices.Chunk(arguments[1:], 2) {
		v.fields[pair[1]] = pair[0]
	}
	s.put(arguments[0], v)
	return integer(v.size() - before)
}

func incrementScore(s *State, arguments []string) string {
	v, _ := s.get(arguments[0], kindZSet)
	score := v.add(arguments[2], arguments[1])
	s.put(arguments[0], v)
	return bulk(score)
}

// Unit is what is sent together and must be there wholly or not at all: one request, or those
// between MULTI and EXEC.
type Unit struct {
	Requests    [][]string
	Transaction bool
	// At is when it was made, Unix milliseconds. What has expired by then, the server can't see
	// when it runs the requests.
	At int64
}

// pops tells whether the server chooses what the unit removes; such a unit is one SPOP.
func (u Unit) pops() bool { return u.Requests[0][0] == "spop" }

func (u Unit) String() string {
	var lines []string
	for _, request := range u.Requests {
		text := strings.Join(request, " ")
		if len(text) > 120 {
			text = text[:120] + "…"
		}
		lines = append(lines, text)
	}
	if u.Transaction {
		return "MULTI; " + strings.Join(lines, "; ") + "; EXEC"
	}
	return strings.Join(lines, "; ")
}

// Apply executes a unit and returns the replies that the server must give to it, those within
// EXEC's one by one.
func (s *State) Apply(u Unit) []string {
	s.expire(u.At)
	var replies []string
	for _, request := range u.Requests {
		replies = append(replies, strings.Split(s.Execute(request), "\n")...)
	}
	if u.Transaction {
		return append(slices.Concat([]string{done}, slices.Repeat([]string{"+QUEUED"}, len(u.Requests))), replies...)
	}
	return replies
}
