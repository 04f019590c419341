package execute

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kedis/internal/metrics"
)

// Statistics count what INFO tells of all commands together. What every command or every read of a
// socket touches has a lane for each reactor, and one that the workers share.
type Statistics struct {
	Lanes int

	NetInput, NetOutput *metrics.Counter // bytes
	Reads, Writes       *metrics.Counter // of sockets
	Hits, Misses        *metrics.Counter // keys that reads looked up
	Batches, Conflicts  *metrics.Counter

	Passes                   *metrics.Counter // of reactors, in which they executed commands
	PassTime, PassedCommands *metrics.Counter // ns that those took, and that commands took of it

	Offloads             atomic.Int64 // commands that went on on a worker
	Serving              atomic.Int64 // reactors that serve
	Moves                atomic.Int64 // of connections, to another reactor
	Connections          atomic.Int64
	Rejected             atomic.Int64 // connections beyond maxclients
	Sweeping             atomic.Int64 // ns in which expired keys were removed
	QueryBufferExceeded  atomic.Int64 // connections that were closed for it
	OutputBufferExceeded atomic.Int64

	Errors errorCounts

	PassRate, PassTimeRate metrics.Rate

	CommandRate, InputRate, OutputRate, ReceivedRate, SentRate metrics.Rate
}

func (s *Statistics) init(lanes int) {
	s.Lanes = lanes
	s.Serving.Store(int64(lanes - 1))
	for _, counter := range s.counters() {
		*counter = metrics.NewCounter(lanes)
	}
}

func (s *Statistics) counters() []**metrics.Counter {
	return []**metrics.Counter{&s.NetInput, &s.NetOutput, &s.Reads, &s.Writes, &s.Hits, &s.Misses, &s.Batches, &s.Conflicts,
		&s.Passes, &s.PassTime, &s.PassedCommands}
}

// reset sets everything to 0, as CONFIG RESETSTAT does.
func (s *Statistics) reset() {
	for _, counter := range s.counters() {
		(*counter).Reset()
	}
	for _, counter := range []*atomic.Int64{&s.Offloads, &s.Connections, &s.Sweeping, &s.Rejected, &s.QueryBufferExceeded, &s.OutputBufferExceeded} {
		counter.Store(0)
	}
	s.Errors.reset()
}

// errorCounts count error replies by their code, the first word.
type errorCounts struct {
	mu     sync.Mutex
	total  int64
	byCode map[string]*int64
}

// mostErrorCodes bounds the codes that are told apart, since a script can make up new ones; the
// others count as ERR.
const mostErrorCodes = 128

func (e *errorCounts) add(text string) {
	code, _, found := strings.Cut(text[:min(len(text), 32)], " ")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total++
	if !found {
		code = "ERR"
	}
	count := e.byCode[code]
	if count == nil && len(e.byCode) >= mostErrorCodes {
		code = "ERR"
		count = e.byCode[code]
	}
	if count == nil {
		if e.byCode == nil {
			e.byCode = map[string]*int64{}
		}
		count = new(int64)
		e.byCode[strings.Clone(code)] = count
	}
	*count++
}

func (e *errorCounts) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total = 0
	clear(e.byCode)
}

// Sum is the number of all error replies.
func (e *errorCounts) Sum() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total
}

// Each calls f for each code, in alphabetical order.
func (e *errorCounts) Each(f func(code string, count int64)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(e.byCode)) {
		f(code, *e.byCode[code])
	}
}

// CountError counts an error reply that no command gave.
func (e *Engine) CountError(text string) { e.Statistics.Errors.add(text) }

// measure gives each command its measures.
func (t *Table) measure(lanes int) {
	for _, c := range t.byName {
		c.Measures = metrics.NewCommand(lanes)
		for i := range c.Subcommands {
			c.Subcommands[i].Measures = metrics.NewCommand(lanes)
		}
	}
}

// Each calls f for all commands and subcommands, in the order of the table.
func (t *Table) Each(f func(*Command)) {
	for _, c := range t.commands {
		f(c)
		for i := range c.Subcommands {
			f(&c.Subcommands[i])
		}
	}
}

// Calls is how many commands were executed.
func (t *Table) Calls() int64 {
	var calls int64
	t.Each(func(c *Command) { calls += c.Measures.Stats().Calls })
	return calls
}

// ResetStatistics does what CONFIG RESETSTAT does.
func (e *Engine) ResetStatistics() {
	e.Statistics.reset()
	e.Table.Each(func(c *Command) { c.Measures.Reset() })
	e.expiredBefore.Store(e.Store.Counters().Expired.Load())
	e.Denials.ResetTotals()
	if e.role.part != nil {
		e.role.part.ResetCounts()
	}
}

// Expired is how many keys have expired since the statistics were reset.
func (e *Engine) Expired() int64 { return e.Store.Counters().Expired.Load() - e.expiredBefore.Load() }

// Sample takes the rates' samples. It is to be called every 100 ms, by one goroutine.
func (e *Engine) Sample(now time.Time) {
	s := &e.Statistics
	s.CommandRate.Sample(now, e.Table.Calls())
	s.PassRate.Sample(now, s.Passes.Sum())
	s.PassTimeRate.Sample(now, s.PassTime.Sum())
	links := e.ReplicationCounts()
	s.InputRate.Sample(now, s.NetInput.Sum()+links.Received)
	s.OutputRate.Sample(now, s.NetOutput.Sum()+links.Sent)
	s.ReceivedRate.Sample(now, links.Received)
	s.SentRate.Sample(now, links.Sent)
}

// KeyCount is the number of keys in all databases, and of those that have an expiry.
func (e *Engine) KeyCount() (keys, expires int64) {
	for number := range e.Store.Databases() {
		k, x := e.Store.Size(number)
		keys, expires = keys+k, expires+x
	}
	return keys, expires
}
