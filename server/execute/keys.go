package execute

import (
	"bytes"
	"slices"
	"strconv"

	"kedis/internal/number"
)

// KeyFlags tell what a command does with a key, as Redis's key specifications do.
type KeyFlags uint16

// The flags of Redis's key specifications.
const (
	RW KeyFlags = 1 << iota
	RO
	OW
	RM
	Access
	Update
	Insert
	Delete
	NotKey
	Incomplete
	VariableFlags
)

// RW and its kin are named first in COMMAND's reply.
var keyFlagNames = []string{"RW", "RO", "OW", "RM", "access", "update", "insert", "delete", "not_key",
	"incomplete", "variable_flags"}

// Names lists the flags as COMMAND shows them.
func (f KeyFlags) Names() []string {
	var names []string
	for i, name := range keyFlagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// KeySpec tells where keys stand among a command's words: where the search begins, and how it goes
// on from there.
type KeySpec struct {
	Flags KeyFlags
	Notes string

	// The search begins at the word Index, or behind the word Keyword, looked for from word From
	// on (backwards when From is negative). Unknown: this can't be told.
	Index   int
	Keyword string
	From    int
	Unknown bool

	// From there: a range up to Last (relative to the beginning, or to the end if negative) in
	// steps; Limit divides what is left, as in Redis. With Counted, the number of keys stands at
	// Count and the first at First, relative to the beginning.
	Last, Step, Limit   int
	Counted             bool
	Count, First        int
	FindKeysUnspecified bool
}

// KeyReference is a key among a command's words.
type KeyReference struct {
	Index int
	Flags KeyFlags

	elsewhere bool // it is in database, whichever is selected
	database  int32
	stripe    uint32 // of its lock; see Request.locate
}

// KeyElsewhere is a key at a word that is in a database, whichever is selected.
func KeyElsewhere(index int, flags KeyFlags, database int) KeyReference {
	return KeyReference{Index: index, Flags: flags, elsewhere: true, database: int32(database)}
}

// KeysOf appends where the keys stand among words, which for GetKeys are of a valid arity. It
// doesn't allocate when dst is large enough.
func (c *Command) KeysOf(dst []KeyReference, args [][]byte) ([]KeyReference, error) {
	if c.GetKeys != nil {
		found, err := c.GetKeys(args)
		return append(dst, found...), err
	}
	before := len(dst)
	for i := range c.Keys {
		var ok bool
		if dst, ok = c.Keys[i].find(dst, args); !ok {
			return c.keysByLooseCount(dst[:before], args)
		}
	}
	return dst, nil
}

// keysByLooseCount finds the keys of words in which the number of keys isn't written as it should
// be, or is wrong. The command itself will refuse them, but COMMAND GETKEYS takes what C's atoi
// makes of the number, says nothing of how the keys are used, and names a destination last.
func (c *Command) keysByLooseCount(dst []KeyReference, args [][]byte) ([]KeyReference, error) {
	counted := slices.IndexFunc(c.Keys, func(k KeySpec) bool { return k.Counted })
	if counted < 0 {
		return dst, ErrInvalidKeys
	}
	spec := &c.Keys[counted]
	first := spec.Index + spec.First
	if spec.Index+spec.Count >= len(args) {
		return dst, ErrInvalidKeys
	}
	count := leadingInteger(args[spec.Index+spec.Count])
	if count < 1 || count > len(args)-first {
		return dst, ErrInvalidKeys
	}
	for i := range count {
		dst = append(dst, KeyReference{Index: first + i})
	}
	for i := range c.Keys[:counted] {
		dst = append(dst, KeyReference{Index: c.Keys[i].Index})
	}
	return dst, nil
}

// leadingInteger reads a number as C's atoi does: white space, a sign, and digits as far as they
// go. It is 0 for what has none, or too many.
func leadingInteger(text []byte) int {
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, err := strconv.Atoi(string(text[:end]))
	if err != nil {
		return 0
	}
	return n
}

// ErrInvalidKeys refuses words in which no keys can be found.
const ErrInvalidKeys = Error("ERR Invalid arguments specified for command")

// isOneKey reports whether it is a single key at a word.
func (k *KeySpec) isOneKey() bool {
	return k.Keyword == "" && k.Index > 0 && k.Last == 0 && !k.Counted && !k.Unknown && !k.FindKeysUnspecified
}

func (k *KeySpec) find(dst []KeyReference, args [][]byte) ([]KeyReference, bool) {
	begin := k.Index
	if k.Keyword != "" {
		if begin = k.behindKeyword(args); begin == 0 {
			return dst, true
		}
	}
	if k.Unknown || k.FindKeysUnspecified {
		return dst, true
	}
	if begin >= len(args) {
		return dst, false
	}
	last := begin + k.Last
	if k.Last < 0 {
		last = len(args) + k.Last
		if k.Limit > 1 {
			last = begin + (len(args)-begin)/k.Limit + k.Last
		}
	}
	first := begin
	if k.Counted {
		count, ok := number.ParseInt(args[begin+k.Count])
		if !ok || count < 0 || count > int64(len(args)) {
			return dst, false
		}
		first = begin + k.First
		last = first + (int(count)-1)*k.Step
	}
	if last >= len(args) || last < first {
		return dst, false
	}
	dst = slices.Grow(dst, (last-first)/k.Step+1)
	for i := first; i <= last; i += k.Step {
		dst = append(dst, KeyReference{Index: i, Flags: k.Flags})
	}
	return dst, true
}

func (k *KeySpec) behindKeyword(args [][]byte) int {
	step, at := 1, k.From
	if k.From < 0 {
		step, at = -1, len(args)+k.From
	}
	for ; at > 0 && at < len(args)-1; at += step {
		if bytes.EqualFold(args[at], []byte(k.Keyword)) {
			return at + 1
		}
	}
	return 0
}
