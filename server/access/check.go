package access

import (
	"bytes"
	"slices"
)

// Request is a command with its words, as rules look at it.
type Request interface {
	// CommandNumber is the command's in the vocabulary.
	CommandNumber() int
	// Word returns a word, by its index; the command's name is the first, and a subcommand's the
	// second. nil: there are not so many.
	Word(index int) []byte
	// Keys is how many keys there are among the words.
	Keys() int
	// Key returns the index of a key, by its number from 0 on, and what is done with it. false: it
	// stands for no data.
	Key(number int) (index int, needs Permission, ok bool)
	// Channel returns the index of a channel, or of a pattern that is to be listened to.
	Channel(number int) (index int, pattern, ok bool)
	// Database returns a database that is used; see AllDatabases.
	Database(number int) (database int, ok bool)
}

// AllDatabases stands for all of them instead of a number.
const AllDatabases = -1

// Reason is why something is denied. The order is Redis's: of what several selectors say, the last
// is told.
type Reason uint8

// The reasons.
const (
	Permitted Reason = iota
	DeniedCommand
	DeniedKey
	DeniedAuthentication
	DeniedChannel
	DeniedDatabase
	DeniedCertificate // names no user
)

// Unrestricted reports whether everything is allowed, so that no request needs to be looked at.
func (r *Rules) Unrestricted() bool { return r.unrestricted }

// seal ends the making of rules. With limits on databases all requests have to be looked at.
func (r *Rules) seal(limited bool) *Rules {
	r.unrestricted = !limited && r.rates == (rates{}) && slices.ContainsFunc(r.selectors, func(s selector) bool { return s.unrestricted() })
	return r
}

// Check tells whether a request is permitted, and if not, which word of it isn't. It doesn't
// allocate.
func (r *Rules) Check(q Request) (why Reason, index int) {
	why = DeniedCommand
	for i := range r.selectors {
		denied, at := r.selectors[i].check(q)
		if denied == Permitted {
			return Permitted, 0
		}
		if denied > why || denied == why && at > index {
			why, index = denied, at
		}
	}
	return why, index
}

func (s *selector) check(q Request) (why Reason, index int) {
	if !s.allCommands && !s.permitsCommand(q) {
		return DeniedCommand, 0
	}
	if !s.allDatabases && !s.permitsDatabases(q) {
		return DeniedDatabase, 0
	}
	if !s.allKeys {
		if why, index := s.checkKeys(q); why != Permitted {
			return why, index
		}
	}
	if s.allChannels {
		return Permitted, 0
	}
	return s.checkChannels(q)
}

func (s *selector) checkKeys(q Request) (why Reason, index int) {
	for number := range q.Keys() {
		index, needs, ok := q.Key(number)
		if ok && !s.permitsKey(q.Word(index), needs) {
			return DeniedKey, index
		}
	}
	return Permitted, 0
}

func (s *selector) checkChannels(q Request) (why Reason, index int) {
	for number := 0; ; number++ {
		index, pattern, ok := q.Channel(number)
		if !ok {
			return Permitted, 0
		}
		if !s.permitsChannel(q.Word(index), pattern) {
			return DeniedChannel, index
		}
	}
}

func (s *selector) permitsCommand(q Request) bool {
	number := q.CommandNumber()
	if s.commands.has(number) {
		return true
	}
	for _, allowed := range s.firstArguments[number] {
		if word := q.Word(1); word != nil && bytes.EqualFold(word, []byte(allowed)) {
			return true
		}
	}
	return false
}

func (s *selector) permitsKey(key []byte, needs Permission) bool {
	for i := range s.keys {
		if k := &s.keys[i]; k.allows&needs == needs && k.compiled.Match(key) {
			return true
		}
	}
	return false
}

// permitsChannel reports whether a channel may be used. A pattern may only be one of those that
// stand in the rules: what it matches can't be told.
func (s *selector) permitsChannel(name []byte, pattern bool) bool {
	for i := range s.channels {
		c := &s.channels[i]
		if pattern && c.text == string(name) || !pattern && c.compiled.Match(name) {
			return true
		}
	}
	return false
}

func (s *selector) permitsDatabases(q Request) bool {
	for number := 0; ; number++ {
		database, ok := q.Database(number)
		if !ok {
			return true
		}
		if !slices.Contains(s.databases, database) {
			return false
		}
	}
}

// PermitsEveryKey reports whether a request is permitted by a selector that allows something with
// all keys, too: for what finds keys while it runs.
func (r *Rules) PermitsEveryKey(q Request, needs Permission) bool {
	return slices.ContainsFunc(r.selectors, func(s selector) bool {
		why, _ := s.check(q)
		return why == Permitted && (s.allKeys ||
			slices.ContainsFunc(s.keys, func(k keyPattern) bool { return k.text == "*" && k.allows&needs == needs }))
	})
}

// MayListen reports whether a channel, or a pattern, may be listened to.
func (r *Rules) MayListen(name []byte, pattern bool) bool {
	return slices.ContainsFunc(r.selectors, func(s selector) bool { return s.allChannels || s.permitsChannel(name, pattern) })
}

// MayRun reports whether a command may be run, with whatever words.
func (r *Rules) MayRun(number int) bool {
	return slices.ContainsFunc(r.selectors, func(s selector) bool { return s.allCommands || s.commands.has(number) })
}
