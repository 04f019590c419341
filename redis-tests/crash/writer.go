package crash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"kedis/redis-tests/resp"
)

// mostShown is how many differences a failure lists.
const mostShown = 12

// Writer sends the requests of its generator, one pipeline after the other, and keeps the state
// that their replies vouch for.
type Writer struct {
	name      string
	prefix    string
	databases []int
	generator *Generator
	random    *rand.Rand
	depth     int // units of a pipeline, at most

	state        *State // after everything that was acknowledged
	flight       []Unit // what was sent since, in order
	acknowledged int    // units, in all rounds
}

// NewWriter returns a Writer for the keys with a prefix in some databases.
func NewWriter(name string, seed uint64, prefix string, databases []int, owner, timed bool, depth, largest int) *Writer {
	random := rand.New(rand.NewPCG(seed, uint64(databases[0])))
	return &Writer{name: name, prefix: prefix, databases: databases, random: random, depth: depth, state: NewState(databases),
		generator: NewGenerator(random, prefix, databases, owner, timed, largest)}
}

// owns tells whether a key is the writer's.
func (w *Writer) owns(database int, key string) bool {
	return slices.Contains(w.databases, database) && strings.HasPrefix(key, w.prefix)
}

// Run sends requests until the connection breaks. That is as it should be only when the server has
// been killed; a reply that isn't the one that the state gives never is.
func (w *Writer) Run(connection *resp.Connection, killed *atomic.Bool) error {
	w.begin()
	for {
		err := w.exchange(connection)
		if wrong, ok := err.(*wrongReply); ok {
			return wrong
		}
		if err != nil {
			if killed.Load() {
				return nil
			}
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.fill()
	}
}

// begin makes the first pipeline of a connection.
func (w *Writer) begin() {
	w.flight = []Unit{{Requests: [][]string{{"select", strconv.Itoa(w.databases[0])}}}}
}

// exchange sends what is in flight and reads the replies.
func (w *Writer) exchange(connection *resp.Connection) error {
	for _, unit := range w.flight {
		queue(connection, unit)
	}
	err := connection.Flush()
	for err == nil && len(w.flight) > 0 {
		err = w.acknowledge(connection)
	}
	return err
}

// fill makes the next pipeline.
func (w *Writer) fill() {
	depth := 1
	if w.random.IntN(3) > 0 {
		depth = 1 + w.random.IntN(w.depth)
	}
	for range depth {
		w.flight = append(w.flight, w.generator.Unit(depth == 1))
	}
}

func queue(connection *resp.Connection, unit Unit) {
	if unit.Transaction {
		connection.Queue("multi")
	}
	for _, request := range unit.Requests {
		connection.Queue(request...)
	}
	if unit.Transaction {
		connection.Queue("exec")
	}
}

// wrongReply says that a server answered something else than what the model says.
type wrongReply struct {
	writer, want, got string
	unit              Unit
}

func (e *wrongReply) Error() string {
	return fmt.Sprintf("%s: %s\n  want %s\n  have %s", e.writer, e.unit, e.want, e.got)
}

// acknowledge reads the replies to the first unit in flight and takes it into the state.
func (w *Writer) acknowledge(connection *resp.Connection) error {
	unit := w.flight[0]
	count := len(unit.Requests)
	if unit.Transaction {
		count += 2
	}
	var replies []string
	for range count {
		reply, err := connection.Read()
		if err != nil {
			return err
		}
		replies = append(replies, plain(reply)...)
	}
	var want []string
	if unit.pops() {
		want = []string{w.state.popped(unit, replies[0])}
	} else {
		want = w.state.Apply(unit)
	}
	if !slices.Equal(want, replies) {
		return &wrongReply{w.name, strings.Join(want, " "), strings.Join(replies, " "), unit}
	}
	w.flight = w.flight[1:]
	w.acknowledged++
	return nil
}

// plain shows a reply by its type and its text; of an array, its elements.
func plain(reply resp.Reply) []string {
	switch {
	case reply.Null:
		return []string{"nil"}
	case reply.Kind == resp.Array:
		var all []string
		for _, element := range reply.Elements {
			all = append(all, plain(element)...)
		}
		return all
	case reply.Kind == resp.BulkString:
		return []string{bulk(string(reply.Text))}
	}
	return []string{string(reply.Kind) + string(reply.Text)}
}

// popped takes what the server says that an SPOP removed, and returns what it might have answered.
func (s *State) popped(unit Unit, reply string) string {
	key := unit.Requests[0][1]
	v, existed := s.get(key, kindSet)
	if !existed {
		return "nil"
	}
	member, err := strconv.Unquote(reply)
	if err != nil || !v.has(member) {
		return "one of " + v.String()
	}
	s.Execute([]string{"srem", key, member})
	return reply
}

// Settle finds out how many of the units in flight the server had taken: its data must be what the
// state is after some number of them. The state then is that one.
func (w *Writer) Settle(data *State, now int64) error {
	units := w.flight
	w.flight = nil
	first := w.compare(data, now)
	if len(first) == 0 {
		return nil
	}
	closest := first
	for _, unit := range units {
		if unit.pops() {
			w.state.popMissing(unit, data)
		} else {
			w.state.Apply(unit)
		}
		differences := w.compare(data, now)
		if len(differences) == 0 {
			return nil
		}
		if len(differences) < len(closest) {
			closest = differences
		}
	}
	var flight strings.Builder
	for _, unit := range units {
		fmt.Fprintf(&flight, "    %s\n", unit)
	}
	return fmt.Errorf("%s: the data is as after no number of the %d units in flight; the closest state has %d differences:\n    %s\nin flight:\n%s",
		w.name, len(units), len(closest), strings.Join(closest[:min(len(closest), mostShown)], "\n    "), flight.String())
}

func (w *Writer) compare(data *State, now int64) []string {
	w.state.expire(now)
	return w.state.differences(data)
}

// popMissing removes what an SPOP in flight may have removed: a member that the data doesn't have.
func (s *State) popMissing(unit Unit, data *State) {
	key := unit.Requests[0][1]
	v, existed := s.get(key, kindSet)
	if !existed {
		return
	}
	kept := data.databases[s.selected][key]
	for member := range v.fields {
		if kept != nil && kept.has(member) {
			continue
		}
		s.Execute([]string{"srem", key, member})
		return
	}
}
