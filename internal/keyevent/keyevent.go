// Package keyevent names what happens to keys, and the classes of it, in the words of Redis's
// keyspace notifications.
//
// It knows the words and what they belong to, and nothing of who sends or gets them. It imports the
// standard library only.
package keyevent

import "strings"

// Classes is a set of classes of events, and of ways to be told of them, as notify-keyspace-events
// has them.
type Classes uint16

// The classes. Keyspace and Keyevent are the two kinds of channel.
const (
	Generic Classes = 1 << iota
	String
	List
	Set
	Hash
	SortedSet
	Expiry
	Eviction
	Stream
	Module
	Creation
	Keyspace
	Keyevent
	Miss

	all  = Generic | String | List | Set | Hash | SortedSet | Expiry | Eviction | Stream | Module
	Ways = Keyspace | Keyevent
)

// letters stand for the classes, in the order of their bits, which is the order in which Redis
// shows them.
const letters = "g$lshzxetdnKEm"

// InvalidClass is Redis's answer to a letter that stands for no class.
const InvalidClass = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."

// ParseClasses reads letters; false: one of them stands for nothing.
func ParseClasses(text string) (Classes, bool) {
	var classes Classes
	for i := range len(text) {
		bit := strings.IndexByte(letters, text[i])
		switch {
		case text[i] == 'A':
			classes |= all
		case bit < 0:
			return 0, false
		default:
			classes |= 1 << bit
		}
	}
	return classes, true
}

// String is the letters as CONFIG GET answers them: as in Redis, n isn't told when all other
// classes are chosen.
func (c Classes) String() string {
	if c&all == all {
		return c.text(c &^ Creation)
	}
	return c.text(c)
}

// Written is the letters as a configuration file has them: with n, which would else be lost.
func (c Classes) Written() string { return c.text(c) }

// text is the letters of some of the classes.
func (c Classes) text(shown Classes) string {
	text := make([]byte, 0, len(letters))
	if shown&all == all {
		text, shown = append(text, 'A'), shown&^all
	}
	for i := range len(letters) {
		if shown&(1<<i) != 0 {
			text = append(text, letters[i])
		}
	}
	return string(text)
}

// Wanted is the classes of which anybody is told: none when there is no channel for them.
func (c Classes) Wanted() Classes {
	if c&Ways == 0 {
		return 0
	}
	return c &^ Ways
}
