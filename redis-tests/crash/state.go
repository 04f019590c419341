package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kinds of values, as TYPE names them.
const (
	kindString = "string"
	kindHash   = "hash"
	kindList   = "list"
	kindSet    = "set"
	kindZSet   = "zset"
)

// Value is what a key holds.
type Value struct {
	kind    string
	text    string            // of a string
	list    []string          // of a list
	fields  map[string]string // of a hash; of a set, with empty values; of a sorted set, with integer scores
	times   map[string]int64  // of a hash's fields that expire
	expires int64             // Unix milliseconds; 0 is never
}

func newValue(kind string) *Value {
	return &Value{kind: kind, fields: map[string]string{}, times: map[string]int64{}}
}

func (v *Value) clone() *Value {
	other := *v
	other.list, other.fields, other.times = slices.Clone(v.list), maps.Clone(v.fields), maps.Clone(v.times)
	return &other
}

// size is the number of elements, or of a string's bytes.
func (v *Value) size() int {
	switch v.kind {
	case kindString:
		return len(v.text)
	case kindList, kindStream:
		return len(v.list)
	}
	return len(v.fields)
}

func (v *Value) has(field string) bool {
	_, held := v.fields[field]
	return held
}

func (v *Value) equal(other *Value) bool {
	return v.kind == other.kind && v.expires == other.expires && v.text == other.text && slices.Equal(v.list, other.list) && maps.Equal(v.fields, other.fields) &&
		maps.Equal(v.times, other.times)
}

// String shows a value, its middle left out when it is long.
func (v *Value) String() string {
	const longest = 300
	text := v.text
	switch v.kind {
	case kindString:
	case kindList:
		text = strings.Join(v.list, " ")
	case kindStream:
		text = fmt.Sprintf("group at %q, pending %v, entries %s", v.text, v.fields, strings.Join(v.list, " "))
	default:
		var parts []string
		for _, field := range slices.Sorted(maps.Keys(v.fields)) {
			parts = append(parts, field+"="+v.fields[field])
			if at := v.times[field]; at != 0 {
				parts = append(parts, fmt.Sprintf("until %d", at))
			}
		}
		text = strings.Join(parts, " ")
	}
	if len(text) > longest {
		text = text[:longest/2] + " … " + text[len(text)-longest/2:]
	}
	return fmt.Sprintf("%s of %d, expires %d: %s", v.kind, v.size(), v.expires, text)
}

// State is what the keys of one writer hold, and which database its connection has selected.
type State struct {
	databases map[int]map[string]*Value
	selected  int
}

// NewState returns a State without keys in the given databases.
func NewState(databases []int) *State {
	s := &State{databases: map[int]map[string]*Value{}, selected: databases[0]}
	for _, database := range databases {
		s.databases[database] = map[string]*Value{}
	}
	return s
}

// expire removes what has expired by now, Unix milliseconds.
func (s *State) expire(now int64) {
	for _, keys := range s.databases {
		maps.DeleteFunc(keys, func(_ string, v *Value) bool { return v.expires != 0 && v.expires <= now || v.expireFields(now) })
	}
}

// expireFields removes fields that have expired, and tells whether they were the last.
func (v *Value) expireFields(now int64) (empty bool) {
	for field, at := range v.times {
		if at <= now {
			v.removeField(field)
			empty = len(v.fields) == 0
		}
	}
	return empty
}

// differences lists what differs between two states, in at most a few lines; none when they are
// equal.
func (s *State) differences(got *State) []string {
	var lines []string
	for _, database := range slices.Sorted(maps.Keys(s.databases)) {
		want, have := s.databases[database], got.databases[database]
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if have[key] == nil {
				lines = append(lines, fmt.Sprintf("%d %s is missing: %s", database, key, want[key]))
			} else if !want[key].equal(have[key]) {
				lines = append(lines, fmt.Sprintf("%d %s\n      want %s\n      have %s", database, key, want[key], have[key]))
			}
		}
		for _, key := range slices.Sorted(maps.Keys(have)) {
			if want[key] == nil {
				lines = append(lines, fmt.Sprintf("%d %s is additional: %s", database, key, have[key]))
			}
		}
	}
	return lines
}

// get returns the value of a key in the selected database, a new one of the kind when there is
// none, and whether there was one.
func (s *State) get(key, kind string) (v *Value, existed bool) {
	if v := s.databases[s.selected][key]; v != nil {
		return v, true
	}
	return newValue(kind), false
}

// put stores a value; a collection without elements is no key.
func (s *State) put(key string, v *Value) {
	if v.kind != kindString && v.kind != kindStream && v.size() == 0 {
		delete(s.databases[s.selected], key)
		return
	}
	s.databases[s.selected][key] = v
}
