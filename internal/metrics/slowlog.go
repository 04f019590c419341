package metrics

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// What an entry keeps of a command, as in Redis.
const (
	slowlogArguments     = 32  // the last of which tells how many more there were
	slowlogArgumentBytes = 128 // of each, and then how many more there were
)

// SlowEntry is a command that took long.
type SlowEntry struct {
	ID        int64 // counts from 0 and goes on after Reset
	Time      time.Time
	Duration  time.Duration
	Arguments [][]byte // trimmed; not to be changed
	Address   string   // the client's
	Name      string   // the client's
}

// Slowlog keeps the latest commands that took long. Make it with NewSlowlog.
type Slowlog struct {
	mu      sync.Mutex
	limit   func() int64
	entries []SlowEntry // the oldest first
	nextID  int64
}

// NewSlowlog makes a log of at most limit() entries; a smaller limit takes effect with the next
// Add.
func NewSlowlog(limit func() int64) *Slowlog { return &Slowlog{limit: limit} }

// Add takes an entry, copies and trims its arguments, and gives it an ID. What a command tells
// nobody, such as a password, the caller replaces before.
func (s *Slowlog) Add(entry SlowEntry) {
	entry.Arguments = trim(entry.Arguments)
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.ID = s.nextID
	s.nextID++
	s.entries = append(s.entries, entry)
	if excess := int64(len(s.entries)) - max(s.limit(), 0); excess > 0 {
		clear(s.entries[:excess])
		s.entries = s.entries[excess:]
	}
}

// Latest returns at most count entries, the newest first; a negative count is all.
func (s *Slowlog) Latest(count int64) []SlowEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := 0
	if count >= 0 && count < int64(len(s.entries)) {
		from = len(s.entries) - int(count)
	}
	latest := slices.Clone(s.entries[from:])
	slices.Reverse(latest)
	return latest
}

// Len is the number of entries.
func (s *Slowlog) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}

// Reset removes all entries.
func (s *Slowlog) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = nil
}

func trim(arguments [][]byte) [][]byte {
	kept := arguments
	if len(arguments) > slowlogArguments {
		kept = arguments[:slowlogArguments-1]
	}
	trimmed := make([][]byte, 0, slowlogArguments)
	for _, argument := range kept {
		trimmed = append(trimmed, trimArgument(argument))
	}
	if more := len(arguments) - len(kept); more > 0 {
		trimmed = append(trimmed, fmt.Appendf(nil, "... (%d more arguments)", more))
	}
	return trimmed
}

func trimArgument(argument []byte) []byte {
	if len(argument) <= slowlogArgumentBytes {
		return slices.Clone(argument)
	}
	start := slices.Clip(argument[:slowlogArgumentBytes]) // so that Appendf copies
	return fmt.Appendf(start, "... (%d more bytes)", len(argument)-slowlogArgumentBytes)
}
